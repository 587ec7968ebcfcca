//! How much time intervals cover together.

use crate::TotalNanos;

/// Total length covered by the intervals; where they overlap counts once.
///
/// `intervals` ascend by start.
pub(crate) fn covered_ns<T: Into<i128>>(intervals: impl IntoIterator<Item = (T, T)>) -> TotalNanos {
    let mut union = Union::default();
    intervals.into_iter().map(|(start, end)| union.add(start, end)).sum()
}

/// The union of intervals that ascend by start, as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Union {
    /// Where the intervals so far end; before all of time where there is none.
    pub(crate) reached: i128,
}

impl Default for Union {
    fn default() -> Self {
        Union { reached: i128::MIN }
    }
}

impl Union {
    /// What the interval covers beyond those before it.
    pub(crate) fn add<T: Into<i128>>(&mut self, start: T, end: T) -> TotalNanos {
        let (start, end) = (start.into(), end.into());
        let beyond = end.saturating_sub(start.max(self.reached)).max(0);
        self.reached = self.reached.max(end);
        beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(intervals: &[(i64, i64)], expected: TotalNanos) {
        assert_eq!(covered_ns(intervals.iter().copied()), expected);
    }

    #[test]
    fn overlap_counts_once() {
        check(&[(0, 10), (5, 15)], 15);
    }

    #[test]
    fn gaps_do_not_count() {
        check(&[(0, 10), (20, 25)], 15);
    }

    #[test]
    fn intervals_inside_another_add_nothing() {
        check(&[(0, 10), (2, 3), (4, 4)], 10);
    }

    #[test]
    fn the_whole_clock_does_not_overflow() {
        check(&[(i64::MIN, 0), (0, i64::MAX)], (1 << 64) - 1);
    }
}
