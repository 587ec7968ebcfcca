//! Events of the scheduler and of locks, on their way into the trace.
//!
//! Off-CPU time becomes the innermost spans of a thread, above the stack that it left its
//! processor with. Time in which a thread ran and nobody sampled its stack is a span as
//! well, so that the self times of a thread add up to all that is known of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use spanwise_callstack::{
    EventStack, EventTime, Flow, Location, SampleReach, Sched, SchedEvent, StackMove, StackRef,
    StateInterval, ThreadCalls, ThreadKey, ThreadSched, Wakeup,
};
use spanwise_model::{
    FlowPhase, FlowRow, InstantRow, LOCK_WAIT_CATEGORY, MIGRATION_CATEGORY, NO_KEY, NO_OFFSET,
    Nanos, SpanKind, SpanRow, StackId, StrId, ThreadState, TrackId, TrackKind, WAKEUP_CATEGORY,
};

use super::Output;
use super::observed::Observations;

/// The stack of an event, outermost frame first, and its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedStack<'a> {
    pub(crate) frames: &'a [Location],
    pub(crate) number: StackRef,
}

/// The scheduler's side of a timeline.
#[derive(Default)]
pub(crate) struct OffCpu {
    sched: Sched,
    /// Threads by number, as the lines name them.
    keys: HashMap<i64, ThreadKey>,
    /// Threads that did something else than waking others.
    active: HashSet<i64>,
    /// Until when the stack of a thread is known already.
    stood_until: HashMap<i64, Nanos>,
}

impl OffCpu {
    /// A record that the thread raised while it ran.
    pub(crate) fn seen(&mut self, thread: ThreadKey, at: Option<EventTime>) {
        // What perf makes up at the start of a recording has no time.
        if let Some(at) = at.filter(|at| at.time != 0) {
            self.keys.insert(thread.tid, thread);
            self.sched.seen(thread.tid, at);
        }
    }

    /// A record of bookkeeping that the thread raised.
    pub(crate) fn mentioned(&mut self, thread: ThreadKey, at: Option<EventTime>) {
        if let Some(at) = at.filter(|at| at.time != 0) {
            self.keys.insert(thread.tid, thread);
            self.sched.mentioned(thread.tid, at);
        }
    }

    /// Switches are not recorded from now on, or are again.
    pub(crate) fn paused(&mut self, time: Option<Nanos>, is_off: bool) {
        match time {
            Some(time) if is_off => self.sched.pause(time),
            _ => self.sched.resume(),
        }
    }

    /// The earliest that a thread can have run since, if it runs now.
    pub(crate) fn may_run_since(&self, thread: ThreadKey) -> Option<Nanos> {
        self.sched.may_run_since(thread.tid)
    }

    pub(crate) fn created(&mut self, thread: ThreadKey, time: Option<Nanos>) {
        if let Some(time) = time.filter(|&time| time != 0) {
            self.sched.created(thread.tid, time);
        }
    }

    /// A thread ends: it leaves its processor once more, and for good.
    pub(crate) fn ended(&mut self, thread: ThreadKey, time: Option<Nanos>) {
        if let Some(time) = time.filter(|&time| time != 0) {
            self.sched.ended(thread.tid, time);
        }
    }

    /// The thread's stack is known up to a time: what switches say about it until then is
    /// nothing new.
    pub(crate) fn stands(&mut self, thread: ThreadKey, until: Nanos) {
        self.stood_until.insert(thread.tid, until);
    }

    /// An event, and what it says about stacks.
    pub(crate) fn event(
        &mut self,
        thread: ThreadKey,
        at: Option<EventTime>,
        event: SchedEvent,
        stack: ObservedStack<'_>,
        flow: &mut Flow,
        processes: &BTreeMap<i64, i64>,
    ) {
        let Some(at) = at else { return };
        self.keys.insert(thread.tid, thread);
        if !matches!(event, SchedEvent::Wake { .. }) {
            self.active.insert(thread.tid);
        }
        let pid = processes.get(&thread.tid).copied().unwrap_or(thread.pid);
        let of_process = ThreadKey { pid, ..thread };
        let stack = EventStack { frames: stack.frames, number: stack.number, names: &flow.names };
        self.sched.event(of_process, at, event, stack);
        for change in self.sched.take_moves() {
            let key = |tid| self.keys.get(&tid).copied().unwrap_or(ThreadKey { pid: 0, tid });
            let (StackMove::Found { tid, at, .. }
            | StackMove::Left { tid, at }
            | StackMove::Stood { tid, from: at, .. }) = change;
            if self.stood_until.get(&tid).is_some_and(|&until| at < until) {
                continue;
            }
            match change {
                StackMove::Found { tid, at, frames } => {
                    flow.sample(key(tid), Some(at), &frames, SampleReach::default());
                }
                StackMove::Left { tid, at } => flow.switch(key(tid), Some(at), true),
                StackMove::Stood { tid, from, to, frames } => {
                    flow.sample(key(tid), Some(from), &frames, SampleReach::default());
                    flow.switch(key(tid), Some(to), true);
                }
            }
        }
    }

    pub(crate) fn new_snapshot(&mut self) {
        self.sched.new_snapshot();
        self.stood_until.clear();
    }

    /// Adds everything to the trace, above the calls that are in it already.
    pub(crate) fn finish(
        self,
        calls: &[ThreadCalls],
        seen: &Observations,
        stacks: &[StackId],
        output: &mut Output<'_>,
    ) {
        let OffCpu { sched, keys, active, .. } = self;
        let key = |tid| keys.get(&tid).copied().unwrap_or(ThreadKey { pid: 0, tid });
        let (threads, wakeups) = sched.finish();
        let mut roots: HashMap<i64, Vec<(Nanos, Nanos)>> = HashMap::new();
        for thread in calls {
            let outermost = thread.calls.iter().filter(|call| call.caller.is_none());
            let times = outermost.map(|call| (call.start, call.end));
            roots.entry(thread.thread.tid).or_default().extend(times);
        }
        // Somebody else's thread that ended a wait is none of this recording.
        let known: HashSet<i64> = calls
            .iter()
            .map(|thread| thread.thread.tid)
            .chain(threads.iter().map(|thread| thread.tid))
            .chain(seen.threads())
            .chain(active)
            .collect();
        for thread in &threads {
            let mut covered = roots.remove(&thread.tid).unwrap_or_default();
            covered.sort_unstable();
            output.scheduled(key(thread.tid), thread, &covered);
            let key_of = |tid| known.contains(&tid).then(|| key(tid));
            output.states(key(thread.tid), &thread.intervals, stacks, key_of);
        }
        let known_wakeups = wakeups.iter().filter(|wakeup| known.contains(&wakeup.waker));
        for (number, wakeup) in known_wakeups.enumerate() {
            let tracks = [wakeup.waker, wakeup.woken]
                .map(|tid| output.track(TrackKind::Thread, key(tid), StrId::EMPTY));
            output.wakeup(number as u64, wakeup, tracks);
        }
    }
}

impl Output<'_> {
    /// `covered` are the times of the outermost calls, by start.
    fn scheduled(&mut self, key: ThreadKey, thread: &ThreadSched, mut covered: &[(Nanos, Nanos)]) {
        let track = self.track(TrackKind::Thread, key, StrId::EMPTY);
        for &(time, cpu) in &thread.migrations {
            let name = self.batch.string(&format!("[moved to CPU {cpu}]"));
            let category = self.batch.category(MIGRATION_CATEGORY, SpanKind::Other);
            let row = InstantRow { time, offset: NO_OFFSET, name, track, category };
            self.batch.instants.push(row);
        }
        for wait in &thread.waits {
            let name = wait.lock.to_string();
            let category = (LOCK_WAIT_CATEGORY, SpanKind::LockWait);
            self.synthetic_span(track, &name, category, wait.start, wait.end);
        }
        for &StateInterval { state, start, end, .. } in &thread.intervals {
            let (name, category) = (&*state.span_name(), state.category());
            // That a thread runs is a state, and nothing to draw beside the calls that it runs.
            if state == ThreadState::Running {
                continue;
            }
            // A thread that was sampled while switches were not recorded was where it was seen.
            if state != ThreadState::Unrecorded {
                self.synthetic_span(track, name, category, start, end);
                continue;
            }
            let before = covered.partition_point(|&(_, to)| to <= start);
            covered = &covered[before..];
            for (start, end) in gaps(start, end, covered) {
                self.synthetic_span(track, name, category, start, end);
            }
        }
    }

    /// A link from an instant of the waker to the end of the wait.
    fn wakeup(&mut self, number: u64, wakeup: &Wakeup, [waker, woken]: [TrackId; 2]) {
        let time = wakeup.time;
        self.synthetic_span(waker, "[wakes]", (WAKEUP_CATEGORY, SpanKind::Sampled), time, time);
        let category = self.batch.category(WAKEUP_CATEGORY, SpanKind::Sampled);
        let mut point = |track, time, phase| {
            self.batch.flows.push(FlowRow {
                time,
                key: number,
                offset: NO_OFFSET,
                track,
                category,
                phase,
                binds_enclosing: true,
                is_launch: false,
            });
        };
        point(waker, time, FlowPhase::Start);
        point(woken, time, FlowPhase::End);
    }

    fn synthetic_span(
        &mut self,
        track: TrackId,
        name: &str,
        category: (&str, SpanKind),
        start: Nanos,
        end: Nanos,
    ) {
        let name = self.batch.string(name);
        let category = self.batch.category(category.0, category.1);
        let (dur, offset) = (end.saturating_sub(start).max(0), self.next_offset);
        self.next_offset += 1;
        self.batch.push_span(track, SpanRow { start, dur, key: NO_KEY, offset, name, category });
    }
}

/// The parts of a time that none of the others covers. Those ascend by start.
fn gaps(start: Nanos, end: Nanos, covered: &[(Nanos, Nanos)]) -> Vec<(Nanos, Nanos)> {
    let mut gaps = Vec::new();
    let mut reached = start;
    for &(from, to) in covered.iter().take_while(|&&(from, _)| from < end) {
        if reached < from {
            gaps.push((reached, from));
        }
        reached = reached.max(to);
    }
    if reached < end {
        gaps.push((reached, end));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_nothing_covers() {
        let check = |covered: &[(i64, i64)], expected: &[(i64, i64)]| {
            assert_eq!(gaps(10, 20, covered), expected, "{covered:?}");
        };
        check(&[], &[(10, 20)]);
        check(&[(10, 20)], &[]);
        check(&[(5, 12), (14, 16), (15, 17)], &[(12, 14), (17, 20)]);
        check(&[(11, 11), (25, 30)], &[(10, 11), (11, 20)]);
    }
}
