//! Self time: each instant of a thread belongs to exactly one span.
//!
//! The stack at an instant is every span open then, in row order (start, longest
//! first, file order); the instant is credited to the last of them, the innermost.
//! Subtracting children from their parents, the usual way, counts time twice and
//! gives negative values as soon as spans overlap without nesting, and every
//! `record_function` block in a PyTorch trace does. With this rule the self times
//! of a thread add up to the union of its spans, to the nanosecond (I9).

use spanwise_model::{Nanos, SpanId, SpanKind, Trace, TrackId, TrackKind};

use crate::TotalNanos;
use crate::base::cover::covered_ns;

/// Self time of every span that may stand in a thread's call stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTime {
    /// One entry a span of the trace; 0 for what is not on a thread's stack.
    pub span_ns: Vec<Nanos>,
    /// One entry a thread, in order of tracks.
    pub threads: Vec<TrackTime>,
}

/// What the spans of one thread amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackTime {
    pub track: TrackId,
    /// Spans that take part.
    pub spans: u64,
    /// Length of the union of the spans.
    pub busy_ns: TotalNanos,
    /// Sum of their self times; equal to `busy_ns` unless spanwise has a bug.
    pub self_ns: TotalNanos,
}

/// Self time per span and per thread.
pub fn self_time(trace: &Trace) -> SelfTime {
    let takes_part = takes_part(trace);
    let spans = trace.spans();
    let mut span_ns = vec![0; spans.len()];
    let mut threads = Vec::new();
    for (track, row) in trace.tracks().iter().filter(|(_, row)| row.kind == TrackKind::Thread) {
        let rows = row.rows();
        let starts = &spans.start_column()[rows.clone()];
        let durs = &spans.dur_column()[rows.clone()];
        let takes_part = &takes_part[rows.clone()];
        let self_ns = &mut span_ns[rows.clone()];
        credit_innermost(starts, durs, takes_part, |row, from, to| self_ns[row] += to - from);
        let intervals = starts.iter().zip(durs).zip(takes_part).filter(|&(_, &takes)| takes);
        threads.push(TrackTime {
            track,
            spans: takes_part.iter().filter(|&&takes| takes).count() as u64,
            busy_ns: covered_ns(intervals.map(|((&start, &dur), _)| (start, start + dur))),
            self_ns: span_ns[rows].iter().map(|&ns| i128::from(ns)).sum(),
        });
    }
    SelfTime { span_ns, threads }
}

/// Self time of the spans of one thread inside `[from, to)`, in order of rows.
pub(crate) fn self_time_within(
    trace: &Trace,
    track: TrackId,
    within: (Nanos, Nanos),
) -> Vec<(SpanId, Nanos)> {
    let (from, to) = within;
    let spans = trace.spans();
    let is_inside = |&span: &SpanId| {
        trace.kind(span).is_on_stack() && spans.start(span) < to && spans.end(span) > from
    };
    let rows: Vec<SpanId> = trace.tracks().get(track).span_ids().filter(is_inside).collect();
    let starts: Vec<i64> = rows.iter().map(|&span| spans.start(span).max(from)).collect();
    let ends = rows.iter().map(|&span| spans.end(span).min(to));
    // Ends lie behind starts, and both inside a span: the difference fits.
    let durs: Vec<i64> = ends.zip(&starts).map(|(end, start)| end - start).collect();
    let mut self_ns = vec![0; rows.len()];
    credit_innermost(&starts, &durs, &vec![true; rows.len()], |row, from, to| {
        self_ns[row] += to - from;
    });
    rows.into_iter().zip(self_ns).filter(|&(_, ns)| ns > 0).collect()
}

/// Cuts the busy time of a thread into pieces that belong to one innermost span each,
/// in order of time.
pub(crate) fn innermost_pieces(
    trace: &Trace,
    thread: TrackId,
    takes_part: &[bool],
    mut piece: impl FnMut(SpanId, Nanos, Nanos),
) {
    let rows = trace.tracks().get(thread).rows();
    let first = rows.start as u32;
    let starts = &trace.spans().start_column()[rows.clone()];
    let durs = &trace.spans().dur_column()[rows.clone()];
    credit_innermost(starts, durs, &takes_part[rows], |row, from, to| {
        piece(SpanId(first + row as u32), from, to);
    });
}

/// For each span whether it may stand in a thread's call stack.
pub(crate) fn takes_part(trace: &Trace) -> Vec<bool> {
    let spans = trace.spans();
    let on_stack = on_stack_by_category(trace);
    let takes = spans
        .ids()
        .map(|span| on_stack[spans.category(span).index()] && !is_asynchronous(trace, span));
    takes.collect()
}

/// Whether a range belongs to no call, because it outlives the operator that opened it.
///
/// It is an asynchronous collective, which would otherwise seem to be what the thread did
/// until it ended.
pub(crate) fn is_asynchronous(trace: &Trace, span: SpanId) -> bool {
    let spans = trace.spans();
    trace.kind(span) == SpanKind::Annotation
        && spans.parent(span).is_some_and(|parent| {
            trace.kind(parent) == SpanKind::Operator && spans.end(parent) < spans.end(span)
        })
}

/// For each category whether its spans may stand in a thread's call stack.
pub(crate) fn on_stack_by_category(trace: &Trace) -> Vec<bool> {
    trace.categories().rows().iter().map(|category| category.kind.is_on_stack()).collect()
}

/// Gives every covered instant to the innermost span open then.
///
/// `starts` ascends. An outer span may end before an inner one: it then lies dead
/// in the stack and is dropped when it comes to the top, so each span is pushed
/// and popped once and the sweep is linear.
fn credit_innermost(
    starts: &[i64],
    durs: &[i64],
    takes_part: &[bool],
    mut credit: impl FnMut(usize, i64, i64),
) {
    debug_assert!(starts.is_sorted());
    debug_assert!(starts.len() == durs.len());
    let mut open: Vec<(i64, usize)> = Vec::new();
    let mut reached = i64::MIN;
    for (row, ((&start, &dur), &takes)) in starts.iter().zip(durs).zip(takes_part).enumerate() {
        // A span without length never holds an instant.
        if !takes || dur == 0 {
            continue;
        }
        credit_until(start, &mut reached, &mut open, &mut credit);
        reached = start;
        open.push((start + dur, row));
    }
    credit_until(i64::MAX, &mut reached, &mut open, &mut credit);
}

/// Credits the time from `reached` to `until`, as far as spans are open.
fn credit_until(
    until: i64,
    reached: &mut i64,
    open: &mut Vec<(i64, usize)>,
    credit: &mut impl FnMut(usize, i64, i64),
) {
    while let Some(&(end, row)) = open.last() {
        if end > *reached {
            let stop = end.min(until);
            credit(row, *reached, stop);
            *reached = stop;
        }
        if end > until {
            return;
        }
        open.pop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    /// Spans of one thread as (start, length), in the order of the source.
    fn traced(spans: &[(i64, i64)]) -> Arc<Trace> {
        let mut sample = Sample::default();
        for &(start, dur) in spans {
            sample.span("1", SpanKind::Other, "work", start, dur);
        }
        sample.finish()
    }

    /// `expected` follows the rows of the trace.
    #[track_caller]
    fn check(spans: &[(i64, i64)], expected: &[i64]) {
        let time = self_time(&traced(spans));
        assert_eq!(time.span_ns, expected);
        for thread in time.threads {
            assert_eq!(thread.self_ns, thread.busy_ns);
        }
    }

    #[test]
    fn children_take_from_their_parent() {
        check(&[(0, 10), (2, 3), (6, 2)], &[5, 3, 2]);
    }

    #[test]
    fn a_span_that_outlives_its_parent_keeps_the_time() {
        check(&[(0, 10), (5, 10)], &[5, 10]);
    }

    #[test]
    fn an_outer_span_that_ends_first_is_skipped() {
        // The second ends inside the third; the rest belongs to the first.
        check(&[(0, 20), (1, 5), (4, 6)], &[11, 3, 6]);
    }

    #[test]
    fn of_identical_spans_the_last_in_the_file_is_innermost() {
        check(&[(3, 4), (3, 4)], &[0, 4]);
    }

    #[test]
    fn spans_without_length_have_no_self_time() {
        check(&[(0, 4), (2, 0), (4, 0)], &[4, 0, 0]);
    }

    #[test]
    fn touching_spans_do_not_mix() {
        check(&[(0, 4), (4, 4)], &[4, 4]);
    }

    #[test]
    fn time_before_zero_counts() {
        check(&[(-10, 20), (-5, 5)], &[15, 5]);
    }

    #[test]
    fn the_ends_of_the_clock_are_reached() {
        check(&[(i64::MIN, i64::MAX), (0, i64::MAX)], &[i64::MAX, i64::MAX]);
    }

    #[test]
    fn the_profilers_own_time_takes_no_part() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "f", 0, 10);
        sample.span("1", SpanKind::Overhead, "flush", 2, 5);
        assert_eq!(self_time(&sample.finish()).span_ns, [10, 0]);
    }

    #[test]
    fn a_part_of_the_time_is_cut_out() {
        let trace = traced(&[(0, 20), (1, 5), (4, 6), (30, 1)]);
        let part = self_time_within(&trace, TrackId(0), (5, 15));
        assert_eq!(part, [(SpanId(0), 5), (SpanId(2), 5)]);
    }

    /// Paints every nanosecond with the last open span, from the definition.
    fn painted(trace: &Arc<Trace>) -> Vec<i64> {
        let spans = trace.spans();
        let mut self_ns = vec![0; spans.len()];
        for track in trace.tracks().rows() {
            for time in -5..80 {
                let is_open = |&span: &SpanId| {
                    trace.kind(span).is_on_stack()
                        && (spans.start(span)..spans.end(span)).contains(&time)
                };
                if let Some(innermost) = track.span_ids().rfind(is_open) {
                    self_ns[innermost.index()] += 1;
                }
            }
        }
        self_ns
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn agrees_with_painting_every_nanosecond(
            spans in prop::collection::vec((0..3_u8, 0..4_u8, -5..50_i64, 0..30_i64), 0..60)
        ) {
            use SpanKind::{Annotation, Other, Overhead, Python};
            let kinds = [Other, Python, Annotation, Overhead];
            let mut sample = Sample::default();
            // Every thread has something on its stack, so that none is a profiler's row.
            for thread in ["0", "1", "2"] {
                sample.span(thread, SpanKind::Python, "first", -5, 1);
            }
            for (thread, kind, start, dur) in spans {
                sample.span(&thread.to_string(), kinds[usize::from(kind)], "work", start, dur);
            }
            let trace = sample.finish();
            prop_assert_eq!(trace.check(), Ok(()));
            let time = self_time(&trace);
            prop_assert_eq!(&time.span_ns, &painted(&trace));
            for thread in &time.threads {
                prop_assert_eq!(thread.self_ns, thread.busy_ns);
            }
        }
    }
}
