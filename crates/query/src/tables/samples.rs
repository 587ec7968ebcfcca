//! Samples, and what they refer to: events, stacks, frames.

use std::sync::Arc;

use spanwise_model::{FrameId, FrameKind, NO_CPU, NO_TIME, StackId, Track, TrackId};

use super::observed::{runs_of_tracks, stack_rows};
use super::parts::{Len, known, number, relation, text, trace};
use super::{QueriedTrace, Traces, int};
use crate::dictionary::NO_TEXT;
use crate::relation::{Ascending, Column, Relation};

pub(super) fn sample_events(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.sample_events().len();
    let columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        text(traces, len, "name", "as its source calls it, such as cycles", |opened, row| {
            opened.known_text(opened.trace.sample_events().rows()[row].name.0)
        }),
        text(traces, len, "unit", "what weights count: ns, cycles, faults …", |opened, row| {
            opened.known_text(opened.trace.sample_events().rows()[row].unit.0)
        }),
        known(
            traces,
            len,
            "interval_ns",
            "the CPU time between two samples of a running thread",
            |opened, row| opened.trace.sample_events().rows()[row].interval_ns,
        ),
        number(traces, len, "samples", "how many samples it has", |opened, row| {
            let events = opened.trace.samples().event.iter();
            events.filter(|&&event| usize::from(event) == row).count() as i64
        }),
    ];
    relation(traces, "sample_events", "what took samples: clocks and counters", len, columns)
}

pub(super) fn frames(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.frames().len();
    let kinds = FrameKind::ALL.map(|kind| traces.texts.find(kind.text()).unwrap_or(NO_TEXT));
    let positive = |number: u64| (number != 0).then_some(number as i64);
    let columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        text(traces, len, "function", "its name, where a symbol is known", |opened, row| {
            opened.known_text(opened.trace.frames().function[row])
        }),
        text(traces, len, "file", "the source file", |opened, row| {
            opened.known_text(opened.trace.frames().file[row])
        }),
        known(traces, len, "line", "the line that was executed", move |opened, row| {
            positive(opened.trace.frames().line[row].into())
        }),
        text(traces, len, "mapping", "the program or library that was mapped", |opened, row| {
            opened.known_text(opened.trace.frames().mapping[row])
        }),
        known(traces, len, "address", "in the mapping, where no symbol is known", {
            move |opened, row| positive(opened.trace.frames().address[row])
        }),
        text(
            traces,
            len,
            "kind",
            "native, kernel, python, jit, gpu, script",
            move |opened, row| kinds[opened.trace.frames().kind(FrameId(row as u32)) as usize],
        ),
        number(traces, len, "inlined", "1 if it was compiled into its caller", |opened, row| {
            opened.trace.frames().inlined[row].into()
        }),
    ];
    relation(traces, "frames", "functions with the lines that were executed", len, columns)
}

/// The stack of a row of the table.
fn stack_of(row: usize) -> StackId {
    StackId(row as u32 + 1)
}

pub(super) fn stacks(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| stack_rows(&opened.trace);
    let mut columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        known(traces, len, "parent", "id of the stack of its caller", |opened, row| {
            opened.stack_id(opened.trace.stacks().parent(stack_of(row)))
        }),
        number(traces, len, "frame", "id in frames of the innermost one", |opened, row| {
            opened.frame_id(opened.trace.stacks().frame[row + 1])
        }),
        number(traces, len, "depth", "how many frames it has", |opened, row| {
            opened.stack_depth(stack_of(row)).into()
        }),
        text(traces, len, "function", "the function of its innermost frame", |opened, row| {
            let frame = opened.trace.stacks().frame[row + 1] as usize;
            opened.known_text(opened.trace.frames().function[frame])
        }),
    ];
    columns.extend(stack_sums(traces, len));
    relation(traces, "stacks", "each stack once: a frame, called by a stack", len, columns)
}

/// What samples of CPU time say of a stack.
fn stack_sums(traces: &Arc<Traces>, len: Len) -> Vec<Column> {
    vec![
        known(traces, len, "recursive", "1 if its function is further out, too", |opened, row| {
            Some(opened.cpu_by_stack()?.is_recursive[stack_of(row).index()].into())
        }),
        known(traces, len, "samples", "samples of CPU time with this stack", |opened, row| {
            let samples = opened.cpu_by_stack()?.samples.as_ref()?;
            Some(samples[stack_of(row).index()] as i64)
        }),
        known(traces, len, "self_cpu_ns", "the CPU time of these samples", |opened, row| {
            Some(opened.cpu_by_stack()?.own_ns[stack_of(row).index()])
        }),
        known(
            traces,
            len,
            "total_cpu_ns",
            "the same with all stacks that it is the outer part of",
            |opened, row| Some(opened.cpu_by_stack()?.total_ns[stack_of(row).index()]),
        ),
    ]
}

pub(super) fn samples(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.samples().len();
    let columns = sample_columns(traces, len);
    let mut first = 0;
    let runs = traces.traces.iter().flat_map(|opened| {
        let samples = opened.trace.samples();
        let runs = runs_of_tracks(opened, first, |track| samples.of_track(track));
        first += samples.len();
        runs
    });
    let column = columns.iter().position(|column| column.name == "time").unwrap_or(0);
    let ascending = Some(Ascending { column, runs: runs.collect() });
    let about = "stacks that were seen at an instant, with a weight";
    Relation { ascending, ..relation(traces, "samples", about, len, columns) }
}

fn sample_columns(traces: &Arc<Traces>, len: Len) -> Vec<Column> {
    fn track_of(opened: &QueriedTrace, row: usize) -> &Track {
        opened.trace.tracks().get(TrackId(opened.trace.samples().track[row]))
    }
    vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        known(traces, len, "time", "nanoseconds since the trace began", |opened, row| {
            let time = opened.trace.samples().time[row];
            (time != NO_TIME).then(|| opened.since_start(time))
        }),
        number(traces, len, "track", "id in tracks", |opened, row| {
            opened.track(opened.trace.samples().track[row])
        }),
        text(traces, len, "process", "the source's id of the process", |opened, row| {
            opened.known_text(track_of(opened, row).process.0)
        }),
        text(traces, len, "thread", "the source's id of the thread", |opened, row| {
            opened.known_text(track_of(opened, row).thread.0)
        }),
        known(traces, len, "cpu", "the processor it was taken on", |opened, row| {
            let cpu = opened.trace.samples().cpu[row];
            (cpu != NO_CPU).then(|| cpu.into())
        }),
        known(traces, len, "stack", "id in stacks", |opened, row| {
            opened.stack_id(StackId(opened.trace.samples().stack[row]))
        }),
        number(traces, len, "event", "id in sample_events", |opened, row| {
            opened.event_id(opened.trace.samples().event[row])
        }),
        number(traces, len, "weight", "in the unit of its event", |opened, row| {
            opened.trace.samples().weight[row]
        }),
        known(traces, len, "cpu_ns", "the CPU time that it stands for", |opened, row| {
            opened.sample_cpu_ns(row)
        }),
    ]
}
