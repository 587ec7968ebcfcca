//! Time that threads did not run: by thread, by reason, by lock, and who ended it.

pub(crate) mod locks;
pub(crate) mod reasons;
pub(crate) mod sampled_waits;
pub(crate) mod threads;
pub(crate) mod wakers;
