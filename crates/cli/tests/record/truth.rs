//! CPU time by function, beside what programs of known CPU time count themselves.
//!
//! Only CPU time is compared, never how long something took, so that other work on the machine
//! changes nothing but what threads wait for.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use spanwise_analyze::{
    Facts, FunctionBy, SampledFunction, SampledFunctions, cpu_functions, python_functions,
};
use spanwise_model::{FrameKind, RunnableSince, StateRow, ThreadState, Trace};

use crate::bench::{Bench, text};

/// What a program says of itself: nanoseconds by function, and sums.
type Truth = BTreeMap<String, i128>;

/// Beside what chance may do, by the report's own words.
const OFF_MAX_PERCENT: i128 = 3;

/// Often enough that chance does not decide, where stacks are small. Not for threads that sleep
/// while the processor has nothing else to do: the kernel lets timers that are nearly due go off
/// with the next one, so that such threads would begin to run with a sample, and be sampled again
/// at the same place.
const OFTEN: [&str; 4] = ["--rate", "1999", "--stacks", "fp"];

/// Runs a program, recorded so.
#[track_caller]
fn record(bench: &Bench, options: &[&str], program: &[&str]) -> (Arc<Trace>, Truth) {
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", "r"]);
    let output = run.args(options).arg("--").args(program).output().expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let told = said.lines().filter_map(|line| {
        let (name, ns) = line.split_once(' ')?;
        Some((name.to_owned(), ns.parse().ok()?))
    });
    (bench.open("r").into(), told.collect())
}

#[track_caller]
fn check_near(what: &str, found: i128, expected: i128, by_chance: i128) {
    let most = expected * OFF_MAX_PERCENT / 100 + by_chance;
    assert!(
        (found - expected).abs() <= most,
        "{what}: {found} ns, the program says {expected}: {most} more or less would do"
    );
}

/// By how much the time of a function may be off by chance, as the report prints it.
fn by_chance(functions: &SampledFunctions, row: &SampledFunction) -> i128 {
    let percent = functions.error_percent(row.total_samples).expect("there are samples");
    (functions.total as f64 * percent / 100.0) as i128
}

#[track_caller]
fn check_functions(functions: &SampledFunctions, truth: &Truth, names: &[&str], kind: FrameKind) {
    for &name in names {
        let is_it =
            |row: &&SampledFunction| row.kind == kind && row.name.split(' ').next() == Some(name);
        let row = functions.rows.iter().find(is_it).expect(name);
        check_near(name, row.total, truth[name], by_chance(functions, row));
    }
}

/// Time of all threads together in such states.
fn time_in(trace: &Arc<Trace>, is_wanted: impl Fn(ThreadState) -> bool) -> i128 {
    let states = trace.thread_states().iter_counted();
    states.filter(|row| is_wanted(row.state)).map(|row| i128::from(row.dur)).sum()
}

/// The program is compiled, where something can be recorded that says when threads run.
fn truth_program() -> Option<(Bench, String)> {
    let bench = Bench::with("when threads wait")?;
    let program = bench.compile("truth.c", "truth", &["-fno-omit-frame-pointer"])?;
    let program = program.to_str().expect("a plain path").to_owned();
    Some((bench, program))
}

#[track_caller]
fn check(options: &[&str], args: &[&str], names: &[&str]) {
    let Some((bench, program)) = truth_program() else { return };
    let (trace, truth) = record(&bench, options, &[&[&*program], args].concat());
    let facts = Facts::new(&trace);
    let functions = cpu_functions(&facts, FunctionBy::Function);
    check_functions(&functions, &truth, names, FrameKind::Native);
    assert!(functions.no_sample * 50 <= functions.total, "{} ns unknown", functions.no_sample);
    // Where switches were too many to be recorded, there is chance in the sum as well.
    let running = time_in(&trace, |state| state == ThreadState::Running);
    let without_states = functions.total - running;
    let interval = i128::from(facts.cpu_time().interval_ns);
    let spread = ((without_states / interval) as f64).sqrt() * 1.96;
    check_near("all", functions.total, truth["all"], (spread * interval as f64) as i128);
    if without_states == 0 {
        let waits_for_cpu = |state| match state {
            ThreadState::Runnable(since) => since != RunnableSince::Created,
            _ => false,
        };
        let runnable = time_in(&trace, waits_for_cpu);
        // The first and last of each thread are not in the kernel's file, or not in the recording.
        let threads = trace.tracks().len() as i128;
        // The kernel counts from when a thread stands in the queue of its processor, and we from
        // when it was woken: where another processor does that, the two are some time apart.
        let counted = truth["runnable"];
        let is_woken = |row: &StateRow| row.state == ThreadState::Runnable(RunnableSince::Woken);
        let wakes = trace.thread_states().iter().filter(is_woken).count() as i128;
        if counted > 0 && threads == 1 {
            let range = counted - 20_000_000..=counted + 20_000_000 + wakes * 200_000;
            assert!(range.contains(&runnable), "runnable: {runnable} ns, the kernel: {counted}");
        }
    }
}

#[test]
fn bursts_between_naps_count_like_work_in_one_piece() {
    check(&[], &["bursts", "5000"], &["short_bursts", "long_stretch"]);
}

#[test]
fn functions_of_500_threads_have_their_time() {
    check(&OFTEN, &["threads", "500", "4"], &["short_bursts", "long_stretch"]);
}

#[test]
fn functions_of_3000_short_processes_have_their_time() {
    check(&OFTEN, &["forks", "3000", "300"], &["child_works"]);
}

#[test]
fn jobs_of_a_pool_of_processes_have_their_time() {
    let Some(bench) = Bench::with("when threads wait") else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/programs/truth.py");
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: there is no Python");
    }
    let (trace, truth) = record(&bench, &["--rate", "999"], &["python3", script, "14"]);
    let facts = Facts::new(&trace);
    let python = python_functions(&facts, FunctionBy::Function);
    if python.functions.rows.is_empty() {
        return eprintln!("skipped: this version of Python is not read");
    }
    check_functions(&python.functions, &truth, &["short_job", "long_job"], FrameKind::Python);
}
