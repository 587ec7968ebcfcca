//! What changed between traces: by row, by profile, by kernels, and along with metrics.

pub(super) mod align;
pub(super) mod changes;
pub(super) mod correlate;
pub(super) mod diff;
pub(super) mod fusion;
pub(super) mod matching;
pub(super) mod observe;
