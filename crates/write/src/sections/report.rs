//! The report: where the time went, section by section.

use spanwise_analyze::{
    GpuUse, HotFunction, HotFunctions, Launcher, LineUse, Origin, ThreadTime, WorkUse,
    share_error_percent,
};
use spanwise_model::SpanKind;

use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{count_text, percent_text};
use crate::sections::overview::info::{record, source_fields};
use crate::{Source, Top};

pub fn trace_section(source: &Source<'_>) -> Section {
    Section {
        key: "trace",
        title: "Trace".to_owned(),
        body: Body::Record(record(source_fields(source))),
        when_empty: None,
        left_out: 0,
    }
}

/// What to say below a report of GPU work that no line of Python can be named for.
pub fn no_lines_hint(gpu: &GpuUse) -> Option<String> {
    let has_no_lines = |row: &LineUse| row.line.is_none();
    let is_worth_it = !gpu.lines.is_empty() && gpu.lines.iter().all(has_no_lines);
    is_worth_it.then(|| {
        "The trace has no Python frames around launches: record with with_stack=True to see \
         lines of code."
            .to_owned()
    })
}

pub(crate) fn section(key: &'static str, title: &str, table: Table, rows: usize) -> Section {
    let left_out = rows - table.rows().len();
    Section { key, title: title.to_owned(), body: Body::Rows(table), when_empty: None, left_out }
}

pub fn devices_section(gpu: &GpuUse) -> Section {
    let mut table = Table::new([
        Column::new("device", "GPU", Unit::Text),
        Column::new("busy", "busy", Unit::Nanos),
        Column::new("busy_share", "busy", Unit::Percent),
        Column::new("idle", "idle", Unit::Nanos),
        Column::new("kernels", "kernels", Unit::Nanos),
        Column::new("memcpy", "copies", Unit::Nanos),
        Column::new("memset", "fills", Unit::Nanos).optional(),
        Column::new("work_count", "launches", Unit::Count).optional(),
        Column::new("streams", "streams", Unit::Count).optional(),
        Column::new("name", "name", Unit::Text),
    ]);
    for row in &gpu.devices {
        table.push([
            row.id.as_str().into(),
            row.busy_ns.into(),
            Cell::Share(row.busy_ns, row.window_ns),
            row.idle_ns().into(),
            row.kernel_ns.into(),
            row.memcpy_ns.into(),
            row.memset_ns.into(),
            row.work_count.into(),
            row.streams.into(),
            row.name.as_str().into(),
        ]);
    }
    section("gpu", "GPU", table, gpu.devices.len())
}

pub fn kernels_section(gpu: &GpuUse, top: Top) -> Section {
    let rows: Vec<&WorkUse> = gpu.work.iter().filter(|row| row.kind == SpanKind::Kernel).collect();
    work_section("kernels", "Kernels by GPU time", &rows, gpu, top)
}

pub fn copies_section(gpu: &GpuUse, top: Top) -> Section {
    let rows: Vec<&WorkUse> = gpu.work.iter().filter(|row| row.kind != SpanKind::Kernel).collect();
    work_section("copies", "Copies and fills by GPU time", &rows, gpu, top)
}

fn work_section(
    key: &'static str,
    title: &str,
    rows: &[&WorkUse],
    gpu: &GpuUse,
    top: Top,
) -> Section {
    let mut table = Table::new([
        Column::new("total", "total", Unit::Nanos),
        Column::new("share", "of GPU", Unit::Percent),
        Column::new("count", "count", Unit::Count),
        Column::new("mean", "mean", Unit::Nanos),
        Column::new("min", "min", Unit::Nanos).optional(),
        Column::new("max", "max", Unit::Nanos).optional(),
        Column::hidden("launch_origin", Unit::Text),
        Column::hidden("launch_operator", Unit::Text),
        Column::hidden("launch_line", Unit::Text),
        Column::hidden("launch", Unit::Nanos),
        Column::hidden("launch_others", Unit::Count),
        Column::new("name", "name, and what launched most of it", Unit::Text),
    ]);
    for row in top.of(rows) {
        let cells = [
            row.total_ns.into(),
            Cell::Share(row.total_ns, gpu.work_ns),
            row.count.into(),
            row.mean_ns().into(),
            row.min_ns.into(),
            row.max_ns.into(),
            origin_key(row.launcher.origin).into(),
            row.launcher.operator.clone().into(),
            row.launcher.line.clone().into(),
            row.launcher_ns.into(),
            row.other_launchers.into(),
            row.name.as_str().into(),
        ];
        table.push_with_note(cells, launched_by(row));
    }
    section(key, title, table, rows.len())
}

/// "aten::mm in model.py(5): forward (80.0 %, 3 other places)"
fn launched_by(row: &WorkUse) -> String {
    let line = line_text(row.launcher.origin, row.launcher.line.as_deref());
    let place = match &row.launcher {
        // A compiled kernel is launched by an operator of its own name.
        Launcher { operator: Some(operator), .. } if *operator == row.name => line,
        Launcher { operator: Some(operator), line: Some(_), .. } => format!("{operator} in {line}"),
        Launcher { operator: Some(operator), line: None, .. } => format!("{operator} {line}"),
        Launcher { operator: None, .. } => line,
    };
    match row.other_launchers {
        0 => place,
        others => {
            let share = percent_text(row.launcher_ns, row.total_ns);
            let places = if others == 1 { "place" } else { "places" };
            format!("{place} ({share}; {} other {places})", count_text(others.into()))
        }
    }
}

fn line_text(origin: Origin, line: Option<&str>) -> String {
    match (origin, line) {
        (Origin::BackwardOf, Some(line)) => format!("backward of {line}"),
        (_, Some(line)) => line.to_owned(),
        (Origin::NotRecorded, None) => "[launch not recorded]".to_owned(),
        (_, None) => "[no Python frame]".to_owned(),
    }
}

fn origin_key(origin: Origin) -> &'static str {
    match origin {
        Origin::Python => "python",
        Origin::BackwardOf => "backward-of",
        Origin::NoPython => "no-python",
        Origin::NotRecorded => "not-recorded",
    }
}

pub fn lines_section(gpu: &GpuUse, top: Top) -> Section {
    let mut table = Table::new([
        Column::new("total", "GPU time", Unit::Nanos),
        Column::new("share", "of GPU", Unit::Percent),
        Column::new("count", "launches", Unit::Count),
        Column::hidden("origin", Unit::Text),
        Column::hidden("line", Unit::Text),
        Column::hidden("top_work", Unit::Text),
        Column::hidden("top_work", Unit::Nanos),
        Column::new("label", "launching line", Unit::Text),
    ]);
    for row in top.of(&gpu.lines) {
        table.push([
            row.total_ns.into(),
            Cell::Share(row.total_ns, gpu.work_ns),
            row.count.into(),
            origin_key(row.origin).into(),
            row.line.clone().into(),
            row.top_work.as_str().into(),
            row.top_work_ns.into(),
            line_text(row.origin, row.line.as_deref()).into(),
        ]);
    }
    section("gpu-lines", "GPU time by launching Python line", table, gpu.lines.len())
}

pub fn threads_section(threads: &[ThreadTime], wall_ns: i128, top: Top) -> Section {
    // A column of zeros tells people nothing.
    let any = |column: Column, ns: fn(&ThreadTime) -> i128| Column {
        in_text: threads.iter().any(|row| ns(row) != 0),
        ..column
    };
    let is_several = threads.windows(2).any(|pair| pair[0].process != pair[1].process);
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        nanos("busy", "busy"),
        Column::new("busy_share", "of wall", Unit::Percent),
        any(nanos("waiting", "waiting"), |row| row.waiting_ns),
        any(nanos("python_self", "Python"), |row| row.by_kind.python_ns),
        any(nanos("operator_self", "operators"), |row| row.by_kind.operator_ns),
        any(nanos("runtime_self", "GPU runtime").optional(), |row| row.by_kind.runtime_ns),
        any(nanos("annotation_self", "annotations").optional(), |row| row.by_kind.annotation_ns),
        any(nanos("other_self", "other").optional(), |row| row.by_kind.other_ns),
        Column::new("spans", "spans", Unit::Count).optional(),
        Column::hidden("process_name", Unit::Text),
        Column { in_text: is_several, ..Column::new("process", "process", Unit::Text) },
        Column::hidden("thread", Unit::Text),
        Column::hidden("thread_name", Unit::Text),
        Column::new("label", "thread", Unit::Text),
    ]);
    for row in top.of(threads) {
        let name = row.thread_name.trim();
        table.push([
            row.busy_ns.into(),
            Cell::Share(row.busy_ns, wall_ns),
            row.waiting_ns.into(),
            row.by_kind.python_ns.into(),
            row.by_kind.operator_ns.into(),
            row.by_kind.runtime_ns.into(),
            row.by_kind.annotation_ns.into(),
            row.by_kind.other_ns.into(),
            row.spans.into(),
            row.process_name.as_str().into(),
            row.process.as_str().into(),
            row.thread.as_str().into(),
            name.into(),
            if name.is_empty() { format!("thread {}", row.thread) } else { name.to_owned() }.into(),
        ]);
    }
    section("threads", "Threads: self time by kind", table, threads.len())
}

/// By how much the share of a row may be off that is from samples.
fn self_error(functions: &HotFunctions, row: &HotFunction) -> Cell {
    let percent = row
        .self_samples
        .zip(functions.samples)
        .and_then(|(samples, all)| share_error_percent(samples, all));
    match percent {
        Some(percent) => {
            let ns = (percent / 100.0 * functions.self_ns as f64).round() as i128;
            Cell::Share(ns, functions.wall_ns)
        }
        None => Cell::from(None::<i128>),
    }
}

pub fn functions_section(functions: &HotFunctions, top: Top) -> Section {
    let in_text = functions.samples.is_some();
    let mut table = Table::new([
        Column::new("self", "self", Unit::Nanos),
        Column::new("self_share", "of wall", Unit::Percent),
        Column { in_text, ..Column::new("error", "±", Unit::Percent) },
        Column { in_text, ..Column::new("samples", "samples", Unit::Count) },
        Column::new("total", "total", Unit::Nanos),
        Column::new("count", "count", Unit::Count).optional(),
        Column::new("kind", "kind", Unit::Text),
        Column::new("name", "function", Unit::Text),
    ]);
    for row in top.of(&functions.rows) {
        table.push([
            row.self_ns.into(),
            Cell::Share(row.self_ns, functions.wall_ns),
            self_error(functions, row),
            row.self_samples.map(i128::from).into(),
            row.total_ns.into(),
            row.count.into(),
            row.kind.text().into(),
            row.name.as_str().into(),
        ]);
    }
    section("functions", "Functions by self time, all threads", table, functions.rows.len())
}
