//! What stacks of native programs mean: which code is the program's own, and when it was started.

pub(crate) mod own_code;
pub(crate) mod start_up;
