//! Threads by what they did, and functions by self time.

use spanwise_analyze::{
    HotFunction, HotFunctions, ThreadTime, hot_functions, hottest_functions, share_error_percent,
};
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit};

use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const THREADS: SectionDef = SectionDef {
    key: "threads",
    title: "Threads: self time by kind",
    about: "self time of each thread by kind, and waiting",
    shown: Shown::Always,
    method: "threads",
    content: |request| threads(request.facts.threads(), request.facts.window_ns(), request.top),
};

/// A part of a thread's time, in nanoseconds.
type TimePart = fn(&ThreadTime) -> i128;

fn threads(rows: &[ThreadTime], wall_ns: i128, top: Top) -> Content {
    // A column of zeros says nothing to people.
    let if_any =
        |column: Column, ns: TimePart| column.in_text_if(rows.iter().any(|row| ns(row) != 0));
    let is_several = rows.windows(2).any(|pair| pair[0].process != pair[1].process);
    let mut columns = Columns::<ThreadTime>::new()
        .add(Column::nanos("busy", "busy"), |row| row.busy_ns.into())
        .add(Column::percent("busy_share", "of wall"), |row| Cell::Share(row.busy_ns, wall_ns));
    let parts: [(Column, TimePart); 6] = [
        (Column::nanos("waiting", "waiting"), |row| row.waiting_ns),
        (Column::nanos("python_self", "Python"), |row| row.by_kind.python_ns),
        (Column::nanos("operator_self", "operators"), |row| row.by_kind.operator_ns),
        (Column::nanos("runtime_self", "GPU runtime").optional(), |row| row.by_kind.runtime_ns),
        (Column::nanos("annotation_self", "annotations").optional(), |row| {
            row.by_kind.annotation_ns
        }),
        (Column::nanos("other_self", "other").optional(), |row| row.by_kind.other_ns),
    ];
    for (column, ns) in parts {
        columns = columns.add(if_any(column, ns), move |row| ns(row).into());
    }
    columns
        .add(Column::count("spans", "spans").optional(), |row| row.spans.into())
        .add(Column::hidden("process_name", Unit::Text), |row| row.process_name.as_str().into())
        .add(Column::text("process", "process").in_text_if(is_several), |row| {
            row.process.as_str().into()
        })
        .add(Column::hidden("thread", Unit::Text), |row| row.thread.as_str().into())
        .add(Column::hidden("thread_name", Unit::Text), |row| row.thread_name.trim().into())
        .add(Column::text("label", "thread"), |row| match row.thread_name.trim() {
            "" => format!("thread {}", row.thread).into(),
            name => name.into(),
        })
        .content(rows, top)
}

pub(in crate::sections) const FUNCTIONS: SectionDef = SectionDef {
    key: "functions",
    title: "Functions by self time, all threads",
    about: "functions by self time",
    shown: Shown::Always,
    method: "hot_functions",
    // Reports of recordings have these in sections of their own.
    content: |request| match request.has_named("functions") {
        true => functions(&hottest_functions(request.facts), request.top),
        false => functions(&hot_functions(request.facts), request.top),
    },
};

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

fn functions(functions: &HotFunctions, top: Top) -> Content {
    let has_samples = functions.samples.is_some();
    Columns::<HotFunction>::new()
        .add(Column::nanos("self", "self"), |row| row.self_ns.into())
        .add(Column::percent("self_share", "of wall"), |row| {
            Cell::Share(row.self_ns, functions.wall_ns)
        })
        .add(Column::percent("error", "±").in_text_if(has_samples), |row| {
            self_error(functions, row)
        })
        .add(Column::count("samples", "samples").in_text_if(has_samples), |row| {
            row.self_samples.map(i128::from).into()
        })
        .add(Column::nanos("total", "total"), |row| row.total_ns.into())
        .add(Column::count("count", "count").optional(), |row| row.count.into())
        .add(Column::text("kind", "kind"), |row| row.kind.text().into())
        .add(Column::text("name", "function"), |row| row.name.as_str().into())
        .content(&functions.rows, top)
}
