//! What the command line, the Python package and the viewer share: reports, comparisons, gates.
//!
//! A shell parses a request and shows the result; opening paths, following sessions that grow,
//! assembling the sections of a report, comparing two sides and writing whole files are done here,
//! so that all shells agree. Nothing is printed, and an error names its place.

mod compare;
mod convert;
mod duration;
mod error;
mod files;
mod gates;
mod live;
mod open;
mod report;
mod sections;

pub use compare::{compare_sides, compare_traces, read_baseline, side};
pub use convert::{ConvertFormat, write_profile, write_whole};
pub use duration::parse_duration;
pub use error::ReportError;
pub use files::{files_of, rank_of, write_output};
pub use gates::{ChangeRule, GateRule, LimitRule, check_changes, check_limits, parse_limits};
pub use live::{LiveTrace, LiveUpdate, live_state};
pub use open::{TraceOrProfile, merge_traces, open, open_as_one, open_as_trace};
pub use report::{ReportRequest, notices_hint, report};
// The viewer bounds its queries by it, and does not read files itself.
pub use sections::cpu::calls::{histogram_section, latency_section, slowest_section};
pub use sections::findings::{FINDING_KEYS, finding_key};
pub use sections::overview::{GateRow, gate_section, metric_text, trace_section};
pub use sections::profile::{PROFILE_SECTIONS, ProfileRequest, profile_report};
pub use sections::range::{range_cpu_section, range_sections, range_waits_section};
pub use sections::ranks::{RANK_SECTIONS, RanksRequest, UnreadFile, ranks_report};
pub use sections::{ALL, SECTIONS, SectionDef, Shown, Subject, is_section, report_sections};
pub use spanwise_read::memory_left;
