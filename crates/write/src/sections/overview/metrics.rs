//! Metrics, and what a gate says about them.

use spanwise_analyze::{Metric, MetricValue};

use crate::document::sectioned::Section;
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{nanos_text, percent_text};
use crate::sections::report::section;

pub fn metrics_section(metrics: &[Metric]) -> Section {
    let in_text = metrics.iter().any(|row| row.error.is_some());
    let mut table = Table::new([
        Column::new("metric", "metric", Unit::Text),
        Column::new("value", "value", Unit::Text),
        Column { in_text, ..Column::new("error", "±", Unit::Percent) },
        Column { in_text, ..Column::new("samples", "samples", Unit::Count) },
        Column::hidden("part", Unit::Nanos),
        Column::hidden("whole", Unit::Nanos),
        Column::new("about", "what it is", Unit::Text),
    ]);
    for row in metrics {
        let (part, whole) = match row.value {
            Some(MetricValue::Share(part, whole)) => (Some(part), Some(whole)),
            Some(MetricValue::Nanos(ns)) => (Some(ns), None),
            None => (None, None),
        };
        table.push([
            row.name.into(),
            metric_text(row.value).into(),
            match (row.error, whole) {
                (Some(error), Some(whole)) => Cell::Share(error.ns, whole),
                _ => Cell::from(None::<i128>),
            },
            row.error.map(|error| i128::from(error.samples)).into(),
            part.into(),
            whole.into(),
            row.about.into(),
        ]);
    }
    section("metrics", "Metrics", table, metrics.len())
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
    let mut table = Table::new([
        Column::new("status", "status", Unit::Status),
        Column::new("found", "found", Unit::Text),
        Column::new("rule", "rule", Unit::Text),
    ]);
    for row in rows {
        let status = if row.holds { "ok" } else { "violated" };
        table.push([Cell::from(status), row.found.as_str().into(), row.rule.as_str().into()]);
    }
    section("check", "Check", table, rows.len())
}
