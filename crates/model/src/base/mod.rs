//! What building and asking share: quick hashes, work on all cores, counted effort.

pub(super) mod effort;
pub(super) mod hash;
pub(super) mod parallel;
