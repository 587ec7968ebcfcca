//! The state of one thread, from event to event.

use spanwise_model::{AwaitedLock, BlockedOn, Nanos, RunnableSince, ThreadState};

use super::{LeftAs, LockWait, Moment, Stretch, ThreadSched};
use crate::Place;

/// Who told of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The recorder's own record.
    Record = 1,
    /// The scheduler's tracepoint.
    Tracepoint = 2,
    /// Nobody: it follows from when the thread was woken.
    Waking = 3,
}

/// Nobody needs to tell any more.
const ALL: u8 = By::Record as u8 | By::Tracepoint as u8;

/// A thread that has left its processor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Off {
    pub(super) since: Nanos,
    told: u8,
    left: LeftAs,
    /// What the stack says that it waits for.
    on: Option<BlockedOn>,
    pub(super) frames: Vec<Place>,
    /// When it was woken, and by whom.
    pub(super) woken: Option<(Nanos, Option<i64>)>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unseen,
    Created(Nanos),
    Running {
        since: Nanos,
        told: u8,
    },
    Off(Off),
    /// Nobody told of switches since then.
    Unknown(Nanos),
}

/// A wait for a lock that is not over.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) lock: AwaitedLock,
    pub(super) start: Nanos,
    /// Told by probes, not by calls of the kernel.
    pub(super) is_probe: bool,
    /// The stack of its beginning holds until its end.
    pub(super) has_stack: bool,
    /// The scheduler has said who woke it.
    pub(super) is_woken: bool,
}

#[derive(Debug, Default)]
pub(super) struct Thread {
    state: State,
    last_time: Nanos,
    /// Somebody told of a switch; without, nothing is known about running.
    has_switches: bool,
    /// It was recorded itself, not only mentioned as the one that came next.
    is_recorded: bool,
    pub(super) wait: Option<Wait>,
    /// A call that wakes others: the lock, how many at most, whether it has a stack.
    pub(super) waking: Option<(u64, u64, bool)>,
    stretches: Vec<Stretch>,
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
            self.state = State::Created(time);
        }
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
        self.state = State::Running { since: time, told: ALL };
    }

    /// The thread raised an event while nobody told of switches: it ran then, and that is all.
    pub(super) fn seen_in_pause(&mut self, time: Nanos) {
        self.is_recorded = true;
        let time = self.reach(time);
        if matches!(self.state, State::Unseen) {
            self.state = State::Unknown(time);
        }
    }

    /// Nobody tells of switches any more.
    pub(super) fn lose(&mut self, time: Nanos) {
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
    pub(super) fn on_cpu(&mut self, at: Moment) {
        let Some(cpu) = at.cpu else { return };
        if self.cpu.replace(cpu).is_some_and(|before| before != cpu) {
            self.migrations.push((at.time.max(self.last_time), cpu));
        }
    }

    /// The thread left its processor. False where that was known already.
    pub(super) fn left(
        &mut self,
        time: Nanos,
        by: By,
        left: LeftAs,
        (on, frames): (Option<BlockedOn>, &[Place]),
    ) -> bool {
        (self.has_switches, self.is_recorded) = (true, true);
        if let State::Off(off) = &mut self.state
            && off.told & by as u8 == 0
        {
            off.add(by, left, (on, frames));
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
        let (told, frames) = (by as u8, frames.to_vec());
        self.state = State::Off(Off { since: time, told, left, on, frames, woken: None });
        true
    }

    /// The thread came to a processor: what it comes back from, where that is known.
    pub(super) fn came(&mut self, time: Nanos, by: By) -> Option<Off> {
        self.has_switches = true;
        self.is_recorded |= by == By::Record;
        if let State::Running { told, .. } = &mut self.state
            && *told & by as u8 == 0
        {
            *told |= by as u8;
            return None;
        }
        let before = self.last_time;
        let time = self.reach(time);
        let state =
            std::mem::replace(&mut self.state, State::Running { since: time, told: by as u8 });
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
                self.push(ThreadState::Runnable(RunnableSince::Preempted), off.since, time);
                Some(off)
            }
            State::Off(off) => {
                let until = off.woken.map_or(time, |woken| woken.0).min(time);
                self.push(ThreadState::Blocked(self.blocked_on(&off)), off.since, until);
                self.push(ThreadState::Runnable(RunnableSince::Woken), until, time);
                if let (Some(wait), Some((_, Some(_)))) = (&mut self.wait, off.woken) {
                    wait.is_woken = true;
                }
                Some(off)
            }
        }
    }

    /// While nobody tells of switches: it has waited, and nothing is known of the time before.
    /// Gives since when, as far as that is new.
    pub(super) fn waited(&mut self, (since, time): (Nanos, Nanos), on: Option<BlockedOn>) -> Nanos {
        let before = match self.state {
            State::Unknown(before) => before,
            State::Unseen => since,
            State::Created(_) | State::Running { .. } | State::Off(_) => return time,
        };
        (self.has_switches, self.is_recorded) = (true, true);
        let since = since.max(before);
        let time = self.reach(time.max(since));
        self.push(ThreadState::Unrecorded, before, since);
        self.push(ThreadState::Blocked(on.unwrap_or(BlockedOn::Unknown)), since, time);
        self.state = State::Unknown(time);
        since
    }

    /// Where it waits, which is told when that is over.
    pub(super) fn stands(&mut self, on: Option<BlockedOn>, frames: &[Place]) {
        if let State::Off(off) = &mut self.state {
            off.on = off.on.or(on);
            if off.frames.is_empty() {
                off.frames = frames.to_vec();
            }
        }
    }

    /// Somebody woke the thread. A second time says nothing new.
    pub(super) fn woken(&mut self, time: Nanos, waker: Option<i64>) {
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

    /// What is not known from before the first switch of all is not missing: recorders tell
    /// of new threads before they begin to tell of switches.
    pub(super) fn finish(self, tid: i64, first_switch: Nanos) -> ThreadSched {
        let is_known = self.has_switches && self.is_recorded;
        let mut stretches = if is_known { self.stretches } else { Vec::new() };
        for stretch in &mut stretches {
            if stretch.state == ThreadState::Unrecorded {
                stretch.start = stretch.start.max(first_switch);
            }
        }
        stretches.retain(|stretch| stretch.start < stretch.end);
        let migrations = if is_known { self.migrations } else { Vec::new() };
        ThreadSched { tid, stretches, waits: self.waits, migrations }
    }

    /// Time of a thread never goes back.
    fn reach(&mut self, time: Nanos) -> Nanos {
        self.last_time = match self.state {
            State::Unseen if self.stretches.is_empty() => time,
            _ => time.max(self.last_time),
        };
        self.last_time
    }

    /// The thread was seen running, and nobody told that it came: adds what is known all
    /// the same, up to the time that is given back.
    fn known_part(&mut self, off: &Off, until: Nanos) -> Nanos {
        let Some((woken, _)) = off.woken else { return off.since };
        let woken = woken.min(until);
        self.push(ThreadState::Blocked(self.blocked_on(off)), off.since, woken);
        woken
    }

    fn blocked_on(&self, off: &Off) -> BlockedOn {
        let awaited = self.wait.as_ref().map(|wait| wait.lock.on);
        awaited.or(off.on).unwrap_or(BlockedOn::Unknown)
    }

    fn push(&mut self, state: ThreadState, start: Nanos, end: Nanos) {
        if start < end {
            self.stretches.push(Stretch { state, start, end });
        }
    }
}

impl Off {
    /// Another source tells of the same switch.
    fn add(&mut self, by: By, left: LeftAs, (on, frames): (Option<BlockedOn>, &[Place])) {
        self.told |= by as u8;
        if self.left == LeftAs::Waiting {
            self.left = left;
        }
        self.on = self.on.or(on);
        if self.frames.is_empty() {
            self.frames = frames.to_vec();
        }
    }
}
