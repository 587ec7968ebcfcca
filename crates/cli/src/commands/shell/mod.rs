//! Commands about the tool itself and the shell.

pub(super) mod completions;
pub(super) mod overhead;
