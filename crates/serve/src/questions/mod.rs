//! One question, one file: what the page asks, and the answer in its words.

mod changes;
mod flame;
mod observed;
mod query;
mod search;
mod slices;
mod span;
mod tables;
mod traces;

pub(crate) use changes::{counters, marks};
pub(crate) use flame::flame;
pub(crate) use query::query;
pub(crate) use search::search;
pub(crate) use slices::slices;
pub(crate) use span::span;
pub(crate) use tables::{compare, range, report};
pub(crate) use traces::traces;
