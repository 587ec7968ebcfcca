//! Random spans, overlapping as they like, survive every format.

use proptest::prelude::*;
use spanwise_model::{
    Batch, CounterRow, InstantRow, NO_KEY, SourceInfo, SpanKind, SpanRow, Trace, TraceBuilder,
    TrackKind,
};

use crate::kept::{Write, assert_same, kept, through};

type Row = (u8, u8, i64, i64);

fn trace_of(rows: &[Row], values: &[(i64, f64)]) -> Trace {
    let mut batch = Batch::default();
    let other = batch.category("work", SpanKind::Other);
    for (at, &(thread, name, start, dur)) in rows.iter().enumerate() {
        let (kind, thread) = match thread {
            0..=2 => (TrackKind::Thread, format!("{thread}")),
            3 => (TrackKind::Thread, "stream 3".to_owned()),
            _ => (TrackKind::Async, "work".to_owned()),
        };
        let track = batch.track(kind, ["10", "a process"][usize::from(name % 2)], &thread);
        let name = batch.string(["", "a", "b\"\\\n\u{1f980}", "c"][usize::from(name % 4)]);
        let offset = at as u64;
        let row = SpanRow { start, dur, key: NO_KEY, offset, name, category: other };
        batch.push_span(track, row);
    }
    let thread = batch.track(TrackKind::Thread, "10", "0");
    let name = batch.string("instant");
    for (at, &(time, value)) in values.iter().enumerate() {
        let offset = at as u64;
        let counter = batch.track(TrackKind::Counter, "10", "memory");
        batch.counters.push(CounterRow { time, offset, value, track: counter });
        batch.instants.push(InstantRow { time, offset, name, track: thread, category: other });
    }
    batch.seal();
    let mut builder = TraceBuilder::new(1);
    builder.push(batch);
    builder.finish(SourceInfo::default(), None)
}

fn check(rows: &[Row], values: &[(i64, f64)], write: Write) {
    let trace = trace_of(rows, values);
    let (_, back) = through(&trace, write, "random spans");
    assert_same(&kept(&back), &kept(&trace), "random spans");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn overlaps_survive(
        rows in prop::collection::vec((0u8..6, 0u8..8, 0i64..60, 0i64..30), 0..60),
        values in prop::collection::vec((0i64..60, -1e9f64..1e9), 0..20),
    ) {
        for write in crate::WRITERS {
            check(&rows, &values, write);
        }
    }
}

#[test]
fn times_of_a_clock_keep_every_nanosecond() {
    let far = 1_712_195_495_519_689_047;
    for write in crate::WRITERS {
        check(&[(0, 1, far, 1), (0, 3, far + 1, 999_999_999)], &[(far, 0.1)], write);
    }
}
