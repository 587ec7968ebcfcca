//! Commands about two sides, or about traces and metrics.

pub(super) mod compare;
pub(super) mod correlate;
mod functions;
mod kernels;
mod verdicts;
