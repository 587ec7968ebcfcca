//! The kernel's code and the names of its functions.

pub(crate) mod code;
pub(crate) mod symbols;
