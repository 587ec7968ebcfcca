//! Off-CPU time and waits for locks in recordings of a program that measured its own.
//!
//! They lie in `shared` beside the repository; where one is not at hand, the test says so
//! and passes over it.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spanwise_analyze::{
    Facts, ProfileOptions, ThreadProfile, TotalNanos, lock_threads, locks, off_cpu, thread_profile,
};
use spanwise_model::{BlockedOn, Trace};
use spanwise_read::{IndexUse, OpenOptions};

fn recording(name: &str) -> Option<(PathBuf, Arc<Trace>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/perf");
    let path = folder.join(format!("{name}.script.txt.gz"));
    if !path.exists() {
        eprintln!("skipped: {} is not at hand", path.display());
        return None;
    }
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(&path, &options).expect("the text of perf script");
    assert_eq!(trace.check(), Ok(()));
    Some((folder.join(format!("{name}.stderr.txt")), trace.into()))
}

/// What the program says itself: `worker-2 tid 23640 mutex_wait_ns 18211588`.
fn own_words(path: &Path) -> Vec<(String, String, TotalNanos)> {
    let text = std::fs::read_to_string(path).expect("it lies beside the recording");
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[2].to_owned(), words[3].to_owned(), words[4].parse().expect("nanoseconds"))
    };
    text.lines().map(row).collect()
}

#[track_caller]
fn assert_within_1_percent(found: TotalNanos, true_ns: TotalNanos, what: &str) {
    let off = (found - true_ns).abs();
    assert!(off * 100 <= true_ns, "{what}: {found} instead of {true_ns}");
}

/// Waits of each thread for locks, against the program's clock.
fn check_waits(name: &str, condition: BlockedOn) {
    let Some((own, trace)) = recording(name) else { return };
    let rows = lock_threads(&Facts::new(&trace));
    let own = own_words(&own);
    assert_eq!(own.len(), 5, "four workers and a consumer");
    for (tid, what, true_ns) in own {
        let on = if what == "mutex_wait_ns" { BlockedOn::Mutex } else { condition };
        let found = rows.iter().find(|row| row.on == on && row.thread.ends_with(&tid));
        let found = found.unwrap_or_else(|| panic!("{name}: no row of {tid} for {on:?}"));
        assert_within_1_percent(found.delay_ns, true_ns, &format!("{name} {tid} {what}"));
    }
}

#[test]
fn waits_by_calls_for_futexes_are_those_that_the_program_measured() {
    check_waits("futex-dwarf", BlockedOn::Condition);
}

#[test]
fn waits_by_switches_are_those_that_the_program_measured() {
    // The stacks of this one end inside the C library: it could be any wait for a futex.
    check_waits("sched-process", BlockedOn::Futex);
}

#[test]
fn switch_records_alone_tell_how_long_a_thread_was_blocked() {
    let Some((own, trace)) = recording("cpu-switch") else { return };
    let rows = off_cpu(&Facts::new(&trace));
    // The consumer waits for nothing but its condition.
    let (tid, _, true_ns) =
        own_words(&own).into_iter().find(|row| row.1 == "cond_wait_ns").expect("a consumer");
    let row = rows.iter().find(|row| row.thread.ends_with(&tid)).expect("its row");
    assert_within_1_percent(row.blocked_total_ns(), true_ns, "the consumer");
}

#[test]
fn profiles_add_up_to_the_report() {
    for name in ["futex-dwarf", "cpu-switch", "sched-process"] {
        let Some((_, trace)) = recording(name) else { continue };
        let facts = Facts::new(&trace);
        let totals = |what| thread_profile(&trace, what, &ProfileOptions::default()).totals();
        let rows = off_cpu(&facts);
        let sum = |of: fn(&spanwise_analyze::OffCpuRow) -> TotalNanos| rows.iter().map(of).sum();
        let (blocked, runnable, unrecorded): (TotalNanos, TotalNanos, TotalNanos) = (
            sum(|row| row.blocked_total_ns()),
            sum(|row| row.runnable_ns.unwrap_or(0)),
            sum(|row| row.unrecorded_ns),
        );
        let found = totals(ThreadProfile::OffCpu);
        assert_eq!(found[1..], [blocked + runnable + unrecorded, blocked, runnable], "{name}");
        assert_eq!(totals(ThreadProfile::States), [sum(|row| row.known_ns())], "{name}");
        let waits = locks(&facts);
        let count: i128 = waits.iter().map(|row| i128::from(row.waits.count)).sum();
        let delay: TotalNanos = waits.iter().map(|row| row.delay_ns).sum();
        assert_eq!(totals(ThreadProfile::Locks)[..2], [count, delay], "{name}");
    }
}

#[test]
fn most_waits_know_who_ended_them() {
    let Some((_, trace)) = recording("futex-dwarf") else { return };
    let waits = spanwise_analyze::lock_waits(&trace);
    let of_mutex = waits.iter().filter(|wait| wait.lock.on == BlockedOn::Mutex);
    let (known, all) = of_mutex
        .fold((0, 0), |(known, all), wait| (known + usize::from(wait.waker.is_some()), all + 1));
    assert_eq!(all, 55, "as many calls as the recording has");
    assert_eq!(known, all, "every one was woken by a call that is there too");
}
