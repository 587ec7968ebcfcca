//! Beginning and ending spans, and what is measured beside their time.

pub(super) mod probes;
pub(super) mod record_call;
pub(super) mod span;
pub(super) mod token;
pub(super) mod values;
