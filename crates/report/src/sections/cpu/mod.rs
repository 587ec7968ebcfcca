//! Threads: calls, CPU time by function, off-CPU time, locks.

pub(crate) mod calls;
pub(super) mod counted_calls;
pub(super) mod off_cpu;
pub(super) mod sampled;
pub(super) mod threads;
