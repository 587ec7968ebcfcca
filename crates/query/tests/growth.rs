//! No table or view costs more than its share of work, whatever the shape of the trace: counted as
//! `crates/report/tests/growth` counts, on its shapes.

#[path = "../../report/tests/growth/counting.rs"]
mod counting;
#[path = "../../report/tests/growth/shapes.rs"]
#[expect(dead_code, reason = "not all shapes are hard for tables")]
mod shapes;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{fs, process, thread};

use counting::{UNITS, counted};
use spanwise_model::Trace;
use spanwise_query::{Database, Limits, tables_help};
use spanwise_read::{IndexUse, OpenOptions};

const EVENTS: usize = 600;

/// What is proportional grows by 2, what is sorted by little more; a square grows by 4.
const GROWTH_MAX: f64 = 2.7;

/// Less than this for each event is no square, whatever it grows by.
const PER_EVENT_MIN: f64 = 40.0;

const LIMITS: Limits = Limits {
    rows_max: usize::MAX,
    bytes_max: 1 << 30,
    value_bytes_max: 1 << 30,
    memory_max: 1 << 30,
    time_max: None,
};

fn opened(shape: fn(usize) -> String, events: usize) -> Database {
    let thread = format!("{:?}", thread::current().id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("growth-sql-{}-{thread}-{events}.json", process::id()));
    fs::write(&path, shape(events)).expect("written");
    let options = OpenOptions { index: IndexUse::Ignore, threads: 1, ..OpenOptions::default() };
    let trace: Trace = spanwise_read::open(&path, &options).expect("a trace");
    fs::remove_file(&path).expect("removed");
    Database::new(vec![Arc::new(trace)]).expect("tables")
}

#[track_caller]
fn check(shape: fn(usize) -> String) {
    let small = opened(shape, 100);
    let databases = [1, 2, 4].map(|times| opened(shape, times * EVENTS));
    // Tables and views; functions have an opening bracket.
    let relations = tables_help().into_iter().filter(|help| !help.name.contains('('));
    let mut queries: Vec<String> =
        relations.map(|help| format!("SELECT * FROM {}", help.name)).collect();
    assert!(queries.len() > 20, "{queries:?}");
    queries.extend(
        [
            "SELECT a.name, count(*) FROM spans AS a JOIN spans AS b ON b.parent = a.id GROUP BY 1",
            "SELECT tracks.thread, sum(dur) FROM spans JOIN tracks ON tracks.id = track GROUP BY 1",
            "SELECT name FROM spans WHERE name GLOB 'f1*' ORDER BY dur DESC",
        ]
        .map(str::to_owned),
    );
    let (mut largest, mut too_much) = (None, String::new());
    for sql in &queries {
        let asked = |database: &Database| {
            database.ask(sql, LIMITS).unwrap_or_else(|error| panic!("{sql}: {error}"));
        };
        // What is worked out once a process does not count, what is once a trace does.
        asked(&small);
        let work = databases.each_ref().map(|database| counted(|| asked(database)));
        for (unit, of) in UNITS.iter().enumerate() {
            let [once, twice, four_times] = work.map(|work| work[unit] as f64);
            let growth = (four_times - twice) / (twice - once).max(1.0);
            if growth <= GROWTH_MAX || four_times <= PER_EVENT_MIN * 4.0 * EVENTS as f64 {
                continue;
            }
            let largest = largest.get_or_insert_with(|| opened(shape, 8 * EVENTS));
            let eight_times = counted(|| asked(largest))[unit] as f64;
            let growth = (eight_times - four_times) / (four_times - twice);
            if growth > GROWTH_MAX {
                let counts = format!("{once} {twice} {four_times} {eight_times}");
                let _ = writeln!(too_much, "{sql}: {of} {counts}, growth {growth:.2}");
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
fn spans_that_overlap_at_random() {
    check(shapes::random_overlap);
}

#[test]
fn one_correlation_id_for_all_launches_and_kernels() {
    check(shapes::one_correlation);
}

#[test]
fn modules_inside_of_each_other() {
    check(shapes::deep_modules);
}

#[test]
fn asynchronous_spans_that_follow_each_other_by_arrows() {
    check(shapes::asynchronous_flows);
}

#[test]
fn threads_that_sample_wait_and_wake() {
    check(shapes::threads_with_wakers);
}

#[test]
fn waits_for_locks_with_deep_stacks() {
    check(shapes::deep_lock_waits);
}
