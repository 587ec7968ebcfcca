//! CPU time and other events by function, as samples show them.

use spanwise_analyze::{
    CpuTime, NO_SAMPLE, PythonFunctions, SWITCHING, SampledFunction, SampledFunctions,
};

use crate::Top;
use crate::document::sectioned::Section;
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::nanos_text;
use crate::sections::report::section;

/// CPU time by function.
pub fn cpu_section(functions: &SampledFunctions, time: &CpuTime, top: Top) -> Section {
    let mut table = Table::new([
        Column::new("self", "self", Unit::Nanos),
        Column::new("self_share", "of CPU", Unit::Percent),
        Column::new("error", "±", Unit::Percent),
        Column::new("total", "total", Unit::Nanos),
        Column::new("total_share", "of CPU", Unit::Percent).optional(),
        Column::new("samples", "samples", Unit::Count),
        Column::hidden("total_samples", Unit::Count),
        Column::new("kind", "kind", Unit::Text).optional(),
        Column::new("function", "function", Unit::Text),
        Column::new("place", "in", Unit::Text).optional(),
        Column::hidden("mapping", Unit::Text),
        Column::hidden("file", Unit::Text),
    ]);
    for row in top.of(&functions.rows) {
        table.push([
            row.own.into(),
            Cell::Share(row.own, functions.total),
            error_cell(functions, row),
            row.total.into(),
            Cell::Share(row.total, functions.total),
            count_cell(functions, row.samples),
            count_cell(functions, row.total_samples),
            row.kind.text().into(),
            row.name.as_str().into(),
            place(row).into(),
            row.mapping.as_str().into(),
            row.file.as_str().into(),
        ]);
    }
    let other = [(SWITCHING, functions.switching), (NO_SAMPLE, functions.no_sample)];
    let other = other.into_iter().filter(|&(_, ns)| ns > 0 && !functions.rows.is_empty());
    let mut silent = 0;
    for (name, ns) in other {
        silent += 1;
        let nothing = || Cell::from("");
        table.push([
            ns.into(),
            Cell::Share(ns, functions.total),
            Cell::from(None::<i128>),
            ns.into(),
            Cell::Share(ns, functions.total),
            0_u64.into(),
            0_u64.into(),
            nothing(),
            name.into(),
            nothing(),
            nothing(),
            nothing(),
        ]);
    }
    let shown = section("cpu", "", table, functions.rows.len() + silent);
    Section { title: format!("CPU time by function: {}", basis(functions, time)), ..shown }
}

/// CPU time by Python function or line.
pub fn python_section(
    key: &'static str,
    title: &str,
    python: &PythonFunctions,
    time: &CpuTime,
    top: Top,
) -> Section {
    let functions = &python.functions;
    let has_lines = functions.rows.iter().any(|row| row.line > 0);
    let mut table = Table::new([
        Column::new("self", "self", Unit::Nanos),
        Column::new("self_share", "of CPU", Unit::Percent),
        Column::new("error", "±", Unit::Percent),
        Column::new("native", "in native code", Unit::Nanos),
        Column::new("total", "total", Unit::Nanos),
        Column::new("samples", "samples", Unit::Count),
        Column::new("function", "function", Unit::Text),
        Column { in_text: has_lines, ..Column::new("line", "line", Unit::Count) },
        Column::hidden("file", Unit::Text),
    ]);
    let rows: Vec<_> = functions.rows.iter().zip(&python.native).collect();
    for &(row, &native) in top.of(&rows) {
        let line = (row.line > 0).then_some(i128::from(row.line));
        table.push([
            row.own.into(),
            Cell::Share(row.own, functions.total),
            error_cell(functions, row),
            native.into(),
            row.total.into(),
            count_cell(functions, row.samples),
            row.name.as_str().into(),
            line.into(),
            row.file.as_str().into(),
        ]);
    }
    let shown = section(key, "", table, rows.len());
    Section { title: format!("{title}: {}", basis(functions, time)), ..shown }
}

/// What tables of samples rest on.
fn basis(functions: &SampledFunctions, time: &CpuTime) -> String {
    let SampledFunctions { samples, event, .. } = functions;
    let rate = match time.interval_ns {
        0 => String::new(),
        ns => format!(" at {} Hz", (1e9 / ns as f64).round()),
    };
    let total = nanos_text(functions.total);
    if *samples == 0 && !event.is_empty() {
        return format!("{total} ({event}{rate})");
    }
    match time.is_exact {
        true => format!("{total} in {samples} samples ({event}{rate})"),
        false => format!("about {total}, {samples} samples ({event}{rate})"),
    }
}

/// By how much the share of a row may be off.
fn error_cell(functions: &SampledFunctions, row: &SampledFunction) -> Cell {
    match functions.error_percent(row.samples) {
        Some(percent) => Cell::Share((percent * 1e4).round() as i128, 1_000_000),
        None => Cell::from(None::<i128>),
    }
}

/// A number of samples; unknown where a source has sums of them alone.
fn count_cell(functions: &SampledFunctions, samples: u64) -> Cell {
    Cell::from((functions.samples > 0).then_some(i128::from(samples)))
}

/// The file that was mapped, by its last part.
fn place(row: &SampledFunction) -> &str {
    row.mapping.rsplit('/').next().unwrap_or(&row.mapping)
}

/// Functions by what other events count, each in its own unit.
pub fn events_section(events: &[SampledFunctions], top: Top) -> Section {
    let mut table = Table::new([
        Column::new("event", "event", Unit::Text),
        Column::new("self", "self", Unit::Count),
        Column::new("unit", "unit", Unit::Text),
        Column::new("self_share", "share", Unit::Percent),
        Column::new("error", "±", Unit::Percent),
        Column::new("total", "total", Unit::Count),
        Column::new("samples", "samples", Unit::Count),
        Column::new("function", "function", Unit::Text),
        Column::new("place", "in", Unit::Text).optional(),
    ]);
    for functions in events {
        for row in top.of(&functions.rows) {
            table.push([
                functions.event.as_str().into(),
                row.own.into(),
                functions.unit.as_str().into(),
                Cell::Share(row.own, functions.total),
                error_cell(functions, row),
                row.total.into(),
                count_cell(functions, row.samples),
                row.name.as_str().into(),
                place(row).into(),
            ]);
        }
    }
    let rows = events.iter().map(|functions| functions.rows.len()).sum();
    section("events", "Other sampled events, by function", table, rows)
}
