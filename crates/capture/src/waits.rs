//! When threads leave their processor and come back, and with which stacks they leave.
//!
//! A record of a switch costs a thread a third of a microsecond, and its stack five: nothing,
//! where threads wait for something, and a fifth of the time of a program whose threads only
//! hand something around. So both have a budget of half a percent of the time, and are left
//! out for a while where it is spent, which is told and stands in the recording. Their events
//! are switched off then, which leaves a quarter of a microsecond of each switch. To close them
//! was tried, and made switches 20 µs dearer: the kernel no longer hands the clock's event from
//! one thread to the next, but stops its timer and sets it again each time.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::budget::{Budget, Change, Wanted};
use crate::event::{Attr, Event, Stacks};
use crate::records::Record;
use crate::rings::Rings;
use crate::{processes, records, sys};

/// Switches of a second on each processor; each makes two records.
pub const SWITCHES_MAX: u64 = 5000;
/// Stacks of a second on each processor.
pub const WAIT_STACKS_MAX: u64 = 500;

/// What is wanted of switches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitOptions {
    pub(crate) switches: Wanted,
    pub(crate) stacks: Wanted,
    pub(crate) how: Stacks,
    pub(crate) is_from_exec: bool,
}

/// Both, as far as they are wanted and may be had.
#[derive(Debug)]
pub(crate) struct Waits {
    switches: Option<Kept>,
    stacks: Option<Kept>,
    counts: [u64; 2],
    /// Those that were told to be too many.
    told: [bool; 2],
}

/// An event that is switched off where it comes too often.
#[derive(Debug)]
struct Kept {
    event: Event,
    ids: BTreeSet<u64>,
    open: Vec<OwnedFd>,
    budget: Option<Budget>,
}

impl Waits {
    pub(crate) fn open(options: WaitOptions, rings: &Rings, tids: &[i32]) -> Waits {
        let processors = processes::processors().len() as u64;
        let open = |wanted: Wanted, name, attr: Attr, most: u64| {
            let attr = if rings.event.attr.has_kernel() { attr } else { attr.without_kernel() };
            let attr = if options.is_from_exec { attr.beginning_at_exec() } else { attr };
            let open = |tid, cpu| sys::open_event(&attr, tid, cpu);
            let (open, ids) = match wanted {
                Wanted::Never => return None,
                Wanted::Auto | Wanted::Always => rings.open_beside(tids, open).ok()?,
            };
            let budget = Budget::new(most.saturating_mul(processors.max(1)), Instant::now());
            let budget = (wanted == Wanted::Auto).then_some(budget);
            let event = Event { name: str::to_owned(name), attr, ids: ids.clone() };
            Some(Kept { event, ids: ids.into_iter().collect(), open, budget })
        };
        let switches = open(options.switches, "switches", Attr::switch_records(), 2 * SWITCHES_MAX);
        // The kernel raises these inside of itself: who may not look there has none.
        let stacks = match rings.event.attr.has_kernel() {
            true => options.stacks,
            false => Wanted::Never,
        };
        let attr = Attr::switches(options.how);
        let stacks = open(stacks, "context-switches", attr, WAIT_STACKS_MAX);
        Waits { switches, stacks, counts: [0; 2], told: [false; 2] }
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        [&self.switches, &self.stacks].into_iter().flatten().map(|kept| &kept.event)
    }

    /// Counts a record, where it is one of these.
    pub(crate) fn note(&mut self, record: Record<'_>) {
        let is_stack = |kept: &Kept| record.event_id().is_some_and(|id| kept.ids.contains(&id));
        self.counts[0] += u64::from(record.is_switch());
        self.counts[1] += u64::from(self.stacks.as_ref().is_some_and(is_stack));
    }

    /// Switches off what came too often, and on what was off for long enough. Gives the record
    /// that says so of switches, and what is to be told.
    pub(crate) fn spend(&mut self) -> (Option<Vec<u8>>, Option<&'static str>) {
        let [switches, stacks] = std::mem::take(&mut self.counts);
        let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let change = self.switches.as_mut().and_then(|kept| kept.spend(switches));
        let id = self.switches.as_ref().and_then(|kept| kept.event.ids.first().copied());
        let record = change.zip(id).map(|(change, id)| match change {
            // After the last, and before the first.
            Change::Off => records::throttled(true, sys::clock_ns(libc::CLOCK_MONOTONIC), id),
            Change::On => records::throttled(false, now, id),
        });
        let stacks = self.stacks.as_mut().and_then(|kept| kept.spend(stacks));
        let told = match (change, stacks) {
            (Some(Change::Off), _) if !std::mem::replace(&mut self.told[0], true) => Some(
                "threads switch so often that recording it would slow them down: there are times \
                 in which it is not recorded when they waited (--switches always does)",
            ),
            (_, Some(Change::Off))
                if !self.told[0] && !std::mem::replace(&mut self.told[1], true) =>
            {
                Some(
                    "threads switch so often that recording their stacks would slow them down: \
                     there are times in which it is not recorded where they waited \
                     (--wait-stacks always does)",
                )
            }
            _ => None,
        };
        (record, told)
    }
}

impl Kept {
    fn spend(&mut self, count: u64) -> Option<Change> {
        let change = self.budget.as_mut()?.spend(count, Instant::now())?;
        // One that is gone records nothing any more.
        self.open.iter().for_each(|event| match change {
            Change::Off => drop(sys::disable(event)),
            Change::On => drop(sys::enable(event)),
        });
        Some(change)
    }
}
