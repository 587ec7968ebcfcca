//! GPU time: by what it was spent on, by class, by launch, against what the device can do.

pub(super) mod breakdown;
pub(super) mod classes;
pub(super) mod critical;
pub(super) mod launches;
pub(super) mod roofline;
pub(crate) mod usage;
