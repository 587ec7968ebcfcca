//! Where threads wait: their stacks at each switch.
//!
//! A program that switches all the time would fill the rings with these, and its samples would
//! be lost. So they are left out from the moment on that there are too many, and that is told.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::event::{Attr, Event, Stacks};
use crate::records::Record;
use crate::rings::Rings;
use crate::sys;

/// Which stacks of switches are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitStacks {
    /// As long as there are no more than [`WAIT_STACKS_MAX`] a second.
    Auto,
    Always,
    Never,
}

/// More a second than this are too many.
pub const WAIT_STACKS_MAX: u32 = 4000;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) event: Event,
    ids: BTreeSet<u64>,
    open: Vec<OwnedFd>,
    budget: Option<Budget>,
}

impl Waits {
    /// `None` where one may not, or does not want to. The kernel raises these inside of itself,
    /// so whoever may not look there has none.
    pub(crate) fn open(
        wanted: WaitStacks,
        stacks: Stacks,
        is_from_exec: bool,
        rings: &Rings,
        tids: &[i32],
    ) -> Option<Waits> {
        if wanted == WaitStacks::Never || !rings.event.attr.has_kernel() {
            return None;
        }
        let mut attr = Attr::switches(stacks);
        if is_from_exec {
            attr = attr.beginning_at_exec();
        }
        let (open, ids) =
            rings.open_beside(tids, |tid, cpu| sys::open_event(&attr, tid, cpu)).ok()?;
        let budget = (wanted == WaitStacks::Auto).then(|| Budget::new(Instant::now()));
        let event = Event { name: "context-switches".to_owned(), attr, ids: ids.clone() };
        Some(Waits { event, ids: ids.into_iter().collect(), open, budget })
    }

    /// True where it is one of these.
    pub(crate) fn is_one(&self, record: Record<'_>) -> bool {
        record.event_id().is_some_and(|id| self.ids.contains(&id))
    }

    /// Takes note of how many there were; true where no more are recorded from now on.
    pub(crate) fn spend(&mut self, count: u32) -> bool {
        let Some(budget) = &mut self.budget else { return false };
        if !budget.spend(count, Instant::now()) {
            return false;
        }
        self.budget = None;
        // One that is gone records nothing any more.
        self.open.iter().for_each(|event| drop(sys::disable(event)));
        true
    }
}

/// How many there may be in a second.
#[derive(Debug)]
struct Budget {
    since: Instant,
    spent: u32,
}

impl Budget {
    fn new(now: Instant) -> Budget {
        Budget { since: now, spent: 0 }
    }

    /// True where it was too much.
    fn spend(&mut self, count: u32, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= SECOND {
            *self = Budget::new(now);
        }
        self.spent = self.spent.saturating_add(count);
        self.spent > WAIT_STACKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_a_budget() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let mut check = |after_ms, count, expected| {
            let now = start + Duration::from_millis(after_ms);
            assert_eq!(budget.spend(count, now), expected, "{after_ms} ms: {count}");
        };
        check(0, 2000, false);
        check(900, 2000, false);
        check(1000, 4000, false);
        check(1900, 1, true);
    }
}
