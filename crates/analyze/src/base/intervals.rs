//! Sets of instants: union, intersection and difference, exact to the nanosecond.
//!
//! Every question about busy, idle, exposed and overlapped time is arithmetic on
//! such sets, so that parts add up to the whole by construction.

use spanwise_model::Nanos;

use crate::TotalNanos;

/// From, and the first nanosecond after.
pub(crate) type Interval = (Nanos, Nanos);

/// A set that knows how much of a window it covers without walking through it.
pub(crate) struct CoveredSet {
    set: IntervalSet,
    /// By interval: the length of all before it; and of all.
    before_ns: Vec<TotalNanos>,
}

impl CoveredSet {
    pub(crate) fn new(set: IntervalSet) -> Self {
        let mut before_ns = vec![0];
        let mut sum = 0;
        before_ns.extend(set.iter().map(|interval| {
            sum += length(interval);
            sum
        }));
        CoveredSet { set, before_ns }
    }

    /// The same as [`IntervalSet::covered_ns`].
    pub(crate) fn covered_ns(&self, window: Interval) -> TotalNanos {
        let (from, to) = window;
        let first = self.set.0.partition_point(|interval| interval.1 <= from);
        let end = self.set.0.partition_point(|interval| interval.0 < to);
        if first >= end {
            return 0;
        }
        let outside =
            length((self.set.0[first].0, from)).max(0) + length((to, self.set.0[end - 1].1)).max(0);
        self.before_ns[end] - self.before_ns[first] - outside
    }
}

/// Intervals that ascend, have a length, and neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IntervalSet(Vec<Interval>);

impl IntervalSet {
    /// Of intervals in any order; those without length vanish.
    pub(crate) fn new(mut intervals: Vec<Interval>) -> Self {
        if !intervals.is_sorted() {
            intervals.sort_unstable();
        }
        let mut set: Vec<Interval> = Vec::with_capacity(intervals.len());
        for (from, to) in intervals.into_iter().filter(|(from, to)| from < to) {
            match set.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => set.push((from, to)),
            }
        }
        IntervalSet(set)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Interval> {
        self.0.iter().copied()
    }

    pub(crate) fn total_ns(&self) -> TotalNanos {
        self.iter().map(length).sum()
    }

    pub(crate) fn union(&self, other: &IntervalSet) -> IntervalSet {
        IntervalSet::new([self.0.as_slice(), other.0.as_slice()].concat())
    }

    pub(crate) fn intersection(&self, other: &IntervalSet) -> IntervalSet {
        let (mut left, mut right) = (self.0.as_slice(), other.0.as_slice());
        let mut common = Vec::new();
        while let (Some(&a), Some(&b)) = (left.first(), right.first()) {
            let both = (a.0.max(b.0), a.1.min(b.1));
            if both.0 < both.1 {
                common.push(both);
            }
            match a.1 <= b.1 {
                true => left = &left[1..],
                false => right = &right[1..],
            }
        }
        IntervalSet(common)
    }

    pub(crate) fn minus(&self, other: &IntervalSet) -> IntervalSet {
        let mut rest = Vec::new();
        let mut cuts = other.0.as_slice();
        for (mut from, to) in self.iter() {
            while let Some(&cut) = cuts.first().filter(|cut| cut.0 < to) {
                if from < cut.0 {
                    rest.push((from, cut.0));
                }
                from = from.max(cut.1);
                // A cut that reaches further may also cut the next interval.
                if cut.1 > to {
                    break;
                }
                cuts = &cuts[1..];
            }
            if from < to {
                rest.push((from, to));
            }
        }
        IntervalSet(rest)
    }

    /// The instants of `window` that are not in the set.
    pub(crate) fn gaps(&self, window: Interval) -> IntervalSet {
        IntervalSet::new(vec![window]).minus(self)
    }

    /// The intervals that share an instant with `window`, cut to it.
    pub(crate) fn within(&self, window: Interval) -> impl Iterator<Item = Interval> {
        let first = self.0.partition_point(|interval| interval.1 <= window.0);
        self.0[first..]
            .iter()
            .take_while(move |interval| interval.0 < window.1)
            .map(move |&(from, to)| (from.max(window.0), to.min(window.1)))
            .filter(|(from, to)| from < to)
    }

    /// How much of `window` the set covers.
    pub(crate) fn covered_ns(&self, window: Interval) -> TotalNanos {
        self.within(window).map(length).sum()
    }

    pub(crate) fn cut_to(&self, window: Interval) -> IntervalSet {
        IntervalSet(self.within(window).collect())
    }

    /// The interval that holds this instant.
    pub(crate) fn at(&self, time: Nanos) -> Option<Interval> {
        let place = self.0.partition_point(|interval| interval.1 <= time);
        self.0.get(place).copied().filter(|interval| interval.0 <= time)
    }
}

pub(crate) fn length(interval: Interval) -> TotalNanos {
    i128::from(interval.1) - i128::from(interval.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLOCK: i64 = 40;

    fn intervals() -> impl Strategy<Value = Vec<Interval>> {
        let interval = (0..CLOCK, 0..9_i64).prop_map(|(from, dur)| (from, (from + dur).min(CLOCK)));
        prop::collection::vec(interval, 0..9)
    }

    /// Each instant by itself.
    fn instants(intervals: &[Interval]) -> Vec<bool> {
        let is_in = |time| intervals.iter().any(|&(from, to)| from <= time && time < to);
        (0..CLOCK).map(is_in).collect()
    }

    fn of_instants(is_in: impl Fn(usize) -> bool) -> IntervalSet {
        let single = |time: usize| (time as i64, time as i64 + 1);
        let times = (0..CLOCK as usize).filter(|&time| is_in(time));
        IntervalSet::new(times.map(single).collect())
    }

    proptest! {
        #[test]
        fn sets_agree_with_single_instants(a in intervals(), b in intervals()) {
            let (in_a, in_b) = (instants(&a), instants(&b));
            let (a, b) = (IntervalSet::new(a), IntervalSet::new(b));
            prop_assert_eq!(a.union(&b), of_instants(|at| in_a[at] || in_b[at]));
            prop_assert_eq!(a.intersection(&b), of_instants(|at| in_a[at] && in_b[at]));
            prop_assert_eq!(a.minus(&b), of_instants(|at| in_a[at] && !in_b[at]));
            prop_assert_eq!(a.gaps((0, CLOCK)), of_instants(|at| !in_a[at]));
            let covered = CoveredSet::new(a.clone());
            for window in b.iter() {
                prop_assert_eq!(covered.covered_ns(window), a.covered_ns(window));
            }
            prop_assert_eq!(a.total_ns(), in_a.iter().filter(|&&is| is).count() as i128);
        }

        #[test]
        fn a_window_sees_its_own_instants(a in intervals(), from in 0..CLOCK, dur in 0..20_i64) {
            let window = (from, (from + dur).min(CLOCK));
            let inside = |at: usize| window.0 <= at as i64 && (at as i64) < window.1;
            let is_in = instants(&a);
            let set = IntervalSet::new(a);
            let expected = of_instants(|at| is_in[at] && inside(at));
            prop_assert_eq!(set.covered_ns(window), expected.total_ns());
            prop_assert_eq!(set.cut_to(window), expected);
            prop_assert_eq!(set.at(from).is_some(), is_in[from as usize]);
        }
    }
}
