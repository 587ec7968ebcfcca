//! Commands that record, or say what can be recorded.

pub(super) mod calls;
pub(super) mod choose;
pub(super) mod doctor;
pub(super) mod near_names;
pub(super) mod pt;
pub(super) mod run;
pub(super) mod top;
pub(super) mod top_session;
