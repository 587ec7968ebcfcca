//! What perf itself says about the same recordings: functions by every event, and how long
//! threads ran from switch to switch.
#![expect(clippy::print_stderr, reason = "a test that skips something says so")]

mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spanwise_model::{Nanos, ThreadState, Trace};
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

/// The file and the name of a function; one without a name has an address of its own.
type Function = (String, String);

/// Weight and samples.
type Share = (i64, u64);

/// Shares by event and innermost function, whatever was inlined into it.
type Shares = BTreeMap<String, BTreeMap<Function, Share>>;

/// An event without what limits it: newer versions of perf add that to the name that was recorded.
fn without_modifiers(event: &str) -> &str {
    const MODIFIERS: &str = "ukhGHpPSDWeb";
    match event.rsplit_once(':') {
        Some((name, of)) if of.chars().all(|letter| MODIFIERS.contains(letter)) => name,
        _ => event,
    }
}

fn add(shares: &mut Shares, event: &str, mut function: Function, share: Share) {
    // Addresses outside of all files are one function here, and so is the code of BPF programs,
    // which others on this machine may run.
    if function.0 == "[unknown]" || function.0.starts_with("bpf_") {
        function = ("[unknown]".to_owned(), String::new());
    }
    let sum = shares.entry(event.to_owned()).or_default().entry(function).or_default();
    *sum = (sum.0 + share.0, sum.1 + share.1);
}

fn ours(trace: &Trace) -> Shares {
    let mut shares = Shares::new();
    let text = |id| trace.strings().get(id);
    for sample in trace.samples().iter() {
        let event = trace.sample_events().rows()[usize::from(sample.event)].name;
        let mut frames = trace.stacks().frames(sample.stack).map(|id| trace.frames().get(id));
        let frame = frames.find(|frame| !frame.is_inlined);
        let file = frame.map_or("", |frame| text(frame.mapping));
        let file = file.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("[unknown]");
        let name = match frame {
            Some(frame) if frame.address != 0 => format!("0x{:x}", frame.address),
            Some(frame) => text(frame.function).to_owned(),
            None => String::new(),
        };
        add(&mut shares, text(event), (file.to_owned(), name), (sample.weight, 1));
    }
    shares
}

/// `perf report` of a recording by function: every one, with its file.
const REPORT: [&str; 14] = [
    "report",
    "--stdio",
    "--force",
    "-g",
    "none",
    "--no-children",
    "--no-inline",
    "--percent-limit",
    "0",
    "-F",
    "sample,period,dso,sym",
    "-s",
    "dso,sym",
    "-t\t",
];

fn of_perf(text: &str) -> Shares {
    let mut shares = Shares::new();
    let mut event = String::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" of event '") {
            event = rest.split('\'').next().unwrap_or_default().to_owned();
            continue;
        }
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [samples, period, file, symbol] = cells[..] else { continue };
        let (Ok(samples @ 1..), Ok(period)) = (samples.parse::<u64>(), period.parse()) else {
            continue;
        };
        // "[k] name"
        let name = symbol.split_once("] ").map_or(symbol, |(_, name)| name);
        add(&mut shares, &event, (file.to_owned(), name.to_owned()), (period, samples));
    }
    shares
}

/// Compares all functions of an event. One that only one side has by its name, since it has
/// several or none, must have its share in the same file on the other.
#[track_caller]
fn check_event(
    what: &str,
    ours: &BTreeMap<Function, Share>,
    theirs: &BTreeMap<Function, Share>,
) -> usize {
    let mut common = 0;
    for (function, share) in theirs {
        if let Some(own) = ours.get(function) {
            assert_eq!(own, share, "{what}: {function:?}");
            common += 1;
        }
    }
    let rest = |of: &BTreeMap<Function, Share>, other: &BTreeMap<Function, Share>| {
        let alone = of.iter().filter(|(function, _)| !other.contains_key(*function));
        let mut rest: Vec<(String, Share)> =
            alone.map(|((file, _), &share)| (file.clone(), share)).collect();
        rest.sort_unstable();
        rest
    };
    assert_eq!(rest(ours, theirs), rest(theirs, ours), "{what}: {ours:#?} {theirs:#?}");
    common
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
        let Some(text) = perf(&REPORT, &data, None) else { return };
        let (ours, theirs) = (ours(&open(&data)), of_perf(&text));
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        let mut common = 0;
        for (event, theirs) in &theirs {
            common += check_event(&format!("{record:?} {event}"), &ours[event], theirs);
        }
        assert!(common > 0, "{record:?}: {theirs:?}");
        let is_own = |function: &Function| function.1.starts_with("peer_");
        assert!(theirs.values().any(|rows| rows.keys().any(is_own)), "{theirs:?}");
    }
}

/// A recording that perf can open: unpacked, if it is packed.
fn plain(path: &Path, folder: &Path) -> Option<PathBuf> {
    let mut bytes = std::fs::read(path).ok()?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let unpacked = Command::new("gzip").arg("-dc").arg(path).output().ok()?;
        bytes = unpacked.stdout;
    }
    let is_recording = bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"PERFFILE");
    let name = path.file_name()?;
    let copy = folder.join(name);
    is_recording.then(|| std::fs::write(&copy, bytes).expect("a folder of ours"))?;
    Some(copy)
}

/// The system's perf, and the one that `tests/perf/fetch` fetches.
const PERFS: [&str; 2] = ["perf", "perf-newest"];

/// What the first perf that can read a recording reports on it, or why none can: versions do not
/// read recordings of all others.
fn reported(path: &Path) -> Result<String, String> {
    let mut why = Vec::new();
    for program in PERFS {
        match reported_by(program, path) {
            Ok(text) => return Ok(text),
            Err(error) => why.push(format!("{program}: {}", error.trim())),
        }
    }
    Err(why.join("; "))
}

fn reported_by(program: &str, path: &Path) -> Result<String, String> {
    let mut perf = Command::new(program);
    perf.args(REPORT).arg("-i").arg(path).stdin(Stdio::null());
    let done = perf.output().map_err(|error| error.to_string())?;
    let (text, errors) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let is_bad = |line: &&str| {
        ["failed", "incompatible", "has no samples"].iter().any(|word| line.contains(word))
    };
    match errors.lines().find(is_bad) {
        Some(why) => Err(why.to_owned()),
        None if !done.status.success() => Err(errors.into_owned()),
        None => Ok(text.into_owned()),
    }
}

/// The kernel's functions as one, where a recording does not say which kernel it was: perf then
/// takes the names of this machine's, and we take none.
fn with_kernel_as_one(shares: &BTreeMap<Function, Share>) -> BTreeMap<Function, Share> {
    let mut found = BTreeMap::new();
    for ((file, name), share) in shares {
        let is_kernel = file.starts_with("[kernel.");
        let name = if is_kernel { String::new() } else { name.clone() };
        let sum: &mut Share = found.entry((file.clone(), name)).or_default();
        *sum = (sum.0 + share.0, sum.1 + share.1);
    }
    found
}

/// Recordings of others.
#[test]
fn functions_of_other_recordings_have_the_shares_that_perf_report_gives_them() {
    let unpacked = tempfile::tempdir().expect("a folder");
    let (mut recordings, mut compared) = (0, 0);
    for folder in ["../shared/corpora/perf", "../shared/corpora/producers"] {
        let folder = at_root(folder);
        if !folder.exists() {
            eprintln!("skipped: {} is not there", folder.display());
            continue;
        }
        for path in files_below(&folder) {
            let Some(copy) = plain(&path, unpacked.path()) else { continue };
            recordings += 1;
            let text = match reported(&copy) {
                Ok(text) => text,
                Err(why) => {
                    eprintln!("skipped: {}: {why}", path.display());
                    continue;
                }
            };
            let (ours, theirs) = (ours(&open(&copy)), of_perf(&text));
            for (event, theirs) in &theirs {
                let own = ours.get(event).or_else(|| ours.get(without_modifiers(event)));
                let own = own.unwrap_or_else(|| panic!("{}: {event}", path.display()));
                let what = format!("{} {event}", path.display());
                let mut kernel = own.keys().filter(|(file, _)| file.starts_with("[kernel."));
                match kernel.all(|(_, name)| name.starts_with("0x")) {
                    true => {
                        check_event(&what, &with_kernel_as_one(own), &with_kernel_as_one(theirs))
                    }
                    false => check_event(&what, own, theirs),
                };
            }
            compared += 1;
        }
    }
    eprintln!("compared {compared} of {recordings}");
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    // The newest reads all but one, which has no sample.
    let expected = match PERFS.map(has) {
        [_, true] => recordings - 1,
        [true, false] => 4,
        [false, false] => 0,
    };
    assert!(recordings == 0 || compared >= expected, "{compared} of {recordings}");
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

/// The time in which perf saw switches, from `perf sched timehist --summary`, in nanoseconds.
fn scheduling_time(summary: &str) -> Option<Nanos> {
    let line =
        summary.lines().find_map(|line| line.trim().strip_prefix("Total scheduling time"))?;
    let number = line.split(':').nth(1)?.split_whitespace().next()?;
    let (millis, micros) = number.split_once('.')?;
    Some((millis.parse::<Nanos>().ok()? * 1000 + micros.parse::<Nanos>().ok()?) * 1000)
}

/// When events of the text of `perf script` happened, in microseconds.
fn times(script: &str, is_wanted: fn(&str) -> bool) -> impl DoubleEndedIterator<Item = Nanos> {
    let time = |line: &str| {
        let word = line.split_whitespace().find(|word| word.ends_with(':'))?;
        let (seconds, micros) = word.strip_suffix(':')?.split_once('.')?;
        Some(seconds.parse::<Nanos>().ok()? * 1_000_000 + micros.parse::<Nanos>().ok()?)
    };
    script.lines().filter(move |line| is_wanted(line)).filter_map(time)
}

/// When the first and the last switch happened.
fn switches(script: &str) -> Option<(Nanos, Nanos)> {
    let mut times = times(script, |line| line.contains("prev_pid="));
    let first = times.next()?;
    Some((first, times.next_back().unwrap_or(first)))
}

/// Compares a recording of switches with what perf says of it: each run, the sum of each thread,
/// and the time from the first switch to the last. Gives the number of runs and of threads.
fn check_timehist(data: &Path) -> Option<(usize, usize)> {
    let text = perf(&["sched", "timehist", "--no-call-graph"], data, None)?;
    let summary = perf(&["sched", "timehist", "--summary"], data, None)?;
    let script = perf(&["script", "-F", "cpu,time,event,trace"], data, None)?;
    let whole = seen_from_start_to_end(&script);
    let trace = open(data);
    let mut running: BTreeMap<(i64, Nanos), Nanos> = BTreeMap::new();
    let (first, last) = switches(&script).expect("switches");
    let recorded_from = times(&script, |_| true).next().expect("events");
    for state in trace.thread_states().iter().filter(|row| row.state == ThreadState::Running) {
        let thread = trace.strings().get(trace.tracks().get(state.track).thread);
        // What ran before anything was recorded is not known.
        let start = state.start / 1000;
        assert!(start >= recorded_from, "{thread} runs at {start}, before {recorded_from}");
        let Ok(tid) = thread.parse() else { continue };
        // perf prints microseconds.
        running.insert((tid, (state.start + state.dur) / 1000), state.dur);
    }
    let scheduled = scheduling_time(&summary).expect("a summary");
    assert!((scheduled / 1000 - (last - first)).abs() <= 1, "{scheduled} from {first} to {last}");
    let runs = runs(&text);
    // By thread: what perf and what we count, and how many switches.
    let mut sums: BTreeMap<i64, (Nanos, Nanos, Nanos)> = BTreeMap::new();
    // Idle loops, and threads that perf lost sight of, have no number.
    let is_whole = |tid: i64, left: Nanos| whole.contains(&(tid, left / 1000));
    let is_compared = |&&(tid, left, ran): &&_| tid > 0 && ran > 0 && is_whole(tid, left);
    for &(tid, left, ran) in runs.iter().filter(is_compared) {
        let near = [-1, 0, 1].into_iter().find_map(|by| running.get(&(tid, left / 1000 + by)));
        let ours = near.unwrap_or_else(|| panic!("thread {tid} leaves at {left}"));
        assert!((ours - ran).abs() <= 1000, "thread {tid} at {left}: {ours} for {ran}");
        let sum = sums.entry(tid).or_default();
        *sum = (sum.0 + ran, sum.1 + ours, sum.2 + 1);
    }
    for (tid, (theirs, ours, switches)) in &sums {
        assert!((ours - theirs).abs() <= 1000 * switches, "{tid}: {ours} for {theirs}");
    }
    Some((sums.values().map(|sum| sum.2 as usize).sum(), sums.len()))
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
    let Some((runs, threads)) = check_timehist(&data) else { return };
    assert!(runs > 20 && threads > 0, "{runs} runs, {threads} threads");
}

#[test]
fn threads_of_another_recording_run_as_long_as_perf_sched_timehist_says() {
    let data = at_root("../shared/corpora/perf/sched-process.perf.data");
    if !data.exists() {
        return eprintln!("skipped: {} is not there", data.display());
    }
    let Some((runs, threads)) = check_timehist(&data) else { return };
    assert!(runs > 200 && threads >= 5, "{runs} runs, {threads} threads");
}
