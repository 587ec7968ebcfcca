//! Tables about a range of time, for the viewer's side panel: narrow, names first.

use spanwise_analyze::{NameUse, OffCpuReason, SampledFunctions, reason_text};
use spanwise_model::{Nanos, Trace};

use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::nanos_text;
use crate::sections::cpu::off_cpu::caller_text;

/// How many rows of each table a range shows.
const RANGE_ROWS_MAX: usize = 50;

/// What lies in a time range.
pub fn range_sections(trace: &Trace, window: (Nanos, Nanos), rows: &[NameUse]) -> Vec<Section> {
    let length = i128::from(window.1) - i128::from(window.0);
    let part = |is_on_gpu: bool, key, title: &str| {
        let mut table = Table::new([
            Column::new("name", "name", Unit::Text),
            Column::new("own", if is_on_gpu { "GPU time" } else { "self time" }, Unit::Nanos),
            Column::new("share", "of the range", Unit::Percent),
            Column::new("count", "count", Unit::Count),
        ]);
        let rows = rows.iter().filter(|row| row.is_on_gpu == is_on_gpu);
        let rows: Vec<&NameUse> = rows.collect();
        for row in rows.iter().take(RANGE_ROWS_MAX) {
            table.push([
                trace.strings().get(row.name).into(),
                row.own_ns.into(),
                Cell::Share(row.own_ns, length.max(1)),
                row.count.into(),
            ]);
        }
        Section {
            key,
            title: format!("{title} in {}", nanos_text(length)),
            left_out: rows.len() - table.rows().len(),
            body: Body::Rows(table),
            when_empty: None,
        }
    };
    vec![part(true, "range_gpu", "GPU work"), part(false, "range_threads", "Work of threads")]
}

/// CPU time of the samples in a range.
pub fn range_cpu_section(functions: &SampledFunctions) -> Section {
    let mut table = Table::new([
        Column::new("function", "function", Unit::Text),
        Column::new("self", "self", Unit::Nanos),
        Column::new("self_share", "of CPU", Unit::Percent),
        Column::new("samples", "samples", Unit::Count),
        Column::new("total", "total", Unit::Nanos),
        Column::new("mapping", "in", Unit::Text),
    ]);
    for row in functions.rows.iter().take(RANGE_ROWS_MAX) {
        table.push([
            row.name.as_str().into(),
            row.own.into(),
            Cell::Share(row.own, functions.total),
            row.samples.into(),
            row.total.into(),
            row.mapping.as_str().into(),
        ]);
    }
    let SampledFunctions { samples, event, total, .. } = functions;
    let title = format!("CPU time: {} in {samples} samples ({event})", nanos_text(*total));
    observed("range_cpu", title, table, functions.rows.len())
}

/// Why threads did not run in a range.
pub fn range_waits_section(reasons: &[OffCpuReason]) -> Section {
    let mut table = Table::new([
        Column::new("reason", "waiting for", Unit::Text),
        Column::new("total", "total", Unit::Nanos),
        Column::new("count", "count", Unit::Count),
        Column::new("max", "longest", Unit::Nanos),
        Column::new("from", "from", Unit::Text),
        Column::hidden("stack", Unit::Text),
    ]);
    for row in reasons.iter().take(RANGE_ROWS_MAX) {
        table.push([
            reason_text(row.state).into(),
            row.total_ns.into(),
            row.waits.count.into(),
            row.waits.max_ns.into(),
            caller_text(&row.stack).into(),
            row.stack.join(";").into(),
        ]);
    }
    let title = "Off-CPU time by reason".to_owned();
    observed("range_waits", title, table, reasons.len())
}

fn observed(key: &'static str, title: String, table: Table, rows: usize) -> Section {
    let left_out = rows - table.rows().len();
    Section { key, title, left_out, body: Body::Rows(table), when_empty: None }
}
