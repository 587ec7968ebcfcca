//! Models and their runs: architecture, layers, modules, phases, steps, serving batches.

pub(super) mod architecture;
pub(super) mod layers;
pub(super) mod modules;
pub(super) mod phase;
pub(super) mod phase_use;
pub(super) mod serving;
pub(super) mod step_classes;
pub(super) mod steps;
