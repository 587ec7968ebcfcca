//! When threads leave their processor and come back, who wakes them, and where they wait.
//!
//! A record of a switch costs a thread some of a microsecond, and its stack five to thirty:
//! nothing, where threads wait for something, and most of the time of a program whose threads only
//! hand something around. So both have a budget, and are left out for a while where it is
//! spent, which is reported and stands in the recording.
//!
//! Where one may, a program in the kernel writes the records ([`crate::follow`]) and wake-ups, and
//! another one takes stacks when waits are over ([`crate::wait_stacks`]), which has no budget that
//! could be spent. Kernels that do not say when that is have events of processors instead, not of
//! threads, whose stacks a program chooses. Where one may not, threads have events, which are
//! switched off then; that leaves half a microsecond of each switch. To close them was tried, and
//! made switches 20 µs dearer: the kernel no longer hands the clock's event from one thread to the
//! next, but stops its timer and sets it again each time.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use spanwise_recording::perf::{event_id, event_name};

use super::stacks::{WaitCounts, WaitStacks};
use crate::follow::{Followed, Written};
use crate::perf::event::{Attr, Event, Stacks};
use crate::perf::records;
use crate::perf::records::{Record, WAKING_NUMBER};
use crate::perf::rings::{ANYBODY, Rings};
use crate::session::budget::{Budget, Change, RecordPolicy};
use crate::system::processes;
use crate::system::sys;

/// Switches of a second on each processor; each makes two records, and one more where another
/// thread ended a wait.
pub const SWITCHES_MAX: u64 = 5000;
/// Stacks of a second on each processor.
pub const WAIT_STACKS_MAX: u64 = 500;

/// A stack is taken so soon after the program has written that its thread leaves.
const STACK_AFTER_NS: u64 = 100_000;

/// What is wanted of switches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitOptions {
    pub(crate) switches: RecordPolicy,
    pub(crate) stacks: RecordPolicy,
    pub(crate) how: Stacks,
    /// Waits of at least this long have their stack taken.
    pub(crate) threshold: Duration,
    pub(crate) is_from_exec: bool,
}

/// Both, as far as they are wanted and may be had.
#[derive(Debug)]
pub(crate) struct Waits {
    kernel: Option<Followed>,
    /// Who wants all switches has the kernel's own records: some virtual machines hide some from
    /// programs, and when a thread came must be reckoned.
    is_by_program: bool,
    switches: Option<BudgetedEvent>,
    /// Stacks of threads that leave their processor, where those of waits cannot be had.
    stacks: Option<BudgetedEvent>,
    waits: Option<WaitStacks>,
    wakings: Option<Event>,
    counts: [u64; 2],
    /// Ids of the clock's events.
    clock_ids: BTreeSet<u64>,
    /// Switches that the kernel's program has written, up to the end of the round.
    made: (Vec<Written>, u64),
    /// Threads whose stacks were taken, and when, as long as their switches are not reported: these
    /// may come a round later.
    stack_times: BTreeSet<(u32, u64)>,
    last_time: u64,
    /// Those that were reported to be too many.
    is_reported: [bool; 2],
}

/// An event that is switched off where it comes too often.
#[derive(Debug)]
struct BudgetedEvent {
    event: Event,
    ids: BTreeSet<u64>,
    /// None, where a program writes the records.
    open: Vec<OwnedFd>,
    /// The kernel's program writes or chooses them, and stops by itself.
    is_by_program: bool,
    budget: Option<Budget>,
}

impl Waits {
    /// Of these threads, which the kernel's programs may know.
    pub(crate) fn open(
        options: WaitOptions,
        rings: &Rings,
        tids: &[i32],
        kernel: Option<Followed>,
    ) -> Waits {
        let mut waits = Waits {
            kernel,
            is_by_program: options.switches == RecordPolicy::Auto,
            switches: None,
            stacks: None,
            waits: None,
            wakings: None,
            counts: [0; 2],
            clock_ids: rings.event.ids.iter().copied().collect(),
            made: (Vec::new(), 0),
            stack_times: BTreeSet::new(),
            last_time: 0,
            is_reported: [false; 2],
        };
        // The kernel raises stacks inside of itself: who may not read there has none.
        let has_kernel = rings.event.attr.has_kernel();
        let stacks = if has_kernel { options.stacks } else { RecordPolicy::Never };
        let switches = options.switches;
        waits.switches = waits.open_switches(switches, rings, tids, options.is_from_exec);
        waits.waits = waits.open_waits(stacks, rings, options);
        if waits.waits.is_none() {
            waits.stacks = waits.open_stacks(stacks, rings, tids, options);
        }
        waits
    }

    fn open_switches(
        &mut self,
        wanted: RecordPolicy,
        rings: &Rings,
        tids: &[i32],
        is_from_exec: bool,
    ) -> Option<BudgetedEvent> {
        let attr = Attr::switch_records().on_clock_of(&rings.event.attr);
        let mut budget = budget(wanted, 3 * SWITCHES_MAX)?;
        if let Some(kernel) = self.kernel.as_mut().filter(|_| self.is_by_program)
            && kernel.start(allowance(budget.as_mut())).is_ok()
        {
            self.wakings = kernel.has_wakings().then(waking_event);
            let ids = vec![event_id::SWITCHES];
            return Some(
                BudgetedEvent::new("switches", attr, Vec::new(), ids, budget).by_program(),
            );
        }
        let attr = if rings.event.attr.has_kernel() { attr } else { attr.without_kernel() };
        let attr = if is_from_exec { attr.beginning_at_exec() } else { attr };
        let (open, ids) =
            rings.open_beside(tids, |tid, cpu| sys::open_event(&attr, tid, cpu)).ok()?;
        // Who switches so often that it is left out has no wake-ups to be reported either.
        if budget.is_none() {
            let has_begun =
                self.kernel.as_mut().is_some_and(|kernel| kernel.start_waking(i64::MAX));
            self.wakings = has_begun.then(waking_event);
        }
        Some(BudgetedEvent::new("switches", attr, open, ids, budget))
    }

    /// Stacks of waits that are over; only together with the program that writes switches.
    fn open_waits(
        &mut self,
        wanted: RecordPolicy,
        rings: &Rings,
        options: WaitOptions,
    ) -> Option<WaitStacks> {
        let has_switches = self.switches.as_ref().is_some_and(|kept| kept.is_by_program);
        let kernel = self.kernel.as_mut().filter(|_| has_switches)?;
        let threshold = match wanted {
            RecordPolicy::Never => return None,
            RecordPolicy::Always => None,
            RecordPolicy::Auto => Some(options.threshold),
        };
        WaitStacks::open(options.how, threshold, rings, kernel).ok()
    }

    fn open_stacks(
        &mut self,
        wanted: RecordPolicy,
        rings: &Rings,
        tids: &[i32],
        options: WaitOptions,
    ) -> Option<BudgetedEvent> {
        const NAME: &str = event_name::CONTEXT_SWITCHES;
        let attr = Attr::switches(options.how);
        let mut budget = budget(wanted, WAIT_STACKS_MAX)?;
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.is_by_program) {
            kernel.stacks_left().store(0, Ordering::Relaxed);
            // Not before it is chosen whose stacks are taken.
            let attr = attr.beginning_later();
            let open = |_, cpu| {
                let event = sys::open_event(&attr, ANYBODY, cpu)?;
                kernel.choose_stacks(&event)?;
                sys::enable(&event).map(|()| event)
            };
            if let Ok((open, ids)) = rings.open_beside(&[ANYBODY], open) {
                let most = allowance(budget.as_mut());
                kernel.stacks_left().store(most, Ordering::Relaxed);
                return Some(BudgetedEvent::new(NAME, attr, open, ids, budget).by_program());
            }
        }
        let attr = if options.is_from_exec { attr.beginning_at_exec() } else { attr };
        let (open, ids) =
            rings.open_beside(tids, |tid, cpu| sys::open_event(&attr, tid, cpu)).ok()?;
        Some(BudgetedEvent::new(NAME, attr, open, ids, budget))
    }

    /// What follows processes inside of the kernel.
    pub(crate) fn followed(&self) -> Option<&Followed> {
        self.kernel.as_ref()
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        let kept = [&self.switches, &self.stacks].into_iter().flatten().map(|kept| &kept.event);
        let of_waits = self.waits.iter().flat_map(WaitStacks::events);
        kept.chain(of_waits).chain(&self.wakings)
    }

    /// Takes what the kernel's program has written; before the rings are emptied, so that a
    /// stack which belongs to a switch is found there.
    pub(crate) fn begin_round(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            self.made = kernel.take();
        }
        // Written after it was decided to stop and before the program had: with no other switch
        // behind it, a thread that came would run for ever.
        if self.switches.as_ref().is_some_and(BudgetedEvent::is_off) {
            self.made.0.clear();
        }
    }

    /// What became of the stacks of waits.
    pub(crate) fn counts(&self) -> Option<WaitCounts> {
        self.waits.as_ref().map(|waits| waits.counts)
    }

    /// True for a sample of the clock, not one of a wait.
    pub(crate) fn is_of_clock(&self, record: Record<'_>) -> bool {
        record.event_id().is_some_and(|id| self.clock_ids.contains(&id))
    }

    /// Makes samples of what a program has written into the rings.
    pub(crate) fn make_samples<'a>(
        &mut self,
        bytes: &'a mut [u8],
        is_watched: impl Fn(u64) -> bool,
    ) -> &'a mut [u8] {
        self.repair_ids(bytes, is_watched);
        match &mut self.waits {
            Some(waits) => waits.make_samples(bytes),
            None => bytes,
        }
    }

    /// Gives stacks of processors their own ids. Where several events of processors count
    /// switches, those of other recorders among them, Linux (6.18 still) fills in a sample once
    /// for all, and so with the id of the first. Of other events of ours it does not.
    fn repair_ids(&self, bytes: &mut [u8], is_watched: impl Fn(u64) -> bool) {
        let by_program = self.stacks.as_ref().filter(|kept| kept.is_by_program);
        let Some(own) = by_program.and_then(|kept| kept.ids.first().copied()) else { return };
        let is_known = |id: u64| {
            let is_stack = self.stacks.as_ref().is_some_and(|kept| kept.ids.contains(&id));
            is_stack || self.clock_ids.contains(&id) || is_watched(id)
        };
        let mut at = 0;
        let mut foreign = Vec::new();
        for record in records::records(bytes) {
            if record.event_id().is_some_and(|id| !is_known(id)) {
                foreign.push(at);
            }
            at += record.bytes.len();
        }
        for at in foreign {
            Record::set_event_id(&mut bytes[at..], own);
        }
    }

    /// Counts a record, where it is one of these.
    pub(crate) fn note(&mut self, record: Record<'_>) {
        self.counts[0] += u64::from(record.is_switch());
        let is_stack =
            |kept: &BudgetedEvent| record.event_id().is_some_and(|id| kept.ids.contains(&id));
        if !self.stacks.as_ref().is_some_and(is_stack) {
            return;
        }
        self.counts[1] += 1;
        // Events of threads report the switch behind the stack themselves.
        if self.switches.as_ref().is_some_and(|kept| kept.is_by_program)
            && let (Some(tid), Some(time)) = (record.thread(), record.time())
        {
            self.stack_times.insert((tid as u32, time));
        }
    }

    /// Records of what the kernel's program has written, in the order of time. It runs right
    /// before stacks are taken, but a stack comes before its switch in a recording, so the
    /// switch is reported to be as late.
    pub(crate) fn made(&mut self) -> Vec<u8> {
        let (written, lost) = std::mem::take(&mut self.made);
        let mut bytes = Vec::with_capacity(written.len() * 64);
        for written in written {
            let mut switch = match written {
                Written::Switch(switch) => switch,
                Written::Waking(waking) => {
                    self.counts[0] += 1;
                    self.last_time = self.last_time.max(waking.time);
                    bytes.extend(records::waking(waking, event_id::WAKINGS));
                    continue;
                }
            };
            if switch.is_out {
                let soon = (switch.tid, switch.time)..(switch.tid, switch.time + STACK_AFTER_NS);
                let stack = self.stack_times.range(soon).next().copied();
                switch.time = stack.map_or(switch.time, |(_, time)| time + 1);
            }
            self.last_time = self.last_time.max(switch.time);
            bytes.extend(records::switched(switch, event_id::SWITCHES));
        }
        let last_time = self.last_time;
        self.stack_times.retain(|&(_, time)| time > last_time);
        if lost > 0 {
            bytes.extend(records::lost(lost, self.last_time, event_id::SWITCHES));
        }
        bytes
    }

    /// Switches off what came too often, and on what was off for long enough. Gives the record
    /// that says so of switches, and what is to be reported.
    pub(crate) fn spend(&mut self) -> (Option<Vec<u8>>, Option<&'static str>) {
        let [switches, stacks] = std::mem::take(&mut self.counts);
        let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let left = self.kernel.as_ref().map(Followed::switches_left);
        let change = self.switches.as_mut().and_then(|kept| kept.spend(switches, left));
        self.let_kernel(change);
        let id = self.switches.as_ref().and_then(|kept| kept.event.ids.first().copied());
        let record = change.zip(id).map(|(change, id)| match change {
            // After the last, which may be long ago, and before the first.
            Change::Off if id == event_id::SWITCHES => {
                records::throttled(true, self.last_time + 1, id)
            }
            Change::Off => records::throttled(true, sys::clock_ns(libc::CLOCK_MONOTONIC), id),
            Change::On => records::throttled(false, now, id),
        });
        if let (Some(kernel), Some(waits)) = (&self.kernel, &mut self.waits)
            && waits.spend(kernel)
        {
            return (record, Some(RAISED));
        }
        let left = self.kernel.as_ref().map(Followed::stacks_left);
        let stacks = self.stacks.as_mut().and_then(|kept| kept.spend(stacks, left));
        (record, self.news(change, stacks))
    }

    /// The program that writes switches is there only while it may.
    fn let_kernel(&mut self, change: Option<Change>) {
        let kept = self.switches.as_mut().filter(|kept| kept.is_by_program);
        let (Some(kernel), Some(kept)) = (&mut self.kernel, kept) else { return };
        match change {
            Some(Change::Off) => kernel.stop(),
            // It was allowed before; should it be no more, times stay unknown.
            Some(Change::On) => drop(kernel.start(allowance(kept.budget.as_mut()))),
            None => {}
        }
    }

    fn news(&mut self, switches: Option<Change>, stacks: Option<Change>) -> Option<&'static str> {
        let is_off = |change| change == Some(Change::Off);
        if is_off(switches) && !std::mem::replace(&mut self.is_reported[0], true) {
            return Some(
                "threads switch so often that recording it would slow them down: there are times \
                 in which it is not recorded when they waited (--switches always does)",
            );
        }
        if is_off(stacks)
            && !self.is_reported[0]
            && !std::mem::replace(&mut self.is_reported[1], true)
        {
            return Some(
                "threads switch so often that recording their stacks would slow them down: \
                 there are times in which it is not recorded where they waited \
                 (--wait-stacks always does)",
            );
        }
        None
    }
}

/// Reported once.
const RAISED: &str = "threads wait so often that not all waits of --wait-threshold have their \
                      stack: those of longer ones stand for them (--wait-stacks always has all)";

fn waking_event() -> Event {
    let attr = Attr::tracepoint(WAKING_NUMBER.into()).with_fetched();
    Event { name: "sched:sched_waking".to_owned(), attr, ids: vec![event_id::WAKINGS] }
}

/// The budget of something, if it has one; `None` where it is not wanted at all.
fn budget(wanted: RecordPolicy, per_second: u64) -> Option<Option<Budget>> {
    let processors = processes::processors().len() as u64;
    match wanted {
        RecordPolicy::Never => None,
        RecordPolicy::Always => Some(None),
        RecordPolicy::Auto => {
            let most = per_second.saturating_mul(processors.max(1));
            Some(Some(Budget::new(most, Instant::now())))
        }
    }
}

/// How many may come until the kernel's program stops by itself.
fn allowance(budget: Option<&mut Budget>) -> i64 {
    let left = budget.map(|budget| budget.grant(Instant::now()));
    left.and_then(|left| i64::try_from(left).ok()).unwrap_or(i64::MAX)
}

impl BudgetedEvent {
    fn new(
        name: &str,
        attr: Attr,
        open: Vec<OwnedFd>,
        ids: Vec<u64>,
        budget: Option<Budget>,
    ) -> BudgetedEvent {
        let event = Event { name: name.to_owned(), attr, ids: ids.clone() };
        BudgetedEvent { event, ids: ids.into_iter().collect(), open, is_by_program: false, budget }
    }

    fn by_program(self) -> BudgetedEvent {
        BudgetedEvent { is_by_program: true, ..self }
    }

    fn is_off(&self) -> bool {
        self.is_by_program && self.budget.as_ref().is_some_and(Budget::is_off)
    }

    /// `left` is how many more the kernel's program lets pass by itself.
    fn spend(&mut self, count: u64, left: Option<&AtomicI64>) -> Option<Change> {
        let budget = self.budget.as_mut()?;
        let left = left.filter(|_| self.is_by_program);
        let was_on = !budget.is_off();
        let has_stopped = was_on && left.is_some_and(|left| left.load(Ordering::Relaxed) <= 0);
        let now = Instant::now();
        let change = budget.spend(if has_stopped { u64::MAX } else { count }, now);
        match (change, left) {
            (Some(Change::On), Some(left)) => {
                left.store(allowance(Some(budget)), Ordering::Relaxed);
            }
            (None, Some(left)) if was_on => {
                let more = budget.grant_again(now).and_then(|more| i64::try_from(more).ok());
                // Unless it has just stopped, which the next round will see.
                let refill = |left: i64| more.filter(|_| left > 0);
                let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, refill);
            }
            _ => {}
        }
        // One that is gone records nothing any more.
        self.open.iter().for_each(|event| match change {
            Some(Change::Off) => drop(sys::disable(event)),
            Some(Change::On) => drop(sys::enable(event)),
            None => {}
        });
        change
    }
}
