//! CPU time and other events by function, as samples show them.

use spanwise_analyze::{
    CpuTime, Facts, FunctionBy, NO_SAMPLE, PythonFunctions, SWITCHING, SampledFunction,
    SampledFunctions, cpu_functions, native_lines, other_events, python_functions, start_up,
};
use spanwise_model::FrameKind;
use spanwise_write::{Cell, Column, Columns, Content, Top, Unit, nanos_text};

use crate::sections::{SectionDef, Shown};

pub(in crate::sections) const CPU: SectionDef = SectionDef {
    key: "cpu",
    title: "CPU time by function",
    about: "CPU time by function, of recordings that took samples",
    shown: Shown::WhereRecorded,
    method: "cpu",
    content: |request| {
        let functions = cpu_functions(request.facts, FunctionBy::Function);
        cpu(&functions, request.facts.cpu_time(), request.top)
    },
};

fn cpu(functions: &SampledFunctions, time: &CpuTime, top: Top) -> Content {
    // Of Python, sections of its own show lines.
    let has_lines =
        functions.rows.iter().any(|row| row.hottest.is_some() && row.kind == FrameKind::Native);
    let rows = own_code_first(functions);
    let has_start_up = top.of(&rows).iter().any(|row| row.start_up > 0);
    let has_own = rows.iter().any(|row| row.is_own_code);
    let start_up_text = match functions.start_up {
        0 => String::new(),
        ns => format!("; {} before main", nanos_text(ns)),
    };
    let mut content = Columns::<SampledFunction>::new()
        .add(Column::nanos("self", "self"), |row| row.own.into())
        .add(Column::percent("self_share", "of CPU"), |row| Cell::Share(row.own, functions.total))
        .add(Column::percent("error", "±"), |row| error_cell(functions, row))
        .add(Column::nanos("total", "total"), |row| row.total.into())
        .add(Column::percent("total_share", "of CPU").optional(), |row| {
            Cell::Share(row.total, functions.total)
        })
        .add(Column::count("samples", "samples"), |row| count_cell(functions, row.samples))
        .add(Column::hidden("total_samples", Unit::Count), |row| {
            count_cell(functions, row.total_samples)
        })
        .add(Column::nanos("start_up", "before main").in_text_if(has_start_up), |row| {
            row.start_up.into()
        })
        .add(Column::text("own_code", "own").in_text_if(has_own), |row| {
            if row.is_own_code { "yes" } else { "" }.into()
        })
        .add(Column::text("kind", "kind").optional(), |row| row.kind.text().into())
        .add(Column::text("function", "function"), |row| row.name.as_str().into())
        .add(Column::text("hottest_line", "hottest line").in_text_if(has_lines), |row| {
            row.hottest.as_ref().map(|line| line_text(&line.file, line.line)).into()
        })
        .add(Column::text("place", "in").optional(), |row| place(row).into())
        .add(Column::hidden("mapping", Unit::Text), |row| row.mapping.as_str().into())
        .add(Column::hidden("file", Unit::Text), |row| {
            row.hottest.as_ref().map_or(row.file.as_str(), |line| &line.file).into()
        })
        .add(Column::hidden("line", Unit::Count), |row| {
            row.hottest.as_ref().map(|line| i128::from(line.line)).into()
        })
        .content(&rows, top)
        .titled(format!("{}: {}{start_up_text}", CPU.title, basis(functions, time)));
    let without_function = [(SWITCHING, functions.switching), (NO_SAMPLE, functions.no_sample)];
    for (name, ns) in without_function {
        if ns == 0 || functions.rows.is_empty() {
            continue;
        }
        content.push([
            ("self", ns.into()),
            ("self_share", Cell::Share(ns, functions.total)),
            ("total", ns.into()),
            ("total_share", Cell::Share(ns, functions.total)),
            ("samples", 0_u64.into()),
            ("total_samples", 0_u64.into()),
            ("own_code", "".into()),
            ("kind", "".into()),
            ("function", name.into()),
            ("place", "".into()),
            ("mapping", "".into()),
            ("file", "".into()),
        ]);
    }
    content
}

/// The functions of the program itself that take CPU time worth speaking of, then all others; each
/// by self time. What libraries do for them stands in their total.
fn own_code_first(functions: &SampledFunctions) -> Vec<SampledFunction> {
    const LEAST_PERCENT: f64 = 1.0;
    let is_own =
        |row: &SampledFunction| row.is_own_code && functions.percent(row.own) >= LEAST_PERCENT;
    let mut rows = functions.rows.clone();
    rows.sort_by_key(|row| !is_own(row));
    rows
}

pub(in crate::sections) const CPU_LINES: SectionDef = SectionDef {
    key: "cpu-lines",
    title: "CPU time by source line of native code",
    about: "CPU time by source line of native code with debug information",
    shown: Shown::WhereRecorded,
    method: "cpu_lines",
    content: |request| {
        // Of Python programs these are mostly lines of the interpreter, and where no code that
        // worked has lines, those of its callers say nothing: on request.
        let is_python = || !python_functions(request.facts, FunctionBy::Line).native.is_empty();
        let is_named = request.has_named(CPU_LINES.key);
        let is_shown = is_named || !is_python();
        let mut lines = if is_shown { native_lines(request.facts) } else { Default::default() };
        if !is_named && lines.rows.iter().all(|row| row.own == 0) {
            lines.rows.clear();
        }
        cpu_lines(&lines, request.facts.cpu_time(), request.top)
    },
};

fn cpu_lines(lines: &SampledFunctions, time: &CpuTime, top: Top) -> Content {
    Columns::<SampledFunction>::new()
        .add(Column::nanos("self", "self"), |row| row.own.into())
        .add(Column::percent("self_share", "of CPU"), |row| Cell::Share(row.own, lines.total))
        .add(Column::percent("error", "±"), |row| error_cell(lines, row))
        .add(Column::nanos("total", "total"), |row| row.total.into())
        .add(Column::count("samples", "samples"), |row| count_cell(lines, row.samples))
        .add(Column::text("function", "function"), |row| row.name.as_str().into())
        .add(Column::text("source_line", "line"), |row| line_text(&row.file, row.line).into())
        .add(Column::hidden("mapping", Unit::Text), |row| row.mapping.as_str().into())
        .add(Column::hidden("file", Unit::Text), |row| row.file.as_str().into())
        .add(Column::hidden("line", Unit::Count), |row| i128::from(row.line).into())
        .content(&lines.rows, top)
        .titled(format!("{}: {}", CPU_LINES.title, basis(lines, time)))
}

/// A line of a source file, by the last part of that.
fn line_text(file: &str, line: u32) -> String {
    format!("{}:{line}", last_part(file))
}

pub(in crate::sections) const PYTHON: SectionDef = SectionDef {
    key: "python",
    title: "CPU time by Python function",
    about: "CPU time by Python function, native code that it called included",
    shown: Shown::WhereRecorded,
    method: "python",
    content: |request| {
        let functions = python_functions(request.facts, FunctionBy::Function);
        python(PYTHON.title, &functions, request.facts, request.top)
    },
};

pub(in crate::sections) const PYTHON_LINES: SectionDef = SectionDef {
    key: "python-lines",
    title: "CPU time by Python line",
    about: "CPU time by line of Python",
    shown: Shown::WhereRecorded,
    method: "python_lines",
    content: |request| {
        let lines = python_functions(request.facts, FunctionBy::Line);
        python(PYTHON_LINES.title, &lines, request.facts, request.top)
    },
};

/// One row of a table of Python.
struct PythonRow<'a> {
    function: &'a SampledFunction,
    native_ns: i128,
    start_up_ns: i128,
}

fn python(title: &str, python: &PythonFunctions, facts: &Facts, top: Top) -> Content {
    let functions = &python.functions;
    let has_lines = functions.rows.iter().any(|row| row.line > 0);
    let start_up = start_up(facts).filter(|_| !functions.rows.is_empty());
    let parts = python.native.iter().zip(&python.start_up);
    let rows: Vec<PythonRow<'_>> = functions
        .rows
        .iter()
        .zip(parts)
        .map(|(function, (&native_ns, &start_up_ns))| PythonRow {
            function,
            native_ns,
            start_up_ns,
        })
        .collect();
    let has_start_up = top.of(&rows).iter().any(|row| row.start_up_ns > 0);
    let start_up_text = start_up.map_or_else(String::new, |start| {
        let (cpu, until) = (nanos_text(start.cpu_ns), nanos_text(start.until_ns));
        format!("; start-up took {cpu}, until {until}")
    });
    Columns::<PythonRow<'_>>::new()
        .add(Column::nanos("self", "self"), |row| row.function.own.into())
        .add(Column::percent("self_share", "of CPU"), |row| {
            Cell::Share(row.function.own, functions.total)
        })
        .add(Column::percent("error", "±"), |row| error_cell(functions, row.function))
        .add(Column::nanos("native", "in native code"), |row| row.native_ns.into())
        .add(Column::nanos("start_up", "in start-up").in_text_if(has_start_up), |row| {
            start_up.map(|_| row.start_up_ns).into()
        })
        .add(Column::nanos("total", "total"), |row| row.function.total.into())
        .add(Column::count("samples", "samples"), |row| count_cell(functions, row.function.samples))
        .add(Column::text("function", "function"), |row| row.function.name.as_str().into())
        .add(Column::number("line", "line").in_text_if(has_lines), |row| {
            (row.function.line > 0).then_some(i128::from(row.function.line)).into()
        })
        .add(Column::hidden("file", Unit::Text), |row| row.function.file.as_str().into())
        .content(&rows, top)
        .titled(format!("{title}: {}{start_up_text}", basis(functions, facts.cpu_time())))
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
    last_part(&row.mapping)
}

pub(crate) fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(in crate::sections) const EVENTS: SectionDef = SectionDef {
    key: "events",
    title: "Other sampled events, by function",
    about: "functions by page faults, cache misses and other sampled events",
    shown: Shown::WhereRecorded,
    method: "events",
    content: |request| events(&other_events(request.facts, FunctionBy::Function), request.top),
};

/// Functions by what other events count, each in its own unit.
fn events(events: &[SampledFunctions], top: Top) -> Content {
    let shown = events.iter().flat_map(|of| top.of(&of.rows).iter().map(move |row| (of, row)));
    let shown: Vec<(&SampledFunctions, &SampledFunction)> = shown.collect();
    let all: usize = events.iter().map(|of| of.rows.len()).sum();
    let content = Columns::<(&SampledFunctions, &SampledFunction)>::new()
        .add(Column::text("event", "event"), |(of, _)| of.event.as_str().into())
        .add(Column::count("self", "self"), |(_, row)| row.own.into())
        .add(Column::text("unit", "unit"), |(of, _)| of.unit.as_str().into())
        .add(Column::percent("self_share", "share"), |(of, row)| Cell::Share(row.own, of.total))
        .add(Column::percent("error", "±"), |(of, row)| error_cell(of, row))
        .add(Column::count("total", "total"), |(_, row)| row.total.into())
        .add(Column::count("samples", "samples"), |(of, row)| count_cell(of, row.samples))
        .add(Column::text("function", "function"), |(_, row)| row.name.as_str().into())
        .add(Column::text("place", "in").optional(), |(_, row)| place(row).into())
        .content(&shown, Top::All);
    Content { left_out: all - shown.len(), ..content }
}
