//! However a source is cut into batches, the trace is the same, and its order and
//! parents are those that brute force finds (I3, I7).

use proptest::prelude::*;
use spanwise_model::{
    Batch, NO_KEY, SourceInfo, SpanId, SpanKind, SpanRow, Trace, TraceBuilder, TrackKind,
};

/// Start, length, track, name, and the correlation id of a call or of GPU work.
type Row = (i64, i64, u8, u8, Option<u8>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (-20..60i64, 0..30i64, 0..3u8, 0..4u8, proptest::option::of(0..6u8));
    proptest::collection::vec(row, 0..60)
}

/// Builds a trace of rows that are cut into batches of these lengths.
fn build(rows: &[Row], lengths: &[usize], threads: usize) -> Trace {
    let mut builder = TraceBuilder::new(threads);
    let mut at = 0;
    let lengths = lengths.iter().copied().chain([usize::MAX]);
    for len in lengths {
        let mut batch = Batch::default();
        let end = at + len.min(rows.len() - at);
        for (offset, &(start, dur, track, name, key)) in rows.iter().enumerate().take(end).skip(at)
        {
            let is_gpu = track == 2;
            let kind = if is_gpu { SpanKind::Kernel } else { SpanKind::Runtime };
            let category = batch.category(if is_gpu { "kernel" } else { "runtime" }, kind);
            let track = batch.track(TrackKind::Thread, "p", &track.to_string());
            let name = batch.string(&name.to_string());
            let key = key.map_or(NO_KEY, u64::from);
            let offset = offset as u64;
            batch.push_span(track, SpanRow { start, dur, key, offset, name, category });
        }
        batch.seal();
        builder.push(batch);
        at = end;
    }
    builder.finish(SourceInfo::default(), None)
}

fn image(trace: &Trace) -> String {
    let (strings, tracks) = (trace.strings().bytes().as_slice(), trace.tracks());
    format!("{:?}{strings:?}{tracks:?}{:?}", trace.spans(), trace.notices())
}

proptest! {
    #[test]
    fn cuts_do_not_show(
        rows in rows(),
        lengths in proptest::collection::vec(0..20usize, 0..8),
        threads in 1..4usize,
    ) {
        let whole = build(&rows, &[], 1);
        prop_assert_eq!(whole.check(), Ok(()));
        prop_assert_eq!(image(&build(&rows, &lengths, threads)), image(&whole));
    }

    #[test]
    fn parents_and_launches_are_those_of_brute_force(rows in rows()) {
        let trace = build(&rows, &[7, 13], 2);
        let spans = trace.spans();
        prop_assert_eq!(spans.len(), rows.len());
        let key = |span: SpanId| rows[spans.offset(span) as usize].4;
        for span in spans.ids() {
            let is_open = |other: &SpanId| {
                spans.track(*other) == spans.track(span) && spans.end(*other) > spans.start(span)
            };
            let parent = (0..span.0).rev().map(SpanId).find(is_open);
            prop_assert_eq!(spans.parent(span), parent);
            let is_gpu = trace.kind(span) == SpanKind::Kernel;
            let is_call = |call: &SpanId| {
                trace.kind(*call) == SpanKind::Runtime && key(*call) == key(span)
            };
            let calls = spans.ids().filter(is_call).filter(|_| is_gpu && key(span).is_some());
            let last = calls.map(|call| spans.start(call)).max();
            prop_assert_eq!(spans.launch(span).map(|call| spans.start(call)), last);
        }
    }
}
