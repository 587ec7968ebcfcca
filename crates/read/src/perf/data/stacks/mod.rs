//! Stacks of samples and of waits: from addresses to functions.

pub(crate) mod chains;
pub(crate) mod native;
pub(crate) mod waits;
