//! Recordings of perf: its `perf.data`, the text of `perf script`, and that of other commands.
//!
//! All of them become [`record::Record`]s in order of time, which [`timeline`] makes a trace of.

pub(crate) mod data;
mod event_names;
mod other_commands;
mod record;
mod script;
mod timeline;
mod tracepoint_text;
mod words;

pub(crate) use other_commands::system_calls::SystemCalls;
pub(crate) use other_commands::timehist::TimeHist;
pub(crate) use other_commands::{Reader as TextReader, seems};
pub use script::{PerfOptions, open_perf, replay_perf};
pub(crate) use script::{Reader, replay_text, seems_perf_script};
