//! Snapshots that the clock asks for.

use std::time::{Duration, Instant};

use super::conditions::{Reason, Triggers};

/// When the next is due.
#[derive(Debug)]
pub(crate) struct Timer {
    pub(crate) next: Option<Instant>,
    after: Option<Duration>,
    every: Option<Duration>,
}

impl Timer {
    pub(crate) fn new(triggers: Option<Triggers<'_>>) -> Timer {
        let (after, every) = triggers.map_or((None, None), |what| (what.after, what.every));
        let next = after.or(every).and_then(|length| Instant::now().checked_add(length));
        Timer { next, after, every }
    }

    /// A reason, where one is due; and then another later, or none.
    pub(crate) fn reason(&mut self, now: Instant) -> Option<Reason> {
        self.next.filter(|&next| next <= now)?;
        let what = match (self.after.take(), self.every) {
            (Some(after), _) => format!("{after:?} are over"),
            (None, Some(every)) => format!("another {every:?} are over"),
            (None, None) => return None,
        };
        self.next = self.every.and_then(|every| now.checked_add(every));
        Some(Reason { what, thread: 0, time: 0, argument: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_due_after_a_time_and_others_every_so_often() {
        let seconds = Duration::from_secs;
        let check = |after: Option<u64>, every: Option<u64>, expected: &[(u64, &str)]| {
            let (after, every) = (after.map(seconds), every.map(seconds));
            let mut timer = Timer::new(Some(Triggers { after, every, ..Triggers::default() }));
            let start = Instant::now();
            let due = |at: u64| {
                let reason = timer.reason(start + seconds(at) + Duration::from_millis(500));
                reason.map(|reason| (at, reason.what))
            };
            let found: Vec<(u64, String)> = (0..10).filter_map(due).collect();
            let found: Vec<(u64, &str)> = found.iter().map(|(at, what)| (*at, &**what)).collect();
            assert_eq!(found, expected);
        };
        check(None, None, &[]);
        check(Some(3), None, &[(3, "3s are over")]);
        check(None, Some(4), &[(4, "another 4s are over"), (8, "another 4s are over")]);
        check(Some(2), Some(5), &[(2, "2s are over"), (7, "another 5s are over")]);
    }
}
