//! The state of one thread, from event to event.

use spanwise_model::{AwaitedLock, BlockedOn, Nanos, RunnableSince, ThreadState};

use super::{EventTime, LeftAs, LockWait, StackRef, StateInterval, ThreadSched, Waker};
use crate::Location;

/// What reported a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SwitchSource {
    /// The recorder's own record.
    Record = 1,
    /// The scheduler's tracepoint.
    Tracepoint = 2,
    /// Nobody: it follows from when the thread was woken.
    Waking = 3,
}

/// All sources; no further report is needed.
const ALL: u8 = SwitchSource::Record as u8 | SwitchSource::Tracepoint as u8;

/// A thread that has left its processor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Off {
    pub(super) since: Nanos,
    reported_by: u8,
    left: LeftAs,
    /// What the stack says that it waits for.
    on: Option<BlockedOn>,
    pub(super) frames: Vec<Location>,
    number: StackRef,
    is_sampled: bool,
    /// When it was woken, and by whom.
    pub(super) woken: Option<(Nanos, Option<Waker>)>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unseen,
    Created(Nanos),
    Running {
        since: Nanos,
        reported_by: u8,
    },
    Off(Off),
    /// No switches were reported since then.
    Unknown(Nanos),
}

/// Since when a recording holds what.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordedFrom {
    pub(super) switches: Nanos,
    /// Anything but bookkeeping.
    pub(super) events: Nanos,
}

/// What is known of a thread that leaves its processor.
#[derive(Clone, Copy)]
pub(super) struct OffCpuStack<'a> {
    /// What the stack says that it waits for.
    pub(super) on: Option<BlockedOn>,
    pub(super) frames: &'a [Location],
    pub(super) number: StackRef,
    /// It was chosen among short waits, and stands for others of them.
    pub(super) is_sampled: bool,
}

/// A wait for a lock that is not over.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) lock: AwaitedLock,
    pub(super) start: Nanos,
    /// Reported by probes, not by calls of the kernel.
    pub(super) is_probe: bool,
    /// The stack of its beginning holds until its end.
    pub(super) has_stack: bool,
    pub(super) number: StackRef,
    /// The scheduler has said who woke it.
    pub(super) is_woken: bool,
}

#[derive(Debug, Default)]
pub(super) struct Thread {
    state: State,
    last_time: Nanos,
    /// A switch was reported; otherwise, nothing is known about running.
    has_switches: bool,
    /// It leaves its processor once more, and for good.
    has_ended: bool,
    /// It was recorded itself, not only mentioned as the one that came next.
    is_recorded: bool,
    pub(super) wait: Option<Wait>,
    /// A call that wakes others: the lock, how many at most, whether it has a stack.
    pub(super) waking: Option<(u64, u64, bool)>,
    intervals: Vec<StateInterval>,
    pub(super) waits: Vec<LockWait>,
    /// The processor that it was last on.
    cpu: Option<u32>,
    migrations: Vec<(Nanos, u32)>,
}

impl Thread {
    pub(super) fn has_known_stack(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.has_stack)
            || self.waking.is_some_and(|(_, _, has_stack)| has_stack)
    }

    pub(super) fn created(&mut self, time: Nanos) {
        // The number of a thread that ended may be given to a new one.
        let is_free = match &self.state {
            State::Unseen => true,
            State::Off(off) => off.left == LeftAs::Dead,
            State::Created(_) | State::Running { .. } | State::Unknown(_) => false,
        };
        if is_free {
            let time = self.reach(time);
            self.has_ended = false;
            self.state = State::Created(time);
        }
    }

    pub(super) fn ended(&mut self, time: Nanos) {
        self.reach(time);
        self.has_ended = true;
    }

    /// The thread raised an event, so it runs.
    pub(super) fn seen(&mut self, time: Nanos) {
        self.is_recorded = true;
        let time = self.reach(time);
        let doubtful_since = match std::mem::take(&mut self.state) {
            running @ State::Running { .. } => return self.state = running,
            State::Unseen => None,
            State::Created(since) | State::Unknown(since) => Some(since),
            State::Off(off) => Some(self.known_part(&off, time)),
        };
        if let Some(since) = doubtful_since {
            self.push(ThreadState::Unrecorded, since, time);
        }
        self.state = State::Running { since: time, reported_by: ALL };
    }

    /// The thread raised an event while no switches were reported: it ran then; nothing else is
    /// known.
    pub(super) fn seen_in_pause(&mut self, time: Nanos) {
        self.is_recorded = true;
        let time = self.reach(time);
        if matches!(self.state, State::Unseen) {
            self.state = State::Unknown(time);
        }
    }

    /// Switches are no longer reported.
    pub(super) fn lose(&mut self, time: Nanos) {
        // Its end was not reported, and it can have run on only briefly.
        let time = if self.has_ended { self.last_time } else { time };
        let time = self.reach(time);
        self.state = match std::mem::take(&mut self.state) {
            State::Unseen => State::Unseen,
            State::Off(off) if off.left == LeftAs::Dead => State::Off(off),
            State::Off(off) => State::Unknown(self.known_part(&off, time)),
            State::Created(since) | State::Unknown(since) => State::Unknown(since),
            State::Running { since, .. } => {
                self.push(ThreadState::Running, since, time);
                State::Unknown(time)
            }
        };
    }

    /// The thread is on a processor, and may have been on another one before.
    pub(super) fn on_cpu(&mut self, at: EventTime) {
        let Some(cpu) = at.cpu else { return };
        if self.cpu.replace(cpu).is_some_and(|before| before != cpu) {
            self.migrations.push((at.time.max(self.last_time), cpu));
        }
    }

    /// The thread left its processor. False where that was known already.
    pub(super) fn left(
        &mut self,
        time: Nanos,
        by: SwitchSource,
        left: LeftAs,
        stood: OffCpuStack<'_>,
    ) -> bool {
        (self.has_switches, self.is_recorded) = (true, true);
        let left = if self.has_ended { LeftAs::Dead } else { left };
        if let State::Off(off) = &mut self.state
            && off.reported_by & by as u8 == 0
        {
            off.add(by, left, stood);
            return false;
        }
        let time = self.reach(time);
        match std::mem::take(&mut self.state) {
            State::Unseen => {}
            State::Created(since) | State::Unknown(since) => {
                self.push(ThreadState::Unrecorded, since, time);
            }
            State::Running { since, .. } => self.push(ThreadState::Running, since, time),
            State::Off(off) => {
                let since = self.known_part(&off, time);
                self.push(ThreadState::Unrecorded, since, time);
            }
        }
        let OffCpuStack { on, frames, number, is_sampled } = stood;
        let (reported_by, frames) = (by as u8, frames.to_vec());
        let off =
            Off { since: time, reported_by, left, on, frames, number, is_sampled, woken: None };
        self.state = State::Off(off);
        true
    }

    /// The thread came to a processor: what it comes back from, where that is known.
    pub(super) fn came(&mut self, time: Nanos, by: SwitchSource) -> Option<Off> {
        self.has_switches = true;
        self.is_recorded |= by == SwitchSource::Record;
        if let State::Running { reported_by, .. } = &mut self.state
            && *reported_by & by as u8 == 0
        {
            *reported_by |= by as u8;
            return None;
        }
        let before = self.last_time;
        let time = self.reach(time);
        let state = std::mem::replace(
            &mut self.state,
            State::Running { since: time, reported_by: by as u8 },
        );
        match state {
            State::Unseen => None,
            State::Created(since) => {
                self.push(ThreadState::Runnable(RunnableSince::Created), since, time);
                None
            }
            State::Unknown(since) => {
                self.push(ThreadState::Unrecorded, since, time);
                None
            }
            State::Running { since, .. } => {
                let until = before.max(since);
                self.push(ThreadState::Running, since, until);
                self.push(ThreadState::Unrecorded, until, time);
                None
            }
            State::Off(off) if off.left == LeftAs::Dead => None,
            State::Off(off) if off.left == LeftAs::Preempted => {
                let state = ThreadState::Runnable(RunnableSince::Preempted);
                let count = self.intervals.len();
                self.push_at(off.number, state, off.since, time);
                if let Some(interval) = self.intervals.get_mut(count) {
                    interval.is_sampled = off.is_sampled;
                }
                Some(off)
            }
            State::Off(off) => {
                let until = off.woken.map_or(time, |woken| woken.0).min(time);
                self.blocked(&off, until);
                let state = ThreadState::Runnable(RunnableSince::Woken);
                self.push_at(self.stack_of(&off), state, until, time);
                if let (Some(wait), Some((_, Some(_)))) = (&mut self.wait, off.woken) {
                    wait.is_woken = true;
                }
                Some(off)
            }
        }
    }

    /// While no switches are reported: it has waited, and nothing is known of the time before.
    /// Gives since when, as far as that is new.
    pub(super) fn waited(&mut self, since: Nanos, time: Nanos, stood: OffCpuStack<'_>) -> Nanos {
        let before = match self.state {
            State::Unknown(before) => before,
            State::Unseen => since,
            State::Created(_) | State::Running { .. } | State::Off(_) => return time,
        };
        (self.has_switches, self.is_recorded) = (true, true);
        let since = since.max(before);
        let time = self.reach(time.max(since));
        self.push(ThreadState::Unrecorded, before, since);
        let state = ThreadState::Blocked(stood.on.unwrap_or(BlockedOn::Unknown));
        self.push_at(stood.number, state, since, time);
        self.state = State::Unknown(time);
        since
    }

    /// Where it waits, which is reported when that is over.
    pub(super) fn stands(&mut self, stood: OffCpuStack<'_>) {
        if let State::Off(off) = &mut self.state {
            off.on = off.on.or(stood.on);
            off.is_sampled |= stood.is_sampled;
            if off.frames.is_empty() {
                (off.frames, off.number) = (stood.frames.to_vec(), stood.number);
            }
        }
    }

    /// Somebody woke the thread. A second time says nothing new.
    pub(super) fn woken(&mut self, time: Nanos, waker: Option<Waker>) {
        if let State::Off(off) = &mut self.state
            && off.left != LeftAs::Preempted
            && off.woken.is_none()
        {
            off.woken = Some((time.max(off.since), waker));
        }
    }

    /// When the thread was woken, where it waits and that was at or after `since`.
    pub(super) fn woken_since(&self, since: Nanos) -> Option<Nanos> {
        let State::Off(off) = &self.state else { return None };
        off.woken.map(|woken| woken.0).filter(|&at| at >= since && off.left != LeftAs::Dead)
    }

    /// The earliest that it can have run since, if it runs now.
    pub(super) fn may_run_since(&self) -> Option<Nanos> {
        match &self.state {
            State::Unseen | State::Unknown(_) => None,
            State::Created(since) | State::Running { since, .. } => Some(*since),
            State::Off(off) => Some(off.woken.map_or(off.since, |woken| woken.0)),
        }
    }

    /// The recording is over.
    pub(super) fn end(&mut self) {
        match std::mem::take(&mut self.state) {
            State::Running { since, .. } => self.push(ThreadState::Running, since, self.last_time),
            State::Unknown(since) => self.push(ThreadState::Unrecorded, since, self.last_time),
            State::Unseen | State::Created(_) | State::Off(_) => {}
        }
        self.wait = None;
        self.waking = None;
    }

    /// What is not known from before the first switch of all is not missing: recorders report
    /// new threads before they begin to report switches, or anything else.
    pub(super) fn finish(self, tid: i64, starts: RecordedFrom) -> ThreadSched {
        let is_known = self.has_switches && self.is_recorded;
        let mut intervals = match is_known {
            true => self.intervals,
            // No switches were reported: a call for a lock is all that is known of the wait.
            false => self.waits.iter().map(LockWait::as_state).collect(),
        };
        for interval in &mut intervals {
            interval.start = match interval.state {
                ThreadState::Unrecorded => interval.start.max(starts.switches),
                ThreadState::Running => interval.start.max(starts.events),
                _ => interval.start,
            };
        }
        intervals.retain(|interval| interval.start < interval.end);
        find_stand_ins(&mut intervals);
        let migrations = if is_known { self.migrations } else { Vec::new() };
        ThreadSched { tid, intervals, waits: self.waits, migrations }
    }

    /// Time of a thread never goes back.
    fn reach(&mut self, time: Nanos) -> Nanos {
        self.last_time = match self.state {
            State::Unseen if self.intervals.is_empty() => time,
            _ => time.max(self.last_time),
        };
        self.last_time
    }

    /// The thread was seen running, and its coming was not reported: adds what is known all
    /// the same, up to the returned time.
    fn known_part(&mut self, off: &Off, until: Nanos) -> Nanos {
        let Some((woken, _)) = off.woken else { return off.since };
        let woken = woken.min(until);
        self.blocked(off, woken);
        woken
    }

    fn blocked_on(&self, off: &Off) -> BlockedOn {
        let awaited = self.wait.as_ref().map(|wait| wait.lock.on);
        awaited.or(off.on).unwrap_or(BlockedOn::Unknown)
    }

    /// Where the thread stands while it is off: a lock that it waits for may have reported it.
    fn stack_of(&self, off: &Off) -> StackRef {
        match (off.number, &self.wait) {
            (StackRef::NONE, Some(wait)) => wait.number,
            (number, _) => number,
        }
    }

    fn blocked(&mut self, off: &Off, end: Nanos) {
        let state = ThreadState::Blocked(self.blocked_on(off));
        let count = self.intervals.len();
        self.push_at(self.stack_of(off), state, off.since, end);
        let lock = self.wait.as_ref().and_then(|wait| wait.lock.address);
        let waker = off.woken.and_then(|woken| woken.1);
        if let Some(interval) = self.intervals.get_mut(count) {
            (interval.lock, interval.is_sampled) = (lock, off.is_sampled);
            if let Some(waker) = waker {
                (interval.waker, interval.waker_stack) = (Some(waker.tid), waker.stack);
            }
        }
    }

    /// The waits since a time were ended by a thread, where nobody else is known to have.
    pub(super) fn woken_by(&mut self, waker: Waker, since: Nanos) {
        let waits = self.intervals.iter_mut().rev().take_while(|interval| interval.start >= since);
        let last =
            waits.into_iter().find(|interval| matches!(interval.state, ThreadState::Blocked(_)));
        if let Some(interval) = last {
            interval.waker.get_or_insert(waker.tid);
            if interval.waker == Some(waker.tid) && interval.waker_stack == StackRef::NONE {
                interval.waker_stack = waker.stack;
            }
        }
    }

    fn push(&mut self, state: ThreadState, start: Nanos, end: Nanos) {
        self.push_at(StackRef::NONE, state, start, end);
    }

    fn push_at(&mut self, stack: StackRef, state: ThreadState, start: Nanos, end: Nanos) {
        if start < end {
            let (cpu, waker, lock) = (self.cpu, None, None);
            let waker_stack = StackRef::NONE;
            let (is_sampled, stand_in) = (false, 0);
            self.intervals.push(StateInterval {
                state,
                start,
                end,
                cpu,
                stack,
                waker,
                waker_stack,
                lock,
                is_sampled,
                stand_in,
            });
        }
    }
}

/// Finds for each wait without a stack the one that was sampled for it: the next of its sort, or
/// the last where none follows. The recorder takes a stack whenever a thread has waited for some
/// time in short waits, so that each stands for those before it.
fn find_stand_ins(intervals: &mut [StateInterval]) {
    if !intervals.iter().any(|interval| interval.is_sampled) {
        return;
    }
    let count = intervals.len();
    for order in [(0..count).rev().collect::<Vec<_>>(), (0..count).collect()] {
        let (mut blocked, mut preempted) = (None, None);
        for at in order {
            let interval = &mut intervals[at];
            let sampled = match interval.state {
                ThreadState::Runnable(RunnableSince::Preempted) => &mut preempted,
                ThreadState::Blocked(_) | ThreadState::Runnable(RunnableSince::Woken) => {
                    &mut blocked
                }
                _ => continue,
            };
            let is_wait = interval.state != ThreadState::Runnable(RunnableSince::Woken);
            if interval.is_sampled && is_wait {
                *sampled = Some(at);
            } else if let Some(sampled) = *sampled
                && interval.stack == StackRef::NONE
                && interval.stand_in == 0
                && interval.lock.is_none()
            {
                let distance = sampled as i64 - at as i64;
                interval.stand_in = i32::try_from(distance).unwrap_or(0);
            }
        }
    }
}

impl LockWait {
    fn as_state(&self) -> StateInterval {
        StateInterval {
            state: ThreadState::Blocked(self.lock.on),
            start: self.start,
            end: self.end,
            cpu: None,
            stack: self.stack,
            waker: self.waker.map(|waker| waker.tid),
            waker_stack: self.waker.map_or(StackRef::NONE, |waker| waker.stack),
            lock: self.lock.address,
            is_sampled: false,
            stand_in: 0,
        }
    }
}

impl Off {
    /// Another source reports the same switch.
    fn add(&mut self, by: SwitchSource, left: LeftAs, stood: OffCpuStack<'_>) {
        let OffCpuStack { on, frames, number, is_sampled } = stood;
        self.is_sampled |= is_sampled;
        self.reported_by |= by as u8;
        if self.left == LeftAs::Waiting {
            self.left = left;
        }
        self.on = self.on.or(on);
        if self.frames.is_empty() {
            (self.frames, self.number) = (frames.to_vec(), number);
        }
    }
}
