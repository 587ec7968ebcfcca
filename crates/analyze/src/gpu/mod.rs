//! What the GPUs did, why they were idle, and who launched their work.

pub(super) mod breakdown;
pub(super) mod classes;
pub(super) mod device;
pub(super) mod idle;
pub(super) mod launches;
pub(super) mod launching_frame;
pub(super) mod queues;
pub(super) mod roofline;
pub(super) mod syncs;
pub(super) mod usage;
pub(super) mod work_rows;
