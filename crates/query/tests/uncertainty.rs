//! How far sums and shares of views may be off: as the analyses of the report have it.

use std::path::Path;
use std::sync::Arc;

use spanwise_analyze::{Facts, FunctionBy, cpu_functions, off_cpu_reasons};
use spanwise_model::{
    Batch, BlockedOn, Frame, NO_CPU, NO_LOCK, SourceInfo, StackId, StateRow, ThreadState, Trace,
    TraceBuilder, TrackKind,
};
use spanwise_query::{Database, Limits, Value};
use spanwise_read::{IndexUse, OpenOptions};

fn rows(trace: &Arc<Trace>, sql: &str) -> Vec<Vec<Value>> {
    let database = Database::new(vec![Arc::clone(trace)]).expect("tables");
    database.ask(sql, Limits::NONE).unwrap_or_else(|error| panic!("{sql}: {error}")).rows
}

/// Three waits for a lock by one sampled stack, one for a socket by another, and a long one.
fn sampled_waits() -> Arc<Trace> {
    let mut batch = Batch::default();
    let track = batch.track(TrackKind::Thread, "1", "7");
    let stack = |batch: &mut Batch, name: &str| {
        let function = batch.string(name);
        let frame = batch.observed.frame(Frame { function, ..Frame::default() });
        batch.observed.stack(StackId::EMPTY, frame)
    };
    let waits = [
        (BlockedOn::Unknown, None, 2),
        (BlockedOn::Unknown, None, 1),
        (BlockedOn::Mutex, Some("lock"), 0),
        (BlockedOn::Unknown, None, 1),
        (BlockedOn::Socket, Some("ask"), 0),
        (BlockedOn::Fsync, Some("log"), 0),
    ];
    for (at, (on, name, stand_in)) in (0..).zip(waits) {
        let stack = name.map_or(StackId::EMPTY, |name| stack(&mut batch, name));
        batch.observed.states.push(StateRow {
            start: at * 1000,
            dur: 100 + at,
            track,
            cpu: NO_CPU,
            state: ThreadState::Blocked(on),
            stack,
            waker: None,
            waker_stack: StackId::EMPTY,
            lock: NO_LOCK,
            stand_in,
        });
    }
    batch.seal();
    let mut builder = TraceBuilder::new(1);
    builder.push(batch);
    Arc::new(builder.finish(SourceInfo::default(), None))
}

#[test]
fn reasons_of_sampled_waits_say_how_far_they_may_be_off() {
    let trace = sampled_waits();
    let sql = "SELECT wait_reason, total_ns, sampled_ns, stacks, error_ns FROM offcpu_by_reason \
               ORDER BY total_ns DESC";
    let reasons = off_cpu_reasons(&Facts::new(&trace));
    let int = |number: i128| Value::Int(i64::try_from(number).expect("some ns"));
    let row = |row: &spanwise_analyze::OffCpuReason| {
        let reason = row.state.reason().expect("blocked").to_owned();
        let sampled = [int(row.sampled.total_ns), int(row.sampled.stacks.into())];
        let error = row.error_ns.map_or(Value::Null, int);
        [vec![Value::Text(reason), int(row.total_ns)], sampled.to_vec(), vec![error]].concat()
    };
    let expected: Vec<_> = reasons.iter().map(row).collect();
    assert_eq!(rows(&trace, sql), expected);
    assert!(expected.iter().filter(|row| row[4] != Value::Null).count() == 2, "{expected:?}");
}

#[test]
fn shares_of_functions_say_how_far_they_may_be_off() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/perf/recorded.perf");
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = Arc::new(spanwise_read::open(&path, &options).expect("a trace of ours"));
    let functions = cpu_functions(&Facts::new(&trace), FunctionBy::Function);
    for row in &functions.rows {
        let sql = format!(
            "SELECT error_percent FROM cpu_by_function WHERE function = '{}'",
            row.name.replace('\'', "''")
        );
        let error = functions.error_percent(row.samples).expect("samples");
        assert_eq!(rows(&trace, &sql), [[Value::Real(error)]], "{}", row.name);
    }
    let unknown = "SELECT share_error(NULL, 5), share_error(5, NULL), share_error(1, 0)";
    assert_eq!(rows(&trace, unknown), [[Value::Null, Value::Null, Value::Null]]);
    let without = "SELECT count(error_percent) FROM cpu_by_function \
                   WHERE function IN ('[no sample]', '[context switch]')";
    assert_eq!(rows(&trace, without), [[Value::Int(0)]]);
}
