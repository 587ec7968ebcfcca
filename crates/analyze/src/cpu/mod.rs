//! What threads did: CPU time by function, off-CPU time by reason, calls, locks.

pub(super) mod calls;
pub(super) mod counted_calls;
pub(super) mod host;
pub(super) mod native;
pub(super) mod off_cpu;
pub(super) mod python;
pub(super) mod sampled;
pub(super) mod self_time;
pub(super) mod threads;
pub(super) mod top_functions;
pub(super) mod waits;
