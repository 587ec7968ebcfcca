//! Who waits for which lock, from where, and who let go of it.
//!
//! A wait lasts from leaving the processor to coming back to it; where nobody recorded
//! switches, as long as the call for the lock. It holds the time in which the lock was free
//! and the thread had no processor, which is kept apart where wake-ups were recorded: that
//! part is not the lock's fault. A lock that is free when it is asked for costs nothing and
//! is not seen at all.

use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::{
    AwaitedLock, BlockedOn, FrameKind, NO_LOCK, Nanos, RunnableSince, StackId, ThreadState, Trace,
    TrackId,
};

use crate::cpu::off_cpu::threads::thread_name;
use crate::cpu::sampled::frame_name;
use crate::{Facts, Percentiles, TotalNanos};

/// One wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitForLock {
    pub track: TrackId,
    pub lock: AwaitedLock,
    pub start: Nanos,
    /// All of it.
    pub delay_ns: Nanos,
    /// Of that, the thread could have gone on and had no processor; `None` where nobody
    /// recorded when it could.
    pub runnable_ns: Option<Nanos>,
    /// Where it asked for the lock.
    pub stack: StackId,
    pub waker: Option<TrackId>,
    /// Where the waker let go of it.
    pub waker_stack: StackId,
}

/// All waits for one lock from one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    pub lock: AwaitedLock,
    /// The stack, outermost call first, without the kernel's part.
    pub stack: Vec<String>,
    pub threads: u64,
    pub delay_ns: TotalNanos,
    /// `None` where nobody recorded when waits ended.
    pub runnable_ns: Option<TotalNanos>,
    pub waits: Percentiles,
    /// Who ended most of the waiting.
    pub waker: Option<LockWaker>,
}

/// A thread that others waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockWaker {
    pub thread: String,
    /// How much of the waiting it ended.
    pub delay_ns: TotalNanos,
    /// Where it stood then, mostly: outermost call first, without the kernel's part.
    pub stack: Vec<String>,
}

/// What one thread waited for, over all locks of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockThreadRow {
    pub track: TrackId,
    pub thread: String,
    pub on: BlockedOn,
    pub delay_ns: TotalNanos,
    pub runnable_ns: Option<TotalNanos>,
    pub waits: Percentiles,
}

/// Waits by lock and stack, the most expensive first.
pub fn locks(facts: &Facts) -> Vec<LockRow> {
    let trace = facts.trace();
    // A stack is spelled out once, however many waits have it.
    let mut by_stack: BTreeMap<(AwaitedLock, StackId), Vec<WaitForLock>> = BTreeMap::new();
    for wait in lock_waits(trace) {
        by_stack.entry((wait.lock, wait.stack)).or_default().push(wait);
    }
    let mut groups: BTreeMap<(AwaitedLock, Vec<String>), Vec<WaitForLock>> = BTreeMap::new();
    for ((lock, stack), waits) in by_stack {
        groups.entry((lock, user_stack(trace, stack))).or_default().extend(waits);
    }
    let row = |((lock, stack), waits): ((AwaitedLock, Vec<String>), Vec<WaitForLock>)| LockRow {
        lock,
        stack,
        threads: waits.iter().map(|wait| wait.track).collect::<BTreeSet<_>>().len() as u64,
        delay_ns: waits.iter().map(|wait| i128::from(wait.delay_ns)).sum(),
        runnable_ns: runnable_ns(&waits),
        waits: Percentiles::of(waits.iter().map(|wait| wait.delay_ns).collect()),
        waker: main_waker(trace, &waits),
    };
    let mut rows: Vec<LockRow> = groups.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.delay_ns));
    rows
}

/// Waits by thread and kind of lock, the most expensive first.
pub fn lock_threads(facts: &Facts) -> Vec<LockThreadRow> {
    let trace = facts.trace();
    let mut groups: BTreeMap<(TrackId, BlockedOn), Vec<WaitForLock>> = BTreeMap::new();
    for wait in lock_waits(trace) {
        groups.entry((wait.track, wait.lock.on)).or_default().push(wait);
    }
    let row = |((track, on), waits): ((TrackId, BlockedOn), Vec<WaitForLock>)| LockThreadRow {
        track,
        thread: thread_name(trace, trace.tracks().get(track)),
        on,
        delay_ns: waits.iter().map(|wait| i128::from(wait.delay_ns)).sum(),
        runnable_ns: runnable_ns(&waits),
        waits: Percentiles::of(waits.iter().map(|wait| wait.delay_ns).collect()),
    };
    let mut rows: Vec<LockThreadRow> = groups.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.delay_ns));
    rows
}

/// Every wait for a lock, thread by thread in order of time.
pub fn lock_waits(trace: &Trace) -> Vec<WaitForLock> {
    let mut waits: Vec<WaitForLock> = Vec::new();
    for state in trace.thread_states().iter_counted() {
        match state.state {
            ThreadState::Blocked(on) if is_lock(on) => waits.push(WaitForLock {
                track: state.track,
                lock: AwaitedLock { on, address: (state.lock != NO_LOCK).then_some(state.lock) },
                start: state.start,
                delay_ns: state.dur,
                runnable_ns: None,
                stack: state.stack,
                waker: state.waker,
                waker_stack: state.waker_stack,
            }),
            ThreadState::Runnable(RunnableSince::Woken) => {
                let goes_on = |wait: &&mut WaitForLock| {
                    wait.track == state.track && wait.start + wait.delay_ns == state.start
                };
                if let Some(wait) = waits.last_mut().filter(goes_on) {
                    wait.delay_ns += state.dur;
                    *wait.runnable_ns.get_or_insert(0) += state.dur;
                }
            }
            _ => {}
        }
    }
    waits
}

/// True where what a thread waits for is in the program, or in one that it works with.
fn is_lock(on: BlockedOn) -> bool {
    on.is_of_threads() || matches!(on, BlockedOn::Join | BlockedOn::FileLock)
}

/// The names of a stack, outermost first, as far as they are the program's own.
pub(crate) fn user_stack(trace: &Trace, stack: StackId) -> Vec<String> {
    let frames = trace.stacks().frames(stack).map(|frame| trace.frames().get(frame));
    let user = frames.filter(|frame| frame.kind != FrameKind::Kernel);
    let mut names: Vec<String> = user.map(|frame| frame_name(trace, &frame)).collect();
    names.reverse();
    names
}

fn runnable_ns(waits: &[WaitForLock]) -> Option<TotalNanos> {
    let known: Vec<Nanos> = waits.iter().filter_map(|wait| wait.runnable_ns).collect();
    (!known.is_empty()).then(|| known.iter().map(|&ns| i128::from(ns)).sum())
}

/// The thread that ended most of the waiting.
fn main_waker(trace: &Trace, waits: &[WaitForLock]) -> Option<LockWaker> {
    let mut by_thread: BTreeMap<TrackId, TotalNanos> = BTreeMap::new();
    let mut by_stack: BTreeMap<(TrackId, StackId), TotalNanos> = BTreeMap::new();
    for wait in waits {
        if let Some(waker) = wait.waker {
            let ns = i128::from(wait.delay_ns);
            *by_thread.entry(waker).or_default() += ns;
            *by_stack.entry((waker, wait.waker_stack)).or_default() += ns;
        }
    }
    let largest = |(key, ns): (&TrackId, &TotalNanos)| (*ns, std::cmp::Reverse(*key));
    let (&track, &delay_ns) = by_thread.iter().max_by_key(|&(key, ns)| largest((key, ns)))?;
    let stacks =
        by_stack.iter().filter(|((of, stack), _)| *of == track && *stack != StackId::EMPTY);
    let stack = stacks.max_by_key(|&(key, ns)| (ns, std::cmp::Reverse(key))).map(|(key, _)| key.1);
    Some(LockWaker {
        thread: thread_name(trace, trace.tracks().get(track)),
        delay_ns,
        stack: stack.map(|stack| user_stack(trace, stack)).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::sample::Sample;

    fn sample() -> Arc<Trace> {
        let mut sample = Sample::default();
        let woken = ThreadState::Runnable(RunnableSince::Woken);
        sample.state("7", ThreadState::Running, 0, 12);
        sample.wait("7", BlockedOn::Mutex, 12, 8, &["work", "lock"]);
        sample.state("7", woken, 20, 6);
        sample.state("7", ThreadState::Running, 26, 24);
        sample.wait("7", BlockedOn::Mutex, 50, 5, &["work", "lock"]);
        sample.wait("8", BlockedOn::Condition, 10, 30, &[]);
        sample.state("8", woken, 40, 2);
        sample.wait("8", BlockedOn::Sleep, 60, 7, &["nap"]);
        sample.finish()
    }

    #[test]
    fn waits_hold_the_time_without_a_processor_and_keep_it_apart() {
        let trace = sample();
        let found: Vec<_> = lock_waits(&trace)
            .iter()
            .map(|wait| (wait.lock.to_string(), wait.delay_ns, wait.runnable_ns))
            .collect();
        let expected =
            [("[mutex]", 14, Some(6)), ("[mutex]", 5, None), ("[condition]", 32, Some(2))];
        assert_eq!(found, expected.map(|row| (row.0.to_owned(), row.1, row.2)));
    }

    #[test]
    fn rows_are_by_lock_and_stack_and_add_up() {
        let trace = sample();
        let facts = Facts::new(&trace);
        let rows = locks(&facts);
        let found: Vec<_> =
            rows.iter().map(|row| (row.delay_ns, row.waits.count, row.stack.join(";"))).collect();
        assert_eq!(found, [(32, 1, String::new()), (19, 2, "work;lock".to_owned())]);
        assert_eq!(rows[1].runnable_ns, Some(6));
        let by_thread: TotalNanos = lock_threads(&facts).iter().map(|row| row.delay_ns).sum();
        assert_eq!(by_thread, 51);
    }
}
