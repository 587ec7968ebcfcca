//! Shows answers: as text for people, as CSV and JSON for programs.
//!
//! Every answer becomes a [`Table`] of named, typed columns, and tables become a
//! [`Document`]. Nothing is computed here beyond what a person reads (units,
//! percentages), and nothing is opened: everything goes to an `io::Write`.

mod document;
mod names;
mod pictures;
mod profile;
mod sections;
mod trace;

pub use document::columns::{Columns, Content};
pub use document::escape::printable;
pub use document::page::{PagePlace, SidePlaces};
pub use document::sectioned::{Body, Document, Paragraph, Section};
pub use document::table::{Cell, Column, Table, Unit};
pub use document::text::{Style, shortened};
pub use document::units::{
    bytes_text, count_text, decimal, nanos_rounded_text, nanos_text, percent_text,
};
pub use names::{fitted_name, short_name};
pub use pictures::flame::{FlameBase, FlameNodes, FlameOptions, write_flame, write_flame_nodes};
pub use pictures::html_report::{ReportPage, write_report_page};
pub use pictures::steps_chart::CHART_CLASSES_MAX;
pub use profile::{
    PprofOptions, ProfileView, write_firefox, write_folded, write_folded_pair, write_pprof,
    write_profile_csv, write_speedscope,
};
pub use sections::compare::changes::{CompareView, compare_document};
pub use sections::compare::correlate::{correlate_document, correlate_json, correlate_table};
pub use sections::compare::diff::{DiffSide, diff_document, unit_of};
pub use sections::compare::fusion::fusion_document;
pub use sections::compare::fusion_layers::fusion_layers_document;
pub use sections::compat::compat_section;
pub use sections::overview::info::{info_document, properties_section, source_fields};
pub use sections::overview::live::{LiveState, LiveView, live_document};
pub use sections::overview::verify::{verify_document, verify_table};
pub use sections::profile_info::{columns_content, profile_fields, profile_info_document};
pub use trace::{TraceFormat, write_chrome, write_fxt, write_perfetto, write_trace};

/// What the output is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    Csv,
}

impl Format {
    /// What options call each.
    pub const NAMES: [(&'static str, Format); 3] =
        [("text", Format::Text), ("json", Format::Json), ("csv", Format::Csv)];
}

/// What to say about the source above the answers.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// As the user named it.
    pub file: &'a str,
    pub info: &'a spanwise_model::SourceInfo,
    pub window: Option<(spanwise_model::Nanos, spanwise_model::Nanos)>,
}

/// How many rows of a list to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    All,
    First(usize),
}

impl Top {
    /// The most rows that are shown.
    pub fn rows(self) -> usize {
        match self {
            Top::All => usize::MAX,
            Top::First(most) => most,
        }
    }

    /// The rows that are shown.
    pub fn of<T>(self, rows: &[T]) -> &[T] {
        match self {
            Top::All => rows,
            Top::First(most) => &rows[..most.min(rows.len())],
        }
    }
}
