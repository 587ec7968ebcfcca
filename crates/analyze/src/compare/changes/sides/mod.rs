//! What is compared: the rows of each side, with a value per step.

pub(super) mod aspects;
pub(super) mod gather;
pub(super) mod keys;
pub(super) mod observed;
pub(super) mod pairs;
pub(super) mod series;
pub(super) mod sums;
pub(super) mod window;
