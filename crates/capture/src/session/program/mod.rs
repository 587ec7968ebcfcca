//! The program that a session starts, and the processes that watch over it.

pub(crate) mod family;
pub(crate) mod guard;
pub(crate) mod launch;
