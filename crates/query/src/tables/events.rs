//! The smaller tables: tracks, moments, counters, arrows.

use std::sync::Arc;

use spanwise_model::{TrackId, TrackKind};

use super::{Opened, Traces, int};
use crate::relation::{Column, Relation, Source};

/// How many rows of a table each trace has.
type Len = fn(&Opened) -> usize;

pub(super) fn tracks(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.tracks().len();
    let of = |opened: &Opened, row: usize| opened.trace.tracks().rows()[row].clone();
    let kinds = TrackKind::ALL.map(|kind| traces.texts.find(kind.text()).unwrap_or(0));
    let text = |name, about, code: fn(&spanwise_model::Track) -> spanwise_model::StrId| {
        let code = move |opened: &Opened, row| opened.codes[code(&of(opened, row)).index()];
        text(traces, len, name, about, code)
    };
    let columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        self::text(traces, len, "kind", "thread, gpu_stream, async, counter, profiler", {
            move |opened, row| kinds[of(opened, row).kind as usize]
        }),
        text("process", "the source's id of the process; of a stream, the GPU", |t| t.process),
        text("thread", "the source's id of the thread or stream", |t| t.thread),
        text("process_name", "its name", |t| t.process_name),
        text("thread_name", "its name", |t| t.thread_name),
        number(traces, len, "spans", "how many spans it has", move |opened, row| {
            of(opened, row).spans.len() as i64
        }),
    ];
    relation(traces, "tracks", "threads, GPU streams, counters and the like", len, columns)
}

pub(super) fn instants(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.instants().len();
    let columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        number(traces, len, "time", "nanoseconds since the trace began", |opened, row| {
            opened.told(opened.trace.instants().time[row])
        }),
        text(traces, len, "name", "what happened", |opened, row| {
            opened.codes[opened.trace.instants().name[row] as usize]
        }),
        text(traces, len, "category", "the source's own word for its sort", |opened, row| {
            opened.category(opened.trace.instants().category[row])
        }),
        number(traces, len, "track", "id in tracks", |opened, row| {
            opened.track(opened.trace.instants().track[row])
        }),
    ];
    relation(traces, "instants", "moments without a length", len, columns)
}

pub(super) fn counters(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.counters().len();
    let value = {
        let traces = Arc::clone(traces);
        move |row| {
            let (opened, row) = traces.locate(row, len);
            opened.trace.counters().value[row]
        }
    };
    let columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        number(traces, len, "time", "nanoseconds since the trace began", |opened, row| {
            opened.told(opened.trace.counters().time[row])
        }),
        number(traces, len, "track", "id in tracks, which has its name", |opened, row| {
            opened.track(opened.trace.counters().track[row])
        }),
        Column::new("value", "what it is from then on", Source::Real(Box::new(value))),
    ];
    relation(traces, "counters", "values of counters over time", len, columns)
}

pub(super) fn links(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.links().len();
    let columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        number(traces, len, "source", "id of the span where it begins", |opened, row| {
            opened.first_span as i64 + i64::from(opened.trace.links().from[row])
        }),
        number(traces, len, "target", "id of the span where it ends", |opened, row| {
            opened.first_span as i64 + i64::from(opened.trace.links().to[row])
        }),
        text(traces, len, "category", "such as fwdbwd", |opened, row| {
            opened.category(opened.trace.links().category[row])
        }),
    ];
    relation(traces, "links", "arrows between spans, other than launches", len, columns)
}

impl Opened {
    fn category(&self, id: u16) -> u32 {
        self.codes[self.trace.categories().get(id.into()).name.index()]
    }

    fn track(&self, id: u32) -> i64 {
        (self.first_track + TrackId(id).index()) as i64
    }
}

impl Traces {
    /// The trace of a row and its row there.
    fn locate(&self, mut row: usize, len: Len) -> (&Opened, usize) {
        let mut found = &self.traces[0];
        for opened in &self.traces {
            found = opened;
            if row < len(opened) {
                break;
            }
            row -= len(opened);
        }
        (found, row)
    }
}

fn relation(
    traces: &Traces,
    name: &'static str,
    about: &'static str,
    len: Len,
    columns: Vec<Column>,
) -> Relation {
    let rows = traces.traces.iter().map(len).sum();
    Relation { name, about, rows, ascending: None, columns }
}

fn trace(traces: &Arc<Traces>, len: Len) -> Column {
    let traces = Arc::clone(traces);
    int("trace", "number of the trace, from 0", move |row| {
        let mut rows = 0;
        let behind = |opened: &Opened| {
            rows += len(opened);
            row < rows
        };
        traces.traces.iter().position(behind).map(|at| at as i64)
    })
}

fn number(
    traces: &Arc<Traces>,
    len: Len,
    name: &'static str,
    about: &'static str,
    value: impl Fn(&Opened, usize) -> i64 + Send + Sync + 'static,
) -> Column {
    let traces = Arc::clone(traces);
    int(name, about, move |row| {
        let (opened, row) = traces.locate(row, len);
        Some(value(opened, row))
    })
}

fn text(
    traces: &Arc<Traces>,
    len: Len,
    name: &'static str,
    about: &'static str,
    code: impl Fn(&Opened, usize) -> u32 + Send + Sync + 'static,
) -> Column {
    let (texts, traces) = (Arc::clone(&traces.texts), Arc::clone(traces));
    let code = move |row| {
        let (opened, row) = traces.locate(row, len);
        code(opened, row)
    };
    Column::new(name, about, Source::Text(Box::new(code), texts))
}
