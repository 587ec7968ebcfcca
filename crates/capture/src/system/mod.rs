//! What the operating system says and offers: processes, calls, what may be recorded.

pub(super) mod doctor;
pub(super) mod error;
pub(super) mod processes;
pub(super) mod runtime_maps;
pub(super) mod sys;
