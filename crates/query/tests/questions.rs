//! Real questions in SQL, against what the analyses say, and the bounds of a database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spanwise_analyze::{Facts, hot_functions, self_time};
use spanwise_model::{SpanKind, Trace, TrackKind, effort, on_one_thread};
use spanwise_query::{AnswerLimit, Database, Limits, Value};
use spanwise_read::{IndexUse, OpenOptions};

const ALL: Limits = Limits::NONE;

fn open(path: &str) -> Arc<Trace> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path);
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    Arc::new(spanwise_read::open(&path, &options).expect("a trace of ours"))
}

fn small() -> (Arc<Trace>, Database) {
    let trace = open("kineto/llama_small.json.gz");
    let database = Database::new(vec![Arc::clone(&trace)]).expect("tables");
    (trace, database)
}

fn rows(database: &Database, sql: &str) -> Vec<Vec<Value>> {
    database.ask(sql, ALL).unwrap_or_else(|error| panic!("{sql}: {error}")).rows
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        other => panic!("not a number: {other:?}"),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Null => String::new(),
        other => panic!("no text: {other:?}"),
    }
}

/// The only value of an answer.
fn single(database: &Database, sql: &str) -> i64 {
    int(&rows(database, sql)[0][0])
}

/// Sums by name that a closure gives, costliest first, as `name, sum` rows.
fn sums(
    trace: &Trace,
    mut amount: impl FnMut(spanwise_model::SpanId) -> Option<(String, i64)>,
) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for (name, ns) in trace.spans().ids().filter_map(&mut amount) {
        *sums.entry(name).or_insert(0) += ns;
    }
    sums
}

fn as_map(rows: &[Vec<Value>]) -> BTreeMap<String, i64> {
    rows.iter().map(|row| (text(&row[0]), int(&row[1]))).collect()
}

#[test]
fn time_by_class_is_that_of_the_analysis() {
    let (trace, database) = small();
    let found = rows(&database, "SELECT class, sum(dur) FROM gpu_work GROUP BY class");
    let facts = Facts::new(&trace);
    let expected = facts.class_use();
    let expected = expected.rows.iter().map(|row| (row.class.clone(), row.total_ns as i64));
    assert_eq!(as_map(&found), expected.collect());
}

#[test]
fn self_times_are_those_of_the_analysis() {
    let (trace, database) = small();
    let found = rows(&database, "SELECT name, self_ns FROM self_by_name");
    let own = self_time(&trace);
    let is_thread = |span| trace.tracks().get(trace.spans().track(span)).kind == TrackKind::Thread;
    let expected = sums(&trace, |span| {
        is_thread(span).then(|| (trace.name(span).to_owned(), own.span_ns[span.index()]))
    });
    assert_eq!(as_map(&found), expected);
    let busy: i128 = own.threads.iter().map(|thread| thread.busy_ns).sum();
    assert_eq!(i128::from(single(&database, "SELECT sum(self_ns) FROM self_by_name")), busy);
}

#[test]
fn gpu_time_by_kernel_and_by_line_adds_up() {
    let (trace, database) = small();
    let work = |span| trace.kind(span).is_gpu_work().then(|| trace.spans().dur(span));
    let expected = sums(&trace, |span| Some((trace.name(span).to_owned(), work(span)?)));
    let found = rows(&database, "SELECT name, gpu_ns FROM gpu_by_kernel");
    assert_eq!(as_map(&found), expected);
    let facts = Facts::new(&trace);
    let lines = sums(&trace, |span| {
        let launch = trace.spans().launch(span).unwrap_or(span);
        let line = facts.frames().line(launch).map_or("", |line| trace.name(line));
        Some((line.to_owned(), work(span)?))
    });
    let found = rows(&database, "SELECT line, gpu_ns FROM gpu_by_line");
    assert_eq!(as_map(&found), lines);
}

#[test]
fn hot_functions_are_the_same() {
    let (trace, database) = small();
    let facts = Facts::new(&trace);
    let hot = hot_functions(&facts);
    let total: i128 = hot.rows.iter().map(|row| row.self_ns).sum();
    assert!(total > 0);
    let sum =
        single(&database, "SELECT sum(self) FROM spans WHERE track IN (SELECT id FROM threads)");
    assert_eq!(i128::from(sum), total);
}

#[test]
fn filters_and_orders_are_those_of_sql() {
    let (trace, database) = small();
    let spans = trace.spans();
    let zero = trace.window().expect("spans").0;
    let begin = spans.start(spans.ids().nth(1000).expect("many")) - zero;
    let (from, to) = (begin, begin + 500_000);
    let expected = spans.ids().filter(|&span| {
        let start = spans.start(span) - zero;
        start >= from && start < to
    });
    let sql = format!("SELECT count(*) FROM spans WHERE start >= {from} AND start < {to}");
    assert_eq!(single(&database, &sql), expected.count() as i64);
    let check = |sql: &str, same: &str| {
        assert_eq!(rows(&database, sql), rows(&database, same), "{sql}");
    };
    // First: pushed down. Then: hidden from us by a sign or a function.
    let count = |where_: &str, same: &str| {
        let sql = |condition| format!("SELECT count(*) FROM spans WHERE {condition}");
        check(&sql(where_), &sql(same));
    };
    count("kind = 'kernel'", "kind || '' = 'kernel'");
    count("name = 'aten::mm'", "name || '' = 'aten::mm'");
    count("name = 'ATEN::MM' COLLATE NOCASE", "lower(name) = 'aten::mm'");
    count("dur > 1000.5", "+dur > 1000.5");
    count("parent IS NULL", "coalesce(parent, -1) = -1");
    count("depth <= 2 AND dur >= 5", "+depth <= 2 AND +dur >= 5");
    count("start <= 5000000 AND start > 70000", "+start <= 5000000 AND +start > 70000");
    count(&format!("start = {begin}"), &format!("+start = {begin}"));
    count("start > 5000 AND start < 400", "+start > 5000 AND +start < 400");
    count("start > 9223372036854775807", "+start > 9223372036854775807");
    count("start < -9223372036854775808", "+start < -9223372036854775808");
    count("start < 9e9 AND start >= 1000", "+start < 9e9 AND +start >= 1000");
    // The second condition is looked up once it was asked for a few times.
    for at in 0..6 {
        let at = begin + at * 100_000;
        let (start, kind) = (format!("start >= {at}"), "kind = 'kernel'");
        count(&format!("{start} AND {kind}"), &format!("+{start} AND kind || '' = 'kernel'"));
        let (start, kind) = (format!("start < {at}"), "name = 'aten::mm'");
        count(&format!("{start} AND {kind}"), &format!("+{start} AND name || '' = 'aten::mm'"));
    }
    check(
        "SELECT group_concat(id) FROM (SELECT id FROM spans ORDER BY dur DESC, id LIMIT 50)",
        "SELECT group_concat(id) FROM (SELECT id FROM spans ORDER BY +dur DESC, +id LIMIT 50)",
    );
    check(
        "SELECT count(*) FROM spans GROUP BY name, depth ORDER BY name, depth",
        "SELECT count(*) FROM spans GROUP BY name || '', +depth ORDER BY name || '', +depth",
    );
    check(
        "SELECT DISTINCT line FROM spans ORDER BY line",
        "SELECT DISTINCT line || '' AS line FROM spans ORDER BY 1",
    );
    check(
        "SELECT sum(p.dur) FROM spans s JOIN spans p ON p.id = s.parent WHERE s.id < 400",
        "SELECT sum(p.dur) FROM spans s JOIN spans p ON +p.id = +s.parent WHERE s.id < 400",
    );
}

#[test]
fn looked_up_rows_stay_the_same() {
    let (_, database) = small();
    let sql = "SELECT s.id, count(c.id) FROM spans s JOIN spans c ON c.parent = s.id \
               WHERE s.depth = 6 GROUP BY s.id ORDER BY s.id";
    let scanned = "SELECT parent, count(*) FROM spans WHERE parent IN \
                   (SELECT id FROM spans WHERE depth = 6) GROUP BY +parent ORDER BY +parent";
    let joined = rows(&database, sql);
    assert!(joined.len() > 10);
    assert_eq!(joined, rows(&database, scanned));
}

#[test]
fn functions_give_stacks_args_and_overlap() {
    let (trace, database) = small();
    let kernel = trace.spans().ids().find(|&span| trace.kind(span) == SpanKind::Kernel);
    let launch = trace.spans().launch(kernel.expect("a kernel")).expect("its launch");
    let id = kernel.expect("a kernel").0;
    let sql = format!(
        "SELECT stack(launch), arg({id}, 'stream'), json_extract(args({id}), '$.stream') \
         FROM spans WHERE id = {id}"
    );
    let row = &rows(&database, &sql)[0];
    assert!(text(&row[0]).ends_with(&format!(";{}", trace.name(launch))));
    assert_eq!(row[1], row[2]);
    assert!(matches!(row[1], Value::Int(_)));
    assert_eq!(single(&database, "SELECT overlap(0, 10, 5, 10)"), 5);
    assert_eq!(single(&database, "SELECT overlap(0, 10, 10, 10)"), 0);
    assert_eq!(
        rows(&database, "SELECT stack(NULL), args(99999999), arg(-1, 'x')")[0],
        [Value::Null, Value::Null, Value::Null,]
    );
}

#[test]
fn several_traces_stand_in_the_same_tables() {
    let trace = open("kineto/llama_small.json.gz");
    let database = Database::new(vec![Arc::clone(&trace), Arc::clone(&trace)]).expect("tables");
    let sql = "SELECT trace, count(*), sum(dur), sum(self), min(start), count(DISTINCT track) \
               FROM spans GROUP BY trace";
    let both = rows(&database, sql);
    assert_eq!(both.len(), 2);
    assert_eq!(both[0][1..], both[1][1..]);
    let parents =
        "SELECT count(*) FROM spans s JOIN spans p ON p.id = s.parent WHERE p.trace <> s.trace";
    assert_eq!(single(&database, parents), 0);
    let tracks =
        rows(&database, "SELECT trace, group_concat(thread_name) FROM tracks GROUP BY trace");
    assert_eq!(tracks[0][1], tracks[1][1]);
}

#[test]
fn a_database_only_reads_and_knows_its_bounds() {
    let (_, database) = small();
    for sql in [
        "ATTACH 'x.db' AS x",
        "CREATE TABLE t(a)",
        "DELETE FROM spans",
        "INSERT INTO spans(id) VALUES (1)",
        "DROP VIEW kernels",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('x')",
        "SELECT writefile('x', 'y')",
        "SELECT readfile('/etc/passwd')",
        "VACUUM INTO 'x.db'",
        "SELECT nothing FROM spans",
        "SELEC 1",
        "",
    ] {
        assert!(database.ask(sql, ALL).is_err(), "{sql}");
    }
    let answer = database.ask("SELECT id FROM spans", Limits { rows_max: 3, ..ALL });
    let answer = answer.expect("rows");
    assert_eq!((answer.rows.len(), answer.cut), (3, Some(AnswerLimit::Rows)));
    let endless =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    let limits = Limits { time_max: Some(Duration::from_millis(50)), ..ALL };
    let error = database.ask(endless, limits).expect_err("it never ends").to_string();
    assert!(error.contains("longer than"), "{error}");
    assert_eq!(single(&database, "SELECT 1"), 1);
}

#[test]
fn an_empty_database_answers() {
    let database = Database::new(Vec::new()).expect("tables");
    assert_eq!(single(&database, "SELECT count(*) FROM spans"), 0);
    assert_eq!(single(&database, "SELECT count(*) FROM launches"), 0);
}

#[test]
fn samples_and_states_of_several_traces_keep_their_own_numbers() {
    let (recorded, annotated) = (open("perf/recorded.perf"), open("chrome/kinds_of_events.json"));
    let alone = Database::new(vec![Arc::clone(&recorded)]).expect("tables");
    let traces = vec![annotated, Arc::clone(&recorded), recorded];
    let database = Database::new(traces).expect("tables");
    for table in ["samples", "thread_states", "frames", "stacks", "sample_events"] {
        let counts = format!("SELECT trace, count(*) FROM {table} GROUP BY trace");
        let count = single(&alone, &format!("SELECT count(*) FROM {table}"));
        let expected = [1, 2].map(|trace| vec![Value::Int(trace), Value::Int(count)]);
        assert_eq!(rows(&database, &counts), expected, "{table}");
    }
    let sql = "SELECT samples.trace, call_stack(stack), thread_name, sample_events.name, cpu_ns \
               FROM samples JOIN tracks ON tracks.id = track \
               JOIN sample_events ON sample_events.id = event ORDER BY samples.id";
    let all = rows(&database, sql);
    let of = |trace: i64| {
        let mine = all.iter().filter(move |row| row[0] == Value::Int(trace));
        mine.map(|row| row[1..].to_vec()).collect::<Vec<_>>()
    };
    let expected: Vec<_> = rows(&alone, sql).iter().map(|row| row[1..].to_vec()).collect();
    assert_eq!((of(1), of(2)), (expected.clone(), expected));
    let crossed = "SELECT count(*) FROM stacks \
                   JOIN stacks AS callers ON callers.id = stacks.parent \
                   JOIN frames ON frames.id = stacks.frame \
                   WHERE callers.trace <> stacks.trace OR frames.trace <> stacks.trace";
    assert_eq!(single(&database, crossed), 0);
    let wakers = "SELECT group_concat(call_stack(waker_stack)) FROM thread_states GROUP BY trace";
    assert_eq!(rows(&database, wakers)[0], rows(&alone, wakers)[0]);
}

#[test]
fn what_nobody_recorded_is_null() {
    let database = Database::new(vec![open("perf/recorded.perf")]).expect("tables");
    let unknown =
        "SELECT count(file), count(line), count(address), min(function IS NULL) FROM frames";
    let zero = Value::Int(0);
    assert_eq!(rows(&database, unknown)[0], [zero.clone(), zero.clone(), zero.clone(), zero]);
    for (what, count) in [
        ("samples WHERE cpu_ns IS NULL", 3),
        ("stacks WHERE parent IS NULL AND depth <> 1", 0),
        ("thread_states WHERE wait_reason IS NULL AND state <> 'running'", 0),
        ("thread_states WHERE stack IS NULL AND state <> 'running'", 0),
        ("thread_states WHERE lock IS NOT NULL OR stack_from IS NOT NULL", 0),
        ("tracks WHERE thread_cpu_ns IS NULL AND kind = 'thread'", 0),
        ("tracks WHERE thread_cpu_ns IS NOT NULL AND kind <> 'thread'", 0),
    ] {
        assert_eq!(single(&database, &format!("SELECT count(*) FROM {what}")), count, "{what}");
    }
    let (_, annotated) = small();
    for table in ["samples", "stacks", "frames", "thread_states", "cpu_by_function"] {
        assert_eq!(single(&annotated, &format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_eq!(single(&annotated, "SELECT count(thread_cpu_ns) FROM tracks"), 0);
}

#[test]
fn filters_and_orders_on_samples_are_those_of_sql() {
    let database = Database::new(vec![open("perf/recorded.perf")]).expect("tables");
    let check = |table: &str, filter: &str, same: &str| {
        let sql = |filter| format!("SELECT group_concat(id) FROM {table} WHERE {filter}");
        assert_eq!(rows(&database, &sql(filter)), rows(&database, &sql(same)), "{filter}");
    };
    check("samples", "time >= 2000000 AND time < 8000001", "+time >= 2000000 AND +time < 8000001");
    check("samples", "time = 2200000", "+time = 2200000");
    check("samples", "thread = '302'", "thread || '' = '302'");
    check("samples", "cpu_ns > 0", "+cpu_ns > 0");
    check("thread_states", "start > 4000000", "+start > 4000000");
    check("thread_states", "state = 'blocked'", "state || '' = 'blocked'");
    check("thread_states", "waker = 1", "+waker = 1");
    check("stacks", "function = 'run' AND depth = 2", "function || '' = 'run' AND +depth = 2");
    let ordered =
        "SELECT group_concat(id) FROM (SELECT id FROM samples ORDER BY weight DESC, time)";
    let sorted =
        "SELECT group_concat(id) FROM (SELECT id FROM samples ORDER BY +weight DESC, +time)";
    assert_eq!(rows(&database, ordered), rows(&database, sorted));
}

/// Steps of work that a query takes whose tables share these facts.
fn effort_of_query(facts: &Arc<Facts>) -> u64 {
    let database = Database::of_facts(vec![Arc::clone(facts)]).expect("tables");
    let before = effort().expect("tests count");
    let sql = "select sum(self), max(depth), count(step), count(class) from spans";
    assert_eq!(rows(&database, sql).len(), 1);
    effort().expect("tests count") - before
}

#[test]
fn what_reports_have_computed_is_not_computed_again() {
    let (alone, after_report) = on_one_thread(|| {
        let trace = open("kineto/llama_small.json.gz");
        let reported = Arc::new(Facts::new(&trace));
        reported.self_time();
        reported.depths();
        reported.step_numbers();
        reported.span_classes();
        (effort_of_query(&Arc::new(Facts::new(&trace))), effort_of_query(&reported))
    });
    assert!(after_report < alone, "{after_report} of {alone} steps");
}
