//! Threads that run, wait for something, and wait for a processor.
//!
//! A machine a thread, fed with what the kernel's scheduler and its locks say. Two sources
//! may report the same switch, the recorder's own records and the scheduler's tracepoint:
//! the first counts and the second adds what it knows. One source that reports twice that a
//! thread left has lost the coming between, and the time that this makes doubtful is
//! [`ThreadState::Unrecorded`]: neither running nor waiting is invented.
//!
//! What a thread did after its last event is not known and not counted.

mod blocked;
mod event;
mod futex;
mod thread;

use std::collections::BTreeMap;

use spanwise_model::{AwaitedLock, BlockedOn, Nanos, ThreadState};

pub use event::{EventTime, LeftAs, SchedEvent};

use crate::{Location, Names, ThreadKey};
use futex::{Purpose, Wakes};
use thread::{OffCpuStack, RecordedFrom, SwitchSource, Thread, Wait};

/// A thread's state from one time to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateInterval {
    pub state: ThreadState,
    pub start: Nanos,
    pub end: Nanos,
    /// The processor that it was last on, where that was recorded.
    pub cpu: Option<u32>,
    /// Where the thread stands meanwhile.
    pub stack: StackRef,
    /// Who ended the wait, where that was recorded.
    pub waker: Option<i64>,
    /// Where the waker stood then.
    pub waker_stack: StackRef,
    /// The address of the lock that it waits for, where that is known.
    pub lock: Option<u64>,
    /// Its stack was sampled for short waits without one as well.
    pub is_sampled: bool,
    /// How many states further on such a one stands for this one; below 0, how many before.
    pub stand_in: i32,
}

/// A stack, as whoever feeds [`Sched`] numbers stacks. [`StackRef::NONE`] is no stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StackRef(pub u32);

impl StackRef {
    pub const NONE: StackRef = StackRef(0);
}

/// The stack of an event: the frames, outermost first, and their number.
#[derive(Debug, Clone, Copy)]
pub struct EventStack<'a> {
    pub frames: &'a [Location],
    pub number: StackRef,
    pub names: &'a Names,
}

/// One wait for a lock, from the call to its return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWait {
    pub lock: AwaitedLock,
    pub start: Nanos,
    pub end: Nanos,
    pub stack: StackRef,
    pub waker: Option<Waker>,
}

/// Who ended a wait, and where it stood then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waker {
    pub tid: i64,
    pub stack: StackRef,
}

/// A thread made another one runnable, at a time when that one waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    pub waker: i64,
    pub woken: i64,
    pub time: Nanos,
}

/// Everything about one thread, in order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSched {
    pub tid: i64,
    /// One behind the other, without gaps between the first switch of all and the last of a
    /// snapshot.
    pub intervals: Vec<StateInterval>,
    pub waits: Vec<LockWait>,
    /// When it came to another processor, and to which.
    pub migrations: Vec<(Nanos, u32)>,
}

/// What is now known of a thread's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackMove {
    /// It was found like this, and lasts until something else is known.
    Found { tid: i64, at: Nanos, frames: Vec<Location> },
    /// Nothing is known from here on.
    Left { tid: i64, at: Nanos },
    /// It stood like this all the time between.
    Stood { tid: i64, from: Nanos, to: Nanos, frames: Vec<Location> },
}

/// A thread at a time.
#[derive(Debug, Clone, Copy)]
struct ThreadTime {
    tid: i64,
    time: Nanos,
}

/// All threads.
#[derive(Debug, Default)]
pub struct Sched {
    threads: BTreeMap<i64, Thread>,
    wakes: Wakes,
    /// Where threads last stood when they let others go on.
    woke_at: BTreeMap<i64, StackRef>,
    /// By process: who let go of Python's lock last, and when.
    released: BTreeMap<i64, (i64, Nanos)>,
    /// Processors that have nothing to run, and since when.
    idle: BTreeMap<u32, Nanos>,
    /// When the first switch was reported.
    first_switch: Option<Nanos>,
    /// When anything but bookkeeping was recorded first.
    began: Option<Nanos>,
    /// Switches are not recorded for a while.
    is_paused: bool,
    wakeups: Vec<Wakeup>,
    moves: Vec<StackMove>,
}

/// True for a function whose probes [`SchedEvent::Probe`] has a use for.
pub fn is_probe_of_wait(function: &str) -> bool {
    function == RELEASES_GIL || blocked::by_name(function).is_some()
}

const RELEASES_GIL: &str = "drop_gil";

impl Sched {
    /// An event that a thread raised says at least that it ran.
    pub fn seen(&mut self, tid: i64, at: EventTime) {
        self.began.get_or_insert(at.time);
        self.mentioned(tid, at);
    }

    /// A record of bookkeeping, such as a thread's name: it ran then. Recorders write such
    /// records before they record anything else, so what it did until then stays unknown.
    pub fn mentioned(&mut self, tid: i64, at: EventTime) {
        self.comes_from_idle(tid, at);
        let is_paused = self.is_paused;
        if let Some(thread) = self.thread(tid) {
            match is_paused {
                true => thread.seen_in_pause(at.time),
                false => thread.seen(at.time),
            }
            thread.on_cpu(at);
        }
    }

    /// From now on no switches are reported, until the first one after [`Sched::resume`].
    pub fn pause(&mut self, time: Nanos) {
        self.is_paused = true;
        self.threads.values_mut().for_each(|thread| thread.lose(time));
    }

    /// Switches are reported again: up to its next one nothing is known of a thread.
    pub fn resume(&mut self) {
        self.is_paused = false;
    }

    /// The earliest that a thread can have run since, if it runs now.
    pub fn may_run_since(&self, tid: i64) -> Option<Nanos> {
        self.threads.get(&tid).and_then(Thread::may_run_since)
    }

    /// A thread was made by another.
    pub fn created(&mut self, tid: i64, time: Nanos) {
        let is_paused = self.is_paused;
        if let Some(thread) = self.thread(tid) {
            thread.created(time);
            if is_paused {
                thread.lose(time);
            }
        }
    }

    /// A thread ends: the next time that it leaves its processor, it waits for nothing.
    pub fn ended(&mut self, tid: i64, time: Nanos) {
        if let Some(thread) = self.thread(tid) {
            thread.ended(time);
        }
    }

    /// One event of a thread, with the stack that it was raised on, outermost frame first.
    pub fn event(
        &mut self,
        key: ThreadKey,
        at: EventTime,
        event: SchedEvent,
        stack: EventStack<'_>,
    ) {
        let (tid, time) = (key.tid, at.time);
        let EventStack { frames, names, .. } = stack;
        match event {
            SchedEvent::Out { .. } | SchedEvent::In | SchedEvent::Switch { .. } => {
                self.switch(tid, at, event, stack);
            }
            SchedEvent::Waited { since } => self.stood(ThreadTime { tid, time }, since, stack),
            SchedEvent::Wake { woken } => {
                self.seen(tid, at);
                let is_its_own = tid > 0 && !blocked::is_interrupt(names, frames);
                if let Some(thread) = self.thread(woken) {
                    let waker = Waker { tid, stack: stack.number };
                    thread.woken(time, is_its_own.then_some(waker));
                }
            }
            SchedEvent::FutexEnter { address, op, value } => {
                self.seen(tid, at);
                match futex::purpose(op, value) {
                    Purpose::Wait(on) => {
                        let on = blocked::by_stack(names, frames)
                            .filter(|&on| on != BlockedOn::Futex)
                            .unwrap_or(on);
                        let lock = AwaitedLock { on, address: Some(address) };
                        self.wait(ThreadTime { tid, time }, lock, false, stack);
                    }
                    Purpose::Wake => self.wake(ThreadTime { tid, time }, address, value, stack),
                    Purpose::Other => {}
                }
            }
            SchedEvent::FutexExit { result } => {
                self.seen(tid, at);
                self.futex_exit(ThreadTime { tid, time }, result);
            }
            SchedEvent::Probe { function, is_return } => {
                self.seen(tid, at);
                self.probe(key, time, names.text(function), is_return, stack);
            }
        }
    }

    /// What has become known of stacks since this was last asked.
    pub fn take_moves(&mut self) -> Vec<StackMove> {
        std::mem::take(&mut self.moves)
    }

    /// What follows was recorded apart from what was before.
    pub fn new_snapshot(&mut self) {
        self.threads.values_mut().for_each(Thread::end);
        self.wakes = Wakes::default();
        self.is_paused = false;
        self.released.clear();
        self.idle.clear();
    }

    /// All threads of which something is known, by number, and who woke whom.
    pub fn finish(mut self) -> (Vec<ThreadSched>, Vec<Wakeup>) {
        self.threads.values_mut().for_each(Thread::end);
        let starts = RecordedFrom {
            switches: self.first_switch.unwrap_or(Nanos::MIN),
            events: self.began.unwrap_or(Nanos::MIN),
        };
        let threads = self.threads.into_iter().map(|(tid, thread)| thread.finish(tid, starts));
        let is_known =
            |thread: &ThreadSched| !thread.intervals.is_empty() || !thread.waits.is_empty();
        (threads.filter(is_known).collect(), self.wakeups)
    }

    /// The idle loop is no thread, and what perf raises itself belongs to none.
    fn thread(&mut self, tid: i64) -> Option<&mut Thread> {
        (tid > 0).then(|| self.threads.entry(tid).or_default())
    }

    fn switch(&mut self, tid: i64, at: EventTime, event: SchedEvent, stack: EventStack<'_>) {
        self.first_switch.get_or_insert(at.time);
        self.began.get_or_insert(at.time);
        match event {
            SchedEvent::Out { is_preempted } => {
                let left = if is_preempted { LeftAs::Preempted } else { LeftAs::Waiting };
                self.comes_from_idle(tid, at);
                self.on_cpu(tid, at);
                self.left(ThreadTime { tid, time: at.time }, SwitchSource::Record, left, stack);
            }
            SchedEvent::Switch { prev, left, next } => {
                self.comes_from_idle(prev, at);
                self.on_cpu(prev, at);
                self.left(
                    ThreadTime { tid: prev, time: at.time },
                    SwitchSource::Tracepoint,
                    left,
                    stack,
                );
                self.came(next, at.time, SwitchSource::Tracepoint);
                self.on_cpu(next, at);
                match (next, at.cpu) {
                    (0, Some(cpu)) => drop(self.idle.insert(cpu, at.time)),
                    (_, Some(cpu)) => drop(self.idle.remove(&cpu)),
                    (_, None) => {}
                }
            }
            _ => {
                self.came(tid, at.time, SwitchSource::Record);
                self.on_cpu(tid, at);
                at.cpu.map(|cpu| self.idle.remove(&cpu));
            }
        }
    }

    /// Reported when a wait is over: the stack of the wait. While switches are not recorded, it
    /// also shows that there was a wait.
    fn stood(
        &mut self,
        ThreadTime { tid, time }: ThreadTime,
        since: Option<Nanos>,
        EventStack { frames, number, names }: EventStack<'_>,
    ) {
        let is_sampled = since.is_none();
        let stood =
            OffCpuStack { on: blocked::by_stack(names, frames), frames, number, is_sampled };
        let since = since.filter(|_| self.is_paused);
        let Some(thread) = self.thread(tid) else { return };
        let Some(since) = since else { return thread.stands(stood) };
        let from = thread.waited(since, time, stood);
        if !frames.is_empty() && !thread.has_known_stack() && from < time {
            self.moves.push(StackMove::Stood { tid, from, to: time, frames: frames.to_vec() });
        }
    }

    fn on_cpu(&mut self, tid: i64, at: EventTime) {
        if let Some(thread) = self.thread(tid) {
            thread.on_cpu(at);
        }
    }

    /// The thread runs on a processor. If that was idle in its last
    /// report, and the switch from idle was not reported, it came when it was woken: an idle
    /// processor takes what it is given at once. Some machines never report what the idle
    /// loops of their second and later processors do.
    fn comes_from_idle(&mut self, tid: i64, at: EventTime) {
        if tid <= 0 {
            return;
        }
        let Some(idle_since) = at.cpu.and_then(|cpu| self.idle.remove(&cpu)) else { return };
        let thread = self.threads.get(&tid);
        if let Some(woken) = thread.and_then(|thread| thread.woken_since(idle_since)) {
            self.came(tid, woken.min(at.time), SwitchSource::Waking);
        }
    }

    fn left(
        &mut self,
        ThreadTime { tid, time }: ThreadTime,
        by: SwitchSource,
        left: LeftAs,
        stack: EventStack<'_>,
    ) {
        let EventStack { frames, names, number } = stack;
        let on = match left {
            LeftAs::Preempted | LeftAs::Dead => None,
            LeftAs::Uninterruptible => Some(BlockedOn::Io),
            LeftAs::Waiting => None,
        };
        let on = blocked::by_stack(names, frames).or(on);
        let Some(thread) = self.thread(tid) else { return };
        let is_new =
            thread.left(time, by, left, OffCpuStack { on, frames, number, is_sampled: false });
        if is_new && !thread.has_known_stack() {
            self.moves.push(StackMove::Left { tid, at: time });
        }
    }

    fn came(&mut self, tid: i64, time: Nanos, by: SwitchSource) {
        let Some(thread) = self.thread(tid) else { return };
        let has_known_stack = thread.has_known_stack();
        let Some(off) = thread.came(time, by) else { return };
        // Inside the wait, so that an arrow has something to lead to.
        if let Some((at, Some(waker))) = off.woken.filter(|_| off.since < time) {
            self.wakeups.push(Wakeup { waker: waker.tid, woken: tid, time: at.min(time - 1) });
        }
        if !off.frames.is_empty() && !has_known_stack {
            let (from, to, frames) = (off.since, time, off.frames);
            self.moves.push(StackMove::Stood { tid, from, to, frames });
        }
    }

    /// A thread begins to wait for a lock.
    fn wait(
        &mut self,
        ThreadTime { tid, time }: ThreadTime,
        lock: AwaitedLock,
        is_probe: bool,
        EventStack { frames, number, .. }: EventStack<'_>,
    ) {
        let Some(thread) = self.thread(tid) else { return };
        // What a probed function calls is a part of it.
        if thread.wait.as_ref().is_some_and(|wait| wait.is_probe) && !is_probe {
            return;
        }
        let has_stack = !frames.is_empty();
        thread.wait =
            Some(Wait { lock, start: time, is_probe, has_stack, number, is_woken: false });
        self.found(ThreadTime { tid, time }, frames);
    }

    fn wake(
        &mut self,
        ThreadTime { tid, time }: ThreadTime,
        address: u64,
        most: u64,
        EventStack { frames, number, .. }: EventStack<'_>,
    ) {
        self.woke_at.insert(tid, number);
        self.wakes.begin(address, tid, time, most);
        let Some(thread) = self.thread(tid) else { return };
        thread.waking = Some((address, most, !frames.is_empty()));
        if thread.wait.is_none() {
            self.found(ThreadTime { tid, time }, frames);
        }
    }

    fn found(&mut self, ThreadTime { tid, time }: ThreadTime, frames: &[Location]) {
        if !frames.is_empty() {
            self.moves.push(StackMove::Found { tid, at: time, frames: frames.to_vec() });
        }
    }

    fn futex_exit(&mut self, ThreadTime { tid, time }: ThreadTime, result: i64) {
        let Some(thread) = self.thread(tid) else { return };
        if let Some((address, most, has_stack)) = thread.waking.take() {
            let is_stack_over = has_stack && thread.wait.is_none();
            let woken = u64::try_from(result).unwrap_or(0);
            self.wakes.end(address, tid, most, woken);
            if is_stack_over {
                self.moves.push(StackMove::Left { tid, at: time });
            }
            return;
        }
        let Some(wait) = thread.wait.take_if(|wait| !wait.is_probe) else { return };
        let waker = match wait.lock.address {
            Some(address) if futex::is_woken(result) => self.wakes.take(address, tid, wait.start),
            _ => None,
        };
        self.waited(ThreadTime { tid, time }, wait, waker);
    }

    fn probe(
        &mut self,
        key: ThreadKey,
        time: Nanos,
        function: &str,
        is_return: bool,
        stack: EventStack<'_>,
    ) {
        let tid = key.tid;
        if function == RELEASES_GIL {
            self.released.insert(key.pid, (tid, time));
            self.woke_at.insert(tid, stack.number);
            return;
        }
        let Some(on) = blocked::by_name(function) else { return };
        if !is_return {
            return self.wait(
                ThreadTime { tid, time },
                AwaitedLock { on, address: None },
                true,
                stack,
            );
        }
        let Some(thread) = self.thread(tid) else { return };
        let Some(wait) = thread.wait.take_if(|wait| wait.is_probe && wait.lock.on == on) else {
            return;
        };
        let released = self.released.get(&key.pid).copied().filter(|&(by, at)| {
            on == BlockedOn::Gil && by != tid && (wait.start..=time).contains(&at)
        });
        self.waited(ThreadTime { tid, time }, wait, released);
    }

    /// A wait is over.
    fn waited(
        &mut self,
        ThreadTime { tid, time }: ThreadTime,
        wait: Wait,
        waker: Option<(i64, Nanos)>,
    ) {
        if wait.has_stack {
            self.moves.push(StackMove::Left { tid, at: time });
        }
        // Where the scheduler said it, that is more exact.
        let by = waker.map(|(waker, _)| Waker {
            tid: waker,
            stack: self.woke_at.get(&waker).copied().unwrap_or_default(),
        });
        if let Some((waker, at)) = waker.filter(|_| !wait.is_woken) {
            let at = at.min(time - 1).max(wait.start);
            self.wakeups.push(Wakeup { waker, woken: tid, time: at });
        }
        if let Some(thread) = self.thread(tid) {
            if let Some(by) = by {
                thread.woken_by(by, wait.start);
            }
            let (lock, start, end) = (wait.lock, wait.start, time.max(wait.start));
            thread.waits.push(LockWait { lock, start, end, stack: wait.number, waker: by });
        }
    }
}
