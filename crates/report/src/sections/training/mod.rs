//! Models: modules, layers, phases, steps.

pub(super) mod modules;
pub(super) mod phases;
