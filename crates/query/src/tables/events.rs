//! The smaller tables: tracks, instants, counters, links.

use std::sync::Arc;

use spanwise_model::{TrackId, TrackKind};

use super::parts::{Len, known, number, relation, text, trace};
use super::{QueriedTrace, Traces, int};
use crate::relation::{Column, Relation, Source};

pub(super) fn tracks(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.tracks().len();
    let of =
        |opened: &QueriedTrace, row: usize| opened.trace.tracks().get(TrackId(row as u32)).clone();
    let kinds = TrackKind::ALL.map(|kind| traces.texts.find(kind.text()).unwrap_or(0));
    let text = |name, about, code: fn(&spanwise_model::Track) -> spanwise_model::StrId| {
        let code = move |opened: &QueriedTrace, row| opened.codes[code(&of(opened, row)).index()];
        super::parts::text(traces, len, name, about, code)
    };
    let columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        super::parts::text(traces, len, "kind", "thread, gpu_stream, async, counter, profiler", {
            move |opened, row| kinds[of(opened, row).kind as usize]
        }),
        text("process", "the source's id of the process; of a stream, the GPU", |t| t.process),
        text("thread", "the source's id of the thread or stream", |t| t.thread),
        text("process_name", "its name", |t| t.process_name),
        text("thread_name", "its name", |t| t.thread_name),
        number(traces, len, "spans", "how many spans it has", move |opened, row| {
            of(opened, row).spans.len() as i64
        }),
        known(traces, len, "thread_cpu_ns", "how long the thread ran", |opened, row| {
            opened.track_cpu_ns(TrackId(row as u32))
        }),
        known(traces, len, "no_sample_ns", "the part of it that no sample speaks for", {
            |opened, row| opened.no_sample_ns(TrackId(row as u32))
        }),
        known(traces, len, "switching_ns", "the part in which the kernel switched threads", {
            |opened, row| opened.switching_ns(TrackId(row as u32))
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
            opened.since_start(opened.trace.instants().time[row])
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
    relation(traces, "instants", "events without a duration", len, columns)
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
            opened.since_start(opened.trace.counters().time[row])
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
