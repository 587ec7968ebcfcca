//! Waits: for what, for how long, who ended them, and whose stacks are there where they are many.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use spanwise_analyze::{Facts, wait_stacks};
use spanwise_model::{BlockedOn, StackId, ThreadState, Trace};

use crate::bench::{Bench, stacks_of, text, time_of};

/// Runs the program so; gives the trace and the numbers that it prints, nanoseconds.
#[track_caller]
fn record(bench: &Bench, options: &[&str], args: &[&str]) -> Option<(Trace, Vec<i128>)> {
    let program = bench.compile("waits.c", "waits", &["-g", "-O1"])?;
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", "r"]);
    let output = run.args(options).arg("--").arg(program).args(args).output().expect("built");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let numbers = said.split_whitespace().map(|word| word.parse().expect("a number"));
    Some((bench.open("r"), numbers.collect()))
}

/// The program waits in this way alone: almost all of the time that it tells has this reason.
#[track_caller]
fn check(how: &str, on: BlockedOn) {
    check_args(&[how], on);
}

#[track_caller]
fn check_args(how: &[&str], on: BlockedOn) {
    let Some(bench) = bench_with_kernel() else { return };
    let Some(program) = bench.compile("waits.c", "waits", &["-g", "-O1"]) else { return };
    if matches!(how[0], "read" | "fault") {
        // What is read was written by a program that nobody records.
        let mut writing = Command::new(&program);
        writing.args(["write", "400"]).current_dir(bench.path("")).stdout(Stdio::null());
        assert!(writing.status().expect("just compiled").success());
    }
    let Some((trace, told)) = record(&bench, &["--wait-threshold", "1us"], how) else { return };
    let name = ThreadState::Blocked(on).span_name();
    let (found, _) = time_of(&trace, &name);
    let of_cpu: i128 = ["[waiting for a CPU]", "[waiting for a CPU: preempted]"]
        .iter()
        .map(|name| time_of(&trace, name).0)
        .sum();
    // What it ran and waited for a processor meanwhile is a part of what it tells: much of it where
    // the disk is quick, or the machine busy.
    let states = trace.thread_states();
    let sum = |is_wanted: fn(ThreadState) -> bool| -> i128 {
        let rows = states.iter().filter(|row| is_wanted(row.state));
        rows.map(|row| i128::from(row.dur)).sum()
    };
    let ran = sum(|state| state == ThreadState::Running);
    let blocked = sum(|state| matches!(state, ThreadState::Blocked(_)));
    let (least, most) = (told[0] * 7 / 10 - of_cpu - ran, told[0] + told[0] / 20);
    // A thread on the other side waits as well.
    let is_most_of_waits = found > 0 && found * 3 > blocked;
    assert!(
        (least..=most).contains(&found) && is_most_of_waits,
        "{how:?}: {name} {found} of {}, {of_cpu} for a CPU, {ran} running, {blocked} blocked",
        told[0]
    );
}

/// Stacks of waits show the kernel's part where one may look there.
fn bench_with_kernel() -> Option<Bench> {
    Bench::with("kernel")
}

#[test]
fn disks_pipes_and_sockets_are_different_reasons() {
    check("fsync", BlockedOn::Fsync);
    check("pipe", BlockedOn::Pipe);
    check("socket", BlockedOn::Socket);
}

#[test]
fn reads_from_a_disk_and_pages_of_a_file_are_different_reasons() {
    check_args(&["read", "400"], BlockedOn::DiskRead);
    check_args(&["fault", "400"], BlockedOn::PageFault);
}

#[test]
fn conditions_and_mutexes_are_different_reasons() {
    check("condition", BlockedOn::Condition);
    check("mutex", BlockedOn::Mutex);
}

#[test]
fn who_polls_is_idle() {
    assert!(BlockedOn::Poll.is_idle());
    check("epoll", BlockedOn::Poll);
}

#[test]
fn children_sleep_file_locks_and_stops_are_told() {
    check("child", BlockedOn::Child);
    check("sleep", BlockedOn::Sleep);
    check("flock", BlockedOn::FileLock);
    check("stop", BlockedOn::Stopped);
}

/// Wake-ups need a program in the kernel, as the clock of processors does.
fn records_wakeups(bench: &Bench) -> bool {
    let about = std::fs::read_to_string(bench.path("r").join("recording.json"));
    let is_recorded = about.is_ok_and(|about| about.contains("\"wakeups\": true"));
    if !is_recorded {
        eprintln!("skipped: no programs in the kernel");
    }
    is_recorded
}

#[test]
fn a_woken_thread_waits_for_a_processor_and_not_for_a_pipe() {
    let Some(bench) = bench_with_kernel() else { return };
    let Some((trace, told)) = record(&bench, &[], &["processor", "20"]) else { return };
    if !records_wakeups(&bench) {
        return;
    }
    let (found, _) = time_of(&trace, "[waiting for a CPU]");
    // Others of its threads wait for the processor as well.
    assert!(found * 10 > told[0] * 9 && told[0] > 20_000_000, "{found} of {}", told[0]);
    let pipe = stacks_of(&trace, "[blocked: pipe]");
    assert!(pipe.len() >= 19, "{} waits for the pipe", pipe.len());
    assert!(stacks_of(&trace, "[wakes]").len() >= 19, "the other thread has ended them");
    // Without, nothing is said about it.
    let (alone, _) = record_without_wakeups(&bench);
    assert_eq!(time_of(&alone, "[waiting for a CPU]").0, 0);
}

fn record_without_wakeups(bench: &Bench) -> (Trace, String) {
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", "without"]);
    run.args(["--switches", "never", "--"]).arg(bench.path("waits")).args(["pipe", "3"]);
    let output = run.output().expect("built for this test");
    (bench.open("without"), text(&output.stderr))
}

/// Sums of periods by function of the program, of all events of waits, as perf reads them.
fn weights(recording: &Path) -> Option<BTreeMap<String, u64>> {
    let mut perf = Command::new("perf");
    perf.args(["script", "-F", "event,period,ip,sym", "-i"]).arg(recording.join("perf.data"));
    let Ok(output) = perf.output() else {
        eprintln!("skipped: there is no perf");
        return None;
    };
    let (mut sums, mut period) = (BTreeMap::new(), None);
    for line in text(&output.stdout).lines() {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if second.starts_with("offcpu-time") {
            period = first.parse::<u64>().ok();
        } else if second == "wait_a_third" || second == "wait_longer" {
            *sums.entry(second.to_owned()).or_default() += period.take().unwrap_or(0);
        } else if line.is_empty() {
            period = None;
        }
    }
    Some(sums)
}

#[test]
fn short_waits_have_stacks_that_stand_for_all_of_them() {
    let Some(bench) = bench_with_kernel() else { return };
    let Some((_, told)) = record(&bench, &["--wait-threshold", "20ms"], &["brief", "3000"]) else {
        return;
    };
    if !records_wakeups(&bench) {
        return;
    }
    let Some(weights) = weights(&bench.path("r")) else { return };
    let of = |name: &str| weights.get(name).copied().map_or(0, i128::from);
    let (third, longer) = (of("wait_a_third"), of("wait_longer"));
    let (told_third, told_longer) = (told[0], told[1]);
    // What the program tells has its own part of the calls in it.
    let sum = (third + longer) as f64 / (told_third + told_longer) as f64;
    assert!((0.8..1.05).contains(&sum), "{third} + {longer} of {told:?}");
    let share = third as f64 / (third + longer) as f64;
    let expected = told_third as f64 / (told_third + told_longer) as f64;
    assert!((share - expected).abs() < 0.1, "{share} {expected}: {weights:?} {told:?}");
}

#[test]
fn without_bpf_waits_that_have_no_stack_are_counted() {
    let Some(bench) = bench_with_kernel() else { return };
    let Some(program) = bench.compile("waits.c", "waits", &["-g", "-O1"]) else { return };
    let args = ["run", "--quiet", "--no-decode", "--recording", "r"];
    let Some(mut run) = bench.without_bpf(&args) else { return };
    let output = run.arg("--").arg(program).args(["brief", "6000"]).output().expect("built");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = bench.open("r");
    let blocked = |state| matches!(state, ThreadState::Blocked(_));
    let states = trace.thread_states().iter().filter(|row| blocked(row.state));
    let missing = states.filter(|row| row.stack == StackId::EMPTY).count() as u64;
    let without = wait_stacks(&Facts::new(&trace.into())).without;
    assert_eq!(without.count, missing);
    assert!(missing > 1000, "{missing}: more waits in a second than stacks are taken of");
    let report = bench.run(&["report", "--no-index", "--section", "waits", "r"]);
    let report = text(&report.stdout);
    let title = report.lines().next().expect("a title");
    let count = format!("{},{:03} waits (", missing / 1000, missing % 1000);
    assert!(title.contains(&count) && title.ends_with(" without a stack"), "{title}");
}
