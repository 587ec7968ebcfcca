//! Models and their runs: architecture, layers, modules, phases, steps, serving batches.

pub(super) mod architecture;
pub(super) mod class_times;
pub(super) mod layers;
pub(super) mod modules;
pub(super) mod phase;
pub(super) mod phase_times;
pub(super) mod serving;
pub(super) mod steps;
