//! Documents about one thing: a comparison, a profile, ranks, a session, what a trace is.

pub(crate) mod compare;
pub(super) mod compat;
pub(crate) mod overview;
pub(super) mod profile_info;
