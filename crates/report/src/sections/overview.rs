//! What the trace is, and single numbers about it.

use spanwise_analyze::{Metric, MetricValue, metrics};
use spanwise_write::{
    Cell, Column, Columns, Content, Section, Source, Top, Unit, nanos_text, percent_text,
    source_fields,
};

use super::{SectionDef, Shown};

pub(super) const TRACE: SectionDef = SectionDef {
    key: "trace",
    title: "Trace",
    about: "what the trace is",
    shown: Shown::Always,
    method: "summary",
    content: |request| Content::record(source_fields(&request.source())),
};

/// What the trace is, for reports about a part of it.
pub fn trace_section(source: &Source<'_>) -> Section {
    Content::record(source_fields(source)).section(TRACE.key, TRACE.title)
}

pub(super) const METRICS: SectionDef = SectionDef {
    key: "metrics",
    title: "Metrics",
    about: "single numbers with exact meanings, for --check",
    shown: Shown::OnRequest,
    method: "metrics",
    content: |request| metrics_content(&metrics(request.facts)),
};

fn metrics_content(rows: &[Metric]) -> Content {
    let has_errors = rows.iter().any(|row| row.error.is_some());
    Columns::<Metric>::new()
        .add(Column::text("metric", "metric"), |row| row.name.into())
        .add(Column::text("value", "value"), |row| metric_text(row.value).into())
        .add(Column::percent("error", "±").in_text_if(has_errors), |row| {
            match (row.error, parts(row).1) {
                (Some(error), Some(whole)) => Cell::Share(error.ns, whole),
                _ => Cell::None,
            }
        })
        .add(Column::count("samples", "samples").in_text_if(has_errors), |row| {
            row.error.map(|error| i128::from(error.samples)).into()
        })
        .add(Column::hidden("part", Unit::Nanos), |row| parts(row).0.into())
        .add(Column::hidden("whole", Unit::Nanos), |row| parts(row).1.into())
        .add(Column::text("about", "what it is"), |row| row.about.into())
        .content(rows, Top::All)
}

/// Part and whole of a share; a time has no whole.
fn parts(row: &Metric) -> (Option<i128>, Option<i128>) {
    match row.value {
        Some(MetricValue::Share(part, whole)) => (Some(part), Some(whole)),
        Some(MetricValue::Nanos(ns)) => (Some(ns), None),
        None => (None, None),
    }
}

pub fn metric_text(value: Option<MetricValue>) -> String {
    match value {
        Some(MetricValue::Share(part, whole)) => percent_text(part, whole),
        Some(MetricValue::Nanos(ns)) => nanos_text(ns),
        None => "not recorded".to_owned(),
    }
}

/// One line of a gate, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRow {
    pub rule: String,
    /// What was found, for people.
    pub found: String,
    pub holds: bool,
}

pub fn gate_section(rows: &[GateRow]) -> Section {
    Columns::<GateRow>::new()
        .add(Column::new("status", "status", Unit::Status), |row| {
            if row.holds { "ok" } else { "violated" }.into()
        })
        .add(Column::text("found", "found"), |row| row.found.as_str().into())
        .add(Column::text("rule", "rule"), |row| row.rule.as_str().into())
        .content(rows, Top::All)
        .section("check", "Check")
}
