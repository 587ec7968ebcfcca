//! What a query may use: memory, bytes of an answer, time, and no file anywhere.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use spanwise_query::{Answer, AnswerLimit, Database, Limits, QueryError, Value};
use spanwise_read::{IndexUse, OpenOptions};

const MEMORY_MAX: usize = 8 << 20;
/// No query of these tests runs longer, whatever is wrong with it.
const TIME_MAX: Duration = Duration::from_secs(60);
const LIMITS: Limits = Limits {
    rows_max: 5000,
    bytes_max: 1 << 20,
    value_bytes_max: 1 << 20,
    memory_max: MEMORY_MAX,
    time_max: Some(TIME_MAX),
};
const ENDLESS: &str =
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";

fn small() -> Database {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kineto/llama_small.json.gz");
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(&path, &options).expect("a trace of ours");
    Database::new(vec![Arc::new(trace)]).expect("tables")
}

/// Numbers from 1 on, then a query about them.
fn numbers(count: u64, query: &str) -> String {
    format!("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {count}) {query}")
}

fn is_well(database: &Database) {
    let answer = database.ask("SELECT count(*) > 0 FROM spans", LIMITS).expect("a small query");
    assert_eq!(answer.rows, [[Value::Int(1)]]);
}

#[track_caller]
fn check_memory(sql: &str) {
    let database = small();
    let error = database.ask(sql, LIMITS).expect_err("more than it may hold");
    assert!(matches!(error, QueryError::TooMuchMemory(MEMORY_MAX)), "{sql}: {error}");
    assert!(error.to_string().contains("8 MiB of memory"), "{error}");
    is_well(&database);
}

#[test]
fn a_large_sort_is_an_error_of_its_query() {
    check_memory(&numbers(2_000_000, "SELECT x, randomblob(100) AS b FROM n ORDER BY b"));
}

#[test]
fn a_large_intermediate_table_is_an_error_of_its_query() {
    check_memory(&numbers(2_000_000, "SELECT count(*) FROM (SELECT DISTINCT hex(x * x) FROM n)"));
    check_memory(&numbers(1_000_000, "SELECT count(*) FROM n AS a JOIN n AS b USING (x)"));
}

#[test]
fn many_long_values_are_an_error_of_their_query() {
    check_memory(&numbers(
        5000,
        "SELECT count(DISTINCT v) FROM (SELECT printf('%.*c', 1000000, x) || x AS v FROM n)",
    ));
}

#[test]
fn lists_of_rows_count_as_memory() {
    let tables: Vec<String> = (0..40).map(|at| format!("spans AS s{at}")).collect();
    let on: Vec<String> = (0..40).map(|at| format!("s{at}.dur >= 0")).collect();
    let sql = format!("SELECT count(*) FROM {} WHERE {}", tables.join(", "), on.join(" AND "));
    let database = small();
    let limits = Limits { memory_max: 1 << 20, ..LIMITS };
    let error = database.ask(&sql, limits).expect_err("a list for each table");
    assert!(matches!(error, QueryError::TooMuchMemory(_)), "{error}");
    is_well(&database);
}

#[test]
fn memory_comes_back_with_the_end_of_a_query() {
    let database = small();
    let sql = numbers(20_000, "SELECT x, randomblob(100) AS b FROM n ORDER BY b LIMIT 1");
    for _ in 0..20 {
        database.ask(&sql, LIMITS).expect("it fits each time");
    }
}

fn cut_answer(sql: &str, limits: Limits) -> Answer {
    let answer = small().ask(sql, limits).expect("a part of it");
    assert_eq!(answer.cut, Some(AnswerLimit::Bytes), "{sql}");
    answer
}

#[test]
fn an_answer_is_cut_by_its_bytes() {
    let sql = numbers(5000, "SELECT printf('%.*c', 100000, 'x') FROM n");
    assert_eq!(cut_answer(&sql, LIMITS).rows.len(), 10);
    // Small values count, too.
    let columns = vec!["x"; 500].join(", ");
    let rows = cut_answer(&numbers(5000, &format!("SELECT {columns} FROM n")), LIMITS).rows.len();
    assert!((10..200).contains(&rows), "{rows}");
    // A row that does not fit alone.
    let limits = Limits { bytes_max: 1000, ..LIMITS };
    assert_eq!(cut_answer("SELECT printf('%.*c', 1000, 'x')", limits).rows.len(), 0);
}

#[track_caller]
fn check_value(sql: &str) {
    let error = small().ask(sql, LIMITS).expect_err("too long");
    assert!(matches!(error, QueryError::ValueTooLong(_)), "{sql}: {error}");
    assert!(error.to_string().contains("substr()"), "{error}");
}

#[test]
fn a_single_value_has_a_longest_length() {
    check_value("SELECT printf('%.*c', 60000000, 'x')");
    check_value("SELECT length(hex(zeroblob(900000)))");
    check_value(&numbers(5000, "SELECT group_concat(printf('%.*c', 1000, 'x')) FROM n"));
}

#[test]
fn a_query_ends_when_nobody_wants_it() {
    let database = small();
    let error = database.ask_while(ENDLESS, LIMITS, || false).expect_err("it never ends");
    assert!(matches!(error, QueryError::Canceled), "{error}");
    is_well(&database);
}

#[test]
fn slow_filters_of_tables_end_too() {
    let database = small();
    let sql = "SELECT count(*) FROM spans a, spans b, spans c, spans d \
               WHERE b.dur > a.dur AND c.dur > b.dur AND d.self > c.self";
    let error = database.ask_while(sql, LIMITS, || false).expect_err("hours of work");
    assert!(matches!(error, QueryError::Canceled), "{error}");
}

#[test]
fn a_slow_query_does_not_hold_up_others() {
    let database = Arc::new(small());
    let is_wanted = Arc::new(AtomicBool::new(true));
    let (of_thread, asked) = (Arc::clone(&database), Arc::clone(&is_wanted));
    let (started, is_started) = mpsc::channel();
    let slow = thread::spawn(move || {
        let is_wanted = move || {
            // Somebody may have stopped listening.
            let _ = started.send(());
            asked.load(Ordering::Acquire)
        };
        of_thread.ask_while(ENDLESS, LIMITS, is_wanted)
    });
    is_started.recv_timeout(TIME_MAX).expect("the slow query runs");
    is_well(&database);
    is_wanted.store(false, Ordering::Release);
    let ended = slow.join().expect("no panic");
    assert!(matches!(ended, Err(QueryError::Canceled)), "{ended:?}");
}

/// Files that SQLite makes for sorts. They have no name, so only who has them open can see them.
#[cfg(target_os = "linux")]
fn temporary_files() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let paths = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    paths.filter(|path| path.to_string_lossy().ends_with(" (deleted)")).count()
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_goes_to_disk() {
    let database = small();
    let seen = Rc::new(Cell::new((0, 0)));
    let calls = Rc::clone(&seen);
    let count_files = move || {
        let (count, files) = calls.get();
        calls.set((count + 1, files + temporary_files()));
        true
    };
    let limits = Limits { memory_max: 1 << 30, ..LIMITS };
    let sql = numbers(600_000, "SELECT x, randomblob(100) AS b FROM n ORDER BY b");
    database.ask_while(&sql, limits, count_files).expect("it fits into memory");
    let (count, files) = seen.get();
    assert!(count > 0, "the callback never ran");
    assert_eq!(files, 0);
}
