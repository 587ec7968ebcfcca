//! The kernel's events: asked for, taken out of their rings, written as `perf.data`.

pub(super) mod event;
pub(super) mod perf_file;
pub(super) mod private_stack;
pub(super) mod probe;
pub(super) mod records;
pub(super) mod ring;
pub(super) mod rings;
