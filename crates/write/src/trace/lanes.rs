//! Spans that overlap without nesting, set apart.
//!
//! Viewers draw a track as a stack and drop what does not nest. Here such a span goes
//! to the first lane of its track where it does.

use std::io;

use spanwise_model::{Nanos, SpanId, Trace, Track, count_effort};

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
    /// When what is innermost in each lane ends.
    ends: Ends,
    /// What has ended since it was last taken: the lane, the span, its end.
    closed: Vec<(usize, SpanId, Nanos)>,
}

impl Lanes {
    /// The lane of the next span: the first in which it nests. `closed` grows by what ends
    /// before it in the lanes up to there.
    fn enter(&mut self, span: SpanId, start: Nanos, end: Nanos) -> usize {
        let mut from = 0;
        while let Some(lane) = self.ends.first_outside(from, start, end) {
            let open = &mut self.open[lane];
            while let Some((inner, inner_end)) = open.pop_if(|(_, inner_end)| *inner_end <= start) {
                self.closed.push((lane, inner, inner_end));
            }
            let fits = open.last().is_none_or(|&(_, outer_end)| outer_end >= end);
            if fits {
                open.push((span, end));
            }
            self.ends.set(lane, open.last().map_or(Nanos::MAX, |&(_, end)| end));
            if fits {
                return lane;
            }
            from = lane + 1;
        }
        self.open.push(vec![(span, end)]);
        self.ends.set(self.open.len() - 1, end);
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

/// An end for each lane, as a tree of the least and the greatest: thousands of spans that
/// overlap have as many lanes, and checking each for every span would take the square of that.
#[derive(Default)]
struct Ends {
    /// Two children at 2i and 2i + 1; lanes from the middle on.
    tree: Vec<(Nanos, Nanos)>,
    lanes_max: usize,
}

impl Ends {
    /// Lies inside of every range, so that it is never found.
    const NO_LANE: (Nanos, Nanos) = (Nanos::MAX, Nanos::MIN);

    fn set(&mut self, lane: usize, end: Nanos) {
        if lane >= self.lanes_max {
            self.grow((lane + 1).next_power_of_two());
        }
        let mut at = self.lanes_max + lane;
        self.tree[at] = (end, end);
        while at > 1 {
            at /= 2;
            self.tree[at] = self.joined(at);
            count_effort(1);
        }
    }

    fn joined(&self, at: usize) -> (Nanos, Nanos) {
        let (left, right) = (self.tree[2 * at], self.tree[2 * at + 1]);
        (left.0.min(right.0), left.1.max(right.1))
    }

    fn grow(&mut self, lanes_max: usize) {
        let known = self.tree.get(self.lanes_max..).unwrap_or_default().to_vec();
        self.tree = vec![Self::NO_LANE; 2 * lanes_max];
        self.tree[lanes_max..lanes_max + known.len()].copy_from_slice(&known);
        self.lanes_max = lanes_max;
        for at in (1..lanes_max).rev() {
            self.tree[at] = self.joined(at);
        }
    }

    /// The first lane from `from` on that ends at `start` or before, or at `end` or later.
    fn first_outside(&self, from: usize, start: Nanos, end: Nanos) -> Option<usize> {
        if from >= self.lanes_max {
            return None;
        }
        let is_outside = |(least, greatest): (Nanos, Nanos)| least <= start || greatest >= end;
        let mut at = self.lanes_max + from;
        // Up until a subtree to the right has one, then down to it.
        while !is_outside(self.tree[at]) {
            while at % 2 == 1 {
                at /= 2;
            }
            if at == 0 {
                return None;
            }
            at += 1;
            count_effort(1);
        }
        while at < self.lanes_max {
            at *= 2;
            if !is_outside(self.tree[at]) {
                at += 1;
            }
            count_effort(1);
        }
        Some(at - self.lanes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lane of each span, by checking all lanes.
    fn plainly(spans: &[(Nanos, Nanos)]) -> Vec<usize> {
        let mut lanes: Vec<Vec<Nanos>> = Vec::new();
        let lane_of = |&(start, end): &(Nanos, Nanos)| {
            for (lane, open) in lanes.iter_mut().enumerate() {
                while open.pop_if(|inner| *inner <= start).is_some() {}
                if open.last().is_none_or(|&outer| outer >= end) {
                    open.push(end);
                    return lane;
                }
            }
            lanes.push(vec![end]);
            lanes.len() - 1
        };
        spans.iter().map(lane_of).collect()
    }

    #[test]
    fn lanes_are_those_that_checking_all_of_them_gives() {
        let mut seed = 1_u64;
        let mut random = |below: i64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as i64 % below
        };
        for round in 1..200 {
            let mut span = |_| {
                let start = random(40);
                (start, start + random(round + 1))
            };
            let mut spans: Vec<(Nanos, Nanos)> = (0..round).map(&mut span).collect();
            spans.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
            check(&spans, &plainly(&spans));
        }
    }

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
