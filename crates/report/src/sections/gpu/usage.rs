//! Busy time of GPUs, and their work by name and by the line that launched it.

use spanwise_analyze::{DeviceUse, GpuUse, Launcher, LineUse, Origin, WorkUse};
use spanwise_model::SpanKind;
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit, count_text, percent_text};

use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const GPU: SectionDef = SectionDef {
    key: "gpu",
    title: "GPU",
    about: "busy and idle time of each GPU",
    shown: Shown::Always,
    method: "gpu",
    content: |request| devices(request.facts.gpu()),
};

fn devices(gpu: &GpuUse) -> Content {
    Columns::<DeviceUse>::new()
        .add(Column::text("device", "GPU"), |row| row.id.as_str().into())
        .add(Column::nanos("busy", "busy"), |row| row.busy_ns.into())
        .add(Column::percent("busy_share", "busy"), |row| Cell::Share(row.busy_ns, row.window_ns))
        .add(Column::nanos("idle", "idle"), |row| row.idle_ns().into())
        .add(Column::nanos("kernels", "kernels"), |row| row.kernel_ns.into())
        .add(Column::nanos("memcpy", "copies"), |row| row.memcpy_ns.into())
        .add(Column::nanos("memset", "fills").optional(), |row| row.memset_ns.into())
        .add(Column::count("work_count", "launches").optional(), |row| row.work_count.into())
        .add(Column::count("streams", "streams").optional(), |row| row.streams.into())
        .add(Column::text("name", "name"), |row| row.name.as_str().into())
        .content(&gpu.devices, Top::All)
}

pub(in crate::sections) const KERNELS: SectionDef = SectionDef {
    key: "kernels",
    title: "Kernels by GPU time",
    about: "kernels by name, and what launched them",
    shown: Shown::Always,
    method: "kernels_by_name",
    content: |request| work(request.facts.gpu(), |kind| kind == SpanKind::Kernel, request.top),
};

pub(in crate::sections) const COPIES: SectionDef = SectionDef {
    key: "copies",
    title: "Copies and fills by GPU time",
    about: "copies and fills by name, and what launched them",
    shown: Shown::Always,
    method: "copies_by_name",
    content: |request| work(request.facts.gpu(), |kind| kind != SpanKind::Kernel, request.top),
};

fn work(gpu: &GpuUse, is_shown: fn(SpanKind) -> bool, top: Top) -> Content {
    let rows: Vec<&WorkUse> = gpu.work.iter().filter(|row| is_shown(row.kind)).collect();
    Columns::<&WorkUse>::new()
        .add(Column::nanos("total", "total"), |row| row.total_ns.into())
        .add(Column::percent("share", "of GPU"), |row| Cell::Share(row.total_ns, gpu.work_ns))
        .add(Column::count("count", "count"), |row| row.count.into())
        .add(Column::nanos("mean", "mean"), |row| row.mean_ns().into())
        .add(Column::nanos("min", "min").optional(), |row| row.min_ns.into())
        .add(Column::nanos("max", "max").optional(), |row| row.max_ns.into())
        .add(Column::hidden("launch_origin", Unit::Text), |row| {
            origin_key(row.launcher.origin).into()
        })
        .add(Column::hidden("launch_operator", Unit::Text), |row| {
            row.launcher.operator.clone().into()
        })
        .add(Column::hidden("launch_line", Unit::Text), |row| row.launcher.line.clone().into())
        .add(Column::hidden("launch", Unit::Nanos), |row| row.launcher_ns.into())
        .add(Column::hidden("launch_others", Unit::Count), |row| row.other_launchers.into())
        .add(Column::text("name", "name, and what launched most of it"), |row| {
            row.name.as_str().into()
        })
        .note(|row| launched_by(row))
        .content(&rows, top)
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

pub(in crate::sections) const GPU_LINES: SectionDef = SectionDef {
    key: "gpu-lines",
    title: "GPU time by launching Python line",
    about: "GPU time by the line of Python that launched it",
    shown: Shown::Always,
    method: "gpu_lines",
    content: |request| lines(request.facts.gpu(), request.top),
};

fn lines(gpu: &GpuUse, top: Top) -> Content {
    Columns::<LineUse>::new()
        .add(Column::nanos("total", "GPU time"), |row| row.total_ns.into())
        .add(Column::percent("share", "of GPU"), |row| Cell::Share(row.total_ns, gpu.work_ns))
        .add(Column::count("count", "launches"), |row| row.count.into())
        .add(Column::hidden("origin", Unit::Text), |row| origin_key(row.origin).into())
        .add(Column::hidden("line", Unit::Text), |row| row.line.clone().into())
        .add(Column::hidden("top_work", Unit::Text), |row| row.top_work.as_str().into())
        .add(Column::hidden("top_work", Unit::Nanos), |row| row.top_work_ns.into())
        .add(Column::text("label", "launching line"), |row| {
            line_text(row.origin, row.line.as_deref()).into()
        })
        .content(&gpu.lines, top)
}

/// What to say below a report of GPU work that no line of Python can be named for.
pub(crate) fn no_lines_hint(gpu: &GpuUse) -> Option<String> {
    let has_no_lines = |row: &LineUse| row.line.is_none();
    let is_worth_it = !gpu.lines.is_empty() && gpu.lines.iter().all(has_no_lines);
    is_worth_it.then(|| {
        "The trace has no Python frames around launches: record with with_stack=True to see \
         lines of code."
            .to_owned()
    })
}
