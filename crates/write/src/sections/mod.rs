//! The sections of reports: rows of a question as tables with titles, columns and notes.

pub(crate) mod compare;
pub(super) mod compat;
pub(crate) mod cpu;
pub(super) mod findings;
pub(crate) mod gpu;
pub(super) mod memory;
pub(crate) mod overview;
pub(super) mod profile_use;
pub(super) mod ranks;
pub(super) mod report;
pub(crate) mod training;
