//! Session files: created safely, written by one thread.

pub(crate) mod create;
pub(crate) mod file;
pub(crate) mod writer;
