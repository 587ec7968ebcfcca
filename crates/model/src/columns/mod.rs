//! The tables of a trace: spans, small events, tracks, strings, and what names and kinds mean.

pub(super) mod args;
pub(super) mod category;
pub(super) mod events;
pub(super) mod info;
pub(super) mod measurements;
pub(super) mod notice;
pub(super) mod spans;
pub(super) mod strings;
pub(super) mod summary;
pub(super) mod thread_state;
pub(super) mod tracks;
