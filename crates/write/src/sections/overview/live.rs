//! A session that goes on: what it does now, and what it has done so far.

use spanwise_model::{LiveSession, LiveSpans, Nanos};

use crate::Top;
use crate::document::sectioned::{Body, Document, Section, section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::decimal;

/// What is known of the program that records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveState {
    /// It runs.
    Running,
    /// The session's end is written.
    Ended,
    /// No end is written, and there is no such process here: killed, or on another machine.
    Gone,
}

impl LiveState {
    fn word(self) -> &'static str {
        match self {
            LiveState::Running => "running",
            LiveState::Ended => "ended",
            LiveState::Gone => "gone",
        }
    }
}

/// How a poll is shown.
#[derive(Debug, Clone, Copy)]
pub struct LiveView<'a> {
    pub file: &'a str,
    pub state: LiveState,
    /// How long ago the previous poll was; `None` for the first, whose rates are those of the
    /// whole session.
    pub since_ns: Option<Nanos>,
    pub top: Top,
}

pub fn live_document(session: &LiveSession, view: &LiveView<'_>) -> Document {
    let mut hints = Vec::new();
    if view.state == LiveState::Gone {
        hints.push(format!(
            "The session has no end, and process {} is not here: it was killed, or runs \
             elsewhere.",
            session.process_id
        ));
    }
    if session.unread_bytes > 0 && view.state != LiveState::Running {
        hints.push("The file ends in the middle of a chunk.".to_owned());
    }
    let sections = vec![
        session_section(session, view),
        spans_section(session, view),
        tasks_section(session, view),
        threads_section(session, view),
        marks_section(session, view),
        counters_section(session, view),
    ];
    Document { sections, hints }
}

/// The time that rates are of.
fn window_ns(session: &LiveSession, view: &LiveView<'_>) -> i128 {
    i128::from(view.since_ns.unwrap_or(session.until - session.began))
}

/// A count in an interval, per second.
fn rate(count: i128, window_ns: i128) -> Cell {
    match window_ns {
        ..=0 => Cell::None,
        window_ns => Cell::Decimal(decimal(count.saturating_mul(1_000_000_000), window_ns, 1)),
    }
}

fn session_section(session: &LiveSession, view: &LiveView<'_>) -> Section {
    let count = |key, title| Column::new(key, title, Unit::Count);
    let mut table = Table::new([
        Column::new("file", "file", Unit::Text),
        Column::new("program", "program", Unit::Text),
        count("process", "process"),
        Column::new("state", "state", Unit::Text),
        Column::new("duration", "recorded", Unit::Nanos),
        count("records", "records"),
        Column { in_text: session.dropped > 0, ..count("dropped", "dropped") },
        Column { in_text: session.damaged > 0, ..count("damaged", "damaged") },
        Column::new("size", "size", Unit::Bytes),
        Column::hidden("began", Unit::Nanos),
        Column::hidden("began_calendar", Unit::Nanos),
        Column::hidden("window", Unit::Nanos),
    ]);
    table.push([
        view.file.into(),
        session.program.as_str().into(),
        u64::from(session.process_id).into(),
        view.state.word().into(),
        (session.until - session.began).into(),
        session.records.into(),
        session.dropped.into(),
        session.damaged.into(),
        session.bytes.into(),
        session.began.into(),
        session.began_calendar_ns.into(),
        window_ns(session, view).into(),
    ]);
    Section {
        key: "session",
        title: "Session".to_owned(),
        body: Body::Record(table),
        when_empty: None,
        left_out: 0,
    }
}

fn spans_section(session: &LiveSession, view: &LiveView<'_>) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        Column::new("self_share", "self now", Unit::Percent),
        Column::new("rate", "a second", Unit::Count),
        nanos("self", "self"),
        nanos("total", "total"),
        Column::new("count", "spans", Unit::Count),
        nanos("mean", "mean"),
        nanos("max", "longest").optional(),
        Column::hidden("new_count", Unit::Count),
        Column::hidden("new_self", Unit::Nanos),
        Column::hidden("new_total", Unit::Nanos),
        Column::hidden("last", Unit::Nanos),
        Column::new("name", "name", Unit::Text),
    ]);
    let window_ns = window_ns(session, view);
    // What takes time now stands first; what is equal, by all it has taken.
    let mut rows: Vec<&LiveSpans> = session.spans.iter().collect();
    rows.sort_by_key(|row| (-row.new_self_ns, -row.self_ns));
    for row in view.top.of(&rows) {
        table.push([
            Cell::Share(row.new_self_ns, window_ns),
            rate(row.new_count.into(), window_ns),
            row.self_ns.into(),
            row.total_ns.into(),
            row.count.into(),
            Cell::Int(row.total_ns / i128::from(row.count.max(1))),
            row.max_ns.into(),
            row.new_count.into(),
            row.new_self_ns.into(),
            row.new_total_ns.into(),
            row.last.into(),
            row.name.as_str().into(),
        ]);
    }
    let shown = section("spans", "Spans, by what they took just now", table, rows.len());
    Section { when_empty: Some("none has ended yet"), ..shown }
}

fn tasks_section(session: &LiveSession, view: &LiveView<'_>) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        Column::new("rate", "a second", Unit::Count),
        nanos("total", "total"),
        Column::new("count", "tasks", Unit::Count),
        nanos("mean", "mean"),
        nanos("max", "longest"),
        Column::new("name", "name", Unit::Text),
    ]);
    let window_ns = window_ns(session, view);
    for row in view.top.of(&session.tasks) {
        table.push([
            rate(row.new_count.into(), window_ns),
            row.total_ns.into(),
            row.count.into(),
            Cell::Int(row.total_ns / i128::from(row.count.max(1))),
            row.max_ns.into(),
            row.name.as_str().into(),
        ]);
    }
    section("tasks", "Tasks, with what they waited", table, session.tasks.len())
}

fn threads_section(session: &LiveSession, view: &LiveView<'_>) -> Section {
    let mut table = Table::new([
        Column::new("busy_share", "in spans now", Unit::Percent),
        Column::new("busy", "in spans", Unit::Nanos),
        Column::new("spans", "spans", Unit::Count),
        Column::new("dropped", "dropped", Unit::Count),
        Column::new("idle", "last record", Unit::Nanos).optional(),
        Column::hidden("new_busy", Unit::Nanos),
        Column::new("id", "thread", Unit::Text),
        Column::new("name", "name", Unit::Text),
    ]);
    let window_ns = window_ns(session, view);
    for row in view.top.of(&session.threads) {
        table.push([
            Cell::Share(row.new_busy_ns, window_ns),
            row.busy_ns.into(),
            row.spans.into(),
            row.dropped.into(),
            (session.until - row.last).max(0).into(),
            row.new_busy_ns.into(),
            row.id.to_string().into(),
            row.name.as_str().into(),
        ]);
    }
    section("threads", "Threads", table, session.threads.len())
}

fn marks_section(session: &LiveSession, view: &LiveView<'_>) -> Section {
    let mut table = Table::new([
        Column::new("at", "at", Unit::Nanos),
        Column::new("ago", "before the end", Unit::Nanos),
        Column::new("thread", "thread", Unit::Text),
        Column::new("name", "name", Unit::Text),
    ]);
    for row in view.top.of(&session.marks) {
        table.push([
            (row.time - session.began).into(),
            (session.until - row.time).max(0).into(),
            row.thread_id.to_string().into(),
            row.name.as_str().into(),
        ]);
    }
    section("marks", "Latest marks", table, session.marks.len())
}

fn counters_section(session: &LiveSession, view: &LiveView<'_>) -> Section {
    let number = |key, title| Column::new(key, title, Unit::Count);
    let mut table = Table::new([
        number("value", "now"),
        number("min", "least"),
        number("max", "most"),
        number("count", "values"),
        Column::new("name", "name", Unit::Text),
    ]);
    for row in view.top.of(&session.counters) {
        table.push([
            value(row.last_value),
            value(row.min),
            value(row.max),
            row.count.into(),
            row.name.as_str().into(),
        ]);
    }
    section("counters", "Values", table, session.counters.len())
}

/// A value as it is; what is no number is unknown.
fn value(value: f64) -> Cell {
    if !value.is_finite() {
        return Cell::None;
    }
    let text = format!("{value:.3}");
    Cell::Decimal(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}
