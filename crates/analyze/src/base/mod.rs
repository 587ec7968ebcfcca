//! What the questions share: facts worked out once, intervals, names, statistics.

pub(super) mod cover;
pub(super) mod facts;
pub(super) mod frames;
pub mod fuzzing;
pub(super) mod intervals;
pub(super) mod metrics;
pub(super) mod names;
pub(super) mod quality;
#[cfg(test)]
pub(super) mod sample;
pub(super) mod stats;
pub(super) mod tables;
