//! GPU time: by what it was spent on, by class, by launch, against what the device can do.

pub(crate) mod breakdown;
pub(crate) mod classes;
pub(crate) mod critical;
pub(crate) mod launches;
pub(crate) mod roofline;
