//! From files to answers: what the command line and the Python package both do.
//!
//! A shell decides what was asked and how the answer is shown. What lies between, opening what
//! paths name, sessions that grow, the sections of a report, the sides of a comparison, whole files
//! written at once, is here, so that both shells say the same. Nothing is printed, and an error is
//! an [`AnswerError`] with its place.

mod compare;
mod convert;
mod error;
mod files;
mod live;
mod open;
mod report;
mod rules;
mod sections;

pub use compare::{compare_sides, compare_traces, read_baseline, side};
pub use convert::{ConvertFormat, write_profile, write_whole};
pub use error::AnswerError;
pub use files::{files_of, rank_of, write_output};
pub use live::{LiveLook, LiveTrace, live_state};
pub use open::{Opened, merge_traces, open, open_as_one, open_as_trace};
pub use report::{notices_hint, report};
pub use rules::{Rule, check_rules};
// The viewer bounds its queries by it, and does not read files itself.
pub use sections::{ALL, Answers, Asked, SECTIONS, SectionRow, Shown, chosen, is_section};
pub use spanwise_read::memory_left;
