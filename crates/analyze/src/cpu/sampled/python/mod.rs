//! What stacks of Python programs mean: when the interpreter works, what is imported, and when a
//! program has started.

pub(super) mod interpreting;
pub(super) mod start_up;
