//! How long the calls of one function take, and what is different in the slow ones.

use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, StrId};

use super::{NamePattern, calls_on_threads};
use crate::{Facts, Percentiles, TotalNanos};

/// All calls that fit a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    pub name: String,
    pub each: Percentiles,
    pub min_ns: Nanos,
    pub p999_ns: Nanos,
    pub sum_ns: TotalNanos,
    pub buckets: Vec<Bucket>,
    /// The slowest calls, the slowest first.
    pub slowest: Vec<SlowCall>,
}

/// Calls that took from `from_ns` up to, but not including, `to_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    pub from_ns: Nanos,
    pub to_ns: Nanos,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCall {
    pub name: String,
    pub thread: String,
    /// Since the beginning of the recording.
    pub at_ns: TotalNanos,
    pub dur_ns: Nanos,
    /// What took longest beyond its usual time, most first.
    pub differences: Vec<CallDifference>,
}

/// Time in something that the function called, against the median over all its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDifference {
    /// `None` for the function's own code.
    pub callee: Option<String>,
    pub here_ns: TotalNanos,
    pub usual_ns: TotalNanos,
}

impl CallDifference {
    pub fn more_ns(&self) -> TotalNanos {
        self.here_ns - self.usual_ns
    }
}

/// How many differences of a call are worth reporting.
const DIFFERENCES_MAX: usize = 3;

/// `None` where nothing of the name was called.
pub fn latency(facts: &Facts, name: &NamePattern, slowest: usize) -> Option<Latency> {
    let trace = facts.trace();
    let mut fits: BTreeMap<StrId, bool> = BTreeMap::new();
    let mut calls = calls_on_threads(facts);
    calls.retain(|&span| {
        let id = trace.spans().name(span);
        *fits.entry(id).or_insert_with(|| name.fits(trace.strings().get(id)))
    });
    let mut lengths: Vec<Nanos> = calls.iter().map(|&span| trace.spans().dur(span)).collect();
    lengths.sort_unstable();
    let (&min_ns, &max_ns) = (lengths.first()?, lengths.last()?);
    let p999_ns = lengths[(lengths.len() * 999).div_ceil(1000) - 1];
    let inside = Inside::new(facts, &calls);
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&call| {
        let span = calls[call];
        (std::cmp::Reverse(trace.spans().dur(span)), trace.spans().start(span), span)
    });
    let slow = order.into_iter().take(slowest).map(|call| slow_call(facts, &inside, &calls, call));
    Some(Latency {
        name: name.text().to_owned(),
        min_ns,
        p999_ns,
        sum_ns: lengths.iter().map(|&ns| i128::from(ns)).sum(),
        buckets: buckets(&lengths, max_ns),
        slowest: slow.collect(),
        each: Percentiles::of(lengths),
    })
}

fn slow_call(facts: &Facts, inside: &Inside, calls: &[SpanId], call: usize) -> SlowCall {
    let trace = facts.trace();
    let span = calls[call];
    let track = trace.tracks().get(trace.spans().track(span));
    let names = [track.thread_name, track.thread].map(|name| trace.strings().get(name));
    let thread = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    SlowCall {
        name: trace.name(span).to_owned(),
        thread: thread.to_owned(),
        at_ns: i128::from(trace.spans().start(span)) - i128::from(facts.window().0),
        dur_ns: trace.spans().dur(span),
        differences: inside.differences(facts, call),
    }
}

/// Bounds of 1, 2 and 5 in each power of ten.
fn buckets(lengths: &[Nanos], max_ns: Nanos) -> Vec<Bucket> {
    debug_assert!(lengths.is_sorted());
    let mut buckets = Vec::new();
    let (mut from_ns, mut unit, mut step) = (0, 1, 0);
    while from_ns <= max_ns {
        let to_ns = [1, 2, 5][step] * unit;
        let below = |bound: Nanos| lengths.partition_point(|&ns| ns < bound);
        let count = (below(to_ns) - below(from_ns)) as u64;
        buckets.push(Bucket { from_ns, to_ns, count });
        from_ns = to_ns;
        step = (step + 1) % 3;
        if step == 0 {
            let Some(next) = Nanos::checked_mul(unit, 10).filter(|next| *next < Nanos::MAX / 10)
            else {
                break;
            };
            unit = next;
        }
    }
    let first = buckets.iter().position(|bucket| bucket.count > 0).unwrap_or(0);
    buckets.split_off(first)
}

/// Where the time inside each call went.
struct Inside {
    /// By call and callee; `None` is the function's own code. In order.
    parts: Vec<(usize, Option<StrId>, TotalNanos)>,
    /// The median over all calls; a callee of less than half of them has none.
    usual: BTreeMap<Option<StrId>, TotalNanos>,
}

impl Inside {
    fn new(facts: &Facts, calls: &[SpanId]) -> Self {
        let (trace, self_time) = (facts.trace(), facts.self_time());
        let spans = trace.spans();
        let own = calls.iter().enumerate();
        let own = own.map(|(call, span)| (call, None, i128::from(self_time.span_ns[span.index()])));
        let mut parts: Vec<(usize, Option<StrId>, TotalNanos)> = own.collect();
        let place_of: BTreeMap<SpanId, usize> =
            calls.iter().enumerate().map(|(call, &span)| (span, call)).collect();
        for span in spans.ids() {
            if let Some(&call) = spans.parent(span).and_then(|parent| place_of.get(&parent)) {
                let callee = facts.names().merged(spans.name(span));
                parts.push((call, Some(callee), i128::from(spans.dur(span))));
            }
        }
        parts.sort_by_key(|&(call, callee, _)| (call, callee));
        parts.dedup_by(|next, sum| {
            let is_same = (next.0, next.1) == (sum.0, sum.1);
            sum.2 += if is_same { next.2 } else { 0 };
            is_same
        });
        let usual = usual(&parts, calls.len());
        Inside { parts, usual }
    }

    fn differences(&self, facts: &Facts, call: usize) -> Vec<CallDifference> {
        let from = self.parts.partition_point(|part| part.0 < call);
        let to = self.parts.partition_point(|part| part.0 <= call);
        let parts = self.parts[from..to].iter();
        let mut differences: Vec<CallDifference> = parts
            .map(|&(_, callee, here_ns)| CallDifference {
                callee: callee.map(|callee| facts.names().text(callee).into_owned()),
                here_ns,
                usual_ns: self.usual.get(&callee).copied().unwrap_or(0),
            })
            .filter(|difference| difference.more_ns() > 0)
            .collect();
        differences.sort_by(|a, b| (b.more_ns(), &a.callee).cmp(&(a.more_ns(), &b.callee)));
        differences.truncate(DIFFERENCES_MAX);
        differences
    }
}

fn usual(
    parts: &[(usize, Option<StrId>, TotalNanos)],
    calls: usize,
) -> BTreeMap<Option<StrId>, TotalNanos> {
    let mut by_callee: BTreeMap<Option<StrId>, Vec<TotalNanos>> = BTreeMap::new();
    for &(_, callee, ns) in parts {
        by_callee.entry(callee).or_default().push(ns);
    }
    let median = |mut times: Vec<TotalNanos>| {
        times.sort_unstable();
        // Calls without the callee count as 0, before all others.
        let missing = calls - times.len();
        let rank = calls.div_ceil(2) - 1;
        rank.checked_sub(missing).map_or(0, |rank| times[rank])
    };
    by_callee.into_iter().map(|(callee, times)| (callee, median(times))).collect()
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn the_slow_call_says_which_callee_took_longer() {
        let mut sample = Sample::default();
        for (start, length, inner) in [(0, 10, 4), (100, 12, 5), (200, 90, 80), (300, 11, 4)] {
            sample.span("1", SpanKind::Other, "f", start, length);
            sample.span("1", SpanKind::Other, "lock", start + 1, inner);
        }
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let found = latency(&facts, &NamePattern::new("f"), 1).expect("f was called");
        assert_eq!((found.each.count, found.min_ns, found.each.p50_ns), (4, 10, 11));
        assert_eq!(found.sum_ns, 123);
        let slow = &found.slowest[0];
        assert_eq!((slow.at_ns, slow.dur_ns), (200, 90));
        let lock = CallDifference { callee: Some("lock".into()), here_ns: 80, usual_ns: 4 };
        let own = CallDifference { callee: None, here_ns: 10, usual_ns: 7 };
        assert_eq!(slow.differences, [lock, own]);
        assert_eq!(latency(&facts, &NamePattern::new("g"), 1), None);
    }

    #[test]
    fn buckets_cover_every_length_once() {
        let check = |lengths: &[Nanos], expected: &[(Nanos, Nanos, u64)]| {
            let max = lengths.last().copied().unwrap_or(0);
            let found = buckets(lengths, max);
            let found: Vec<_> =
                found.iter().map(|bucket| (bucket.from_ns, bucket.to_ns, bucket.count)).collect();
            assert_eq!(found, expected);
        };
        check(&[0], &[(0, 1, 1)]);
        check(&[3, 4, 12], &[(2, 5, 2), (5, 10, 0), (10, 20, 1)]);
        check(&[5, 9], &[(5, 10, 2)]);
    }
}
