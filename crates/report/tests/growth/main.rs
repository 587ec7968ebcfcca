//! No question takes more than its share of work, whatever the shape of the trace.
//!
//! Each shape is made with n, 2n and 4n events, and what a command does with it is counted: bytes
//! and pieces of memory asked for, and steps (`spanwise_model::effort`). What four times as many
//! events cost beyond twice as many may be little more than double of what twice as many cost
//! beyond once: a square would be four times that. What looks like one is made with 8n events as
//! well. Time is not measured.

mod commands;
mod counting;
mod shapes;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{fs, process, thread};

use spanwise_analyze::Facts;
use spanwise_model::{Trace, Track, TrackKind};
use spanwise_read::{IndexUse, OpenOptions};
use spanwise_report::{ReportRequest, report};
use spanwise_write::Top;

use commands::COMMANDS;
use counting::{UNITS, counted};

/// A trace of so many events; the file is gone when it has been read.
fn opened(shape: fn(usize) -> String, events: usize) -> Arc<Trace> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let thread = format!("{:?}", thread::current().id());
    let path = folder.join(format!("growth-{}-{thread}-{events}.json", process::id()));
    fs::write(&path, shape(events)).expect("written");
    let options = OpenOptions { index: IndexUse::Ignore, threads: 1, ..OpenOptions::default() };
    let trace = spanwise_read::open(&path, &options).expect("a trace");
    fs::remove_file(&path).expect("removed");
    trace.into()
}

const EVENTS: usize = 1500;

/// What is proportional grows by 2, what is sorted by little more; a square grows by 4.
const GROWTH_MAX: f64 = 2.7;

/// Less than this for each event is no square, whatever it grows by.
const PER_EVENT_MIN: f64 = 40.0;

#[track_caller]
fn check(shape: fn(usize) -> String) {
    let traces = [1, 2, 4].map(|times| opened(shape, times * EVENTS));
    let (mut largest, mut too_much) = (None, String::new());
    for (name, command) in COMMANDS {
        // What is worked out once a process does not count.
        command(&traces[0]);
        let work = traces.each_ref().map(|trace| counted(|| command(trace)));
        for (unit, of) in UNITS.iter().enumerate() {
            let [once, twice, four_times] = work.map(|work| work[unit] as f64);
            let growth = (four_times - twice) / (twice - once).max(1.0);
            if growth <= GROWTH_MAX || four_times <= PER_EVENT_MIN * 4.0 * EVENTS as f64 {
                continue;
            }
            // A buffer that doubles between two sizes looks like a square once, not twice.
            let largest = largest.get_or_insert_with(|| opened(shape, 8 * EVENTS));
            let eight_times = counted(|| command(largest))[unit] as f64;
            let growth = (eight_times - four_times) / (four_times - twice);
            if growth > GROWTH_MAX {
                let counts = format!("{once} {twice} {four_times} {eight_times}");
                let _ = writeln!(too_much, "{name}: {of} {counts}, growth {growth:.2}");
            }
        }
    }
    assert!(too_much.is_empty(), "\n{too_much}");
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
