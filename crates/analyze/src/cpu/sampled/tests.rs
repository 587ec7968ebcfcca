//! CPU time by function against what is true of made-up recordings.

use std::sync::Arc;

use spanwise_model::{NO_TIME, RunnableSince, ThreadState, Trace};

use super::*;
use crate::Facts;
use crate::base::sample::Sample;

const MS: i64 = 1_000_000;

/// Self time by function, in microseconds.
fn own(trace: &Arc<Trace>) -> Vec<(String, i128)> {
    let facts = Facts::new(trace);
    let found = cpu_functions(&facts, FunctionBy::Function);
    let rows: i128 = found.rows.iter().map(|row| row.own).sum();
    assert_eq!(rows + found.no_sample + found.switching, found.total, "sums add up");
    found.rows.into_iter().map(|row| (row.name, row.own / 1000)).collect()
}

#[track_caller]
fn check(sample: &mut Sample, expected: &[(&str, i128)]) {
    let named = expected.iter().map(|&(name, us)| (name.to_owned(), us));
    assert_eq!(own(&sample.finish()), named.collect::<Vec<_>>());
}

/// A thread that runs for some time, again and again, sleeping in between.
fn bursts(sample: &mut Sample, thread: &str, count: i64, from: i64, run: i64, pause: i64) {
    for burst in 0..count {
        let start = from + burst * (run + pause);
        sample.state(thread, ThreadState::Running, start, run);
        sample.state(
            thread,
            ThreadState::Blocked(spanwise_model::BlockedOn::Sleep),
            start + run,
            pause,
        );
    }
}

#[test]
fn without_switches_a_sample_stands_for_one_interval() {
    let mut sample = Sample::default();
    let cycles = sample.event("cycles", "cycles", Some(10 * MS));
    for (time, weight, function) in
        [(0, 9, "foo"), (10, 9, "bar"), (5000, 9, "foo"), (5010, 9, "foo")]
    {
        sample.taken("1", "1", cycles, weight, time * MS, &["main", function]);
    }
    check(&mut sample, &[("foo", 30_000), ("bar", 10_000), ("main", 0)]);
}

#[test]
fn columns_of_profiles_are_cpu_time_as_they_are() {
    let mut sample = Sample::default();
    let count = sample.event("samples", "samples", None);
    let cpu = sample.event("cpu", "ns", None);
    for (event, weight, function) in [(count, 7, "f"), (cpu, 70 * MS, "f"), (cpu, 30 * MS, "g")] {
        sample.taken("1", "1", event, weight, NO_TIME, &["main", function]);
    }
    check(&mut sample, &[("f", 70_000), ("g", 30_000), ("main", 0)]);
}

#[test]
fn sums_of_samples_do_not_say_of_how_many() {
    let mut sample = Sample::default();
    let count = sample.event("samples", "samples", None);
    let cpu = sample.event("cpu", "ns", None);
    let bytes = sample.event("space", "bytes", None);
    for (event, weight) in [(count, 7), (cpu, 70 * MS), (bytes, 512)] {
        sample.taken("1", "1", event, weight, NO_TIME, &["f"]);
    }
    let trace = sample.finish();
    let facts = Facts::new(&trace);
    let of_cpu = cpu_functions(&facts, FunctionBy::Function);
    assert_eq!((of_cpu.samples, of_cpu.error_percent(0)), (0, None));
    let others = other_events(&facts, FunctionBy::Function);
    let counts: Vec<_> =
        others.iter().map(|event| (&*event.event, event.samples, event.rows[0].own)).collect();
    assert_eq!(counts, [("samples", 7, 7), ("space", 0, 512)]);
    assert_eq!(cpu_by_stack(&trace, facts.cpu_time()).samples, None);
}

#[test]
fn samples_that_stand_for_few_cycles_stand_for_little_time() {
    let mut sample = Sample::default();
    let cycles = sample.event("cycles", "cycles", Some(10 * MS));
    // The kernel searches for the period that gives the rate asked for.
    for (time, weight, function) in
        [(0, 1, "starts"), (1, 1, "starts"), (2, 20, "starts"), (3, 500, "starts")]
    {
        sample.taken("1", "1", cycles, weight, time, &[function]);
    }
    for time in 1..=4 {
        sample.taken("1", "1", cycles, 100_000, time * 10 * MS, &["works"]);
    }
    check(&mut sample, &[("works", 40_000), ("starts", 52)]);
}

#[test]
fn time_that_threads_ran_is_divided_by_weight() {
    let mut sample = Sample::default();
    let cycles = sample.event("cycles", "cycles", Some(10 * MS));
    sample.state("1", ThreadState::Running, 0, 40 * MS);
    sample.taken("1", "1", cycles, 300, 10 * MS, &["slow"]);
    sample.taken("1", "1", cycles, 100, 30 * MS, &["fast"]);
    check(&mut sample, &[("slow", 30_000), ("fast", 10_000)]);
}

#[test]
fn short_bursts_count_as_much_as_long_runs() {
    let mut sample = Sample::default();
    let clock = sample.event("cpu-clock", "ns", Some(MS));
    // 100 ms in bursts of 100 µs, of which every tenth has a sample, and 100 ms at once.
    bursts(&mut sample, "1", 1000, 0, MS / 10, MS);
    for burst in (0..1000).step_by(10) {
        let time = burst * (MS / 10 + MS) + MS / 20;
        sample.taken("1", "1", clock, MS, time, &["short"]);
    }
    let from = 2000 * MS;
    sample.state("1", ThreadState::Running, from, 100 * MS);
    for tick in 0..100 {
        sample.taken("1", "1", clock, MS, from + tick * MS + MS / 2, &["long"]);
    }
    // Pieces of a thread's time end in the middle between two samples.
    check(&mut sample, &[("long", 100_225), ("short", 99_775)]);
}

#[test]
fn threads_that_end_between_two_samples_count_with_others_like_them() {
    let mut sample = Sample::default();
    let clock = sample.event("cpu-clock", "ns", Some(MS));
    // 1,000 threads of 100 µs each; a sample hits one in ten.
    for thread in 0..1000_i64 {
        let (name, start) = (format!("{thread}"), thread * MS);
        sample.state(&name, ThreadState::Running, start, MS / 10);
        if thread % 10 == 0 {
            let function = if thread % 40 == 0 { "rare" } else { "usual" };
            sample.taken("1", &name, clock, MS, start + MS / 20, &[function]);
        }
    }
    check(&mut sample, &[("usual", 75_000), ("rare", 25_000)]);
}

#[test]
fn time_far_from_any_sample_is_nobodys() {
    let mut sample = Sample::default();
    let clock = sample.event("cpu-clock", "ns", Some(MS));
    sample.state("1", ThreadState::Running, 0, 1000 * MS);
    for tick in 900..1000 {
        sample.taken("1", "1", clock, MS, tick * MS, &["work"]);
    }
    let trace = sample.finish();
    let facts = Facts::new(&trace);
    // The first sample speaks for four of its intervals.
    assert_eq!(facts.cpu_time().no_sample_ns(), i128::from(896 * MS));
    assert_eq!(own(&trace), [("work".to_owned(), 104_000)]);
}

#[test]
fn threads_without_any_sample_are_shown() {
    let mut sample = Sample::default();
    sample.state("1", ThreadState::Running, 0, 10 * MS);
    sample.state("1", ThreadState::Runnable(RunnableSince::Preempted), 10 * MS, MS);
    let trace = sample.finish();
    let facts = Facts::new(&trace);
    assert_eq!(facts.cpu_time().total_ns(), i128::from(10 * MS));
    assert_eq!(facts.cpu_time().no_sample_ns(), i128::from(10 * MS));
}

#[test]
fn what_calls_itself_counts_once_in_total() {
    let mut sample = Sample::default();
    let clock = sample.event("cpu-clock", "ns", Some(MS));
    sample.taken("1", "1", clock, MS, 0, &["main", "f", "g", "f"]);
    sample.taken("1", "1", clock, MS, MS, &["main", "f"]);
    let trace = sample.finish();
    let found = cpu_functions(&Facts::new(&trace), FunctionBy::Function);
    let rows: Vec<_> =
        found.rows.iter().map(|row| (&*row.name, row.own / 1000, row.total / 1000)).collect();
    assert_eq!(rows, [("f", 2000, 2000), ("main", 0, 2000), ("g", 0, 1000)]);
}

#[test]
fn a_function_has_the_line_that_it_spent_most_of_its_own_time_in() {
    let mut sample = Sample::default();
    let clock = sample.event("cpu-clock", "ns", Some(MS));
    let (main, calls) = ("main@a.c:3", "work@a.c:12");
    let stacks: [&[&str]; 7] = [
        &["main@a.c:4", "work@a.c:11"],
        &[main, calls],
        &[main, calls],
        // Where it calls another it is not itself executed.
        &[main, "work@a.c:14", "helper"],
        &[main, "work@a.c:14", "helper"],
        &[main, "work@a.c:14", "helper"],
        &[main, "helper"],
    ];
    for (time, stack) in (0..).zip(stacks) {
        sample.taken("1", "1", clock, MS, time * MS, stack);
    }
    let trace = sample.finish();
    let facts = Facts::new(&trace);
    let found = cpu_functions(&facts, FunctionBy::Function);
    let line = |line: &HottestLine| (format!("{}:{}", line.file, line.line), line.own / 1000);
    let rows: Vec<_> = found
        .rows
        .iter()
        .map(|row| (&*row.name, &*row.file, row.hottest.as_ref().map(line)))
        .collect();
    let hottest = Some(("a.c:12".to_owned(), 2000));
    assert_eq!(rows, [("helper", "", None), ("work", "a.c", hottest), ("main", "a.c", None)]);
    let lines = native_lines(&facts);
    let rows: Vec<_> = lines
        .rows
        .iter()
        .map(|row| (&*row.name, row.line, row.own / 1000, row.total / 1000))
        .collect();
    let expected = [
        ("work", 12, 2000, 2000),
        ("work", 11, 1000, 1000),
        ("main", 3, 0, 6000),
        ("work", 14, 0, 3000),
        ("main", 4, 0, 1000),
    ];
    assert_eq!((rows, lines.total / 1000), (expected.to_vec(), 7000));
}

#[test]
fn other_events_are_ranked_by_what_they_count() {
    let mut sample = Sample::default();
    let clock = sample.event("cpu-clock", "ns", Some(MS));
    let faults = sample.event("page-faults", "faults", None);
    sample.taken("1", "1", clock, MS, 0, &["main"]);
    sample.taken("1", "1", faults, 1, 1, &["first"]);
    for time in 2..5 {
        sample.taken("1", "1", faults, 1, time, &["many"]);
    }
    let trace = sample.finish();
    let facts = Facts::new(&trace);
    let others = other_events(&facts, FunctionBy::Function);
    let [faults] = &others[..] else { panic!("one event") };
    let rows: Vec<_> = faults.rows.iter().map(|row| (&*row.name, row.own)).collect();
    assert_eq!((&*faults.unit, rows), ("faults", vec![("many", 3), ("first", 1)]));
    let shares = faults.rows.iter().map(|row| faults.percent(row.own)).collect::<Vec<_>>();
    assert_eq!(shares, [75.0, 25.0]);
}

#[test]
fn errors_shrink_with_samples_and_are_never_zero() {
    let error = |samples, all| {
        let functions = SampledFunctions { samples: all, ..SampledFunctions::default() };
        functions.error_percent(samples).map(|percent| (percent * 10.0).round() / 10.0)
    };
    assert_eq!(error(50, 100), Some(9.6));
    assert_eq!(error(5000, 10_000), Some(1.0));
    assert_eq!(error(100, 100), Some(1.8));
    assert_eq!(error(0, 0), None);
}
