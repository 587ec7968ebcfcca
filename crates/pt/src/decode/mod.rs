//! Packets and code become the branches that were taken.

pub(crate) mod blocks;
pub(crate) mod clock;
pub(crate) mod decoder;
pub(crate) mod event;
pub(crate) mod parallel;
pub(crate) mod returns;
pub(crate) mod walk;
