//! Slices against a brute-force oracle.

use std::sync::Arc;

use proptest::prelude::*;
use spanwise_model::{SpanId, SpanKind, Trace, TrackKind};

use super::{Rows, Slice, Viewport, gallop};
use crate::base::sample::Sample;

fn trace_of(kind: SpanKind, spans: &[(i64, i64)]) -> Arc<Trace> {
    let mut sample = Sample::default();
    for &(start, dur) in spans {
        sample.span("1", kind, "call", start, dur);
    }
    sample.finish()
}

fn rows_of(trace: &Arc<Trace>) -> Rows {
    let track = trace.tracks().rows().iter().find(|row| !row.spans.is_empty());
    Rows::of(trace, track.expect("a track"))
}

/// `(row, start, end, count, covered)` of each slice.
#[track_caller]
fn check(spans: &[(i64, i64)], viewport: (i64, i64, u32), expected: &[(u32, i64, i64, u32, i64)]) {
    let trace = trace_of(SpanKind::Operator, spans);
    let slices =
        rows_of(&trace).slices(Viewport::new(viewport.0, viewport.1, viewport.2), usize::MAX);
    let short = |s: &Slice| (s.row, s.start, s.end, s.count, s.covered_ns);
    assert_eq!(slices.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_wide_enough_comes_one_by_one() {
    check(
        &[(0, 50), (10, 20), (60, 40)],
        (0, 100, 10),
        &[(0, 0, 50, 1, 50), (0, 60, 100, 1, 40), (1, 10, 30, 1, 20)],
    );
}

#[test]
fn what_shares_a_pixel_is_one() {
    check(
        &[(0, 1), (2, 1), (5, 3), (11, 1), (12, 30)],
        (0, 100, 10),
        &[(0, 0, 8, 3, 5), (0, 11, 12, 1, 1), (0, 12, 42, 1, 30)],
    );
}

#[test]
fn only_the_window_is_shown() {
    check(
        &[(0, 10), (10, 0), (20, 10), (40, 10)],
        (10, 40, 30),
        &[(0, 10, 10, 1, 0), (0, 20, 30, 1, 10)],
    );
    check(&[(0, 100)], (40, 60, 10), &[(0, 0, 100, 1, 100)]);
    check(&[(0, 100)], (60, 40, 10), &[(0, 0, 100, 1, 100)]);
    check(&[(0, 10)], (10, 20, 0), &[]);
}

#[test]
fn neighbors_that_overlap_a_little_need_two_rows() {
    let steps: Vec<(i64, i64)> =
        (0..100).flat_map(|at| [(at * 100, 105), (at * 100 + 20, 60)]).collect();
    let trace = trace_of(SpanKind::Operator, &steps);
    let rows = rows_of(&trace);
    assert_eq!(rows.len(), 3);
    let rows_of_steps = trace.spans().ids().filter(|&span| trace.spans().dur(span) == 105);
    let rows_of_steps: Vec<_> = rows_of_steps.filter_map(|span| rows.row_of(span)).collect();
    assert_eq!(rows_of_steps[..4], [0, 1, 0, 1]);
}

#[test]
fn galloping_finds_what_bisection_finds() {
    for len in 0..40 {
        let entries: Vec<usize> = (0..len).collect();
        for bound in 0..=len + 1 {
            assert_eq!(gallop(&entries, |&at| at < bound), bound.min(len), "{bound} of {len}");
        }
    }
}

proptest! {
    #[test]
    fn rows_never_overlap_and_slices_lose_nothing(
        spans in prop::collection::vec((0i64..500, 0i64..60), 1..400),
        kernels: bool,
        (from, width, pixels) in (0i64..500, 1i64..600, 1u32..80),
    ) {
        let kind = if kernels { SpanKind::Kernel } else { SpanKind::Operator };
        let trace = trace_of(kind, &spans);
        let is_stream = trace.tracks().rows()[0].kind == TrackKind::GpuStream;
        prop_assert_eq!(is_stream, kernels);
        let rows = rows_of(&trace);
        let columns = trace.spans();
        for row in 0..rows.len() {
            let ids = rows.row(row).ids;
            let is_apart =
                |pair: &[u32]| columns.end(SpanId(pair[0])) <= columns.start(SpanId(pair[1]));
            prop_assert!(ids.windows(2).all(is_apart));
            prop_assert!(ids.iter().all(|&id| rows.row_of(SpanId(id)) == Some(row as u32)));
        }
        let viewport = Viewport::new(from, from + width, pixels);
        let slices = rows.slices(viewport, usize::MAX);
        check_against_all(&trace, &rows, viewport, &slices)?;
    }
}

/// Every span of the window is in exactly one slice, which has its sums and its longest.
fn check_against_all(
    trace: &Arc<Trace>,
    rows: &Rows,
    viewport: Viewport,
    slices: &[Slice],
) -> Result<(), TestCaseError> {
    let spans = trace.spans();
    let is_seen = |span: SpanId| {
        let (start, end) = (spans.start(span), spans.end(span));
        start < viewport.to && (end > viewport.from || start >= viewport.from)
    };
    let mut seen = 0;
    for slice in slices {
        let inside: Vec<SpanId> = spans
            .ids()
            .filter(|&span| rows.row_of(span) == Some(slice.row))
            .filter(|&span| spans.start(span) >= slice.start && spans.end(span) <= slice.end)
            .collect();
        // Those without a length may stand at both ends of a neighbor.
        let lengths: Vec<i64> = inside.iter().map(|&span| spans.dur(span)).collect();
        prop_assert!(inside.len() >= slice.count as usize);
        prop_assert_eq!(lengths.iter().sum::<i64>(), slice.covered_ns);
        prop_assert_eq!(lengths.iter().max(), Some(&spans.dur(slice.longest)));
        prop_assert!(slice.count == 1 || slice.end - slice.start < 2 * viewport.pixel_ns);
        seen += slice.count as usize;
    }
    // A slice may reach over the window's end by what shares its last pixel.
    prop_assert!(seen >= spans.ids().filter(|&span| is_seen(span)).count());
    let pixels = (viewport.to - viewport.from) / viewport.pixel_ns + 2;
    prop_assert!(slices.len() as i64 <= rows.len() as i64 * (2 * pixels + 1));
    Ok(())
}

#[test]
fn long_rows_are_summed_by_blocks() {
    let spans: Vec<(i64, i64)> = (0..5000).map(|at| (at * 10, 1 + (at * 7) % 9)).collect();
    let trace = trace_of(SpanKind::Operator, &spans);
    let rows = rows_of(&trace);
    let slices = rows.slices(Viewport::new(0, 50_000, 1), usize::MAX);
    let covered: i64 = spans.iter().map(|span| span.1).sum();
    assert_eq!(slices.len(), 1);
    assert_eq!((slices[0].count, slices[0].covered_ns), (5000, covered));
    assert_eq!(trace.spans().dur(slices[0].longest), 9);
}
