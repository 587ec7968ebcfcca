//! What each question about samples and thread states must be answered with.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_analyze::{Facts, FunctionBy, cpu_functions, event_functions, off_cpu};
use spanwise_model::{StackId, ThreadState, Trace, TrackId};
use spanwise_query::Value;

use crate::expected::{Expect, Rows, Sum, Traces, int, known, sums, text};

const RECORDED: &[&str] = &["perf/recorded.perf"];
const WITH_LINES: &[&str] = &["chrome/cpu_profile.json"];

pub(crate) const QUESTIONS: &[(&str, &[&str], Expect)] = &[
    ("Which functions take most CPU time?", RECORDED, Expect(functions)),
    ("Which lines take most CPU time?", WITH_LINES, Expect(lines)),
    (
        "Who calls a function, and how much CPU time does it take for each?",
        RECORDED,
        Expect(callers),
    ),
    ("What does a function spend its CPU time in?", RECORDED, Expect(called)),
    ("How many samples per second did each thread have over time?", RECORDED, Expect(rates)),
    ("How much CPU time did each thread have?", RECORDED, Expect(threads)),
    ("Why do threads wait, and where?", RECORDED, Expect(waits)),
    ("Who woke whom, and where was the waker?", RECORDED, Expect(wakers)),
    ("How long does each thread wait for a CPU?", RECORDED, Expect(run_queue)),
    ("Which functions cause page faults?", RECORDED, Expect(faults)),
];

fn functions(traces: &Traces) -> Rows {
    let facts = Facts::new(&traces[0]);
    let found = cpu_functions(&facts, FunctionBy::Function);
    let row = |row: &spanwise_analyze::SampledFunction| {
        let mapping = Some(&*row.mapping).filter(|mapping| !mapping.is_empty());
        let (own, total) = (int(row.own), int(row.total));
        vec![text(&row.name), known(mapping), own, total, int(row.samples)]
    };
    found.rows.iter().take(20).map(row).collect()
}

fn lines(traces: &Traces) -> Rows {
    let facts = Facts::new(&traces[0]);
    let found = cpu_functions(&facts, FunctionBy::Line);
    let mut rows: Vec<_> = found.rows.iter().filter(|row| row.samples > 0).collect();
    rows.sort_by_key(|row| (Reverse(row.own), &row.file, row.line));
    let row = |row: &spanwise_analyze::SampledFunction| {
        let file = Some(&*row.file).filter(|file| !file.is_empty());
        let line = if row.line == 0 { Value::Null } else { int(row.line) };
        vec![text(&row.name), known(file), line, int(row.own), int(row.samples)]
    };
    rows.into_iter().map(row).collect()
}

/// The functions of a stack, outermost first.
fn names(trace: &Trace, stack: StackId) -> Vec<&str> {
    let frames = trace.stacks().frames(stack).map(|frame| trace.frames().get(frame));
    let mut names: Vec<&str> = frames.map(|frame| trace.strings().get(frame.function)).collect();
    names.reverse();
    names
}

/// A line of text, or nothing where the stack is not known.
fn joined(trace: &Trace, stack: StackId) -> Value {
    known((stack != StackId::EMPTY).then(|| names(trace, stack).join(";")).as_deref())
}

/// Stacks of samples of CPU time, with that time.
fn cpu_stacks(facts: &Facts) -> Vec<(Vec<String>, i64)> {
    let (samples, time) = (facts.trace().samples(), facts.cpu_time());
    let rows = samples.iter().enumerate().filter(|(_, row)| Some(row.event) == time.event);
    let stack = |stack| names(facts.trace(), stack).into_iter().map(str::to_owned).collect();
    rows.map(|(at, row)| (stack(row.stack), time.sample_ns[at])).collect()
}

/// Names with sums, the largest first.
fn ranked<'a>(pairs: impl Iterator<Item = (&'a str, i64)>) -> Rows {
    let mut rows: Vec<(&str, Sum)> = sums(pairs).into_iter().collect();
    rows.sort_by_key(|&(name, (_, sum, _))| (Reverse(sum), name));
    rows.into_iter().map(|(name, (_, sum, _))| vec![text(name), int(sum)]).collect()
}

fn callers(traces: &Traces) -> Rows {
    let stacks = cpu_stacks(&Facts::new(&traces[0]));
    let hot = stacks.iter().filter_map(|(names, ns)| {
        let at = names.iter().position(|name| name == "hot")?;
        Some((&*names[at.checked_sub(1)?], *ns))
    });
    ranked(hot)
}

fn called(traces: &Traces) -> Rows {
    let stacks = cpu_stacks(&Facts::new(&traces[0]));
    let under = stacks.iter().filter(|(names, _)| names.iter().any(|name| name == "run"));
    ranked(under.filter_map(|(names, ns)| Some((&**names.last()?, *ns))))
}

fn rates(traces: &Traces) -> Rows {
    let trace = &traces[0];
    let facts = Facts::new(trace);
    let zero = trace.window().expect("samples").0;
    let mut counts: BTreeMap<(TrackId, i64), i64> = BTreeMap::new();
    for row in trace.samples().iter().filter(|row| Some(row.event) == facts.cpu_time().event) {
        *counts.entry((row.track, (row.time - zero) / 5_000_000)).or_default() += 1;
    }
    let row = |((track, bucket), count): ((TrackId, i64), i64)| {
        let thread = trace.strings().get(trace.tracks().get(track).thread);
        vec![text(thread), int(bucket * 5), int(count * 200)]
    };
    counts.into_iter().map(row).collect()
}

fn threads(traces: &Traces) -> Rows {
    let facts = Facts::new(&traces[0]);
    let mut rows = off_cpu(&facts);
    rows.sort_by_key(|row| (Reverse(row.running_ns), row.track));
    let row = |row: &spanwise_analyze::OffCpuRow| {
        let track = traces[0].tracks().get(row.track);
        let [process, thread, name] = [track.process, track.thread, track.thread_name]
            .map(|id| text(traces[0].strings().get(id)));
        let silent = facts.cpu_time().no_sample.iter().filter(|found| found.0 == row.track);
        let silent: i64 = silent.map(|found| found.1).sum();
        vec![process, thread, name, int(row.running_ns), int(silent)]
    };
    rows.iter().map(row).collect()
}

fn waits(traces: &Traces) -> Rows {
    let trace = &*traces[0];
    let states = trace.thread_states().iter_counted().filter_map(|row| match row.state {
        ThreadState::Blocked(on) if !on.is_idle() => Some(((on, row.stack), row.dur)),
        _ => None,
    });
    let mut rows: Vec<_> = sums(states).into_iter().collect();
    rows.sort_by_key(|&((on, stack), (_, sum, _))| (Reverse(sum), on.text(), stack));
    let row = |((on, stack), (count, sum, longest)): ((_, StackId), Sum)| {
        let reason = ThreadState::Blocked(on).reason();
        vec![known(reason), joined(trace, stack), int(sum), int(count), int(longest)]
    };
    rows.into_iter().map(row).collect()
}

fn wakers(traces: &Traces) -> Rows {
    let trace = &*traces[0];
    let name = |track| text(trace.strings().get(trace.tracks().get(track).thread_name));
    let states = trace.thread_states().iter().filter_map(|row| {
        let key = (row.waker?, row.track, row.state.reason(), row.waker_stack);
        Some((key, row.dur))
    });
    let mut rows: Vec<_> = sums(states).into_iter().collect();
    rows.sort_by_key(|row| Reverse(row.1.1));
    let row = |((waker, woken, reason, stack), (count, sum, _)): (
        (TrackId, TrackId, Option<&str>, StackId),
        Sum,
    )| {
        let stack = joined(trace, stack);
        vec![name(waker), name(woken), known(reason), stack, int(count), int(sum)]
    };
    rows.into_iter().map(row).collect()
}

fn run_queue(traces: &Traces) -> Rows {
    let trace = &*traces[0];
    let runnable = |state| matches!(state, ThreadState::Runnable(_));
    let states = trace.thread_states().iter().filter(|row| runnable(row.state));
    let mut rows: Vec<_> = sums(states.map(|row| (row.track, row.dur))).into_iter().collect();
    rows.sort_by_key(|&(track, (_, sum, _))| (Reverse(sum), track));
    let row = |(id, (count, sum, longest)): (TrackId, Sum)| {
        let track = trace.tracks().get(id);
        let [thread, name] =
            [track.thread, track.thread_name].map(|id| text(trace.strings().get(id)));
        let of_track = trace.thread_states().of_track(id).map(|at| trace.thread_states().get(at));
        let preempted = of_track.filter(|row| row.state.reason() == Some("preempted")).count();
        vec![thread, name, int(count), int(preempted), int(sum), int(longest)]
    };
    rows.into_iter().map(row).collect()
}

fn faults(traces: &Traces) -> Rows {
    let trace = &traces[0];
    let rows = trace.sample_events().rows();
    let event = rows.iter().position(|row| trace.strings().get(row.name) == "page-faults");
    let event = event.expect("page faults") as u16;
    let found = event_functions(&Facts::new(trace), event, FunctionBy::Function);
    let own = found.rows.iter().filter(|row| row.own > 0);
    own.map(|row| vec![text(&row.name), int(row.own)]).collect()
}
