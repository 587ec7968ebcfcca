//! What is open, and the tracks of each trace in the order to show them in.

use serde_json::{Value, json};
use spanwise_model::{Nanos, Trace, Track, TrackId, TrackKind, starts_on_one_clock};

use crate::connection::http::Response;
use crate::session::Session;
use crate::viewed::{TraceView, kinds};

pub(crate) fn traces(session: &Session) -> Response {
    let traces = session.traces();
    let all: Vec<&Trace> = traces.iter().map(|viewed| &*viewed.trace).collect();
    let began = starts_on_one_clock(&all);
    let began = |id: usize| began.as_ref().map(|starts| starts[id]);
    let numbered = traces.iter().enumerate();
    let traces: Vec<Value> = numbered.map(|(id, viewed)| about(id, viewed, began(id))).collect();
    let kinds: Vec<&str> = kinds().collect();
    Response::json(json!({ "version": 1, "kinds": kinds, "traces": traces }).to_string())
}

fn about(id: usize, viewed: &TraceView, began: Option<Nanos>) -> Value {
    let trace = &viewed.trace;
    let to = trace.window().map_or(0, |(_, to)| viewed.to_page_time(to));
    let notices: Vec<Value> = trace
        .notices()
        .iter()
        .map(|notice| json!({ "text": notice.kind.to_string(), "count": notice.count }))
        .collect();
    let extremes = extremes(trace);
    let tracks = in_order(trace).into_iter().map(|id| track(viewed, id, &extremes));
    let tracks: Vec<Value> = tracks.chain(memory(viewed)).collect();
    json!({
        "id": id,
        "file": viewed.file,
        "producer": trace.info().format,
        "rank": trace.info().rank,
        "from": 0,
        "began": began,
        "to": to,
        "spans": trace.spans().len(),
        "live": viewed.is_live(),
        "read": viewed.read,
        "notices": notices,
        "tracks": tracks,
    })
}

/// Tracks with something on them: GPUs behind the processes, a process's counters last.
fn in_order(trace: &Trace) -> Vec<TrackId> {
    let mut has_marks = vec![false; trace.tracks().len()];
    for &track in trace.instants().track.iter().chain(trace.counters().track.iter()) {
        has_marks[track as usize] = true;
    }
    let is_shown =
        |(id, track): &(TrackId, &Track)| !track.spans.is_empty() || has_marks[id.index()];
    let rows = trace.tracks().iter().filter(is_shown);
    let mut rows: Vec<(TrackId, &Track)> = rows.collect();
    let group = |kind: TrackKind| match kind {
        TrackKind::Thread | TrackKind::Async => 0,
        TrackKind::Counter => 1,
        TrackKind::GpuStream => 2,
        TrackKind::Profiler => 3,
    };
    // Processes come in the order of their first track.
    let process_rank = |track: &Track| {
        trace.tracks().rows().iter().position(|other| other.process == track.process)
    };
    rows.sort_by_key(|(id, track)| {
        let kind = group(track.kind);
        (kind == 2, kind == 3, process_rank(track), kind, track.sort_index, *id)
    });
    rows.into_iter().map(|(id, _)| id).collect()
}

fn track(viewed: &TraceView, id: TrackId, extremes: &[Extremes]) -> Value {
    let trace = &viewed.trace;
    let row = trace.tracks().get(id);
    let text = |id| trace.strings().get(id);
    let Extremes { least, most, marks } = extremes[id.index()];
    let is_counter = row.kind == TrackKind::Counter && least <= most;
    json!({
        "id": id.0,
        "kind": row.kind.text(),
        "process": text(row.process),
        "process_name": text(row.process_name),
        "thread": text(row.thread),
        "thread_name": text(row.thread_name),
        "spans": row.spans.len(),
        "rows": viewed.rows(id).len(),
        "marks": marks,
        "least": is_counter.then_some(least),
        "most": is_counter.then_some(most),
        "unit": "number",
    })
}

/// Memory over time as counters of the processes that used it.
fn memory(viewed: &TraceView) -> impl Iterator<Item = Value> {
    let trace = &viewed.trace;
    let text = |id| trace.strings().get(id);
    let first_number = trace.tracks().len();
    viewed.memory().iter().enumerate().map(move |(at, counter)| {
        let of_process = |row: &&Track| row.process == counter.process;
        let named = trace.tracks().rows().iter().find(of_process);
        let extreme = |pick: fn(f64, f64) -> f64| counter.bytes.iter().copied().reduce(pick);
        json!({
            "id": first_number + at,
            "kind": TrackKind::Counter.text(),
            "process": text(counter.process),
            "process_name": named.map_or("", |row| text(row.process_name)),
            "thread": "",
            "thread_name": counter.name,
            "spans": 0,
            "rows": 0,
            "marks": 0,
            "least": extreme(f64::min),
            "most": extreme(f64::max),
            "unit": "bytes",
        })
    })
}

/// Of the values of a counter; and how many instants a track has.
#[derive(Clone, Copy)]
struct Extremes {
    least: f64,
    most: f64,
    marks: u64,
}

fn extremes(trace: &Trace) -> Vec<Extremes> {
    let none = Extremes { least: f64::INFINITY, most: f64::NEG_INFINITY, marks: 0 };
    let mut extremes = vec![none; trace.tracks().len()];
    let counters = trace.counters();
    for (&track, &value) in counters.track.iter().zip(counters.value.iter()) {
        let known = &mut extremes[track as usize];
        (known.least, known.most) = (known.least.min(value), known.most.max(value));
    }
    for &track in trace.instants().track.iter() {
        extremes[track as usize].marks += 1;
    }
    extremes
}
