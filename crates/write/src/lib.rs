//! Shows answers.
