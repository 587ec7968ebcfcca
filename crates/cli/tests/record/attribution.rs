//! Whether samples of Python programs stand under the function that ran, beside what the program
//! itself writes down, on a machine that has more to do than it can.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use spanwise_analyze::Facts;
use spanwise_model::{StackId, Trace, TrackId};

use crate::bench::{Bench, Running, text};
use crate::python::interpreters;

/// Enough samples in a second that chance alone makes no error worth speaking of.
const RATE_HZ: &str = "2999";

/// The recorder gets its turn late: with so much of each stack, rings have room until then.
const STACK_BYTES: &str = "8192";

const SECONDS: &str = "1.2";

/// A recording in which a processor was busy with others at a bad time is made anew.
const TRIES: usize = 3;

/// A call as the program saw it.
struct NotedCall {
    function: String,
    start: i64,
    end: i64,
}

/// What the program wrote down.
#[derive(Default)]
struct Notes {
    /// By thread, in order of time.
    calls: BTreeMap<String, Vec<NotedCall>>,
    cpu_ns: BTreeMap<String, i128>,
}

impl Notes {
    fn read(path: &Path) -> Notes {
        let mut notes = Notes::default();
        for line in fs::read_to_string(path).expect("written at its end").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<i64>().expect("a number");
            let (function, start, end) = (words[1].to_owned(), number(2), number(3));
            *notes.cpu_ns.entry(function.clone()).or_default() += i128::from(number(4));
            let calls = notes.calls.entry(words[0].to_owned()).or_default();
            calls.push(NotedCall { function, start, end });
        }
        notes
    }

    fn at(&self, thread: &str, time: i64) -> Option<&str> {
        let calls = self.calls.get(thread)?;
        let after = calls.partition_point(|call| call.start <= time);
        let call = calls[..after].last().filter(|call| time < call.end)?;
        Some(&call.function)
    }
}

/// How the recording compares with what the program wrote.
#[derive(Debug, Default)]
struct Comparison {
    judged: u64,
    right: u64,
    /// Those with a function that are not labeled as uncertain.
    certain: u64,
    certain_right: u64,
    cpu_ns: BTreeMap<String, i128>,
}

/// The function on a stack that the program knows of.
fn noted_function<'a>(trace: &Arc<Trace>, stack: StackId, notes: &'a Notes) -> Option<&'a str> {
    let stacks = trace.stacks();
    let mut at = stack;
    while let Some(frame) = stacks.frame(at) {
        let name = trace.strings().get(trace.frames().get(frame).function);
        let known = notes.cpu_ns.keys().find(|known| {
            name.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with(" ("))
        });
        if let Some(known) = known {
            return Some(known);
        }
        at = stacks.parent(at);
    }
    None
}

/// Whether a stack says that its functions of Python are of another moment.
fn is_uncertain(trace: &Trace, stack: StackId) -> bool {
    let mut frames = trace.stacks().frames(stack).map(|frame| trace.frames().get(frame));
    frames.any(|frame| trace.strings().get(frame.function) == "[uncertain Python]")
}

fn compare(trace: &Arc<Trace>, notes: &Notes) -> Comparison {
    let (facts, samples) = (Facts::new(trace), trace.samples());
    let time = facts.cpu_time();
    let mut found = Comparison::default();
    for row in (0..samples.len()).filter(|&row| Some(samples.event[row]) == time.event) {
        let function = noted_function(trace, StackId(samples.stack[row]), notes);
        if let Some(function) = function {
            let sum = found.cpu_ns.entry(function.to_owned()).or_default();
            *sum += i128::from(time.sample_ns[row]);
        }
        let track = trace.tracks().get(TrackId(samples.track[row]));
        let thread = trace.strings().get(track.thread);
        if let Some(expected) = notes.at(thread, samples.time[row]) {
            found.judged += 1;
            found.right += u64::from(function == Some(expected));
            if function.is_some() && !is_uncertain(trace, StackId(samples.stack[row])) {
                found.certain += 1;
                found.certain_right += u64::from(function == Some(expected));
            }
        }
    }
    found
}

impl Comparison {
    fn right_percent(&self) -> f64 {
        100.0 * self.right as f64 / self.judged.max(1) as f64
    }

    /// The largest error of a function's processor time, in percent of that.
    fn error_percent(&self, notes: &Notes) -> f64 {
        let errors = notes.cpu_ns.iter().map(|(function, &expected)| {
            let found = self.cpu_ns.get(function).copied().unwrap_or(0);
            100.0 * (found - expected).abs() as f64 / expected.max(1) as f64
        });
        errors.fold(0.0, f64::max)
    }
}

/// Twice as many as there are processors.
fn busy_processes() -> Vec<Running> {
    let count = std::thread::available_parallelism().map_or(1, usize::from) * 2;
    let busy = || Running::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    (0..count).map(|_| busy()).collect()
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs/attribution.py")
}

fn record(bench: &Bench, python: &Path, mode: &str, folder: &str) -> (Arc<Trace>, Notes) {
    let run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", folder]);
    record_by(run, bench, python, mode, folder)
}

fn record_by(
    mut run: Command,
    bench: &Bench,
    python: &Path,
    mode: &str,
    folder: &str,
) -> (Arc<Trace>, Notes) {
    let notes = bench.path(&format!("{folder}.notes"));
    run.args(["--rate", RATE_HZ, "--stack-bytes", STACK_BYTES, "--"]);
    let output = run.arg(python).arg(script()).args([mode, SECONDS]).arg(&notes).output();
    let output = output.expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    (bench.open(folder).into(), Notes::read(&notes))
}

/// Samples are right, and so are sums.
fn check(mode: &str, interpreters: &[PathBuf]) {
    let Some(bench) = Bench::with("functions of Python") else { return };
    if !bench.copies_frames() {
        return;
    }
    let _busy = busy_processes();
    for (round, python) in interpreters.iter().enumerate() {
        let is_right = (0..TRIES).any(|again| {
            let (trace, notes) = record(&bench, python, mode, &format!("{mode}{round}-{again}"));
            let found = compare(&trace, &notes);
            let (right, error) = (found.right_percent(), found.error_percent(&notes));
            let judged = found.judged;
            eprintln!(
                "{mode} {}: {right:.2} % of {judged} right, {error:.2} % off",
                python.display()
            );
            right >= 98.0 && error <= 5.0 && judged > 1000
        });
        assert!(is_right, "{mode} {python:?}");
    }
}

/// The layouts of stacks differ between interpreters; how readings and samples meet does not.
/// So one kind of program runs on all of them, and the others on the oldest and the newest.
fn oldest_and_newest() -> Vec<PathBuf> {
    let all = interpreters();
    let newest = all.last().filter(|_| all.len() > 1);
    all.first().into_iter().chain(newest).cloned().collect()
}

#[test]
fn functions_of_equal_time_have_equal_time() {
    check("equal", &interpreters());
}

#[test]
fn calls_of_the_system_between_functions_change_nothing() {
    check("clocks", &oldest_and_newest());
}

#[test]
fn short_functions_that_are_called_by_turns_are_each_right() {
    check("short", &oldest_and_newest());
}

#[test]
fn threads_that_share_the_gil_are_each_right() {
    check("threads", &oldest_and_newest());
}

#[test]
fn native_work_stands_under_the_function_that_asked_for_it() {
    check("native", &oldest_and_newest());
}

#[test]
fn without_bpf_samples_that_may_be_wrong_say_so() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    for (round, python) in interpreters().iter().enumerate() {
        let folder = format!("without{round}");
        let args = ["run", "--quiet", "--no-decode", "--recording", &folder];
        let Some(run) = bench.without_bpf(&args) else { return };
        let (trace, notes) = record_by(run, &bench, python, "short", &folder);
        let found = compare(&trace, &notes);
        let Comparison { judged, right, certain, certain_right, .. } = found;
        eprintln!(
            "{}: {right} of {judged} right, {certain_right} of {certain} that are certain",
            python.display()
        );
        assert!(judged > 500, "{found:?}");
        // Readings some milliseconds apart say little of functions that run for less.
        assert!(100 * right < 95 * judged, "{found:?}");
        assert!(100 * certain_right >= 98 * certain, "{found:?}");
        // What is uncertain has functions all the same.
        assert!(found.cpu_ns.values().sum::<i128>() > 0, "{found:?}");
    }
}
