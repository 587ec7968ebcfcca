//! Threads: calls, CPU time by function, off-CPU time, locks.

pub(crate) mod calls;
pub(crate) mod counted_calls;
pub(crate) mod off_cpu;
pub(crate) mod sampled;
