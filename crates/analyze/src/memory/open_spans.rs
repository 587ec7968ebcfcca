//! What a thread was inside of at given moments.

use spanwise_model::{SpanId, Trace, TrackId};

use crate::cpu::self_time::{is_asynchronous, on_stack_by_category};

/// For each of the ascending moments the innermost span open on the thread.
///
/// An outer span may end before an inner one; it then lies dead in the stack until it
/// comes to the top, so the walk is linear.
pub(super) fn innermost_at(trace: &Trace, thread: TrackId, times: &[i64]) -> Vec<Option<SpanId>> {
    debug_assert!(times.is_sorted());
    let spans = trace.spans();
    let on_stack = on_stack_by_category(trace);
    let takes_part =
        |&span: &SpanId| on_stack[spans.category(span).index()] && !is_asynchronous(trace, span);
    let mut rows = trace.tracks().get(thread).span_ids().filter(takes_part).peekable();
    let mut open: Vec<SpanId> = Vec::new();
    let at = |&time: &i64| {
        while let Some(span) = rows.next_if(|&span| spans.start(span) <= time) {
            while open.last().is_some_and(|&top| spans.end(top) <= spans.start(span)) {
                open.pop();
            }
            open.push(span);
        }
        while open.last().is_some_and(|&top| spans.end(top) <= time) {
            open.pop();
        }
        open.last().copied()
    };
    times.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    fn traced(spans: &[(i64, i64)]) -> Arc<Trace> {
        let mut sample = Sample::default();
        for &(start, dur) in spans {
            sample.span("1", SpanKind::Other, "work", start, dur);
        }
        sample.finish()
    }

    #[track_caller]
    fn check(spans: &[(i64, i64)], time: i64, expected: Option<u32>) {
        let found = innermost_at(&traced(spans), TrackId(0), &[time]);
        assert_eq!(found, [expected.map(SpanId)]);
    }

    #[test]
    fn a_span_holds_its_first_moment_and_not_its_end() {
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
        assert_eq!(innermost_at(&sample.finish(), TrackId(0), &[3]), [Some(SpanId(0))]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn agrees_with_looking_at_every_span(
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
            prop_assert_eq!(innermost_at(&trace, TrackId(0), &times), expected);
        }
    }
}
