//! How much may be recorded in a second before it costs the program more than it is worth.
//!
//! Who is over the budget is switched off for a while, and for twice as long each time, so that
//! a program that always does too much is asked ever more seldom, and one that did so once is
//! recorded again.

use std::time::{Duration, Instant};

/// Whether something is recorded that can come too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPolicy {
    /// As long as there is not too much of it.
    Auto,
    Always,
    Never,
}

impl RecordPolicy {
    /// What options call each.
    pub const NAMES: [(&'static str, RecordPolicy); 3] = [
        ("auto", RecordPolicy::Auto),
        ("always", RecordPolicy::Always),
        ("never", RecordPolicy::Never),
    ];
}

const SECOND: Duration = Duration::from_secs(1);
/// Checks that follow each other faster than this are one.
const CHECK: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Off,
    On,
}

#[derive(Debug)]
pub(crate) struct Budget {
    per_second: u64,
    /// The beginning of the second that is counted.
    since: Instant,
    spent: u64,
    /// When it was last said how much there may be.
    granted: Instant,
    off_until: Option<Instant>,
    pause: Duration,
}

impl Budget {
    pub(crate) fn new(per_second: u64, now: Instant) -> Budget {
        Budget { per_second, since: now, spent: 0, granted: now, off_until: None, pause: SECOND }
    }

    /// How much there may be from now on until the next check: one more than in this second, so
    /// that it shows, and not so much at once that rings overflow or most of the second's budget
    /// is gone.
    pub(crate) fn grant(&mut self, now: Instant) -> u64 {
        self.granted = now;
        let left = self.per_second.saturating_sub(self.spent);
        left.saturating_add(1).min(self.per_second / 5)
    }

    /// The same, unless the last check was just now: rings that fill are polled ever sooner.
    pub(crate) fn grant_again(&mut self, now: Instant) -> Option<u64> {
        (now.saturating_duration_since(self.granted) >= CHECK).then(|| self.grant(now))
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off_until.is_some()
    }

    /// Takes note of how much there was since the last time.
    pub(crate) fn spend(&mut self, count: u64, now: Instant) -> Option<Change> {
        if let Some(until) = self.off_until {
            if now < until {
                return None;
            }
            (self.since, self.spent, self.off_until) = (now, 0, None);
            return Some(Change::On);
        }
        self.spent = self.spent.saturating_add(count);
        if self.spent > self.per_second {
            self.off_until = now.checked_add(self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            return Some(Change::Off);
        }
        if now.saturating_duration_since(self.since) >= SECOND {
            (self.since, self.spent) = (now, 0);
            // A whole second was cheap.
            self.pause = SECOND;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line: milliseconds since the beginning, how much there was, what is decided.
    fn check(lines: &[(u64, u64, Option<Change>)]) {
        let start = Instant::now();
        let mut budget = Budget::new(4000, start);
        for &(after_ms, count, expected) in lines {
            let now = start + Duration::from_millis(after_ms);
            assert_eq!(budget.spend(count, now), expected, "{after_ms} ms: {count}");
        }
    }

    #[test]
    fn a_second_has_a_budget() {
        check(&[
            (0, 2000, None),
            (900, 2000, None),
            (1000, 0, None),
            (1500, 4000, None),
            (1900, 1, Some(Change::Off)),
        ]);
    }

    #[test]
    fn there_is_no_more_for_checking_more_often() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut budget = Budget::new(4000, start);
        assert_eq!(budget.grant(start), 800);
        assert_eq!(budget.spend(700, after(1)), None);
        assert_eq!(budget.grant_again(after(1)), None);
        assert_eq!(budget.spend(2900, after(10)), None);
        assert_eq!(budget.grant_again(after(10)), Some(401));
        assert_eq!(budget.grant_again(after(11)), None);
    }

    #[test]
    fn pauses_double_until_a_second_was_cheap() {
        check(&[
            (100, 4001, Some(Change::Off)),
            (1000, 0, None),
            (1100, 0, Some(Change::On)),
            (1200, 4001, Some(Change::Off)),
            (3100, 0, None),
            (3200, 0, Some(Change::On)),
            (4200, 4000, None),
            (4300, 4001, Some(Change::Off)),
            (5300, 0, Some(Change::On)),
        ]);
    }
}
