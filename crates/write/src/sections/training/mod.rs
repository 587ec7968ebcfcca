//! Models: modules, layers, phases, steps.

pub(crate) mod modules;
pub(crate) mod phases;
