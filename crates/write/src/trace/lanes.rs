//! Spans that overlap without nesting, set apart.
//!
//! Viewers draw a track as a stack and drop what does not nest. Here such a span goes
//! to the first lane of its track where it does.

use std::io;

use spanwise_model::{Nanos, SpanId, Trace, Track};

/// What happens on the lanes of a track, which are numbered from 0.
pub(super) enum Step {
    /// One more lane is used from here on; the first needs no such step.
    Further(usize),
    Begin(usize, SpanId),
    End(usize, SpanId, Nanos),
}

/// Goes through a track: every span begins on a lane, in order, and ends there before
/// the next to which it is not the parent.
pub(super) fn walk(
    trace: &Trace,
    track: &Track,
    mut visit: impl FnMut(Step) -> io::Result<()>,
) -> io::Result<()> {
    let spans = trace.spans();
    let (mut lanes, mut lanes_known) = (Lanes::default(), 1);
    for span in track.span_ids() {
        let lane = lanes.enter(span, spans.start(span), spans.end(span));
        for (lane, span, end) in lanes.take_closed() {
            visit(Step::End(lane, span, end))?;
        }
        if lane == lanes_known {
            visit(Step::Further(lane))?;
            lanes_known += 1;
        }
        visit(Step::Begin(lane, span))?;
    }
    let left = lanes.close_all();
    left.into_iter().try_for_each(|(lane, span, end)| visit(Step::End(lane, span, end)))
}

/// The lanes of one track while its spans go by in order.
#[derive(Default)]
struct Lanes {
    /// What is open in each lane, the innermost last.
    open: Vec<Vec<(SpanId, Nanos)>>,
    /// What has ended since it was last taken: the lane, the span, its end.
    closed: Vec<(usize, SpanId, Nanos)>,
}

impl Lanes {
    /// The lane of the next span. `closed` grows by what ends before it.
    fn enter(&mut self, span: SpanId, start: Nanos, end: Nanos) -> usize {
        for (lane, open) in self.open.iter_mut().enumerate() {
            while let Some((inner, inner_end)) = open.pop_if(|(_, inner_end)| *inner_end <= start) {
                self.closed.push((lane, inner, inner_end));
            }
            if open.last().is_none_or(|&(_, outer_end)| outer_end >= end) {
                open.push((span, end));
                return lane;
            }
        }
        self.open.push(vec![(span, end)]);
        self.open.len() - 1
    }

    /// What has ended, in the order in which it did in each lane.
    fn take_closed(&mut self) -> Vec<(usize, SpanId, Nanos)> {
        std::mem::take(&mut self.closed)
    }

    /// Ends everything; the track has no more spans.
    fn close_all(&mut self) -> Vec<(usize, SpanId, Nanos)> {
        for (lane, open) in self.open.iter_mut().enumerate() {
            let left = open.drain(..).rev();
            self.closed.extend(left.map(|(span, end)| (lane, span, end)));
        }
        self.take_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spans: &[(Nanos, Nanos)], expected: &[usize]) {
        let mut lanes = Lanes::default();
        let enter = |(row, &(start, end)): (usize, &(Nanos, Nanos))| {
            lanes.enter(SpanId(row as u32), start, end)
        };
        let found: Vec<usize> = spans.iter().enumerate().map(enter).collect();
        assert_eq!(found, expected);
        assert_eq!(lanes.close_all().len(), spans.len());
    }

    #[test]
    fn what_nests_stays_together() {
        check(&[(0, 9), (0, 4), (4, 9), (9, 9), (9, 12)], &[0; 5]);
    }

    #[test]
    fn what_overlaps_goes_elsewhere() {
        check(&[(0, 9), (5, 12), (8, 20), (9, 10), (20, 21)], &[0, 1, 2, 0, 0]);
    }
}
