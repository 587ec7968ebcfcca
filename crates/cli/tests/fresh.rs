//! Recordings that perf and we make here and now, of a program that measures its own waits.
//!
//! Where there is no C compiler or no perf, or the kernel does not allow it, the test says
//! so and passes over it. Another program can get between a thread and its clock, so each
//! recording has a few tries.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use spanwise_analyze::{Facts, TotalNanos, lock_threads, off_cpu};
use spanwise_model::{BlockedOn, Trace};
use spanwise_read::{IndexUse, OpenOptions};

const TRIES: usize = 4;

/// One recording at a time: they would get between each other's threads and clocks.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder with the program in it; `None` where it cannot be built.
fn program() -> Option<(tempfile::TempDir, PathBuf)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/perf/waits.c");
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("waits");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"]);
    let built = compiler.arg(&program).arg(&source).status();
    match built {
        Ok(status) if status.success() => Some((folder, program)),
        other => {
            eprintln!("skipped: no C compiler that builds waits.c: {other:?}");
            None
        }
    }
}

/// What a thread says of itself: its number, what it waited for, how long.
type OwnWords = Vec<(String, String, TotalNanos)>;

/// The trace of a run, and what the program says of it; `None` where perf may not.
fn record(options: &str, program: &Path) -> Option<(Arc<Trace>, OwnWords)> {
    let folder = program.parent()?;
    let (data, words) = (folder.join("perf.data"), folder.join("words.txt"));
    if let Some(options) = options.strip_prefix(OURS) {
        return record_ourselves(options, program).map(|trace| (trace, own_words(&words)));
    }
    let is_piped = options.contains("-o -");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q"]).args(options.split_whitespace());
    if is_piped {
        perf.stdout(File::create(&data).expect("a file"));
    } else {
        perf.arg("-o").arg(&data).stdout(Stdio::null());
    }
    let done = perf.arg("--").arg(program).arg(&words).stderr(Stdio::piped()).output();
    match done {
        Ok(done) if done.status.success() => {}
        Ok(done) => {
            let why = String::from_utf8_lossy(&done.stderr).into_owned();
            eprintln!("skipped: perf record {options}: {}", why.trim());
            return None;
        }
        Err(error) => {
            eprintln!("skipped: perf: {error}");
            return None;
        }
    }
    let open = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(&data, &open).expect("a recording that perf just made");
    assert_eq!(trace.check(), Ok(()));
    Some((Arc::new(trace), own_words(&words)))
}

fn own_words(file: &Path) -> OwnWords {
    let text = fs::read_to_string(file).expect("the program's own words");
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].to_owned(), words[1].to_owned(), words[2].parse().expect("nanoseconds"))
    };
    text.lines().map(row).collect()
}

/// What options begin with that are for our own recorder.
const OURS: &str = "spanwise run";

/// The trace of a run that we record; `None` where the kernel does not allow it.
fn record_ourselves(options: &str, program: &Path) -> Option<Arc<Trace>> {
    let folder = program.parent()?;
    let recording = folder.join("recording");
    let _ = fs::remove_dir_all(&recording);
    let mut run = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    run.args(["run", "--quiet", "--no-decode", "--recording"]).arg(&recording);
    run.args(options.split_whitespace()).arg("--").arg(program).arg(folder.join("words.txt"));
    let done = run.output().expect("built for this test");
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        eprintln!("skipped: {OURS} {options}: {}", why.trim());
        return None;
    }
    let open = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    Some(spanwise_read::open(&recording, &open).expect("a recording that was just made").into())
}

/// Tries a recording until all threads' figures are near what they say, within 1 % where perf
/// recorded and 2 % where we did, but for those that the recording cannot tell.
fn check(options: &str, figure: impl Fn(&Arc<Trace>, &str, &str) -> Option<TotalNanos>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((_folder, program)) = program() else { return };
    let mut off = Vec::new();
    for _ in 0..TRIES {
        let Some((trace, own)) = record(options, &program) else { return };
        assert_eq!(own.len(), 4, "three workers and a receiver");
        let rows = own.iter().filter_map(|(tid, what, true_ns)| {
            let found = figure(&trace, tid, what)?;
            let parts = if options.starts_with(OURS) { 50 } else { 100 };
            let is_near = (found - true_ns).abs() * parts <= *true_ns;
            Some((is_near, format!("{what} of {tid}: {found} instead of {true_ns}")))
        });
        off = rows.filter(|(is_near, _)| !is_near).map(|(_, text)| text).collect();
        if off.is_empty() {
            return;
        }
    }
    panic!("{options}: {off:#?}");
}

/// All that a thread waited for locks. Whether stacks reach the library's call, which says
/// what sort it was, depends on how that library was built.
fn waited(trace: &Arc<Trace>, tid: &str, _: &str) -> Option<TotalNanos> {
    let rows = lock_threads(&Facts::new(trace));
    Some(rows.iter().filter(|row| row.thread.ends_with(tid)).map(|row| row.delay_ns).sum())
}

#[test]
fn waits_by_switches_of_all_programs_are_those_that_the_program_measured() {
    check("-a -g --switch-events -e sched:sched_switch,sched:sched_waking", waited);
}

#[test]
fn waits_by_switches_of_one_program_are_those_that_it_measured() {
    check("-g --switch-events -e sched:sched_switch,sched:sched_waking", waited);
}

const FUTEX_CALLS: &str = "-e syscalls:sys_enter_futex,syscalls:sys_exit_futex";

#[test]
fn waits_by_calls_are_those_that_the_program_measured() {
    check(FUTEX_CALLS, |trace, tid, what| {
        // Whoever comes back from a condition takes its mutex, and may have to wait for it:
        // a call of its own, but for the program's clock a part of the same wait.
        let sorts: &[BlockedOn] = match what {
            "mutex" => &[BlockedOn::Mutex],
            _ => &[BlockedOn::Condition, BlockedOn::Mutex],
        };
        let rows = lock_threads(&Facts::new(trace));
        let rows = rows.iter().filter(|row| row.thread.ends_with(tid) && sorts.contains(&row.on));
        Some(rows.map(|row| row.delay_ns).sum())
    });
}

#[test]
fn a_packed_recording_says_the_same() {
    check(&format!("-z {FUTEX_CALLS}"), waited);
}

#[test]
fn a_recording_through_a_pipe_says_the_same() {
    check(&format!("-o - {FUTEX_CALLS}"), waited);
}

#[test]
fn switch_records_alone_tell_how_long_a_thread_was_blocked() {
    check("--switch-events -g -F 999 -e cpu-clock", |trace, tid, what| {
        let rows = off_cpu(&Facts::new(trace));
        let row = rows.iter().find(|row| row.thread.ends_with(tid));
        let row = row.unwrap_or_else(|| panic!("no row of {tid}"));
        // Workers also sleep, which only a stack would tell apart from waiting.
        (what == "condition").then(|| row.blocked_total_ns())
    });
}

#[test]
fn waits_that_we_record_are_those_that_the_program_measured() {
    check("spanwise run --wait-stacks always", waited);
}

#[test]
fn time_off_the_cpu_that_we_record_is_that_which_the_program_measured() {
    check("spanwise run --stacks fp --wait-stacks never", |trace, tid, what| {
        let rows = off_cpu(&Facts::new(trace));
        let row = rows.iter().find(|row| row.thread.ends_with(tid));
        let row = row.unwrap_or_else(|| panic!("no row of {tid}"));
        // The program's clock goes on until the thread runs again, not just until it is woken.
        let off_cpu_ns = row.blocked_total_ns() + row.runnable_ns.unwrap_or(0);
        // Workers also sleep, which only a stack would tell apart from waiting.
        (what == "condition").then_some(off_cpu_ns)
    });
}
