//! Pairing begins with ends takes steps in proportion to the events, however they are arranged.

use spanwise_model::{
    AsyncPhase, AsyncRow, Batch, PairRow, SourceInfo, SpanKind, TraceBuilder, TrackKind, effort,
    on_one_thread,
};

const EVENTS: usize = 2000;

/// The name of the event at this place of so many, and whether it is a begin.
type NameAt = fn(usize, usize) -> (usize, bool);

/// A name that is the empty one: an end may leave it out.
const NO_NAME: usize = usize::MAX;

fn paired(count: usize, name_at: NameAt) -> Batch {
    let mut batch = Batch::default();
    let track = batch.track(TrackKind::Thread, "1", "1");
    let category = batch.category("c", SpanKind::Other);
    for at in 0..count {
        let (name, is_begin) = name_at(at, count);
        let name = if name == NO_NAME { String::new() } else { format!("f{name}") };
        let name = batch.string(&name);
        let (time, offset) = (at as i64, at as u64);
        batch.pairs.push(PairRow { time, offset, name, track, category, is_begin });
    }
    batch
}

/// Asynchronous begins and ends under one key.
fn asynchronous(count: usize, name_at: NameAt) -> Batch {
    let mut batch = Batch::default();
    let track = batch.track(TrackKind::Async, "1", "task");
    let category = batch.category("c", SpanKind::Other);
    for at in 0..count {
        let (name, is_begin) = name_at(at, count);
        let name = batch.string(&format!("f{name}"));
        let phase = if is_begin { AsyncPhase::Begin } else { AsyncPhase::End };
        let (time, offset) = (at as i64, at as u64);
        batch.asyncs.push(AsyncRow { time, key: 1, offset, name, track, category, phase });
    }
    batch
}

fn steps(mut batch: Batch) -> u64 {
    let mut steps = 0;
    on_one_thread(|| {
        let before = effort().unwrap_or(0);
        batch.seal();
        let mut builder = TraceBuilder::new(1);
        builder.push(batch);
        let trace = builder.finish(SourceInfo::default(), None);
        steps = effort().unwrap_or(0) - before;
        assert_eq!(trace.check(), Ok(()));
    });
    steps
}

#[track_caller]
fn check(batch_of: fn(usize, NameAt) -> Batch, name_at: NameAt) {
    let [once, twice, four_times] = [1, 2, 4].map(|times| steps(batch_of(times * EVENTS, name_at)));
    assert!(cfg!(not(debug_assertions)) || once >= EVENTS as u64, "{once}: nothing was counted");
    // A square would be four times as much.
    let growth = (four_times - twice) as f64 / (twice - once).max(1) as f64;
    assert!(growth < 2.7, "{once} {twice} {four_times}: growth {growth:.2}");
}

#[test]
fn ends_of_spans_that_are_not_open() {
    check(paired, |at, count| (at, at < count / 2));
}

#[test]
fn ends_in_the_order_of_their_begins() {
    check(paired, |at, count| (at % (count / 2), at < count / 2));
}

#[test]
fn ends_in_the_reverse_order_of_their_begins() {
    check(paired, |at, count| (at.min(count - 1 - at), at < count / 2));
}

#[test]
fn ends_without_a_name() {
    check(paired, |at, count| if at < count / 2 { (at, true) } else { (NO_NAME, false) });
}

#[test]
fn begins_that_never_end() {
    check(paired, |at, _| (at, true));
}

#[test]
fn asynchronous_ends_under_one_key() {
    check(asynchronous, |at, count| (at % (count / 2), at < count / 2));
}
