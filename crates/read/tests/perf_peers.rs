//! What perf itself says about the same recordings: functions by every event, and how long
//! threads ran from switch to switch.
#![expect(clippy::print_stderr, reason = "a test that skips something says so")]

mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spanwise_model::{FrameKind, Nanos, ThreadState, Trace};
use spanwise_read::{IndexUse, OpenOptions};
use traces::{at_root, files_below};

/// Functions that take time, page faults or both, under names that no library has.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) void peer_spins(void) {
    for (long i = 0; i < 40000000; i++) sink += i;
}
__attribute__((noinline)) void peer_spins_less(void) {
    for (long i = 0; i < 15000000; i++) sink += i;
}
__attribute__((noinline)) void peer_faults(void) {
    for (int round = 0; round < 20; round++) {
        char *all = aligned_alloc(4096, 4096 * 64);
        for (int page = 0; page < 64; page++) all[page * 4096] = 1;
        sink += all[0];
    }
}
__attribute__((noinline)) void peer_sleeps(void) { for (int i = 0; i < 20; i++) usleep(2000); }
int main(void) { peer_faults(); peer_spins(); peer_sleeps(); peer_spins_less(); return 0; }
"#;

fn compiled(folder: &Path) -> Option<PathBuf> {
    let (source, program) = (folder.join("peer.c"), folder.join("peer"));
    std::fs::write(&source, PROGRAM).expect("a folder of ours");
    let done = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(&source).output();
    match done {
        Ok(done) if done.status.success() => Some(program),
        other => {
            eprintln!("skipped: cc: {other:?}");
            None
        }
    }
}

/// Runs perf; `None`, with a word about it, where that does not work.
fn perf(args: &[&str], path: &Path, program: Option<&Path>) -> Option<String> {
    let mut perf = Command::new("perf");
    perf.args(args).arg(if args[0] == "record" { "-o" } else { "-i" }).arg(path);
    if let Some(program) = program {
        perf.arg("--").arg(program);
    }
    match perf.stdin(Stdio::null()).output() {
        Ok(done) if done.status.success() => {
            Some(String::from_utf8_lossy(&done.stdout).into_owned())
        }
        other => {
            eprintln!("skipped: perf {args:?}: {other:?}");
            None
        }
    }
}

fn open(path: &Path) -> Trace {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(path, &options).expect("a recording of perf");
    assert_eq!(trace.check(), Ok(()));
    trace
}

/// Weight and samples by event and innermost function, whatever was put into it.
type Shares = BTreeMap<String, BTreeMap<String, (i64, u64)>>;

fn ours(trace: &Trace) -> Shares {
    let mut shares = Shares::new();
    for sample in trace.samples().iter() {
        let event = trace.sample_events().rows()[usize::from(sample.event)].name;
        let mut frames = trace.stacks().frames(sample.stack).map(|id| trace.frames().get(id));
        let frame = frames.find(|frame| !frame.is_inlined);
        let function = frame.filter(|frame| frame.kind == FrameKind::Native);
        let function = function.map_or("", |frame| trace.strings().get(frame.function));
        let events = shares.entry(trace.strings().get(event).to_owned()).or_default();
        let sum = events.entry(function.to_owned()).or_default();
        *sum = (sum.0 + sample.weight, sum.1 + 1);
    }
    shares
}

/// `perf report` of a recording, by event: period, samples and name of each function, which stands
/// in this column.
fn of_perf(text: &str, name_at: usize) -> Shares {
    let mut shares = Shares::new();
    let mut event = String::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" of event '") {
            event = rest.split('\'').next().unwrap_or_default().to_owned();
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let ([_, samples, period, ..], Some(name)) = (&words[..], words.get(name_at)) else {
            continue;
        };
        if let (Ok(samples @ 1..), Ok(period)) = (samples.parse::<u64>(), period.parse::<i64>()) {
            let sum =
                shares.entry(event.clone()).or_default().entry((*name).to_owned()).or_default();
            *sum = (sum.0 + period, sum.1 + samples);
        }
    }
    shares
}

#[test]
fn functions_have_the_shares_that_perf_report_gives_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled(folder.path()) else { return };
    let records: [&[&str]; 4] = [
        &["record", "-q", "-F", "999", "-e", "cpu-clock", "-g"],
        &["record", "-q", "-e", "page-faults", "-c", "1", "-g"],
        &["record", "-q", "-e", "cpu-clock,page-faults", "-c", "10000", "-g"],
        &["record", "-q", "-F", "499", "-e", "cpu-clock:u,cpu-clock:k"],
    ];
    let data = folder.path().join("perf.data");
    for record in records {
        if perf(record, &data, Some(&program)).is_none() {
            return;
        }
        let report = ["report", "--stdio", "-g", "none", "--percent-limit", "0", "-s", "sym"];
        let report = [&report[..], &["-F", "overhead,sample,period,sym", "--no-inline"]].concat();
        let Some(text) = perf(&report, &data, None) else { return };
        let (ours, theirs) = (ours(&open(&data)), of_perf(&text, 4));
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        for (event, theirs) in &theirs {
            let ours = &ours[event];
            let all = |shares: &BTreeMap<String, (i64, u64)>| {
                shares.values().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1))
            };
            assert_eq!(all(ours), all(theirs), "{record:?} {event}: all");
            let own = |name: &&String| name.starts_with("peer_");
            for name in theirs.keys().filter(own) {
                assert_eq!(ours.get(name), theirs.get(name), "{record:?} {event}: {name}");
            }
            assert_eq!(ours.keys().filter(own).count(), theirs.keys().filter(own).count());
        }
        assert!(
            theirs
                .values()
                .any(|rows| rows.contains_key("peer_spins") || rows.contains_key("peer_faults"))
        );
    }
}

/// Weight and samples by event and mapped file of the innermost function.
fn ours_by_file(trace: &Trace) -> Shares {
    let mut shares = Shares::new();
    for sample in trace.samples().iter() {
        let event = trace.sample_events().rows()[usize::from(sample.event)].name;
        let frame = trace.stacks().frame(sample.stack).map(|id| trace.frames().get(id));
        let path = frame.map_or("", |frame| trace.strings().get(frame.mapping));
        let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("[unknown]");
        let events = shares.entry(trace.strings().get(event).to_owned()).or_default();
        let sum = events.entry(name.to_owned()).or_default();
        *sum = (sum.0 + sample.weight, sum.1 + 1);
    }
    shares
}

/// Recordings of others, whose programs are not here: by file, since names are in the programs.
#[test]
fn files_of_recorded_programs_have_the_shares_that_perf_report_gives_them() {
    let mut compared = 0;
    for folder in ["../shared/corpora/perf", "../shared/corpora/producers"] {
        let folder = at_root(folder);
        if !folder.exists() {
            eprintln!("skipped: {} is not there", folder.display());
            continue;
        }
        let is_recording =
            |path: &PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"PERFILE2"));
        for path in files_below(&folder).into_iter().filter(is_recording) {
            let report = ["report", "--stdio", "--force", "-g", "none", "--no-children"];
            let columns = ["--percent-limit", "0", "-F", "overhead,sample,period,dso", "-s", "dso"];
            // perf does not read the recordings of all of its versions.
            let Some(text) = perf(&[&report[..], &columns].concat(), &path, None) else { continue };
            let (ours, theirs) = (ours_by_file(&open(&path)), of_perf(&text, 3));
            for (event, theirs) in theirs {
                assert_eq!(ours.get(&event), Some(&theirs), "{} {event}", path.display());
                compared += 1;
            }
        }
    }
    if compared == 0 {
        eprintln!("skipped: no recording that this perf reads");
    }
}

/// Runs of threads as `perf sched timehist` lists them: thread, when it left, how long it ran.
fn runs(text: &str) -> Vec<(i64, Nanos, Nanos)> {
    let micros = |text: &str| {
        let (whole, part) = text.split_once('.')?;
        let scale = 10_i64.pow(9_u32.checked_sub(part.len() as u32)?);
        Some(whole.parse::<i64>().ok()? * 1_000_000_000 + part.parse::<i64>().ok()? * scale)
    };
    let row = |line: &str| {
        let (time, rest) = line.trim_start().split_once(" [")?;
        let (_, rest) = rest.split_once(']')?;
        let numbers: Vec<&str> = rest.split_whitespace().rev().take(3).collect();
        let [run, ..] = numbers[..] else { return None };
        let bracket = rest.rfind('[')?;
        let inside = rest[bracket + 1..].split(']').next()?;
        let tid = inside.split('/').next()?.parse().ok()?;
        // Run times are in milliseconds.
        Some((tid, micros(time)?, micros(run)? / 1000))
    };
    text.lines().filter_map(row).collect()
}

/// When threads left after a switch that brought them, in microseconds. Some machines do not record
/// each of those, and then perf takes the thread for one that has run since long before.
fn seen_from_start_to_end(text: &str) -> BTreeSet<(i64, Nanos)> {
    let number = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key)?;
        rest.split_whitespace().next()?.parse::<i64>().ok()
    };
    let mut running = BTreeSet::new();
    let mut whole = BTreeSet::new();
    for line in text.lines() {
        let (Some(out), Some(next)) = (number(line, "prev_pid="), number(line, "next_pid=")) else {
            continue;
        };
        let time = line.split_whitespace().find_map(|word| {
            let (seconds, micros) = word.strip_suffix(':')?.split_once('.')?;
            Some(seconds.parse::<i64>().ok()? * 1_000_000 + micros.parse::<i64>().ok()?)
        });
        if running.remove(&out)
            && let Some(time) = time
        {
            whole.insert((out, time));
        }
        running.insert(next);
    }
    whole
}

#[test]
fn threads_run_as_long_as_perf_sched_timehist_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled(folder.path()) else { return };
    let data = folder.path().join("sched.data");
    let mut record = Command::new("perf");
    record.args(["sched", "record", "-q", "-o"]).arg(&data).arg("--").arg(&program);
    let recorded = record.stdin(Stdio::null()).output();
    if !recorded.as_ref().is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: perf sched record: {recorded:?}");
        return;
    }
    let Some(text) = perf(&["sched", "timehist"], &data, None) else { return };
    let fields = ["script", "-F", "cpu,time,event,trace"];
    let Some(script) = perf(&fields, &data, None) else { return };
    let whole = seen_from_start_to_end(&script);
    let trace = open(&data);
    let mut running: BTreeMap<(i64, Nanos), Nanos> = BTreeMap::new();
    for state in trace.thread_states().iter().filter(|row| row.state == ThreadState::Running) {
        let thread = trace.strings().get(trace.tracks().get(state.track).thread);
        let Ok(tid) = thread.parse() else { continue };
        // perf prints microseconds.
        running.insert((tid, (state.start + state.dur) / 1000), state.dur);
    }
    let runs = runs(&text);
    let mut compared = 0;
    // Idle loops, and threads that perf lost sight of, have no number.
    let is_whole = |tid: i64, left: Nanos| whole.contains(&(tid, left / 1000));
    let is_compared = |&&(tid, left, ran): &&_| tid > 0 && ran > 0 && is_whole(tid, left);
    for &(tid, left, ran) in runs.iter().filter(is_compared) {
        let near = [-1, 0, 1].into_iter().find_map(|by| running.get(&(tid, left / 1000 + by)));
        let ours = near.unwrap_or_else(|| panic!("thread {tid} leaves at {left}"));
        assert!((ours - ran).abs() <= 1000, "thread {tid} at {left}: {ours} for {ran}");
        compared += 1;
    }
    assert!(compared > 20, "{compared} runs in:\n{text}");
}
