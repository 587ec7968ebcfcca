//! Rows of several batches become tables, and stay what they are in merged and selected traces.

use super::*;
use crate::{
    Batch, BlockedOn, MergePart, Nanos, Selection, SourceInfo, StackId, ThreadState, Trace,
    TraceBuilder, TrackId, TrackKind, merge, select,
};

/// A sample of a stack, from the root on, at a time of a thread.
type ExpectedState<'a> = (&'a str, Nanos, &'a [&'a str]);

fn batch(seen: &[ExpectedState<'_>], waits: &[(&str, Nanos, Nanos)]) -> Batch {
    let mut batch = Batch::default();
    let event = SampleEvent {
        name: batch.string("cpu-clock"),
        unit: batch.string("ns"),
        interval_ns: Some(10),
    };
    let event = batch.observed.event(event);
    for &(thread, time, frames) in seen {
        let track = batch.track(TrackKind::Thread, "1", thread);
        let stack = stack(&mut batch, frames);
        let row = SampleRow { time, track, cpu: NO_CPU, stack, event, weight: 10 };
        batch.observed.samples.push(row);
    }
    for &(thread, start, end) in waits {
        let track = batch.track(TrackKind::Thread, "1", thread);
        let waker = Some(batch.track(TrackKind::Thread, "1", "waker"));
        let (state, stack) = (ThreadState::Blocked(BlockedOn::Gil), stack(&mut batch, &["wait"]));
        let (dur, cpu, lock) = (end - start, 3, 0x10);
        let waker_stack = stack;
        batch.observed.states.push(StateRow {
            start,
            dur,
            track,
            cpu,
            state,
            stack,
            waker,
            waker_stack,
            lock,
            stand_in: 0,
        });
    }
    batch.seal();
    batch
}

fn stack(batch: &mut Batch, frames: &[&str]) -> StackId {
    frames.iter().fold(StackId::EMPTY, |stack, name| {
        let function = batch.string(name);
        let frame = batch.observed.frame(Frame { function, line: 7, ..Frame::default() });
        batch.observed.stack(stack, frame)
    })
}

fn trace(batches: Vec<Batch>) -> Trace {
    let mut builder = TraceBuilder::new(1);
    batches.into_iter().for_each(|batch| builder.push(batch));
    builder.finish(SourceInfo::default(), None)
}

/// A line for each sample and each state: thread, time, stack.
fn lines(trace: &Trace) -> Vec<String> {
    let thread = |track: TrackId| trace.strings().get(trace.tracks().get(track).thread);
    let text = |stack: StackId| {
        let functions = trace.stacks().frames(stack).map(|frame| trace.frames().get(frame));
        let mut names: Vec<&str> =
            functions.map(|frame| trace.strings().get(frame.function)).collect();
        names.reverse();
        names.join(";")
    };
    let samples = trace
        .samples()
        .iter()
        .map(|row| format!("{} {} {}", thread(row.track), row.time, text(row.stack)));
    let states = trace.thread_states().iter().map(|row| {
        let waker = row.waker.map_or("nobody", thread);
        format!("{} {}+{} {} by {waker}", thread(row.track), row.start, row.dur, text(row.stack))
    });
    samples.chain(states).collect()
}

fn example() -> Trace {
    let one = batch(&[("a", 30, &["main", "f"]), ("b", 5, &["main"])], &[("a", 1, 4)]);
    let two = batch(&[("b", 4, &["main", "g"]), ("a", 20, &["main", "f"])], &[]);
    trace(vec![one, two])
}

#[test]
fn batches_are_joined_by_track_and_time() {
    let trace = example();
    assert_eq!(trace.check(), Ok(()));
    let expected = ["a 20 main;f", "a 30 main;f", "b 4 main;g", "b 5 main", "a 1+3 wait by waker"];
    assert_eq!(lines(&trace), expected);
    // The empty one, main, main;f, main;g, wait.
    assert_eq!(trace.stacks().len(), 5);
    assert_eq!(trace.sample_events().len(), 1);
    assert_eq!(trace.window(), Some((1, 30)));
}

#[test]
fn merged_traces_keep_both() {
    let part = |name: &str| MergePart { name: name.to_owned(), trace: example() };
    let merged = merge(vec![part("one"), part("two")]).expect("merged").trace;
    assert_eq!(merged.samples().len(), 8);
    assert_eq!(merged.thread_states().len(), 2);
    assert_eq!(merged.stacks().len(), 5);
    assert_eq!(lines(&merged)[4..8], lines(&merged)[..4]);
}

#[test]
fn a_selection_keeps_what_lies_in_it() {
    let trace = example();
    let tracks = vec![true; trace.tracks().len()];
    let windows = Some(vec![(2, 21)]);
    let selection = Selection { tracks, windows, keeps_span: &|_| true };
    let part = select(&trace, &selection, 1);
    assert_eq!(part.check(), Ok(()));
    let expected = ["a 20 main;f", "b 4 main;g", "b 5 main", "a 2+2 wait by waker"];
    assert_eq!(lines(&part), expected);
}

#[test]
fn rows_are_sorted_by_thread_and_time_and_else_stay_as_they_came() {
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let mut rows: Vec<SampleRow> = (0..500)
        .map(|weight| SampleRow {
            time: random(40) as Nanos,
            track: TrackId(random(5) as u32),
            cpu: random(3) as u16,
            stack: StackId(random(9) as u32),
            event: random(2) as u16,
            weight,
        })
        .collect();
    let found: Vec<SampleRow> =
        rows.iter().copied().collect::<SampleRows>().finish().iter().collect();
    rows.sort_by_key(|row| (row.track, row.time));
    assert_eq!(found, rows);
    let again: Vec<SampleRow> =
        rows.iter().copied().collect::<SampleRows>().finish().iter().collect();
    assert_eq!(again, rows);
}
