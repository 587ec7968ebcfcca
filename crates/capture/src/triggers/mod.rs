//! What makes a snapshot be taken: calls, time, signals; and the memory that it saves.

pub(super) mod conditions;
mod dispositions;
pub(super) mod flight;
pub(super) mod signals;
pub(super) mod timer;
pub(super) mod watch;
