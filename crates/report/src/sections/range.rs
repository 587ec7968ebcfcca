//! Tables about a range of time, for the viewer's side panel: narrow, names first.

use spanwise_analyze::{NameUse, OffCpuReason, SampledFunction, SampledFunctions, reason_text};
use spanwise_model::{Nanos, Trace};
use spanwise_write::{Cell, Column, Columns, Section, Top, Unit, nanos_text};

use crate::sections::cpu::off_cpu::caller_text;

/// How many rows of each table a range shows.
const ROWS: Top = Top::First(50);

/// Spans in a time range, by name.
pub fn range_sections(trace: &Trace, window: (Nanos, Nanos), rows: &[NameUse]) -> Vec<Section> {
    let length = i128::from(window.1) - i128::from(window.0);
    let part = |is_on_gpu: bool, key, title: &str| {
        let rows: Vec<&NameUse> = rows.iter().filter(|row| row.is_on_gpu == is_on_gpu).collect();
        let own = if is_on_gpu { "GPU time" } else { "self time" };
        Columns::<&NameUse>::new()
            .add(Column::text("name", "name"), |row| trace.strings().get(row.name).into())
            .add(Column::nanos("own", own), |row| row.own_ns.into())
            .add(Column::percent("share", "of the range"), |row| {
                Cell::Share(row.own_ns, length.max(1))
            })
            .add(Column::count("count", "count"), |row| row.count.into())
            .content(&rows, ROWS)
            .section(key, &format!("{title} in {}", nanos_text(length)))
    };
    vec![part(true, "range_gpu", "GPU work"), part(false, "range_threads", "Work of threads")]
}

/// CPU time of the samples in a range.
pub fn range_cpu_section(functions: &SampledFunctions) -> Section {
    let SampledFunctions { samples, event, total, .. } = functions;
    let title = format!("CPU time: {} in {samples} samples ({event})", nanos_text(*total));
    Columns::<SampledFunction>::new()
        .add(Column::text("function", "function"), |row| row.name.as_str().into())
        .add(Column::nanos("self", "self"), |row| row.own.into())
        .add(Column::percent("self_share", "of CPU"), |row| Cell::Share(row.own, *total))
        .add(Column::count("samples", "samples"), |row| row.samples.into())
        .add(Column::nanos("total", "total"), |row| row.total.into())
        .add(Column::text("mapping", "in"), |row| row.mapping.as_str().into())
        .content(&functions.rows, ROWS)
        .section("range_cpu", &title)
}

/// Why threads did not run in a range.
pub fn range_waits_section(reasons: &[OffCpuReason]) -> Section {
    Columns::<OffCpuReason>::new()
        .add(Column::text("reason", "waiting for"), |row| reason_text(row.state).into())
        .add(Column::nanos("total", "total"), |row| row.total_ns.into())
        .add(Column::count("count", "count"), |row| row.waits.count.into())
        .add(Column::nanos("max", "longest"), |row| row.waits.max_ns.into())
        .add(Column::text("from", "from"), |row| caller_text(&row.stack).into())
        .add(Column::hidden("stack", Unit::Text), |row| row.stack.join(";").into())
        .content(reasons, ROWS)
        .section("range_waits", "Off-CPU time by reason")
}
