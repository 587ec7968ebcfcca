//! What a thread was inside of at given times.

use spanwise_model::{SpanId, Trace, TrackId};

use crate::cpu::self_time::innermost_pieces;

/// For each of the ascending times the innermost span open on the thread.
pub(super) fn innermost_at(
    trace: &Trace,
    thread: TrackId,
    takes_part: &[bool],
    times: &[i64],
) -> Vec<Option<SpanId>> {
    debug_assert!(times.is_sorted());
    let mut found = vec![None; times.len()];
    let mut next = 0;
    innermost_pieces(trace, thread, takes_part, |span, from, to| {
        next += times[next..].partition_point(|&time| time < from);
        let end = next + times[next..].partition_point(|&time| time < to);
        found[next..end].fill(Some(span));
        next = end;
    });
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;
    use crate::cpu::self_time::takes_part;

    fn traced(spans: &[(i64, i64)]) -> Arc<Trace> {
        let mut sample = Sample::default();
        for &(start, dur) in spans {
            sample.span("1", SpanKind::Other, "work", start, dur);
        }
        sample.finish()
    }

    #[track_caller]
    fn check(spans: &[(i64, i64)], time: i64, expected: Option<u32>) {
        let trace = traced(spans);
        let found = innermost_at(&trace, TrackId(0), &takes_part(&trace), &[time]);
        assert_eq!(found, [expected.map(SpanId)]);
    }

    #[test]
    fn a_span_holds_its_first_instant_and_not_its_end() {
        check(&[(0, 10), (2, 3)], 2, Some(1));
        check(&[(0, 10), (2, 3)], 5, Some(0));
        check(&[(0, 10), (2, 3)], 10, None);
    }

    #[test]
    fn an_outer_span_that_ended_first_is_passed_over() {
        check(&[(0, 20), (1, 5), (4, 6)], 7, Some(2));
        check(&[(0, 20), (1, 5), (4, 6)], 12, Some(0));
    }

    #[test]
    fn the_profilers_own_spans_do_not_count() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "f", 0, 10);
        sample.span("1", SpanKind::Overhead, "flush", 2, 5);
        let trace = sample.finish();
        let found = innermost_at(&trace, TrackId(0), &takes_part(&trace), &[3]);
        assert_eq!(found, [Some(SpanId(0))]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn agrees_with_visiting_every_span(
            spans in prop::collection::vec((0..40_i64, 0..20_i64), 1..30),
            times in prop::collection::vec(0..70_i64, 0..20),
        ) {
            let trace = traced(&spans);
            let mut times = times;
            times.sort_unstable();
            let spans = trace.spans();
            let innermost = |&time: &i64| {
                let is_open = |&span: &SpanId| spans.start(span) <= time && time < spans.end(span);
                spans.ids().rfind(is_open)
            };
            let expected: Vec<Option<SpanId>> = times.iter().map(innermost).collect();
            let takes_part = takes_part(&trace);
            prop_assert_eq!(innermost_at(&trace, TrackId(0), &takes_part, &times), expected);
        }
    }
}
