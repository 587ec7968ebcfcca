//! No question takes more than its share of work, whatever the shape of the trace.
//!
//! Each shape is made with n, 2n and 4n events, and what a command does with it is counted: bytes
//! and pieces of memory asked for, and steps (`spanwise_model::effort`). What four times as many
//! events cost beyond twice as many may be little more than double of what twice as many cost
//! beyond once: a square would be four times that. What resembles one is made with 8n events as
//! well. Time is not measured.

mod commands;
mod counting;
mod shapes;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{fs, process, thread};

use spanwise_analyze::Facts;
use spanwise_model::{MergePart, Trace, Track, TrackKind, merge};
use spanwise_read::{IndexUse, OpenOptions};
use spanwise_report::{ReportRequest, report};
use spanwise_write::Top;

use commands::COMMANDS;
use counting::{UNITS, Work, counted};

/// A trace of so many events; the file is gone when it has been read.
fn read(shape: fn(usize) -> String, events: usize) -> Trace {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let thread = format!("{:?}", thread::current().id());
    let path = folder.join(format!("growth-{}-{thread}-{events}.json", process::id()));
    fs::write(&path, shape(events)).expect("written");
    let options = OpenOptions { index: IndexUse::Ignore, threads: 1, ..OpenOptions::default() };
    let trace = spanwise_read::open(&path, &options).expect("a trace");
    fs::remove_file(&path).expect("removed");
    trace
}

fn opened(shape: fn(usize) -> String, events: usize) -> Arc<Trace> {
    read(shape, events).into()
}

const EVENTS: usize = 1500;

/// What is proportional grows by 2, what is sorted by little more; a square grows by 4.
const GROWTH_MAX: f64 = 2.7;

/// Less than this for each event is no square, whatever it grows by.
const PER_EVENT_MIN: f64 = 40.0;

/// What grows too fast, of something whose work is known for so many times the events.
fn too_fast(name: &str, mut work: impl FnMut(usize) -> Work) -> String {
    let mut found = String::new();
    let works = [1, 2, 4].map(&mut work);
    // A buffer that doubles between two sizes resembles a square once, not twice.
    let mut largest = None;
    for (unit, of) in UNITS.iter().enumerate() {
        let [once, twice, four_times] = works.map(|work| work[unit] as f64);
        let growth = (four_times - twice) / (twice - once).max(1.0);
        if growth <= GROWTH_MAX || four_times <= PER_EVENT_MIN * 4.0 * EVENTS as f64 {
            continue;
        }
        let eight_times = largest.get_or_insert_with(|| work(8))[unit] as f64;
        let growth = (eight_times - four_times) / (four_times - twice);
        if growth > GROWTH_MAX {
            let counts = format!("{once} {twice} {four_times} {eight_times}");
            let _ = writeln!(found, "{name}: {of} {counts}, growth {growth:.2}");
        }
    }
    found
}

#[track_caller]
fn check(shape: fn(usize) -> String) {
    let mut traces: BTreeMap<usize, Arc<Trace>> = BTreeMap::new();
    let mut found = String::new();
    for (name, command) in COMMANDS {
        // What is worked out once a process does not count.
        command(traces.entry(1).or_insert_with(|| opened(shape, EVENTS)));
        found += &too_fast(name, |times| {
            let trace = traces.entry(times).or_insert_with(|| opened(shape, times * EVENTS));
            counted(|| command(trace))
        });
    }
    assert!(found.is_empty(), "\n{found}");
}

/// Four ranks as one trace.
#[track_caller]
fn check_merge(shape: fn(usize) -> String) {
    let found = too_fast("merge", |times| {
        let part = |rank: usize| MergePart {
            name: format!("rank {rank}"),
            trace: read(shape, times * EVENTS),
        };
        let parts: Vec<MergePart> = (0..4).map(part).collect();
        counted(|| assert!(merge(parts).is_ok()))
    });
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn merging_ranks() {
    let shapes = [
        shapes::overlapping_kernels,
        shapes::device_for_each_kernel,
        shapes::one_correlation,
        shapes::asynchronous_flows,
        shapes::threads_with_wakers,
        shapes::deep_lock_waits,
    ];
    shapes.into_iter().for_each(check_merge);
}

#[test]
fn overlapping_kernels_with_a_step_for_each_thread() {
    check(shapes::overlapping_kernels);
}

#[test]
fn spans_that_overlap_like_stairs() {
    check(shapes::stairs);
}

#[test]
fn spans_that_overlap_at_random() {
    check(shapes::random_overlap);
}

#[test]
fn one_correlation_id_for_all_launches_and_kernels() {
    check(shapes::one_correlation);
}

#[test]
fn a_device_for_each_kernel() {
    check(shapes::device_for_each_kernel);
}

#[test]
fn a_stream_for_each_kernel() {
    check(shapes::stream_for_each_kernel);
}

#[test]
fn modules_inside_of_each_other() {
    check(shapes::deep_modules);
}

#[test]
fn calls_that_wait_for_all_streams() {
    check(shapes::device_waits);
}

#[test]
fn spans_that_follow_each_other_by_arrows() {
    check(shapes::chained_flows);
}

#[test]
fn asynchronous_spans_that_follow_each_other_by_arrows() {
    let trace = opened(shapes::asynchronous_flows, EVENTS);
    let is_async = |track: &&Track| track.kind == TrackKind::Async && !track.spans.is_empty();
    assert!(trace.tracks().rows().iter().any(|track| is_async(&track)), "it has such spans");
    check(shapes::asynchronous_flows);
}

#[test]
fn threads_that_sample_wait_and_wake() {
    let trace = opened(shapes::threads_with_wakers, EVENTS);
    assert_eq!(trace.samples().len(), EVENTS / 4);
    assert!(!spanwise_analyze::wakers(&Facts::new(&trace)).is_empty(), "it has wakers");
    check(shapes::threads_with_wakers);
}

#[test]
fn waits_for_locks_with_deep_stacks() {
    let trace = opened(shapes::deep_lock_waits, EVENTS);
    assert!(!spanwise_analyze::locks(&Facts::new(&trace)).is_empty(), "it has such waits");
    check(shapes::deep_lock_waits);
}

#[test]
fn a_report_says_that_marks_are_no_steps() {
    let trace = opened(shapes::overlapping_kernels, 4 * EVENTS);
    let facts = Facts::new(&trace);
    let document = report(&ReportRequest::new(&facts, "growth", Top::First(1), &[]));
    let says_so = |hint: &String| hint.contains("1,500 marks of steps");
    assert!(document.hints.iter().any(says_so), "{:?}", document.hints);
}
