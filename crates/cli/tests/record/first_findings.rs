//! What is found first about programs that each have one thing wrong with them.

use std::fs;

use spanwise_analyze::{Facts, Finding, FindingKind, OffCpuWaits, Thresholds, findings};
use spanwise_model::BlockedOn;

use crate::bench::{Bench, text};
use crate::python::interpreters;

/// Whether something waits for a processor is up to what else the machine does.
const TRIES: usize = 3;

/// The findings about a program, recorded with these options.
#[track_caller]
fn found(bench: &Bench, folder: &str, options: &[&str], program: &[&str]) -> Vec<Finding> {
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", folder]);
    let output = run.args(options).arg("--").args(program).output().expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{program:?}: {}", text(&output.stderr));
    findings(&Facts::new(&bench.open(folder).into()), &Thresholds::default())
}

/// The findings about the program of waits; nothing where it cannot be recorded.
fn found_of(how: &[&str]) -> Option<(Bench, Vec<Finding>)> {
    let bench = Bench::with("when threads wait")?;
    let program = bench.compile("waits.c", "waits", &["-g", "-O1", "-fno-omit-frame-pointer"])?;
    let program = program.to_str().expect("a plain path").to_owned();
    let rows = found(&bench, "r", &[], &[&[&*program], how].concat());
    Some((bench, rows))
}

/// Waits for this are what is found first.
#[track_caller]
fn first_waits(rows: &[Finding], on: BlockedOn) -> &OffCpuWaits {
    match rows.first().map(|row| &row.kind) {
        Some(FindingKind::OffCpu(waits)) if waits.on == on => waits,
        _ => panic!("{on:?}: {rows:#?}"),
    }
}

#[test]
fn threads_that_want_one_mutex_are_first_with_who_holds_it() {
    let Some((_, rows)) = found_of(&["mutex", "100"]) else { return };
    let waits = first_waits(&rows, BlockedOn::Mutex);
    let at = |stack: &[String], name: &str| stack.iter().any(|frame| frame == name);
    assert!(at(&waits.stack, "holds"), "{waits:?}");
    // Whoever lets go of it wakes the next.
    if waits.waker.is_some() {
        assert!(at(&waits.waker_stack, "holds"), "{waits:?}");
    } else {
        eprintln!("skipped: who holds a mutex, as no programs in the kernel record that");
    }
}

#[test]
fn a_program_that_syncs_all_the_time_has_that_first() {
    let Some((_, rows)) = found_of(&["fsync", "300"]) else { return };
    let waits = first_waits(&rows, BlockedOn::Fsync);
    assert!(waits.stack.iter().any(|name| name == "wait_for_disk"), "{waits:?}");
}

#[test]
fn more_threads_than_processors_are_first() {
    let Some(bench) = Bench::with("when threads wait") else { return };
    let Some(program) = bench.compile("waits.c", "waits", &["-g", "-O1"]) else { return };
    let program = program.to_str().expect("a plain path").to_owned();
    let is_first = (0..TRIES).any(|again| {
        let folder = format!("r{again}");
        let rows = found(&bench, &folder, &[], &[&*program, "crowd", "20"]);
        let starved = rows.iter().find_map(|row| match &row.kind {
            FindingKind::CpuStarvation(starved) => Some(starved),
            _ => None,
        });
        let starved = starved.unwrap_or_else(|| panic!("{rows:#?}"));
        assert!(starved.threads >= 24, "{starved:?}");
        // Of 24 threads on one processor 23 wait.
        assert!(starved.waiting_ns > 10 * starved.running_ns, "{starved:?}");
        let is_first = matches!(rows[0].kind, FindingKind::CpuStarvation(_));
        // Who is to blame stands first.
        assert_eq!(is_first, !starved.is_by_others, "{rows:#?}");
        is_first
    });
    if !is_first {
        eprintln!("skipped: crowding by a program itself, as other programs had the processor");
    }
}

/// Threads of Python that all want to work.
const SPINS: &str = "import threading, time
def spin():
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        pass
threads = [threading.Thread(target=spin) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
";

#[test]
fn threads_that_want_the_gil_are_first() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    fs::write(bench.path("spins.py"), SPINS).expect("writable");
    for (round, python) in interpreters().iter().enumerate() {
        let python = python.to_str().expect("a plain path");
        let rows = found(&bench, &format!("r{round}"), &[], &[python, "spins.py"]);
        let waits = first_waits(&rows, BlockedOn::Gil);
        assert!(waits.stack.iter().any(|name| name.starts_with("spin ")), "{waits:?}");
        assert!(waits.threads >= 3, "{waits:?}");
    }
}

/// A pool whose workers have next to nothing to do, and a main thread that works.
const IDLES: &str = "import concurrent.futures, queue, threading, time
def consume(jobs):
    while jobs.get() is not None:
        pass
def work():
    end = time.thread_time() + 0.7
    while time.thread_time() < end:
        sum(range(1000))
jobs = queue.Queue()
consumers = [threading.Thread(target=consume, args=(jobs,)) for _ in range(3)]
for consumer in consumers:
    consumer.start()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    list(pool.map(len, ['x'] * 8))
    work()
for _ in consumers:
    jobs.put(None)
for consumer in consumers:
    consumer.join()
";

#[test]
fn workers_without_work_are_no_finding() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    fs::write(bench.path("idles.py"), IDLES).expect("writable");
    for (round, python) in interpreters().iter().enumerate() {
        let python = python.to_str().expect("a plain path");
        let rows = found(&bench, &format!("r{round}"), &[], &[python, "idles.py"]);
        let waits = rows.iter().find(|row| matches!(row.kind, FindingKind::OffCpu(_)));
        assert!(waits.is_none(), "{python}: {rows:#?}");
        let Some(FindingKind::CpuFunction(of)) = rows.first().map(|row| &row.kind) else {
            panic!("{python}: {rows:#?}")
        };
        assert!(of.function.starts_with("work "), "{of:?}");
    }
}
