//! One recording, from its options to what it leaves: files, budget, cleaning up.

pub(super) mod budget;
pub(super) mod family;
pub(super) mod guard;
pub(super) mod keep;
pub(super) mod launch;
pub(super) mod opened;
pub(super) mod options;
pub(super) mod recorded;
pub(super) mod recorder;
pub(super) mod recording;
pub(super) mod side_log;
pub(super) mod urgency;
