//! Two sides: what changed, row by row, by profile, by kernels, along with metrics.

pub(crate) mod changes;
pub(crate) mod correlate;
pub(crate) mod diff;
pub(crate) mod fusion;
pub(crate) mod fusion_layers;
