//! Python callables that are recorded: wrapped, or patched in the interpreter.

pub(super) mod patch;
pub(super) mod target;
pub(super) mod task;
pub(super) mod version;
pub(super) mod watch;
pub(super) mod wrapper;
