//! When threads leave their CPU and come back, who wakes them, and where they wait.

pub(super) mod stacks;
pub(super) mod switches;
