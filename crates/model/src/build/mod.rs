//! How a trace is made: batches of readers, joined, nested, merged, checked.

pub(super) mod batch;
pub(super) mod builder;
pub(super) mod check;
pub(super) mod join;
pub(super) mod merge;
pub(super) mod nest;
pub(super) mod pairing;
pub(super) mod select;
