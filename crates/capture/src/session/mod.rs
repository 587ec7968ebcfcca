//! One recording, from its options to what it leaves: files, budget, cleaning up.

pub(super) mod budget;
pub(super) mod open_events;
pub(super) mod options;
pub(super) mod outcome;
pub(super) mod output;
pub(super) mod program;
pub(super) mod recorder;
pub(super) mod urgency;
