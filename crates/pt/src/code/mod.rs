//! The code that ran: which bytes were mapped when, and the instructions in them.

pub(crate) mod certain;
pub(crate) mod function;
pub(crate) mod image;
pub(crate) mod insn;
