//! Who waits for which lock, from where, and who let go of it.
//!
//! A wait is what a call for a lock took, from its beginning to its return; where only the
//! scheduler was recorded, it is the time from leaving the processor to coming back to it.
//! Both hold the time in which the lock was free and the thread had no processor, which is
//! told apart: that part is not the lock's fault. A lock that is free when it is asked for
//! costs nothing and is not seen at all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use spanwise_model::{
    AwaitedLock, BlockedOn, Nanos, RunnableSince, SpanId, SpanKind, ThreadState, Trace, TrackId,
    WAKEUP_CATEGORY,
};

use crate::off_cpu::{OffPeriod, States, has_kind, off_periods, thread_name};
use crate::{Facts, Percentiles, TotalNanos};

/// One wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitForLock {
    /// The span that stands for it.
    pub span: SpanId,
    pub track: TrackId,
    pub lock: AwaitedLock,
    pub delay_ns: Nanos,
    /// Of that, the lock was not to be had; `None` where the scheduler was not recorded.
    pub blocked_ns: Option<Nanos>,
    /// Of that, the thread could have gone on and had no processor.
    pub runnable_ns: Option<Nanos>,
    /// The span of the waker that the arrow begins at.
    pub waker: Option<SpanId>,
}

/// All waits for one lock from one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    pub lock: AwaitedLock,
    /// The stack, outermost call first, without the kernel's part.
    pub stack: Vec<String>,
    pub threads: u64,
    pub delay_ns: TotalNanos,
    /// `None` where the scheduler was not recorded.
    pub runnable_ns: Option<TotalNanos>,
    pub waits: Percentiles,
    /// Who ended most of the waiting, and how much of it.
    pub waker: Option<(String, TotalNanos)>,
}

/// What one thread waited for, over all locks of a sort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockThreadRow {
    pub track: TrackId,
    pub thread: String,
    pub on: BlockedOn,
    pub delay_ns: TotalNanos,
    pub runnable_ns: Option<TotalNanos>,
    pub waits: Percentiles,
}

/// Waits by lock and place, the dearest first.
pub fn locks(facts: &Facts<'_>) -> Vec<LockRow> {
    let trace = facts.trace();
    let mut groups: BTreeMap<(AwaitedLock, Vec<String>), Vec<WaitForLock>> = BTreeMap::new();
    for wait in lock_waits(trace) {
        groups.entry((wait.lock, user_stack(trace, wait.span))).or_default().push(wait);
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

/// Waits by thread and sort of lock, the dearest first.
pub fn lock_threads(facts: &Facts<'_>) -> Vec<LockThreadRow> {
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
    if !has_kind(trace, SpanKind::OffCpu) && !has_kind(trace, SpanKind::LockWait) {
        return Vec::new();
    }
    let states = States::new(trace);
    // Without wake-ups it is not known how much of a wait was for a processor.
    let has_wakeups = states.has(ThreadState::Runnable(RunnableSince::Woken));
    let mut waits = Vec::new();
    // The wait that each span of a state is a part of, by its place in the list.
    let mut owner: HashMap<SpanId, usize> = HashMap::new();
    for (track, row) in trace.tracks().iter() {
        for span in row.span_ids().filter(|&span| trace.kind(span) == SpanKind::LockWait) {
            let Some(lock) = AwaitedLock::from_span_name(trace.name(span)) else { continue };
            owner.insert(span, waits.len());
            let delay_ns = trace.spans().dur(span);
            let (blocked_ns, runnable_ns, waker) = (None, None, None);
            waits.push(WaitForLock { span, track, lock, delay_ns, blocked_ns, runnable_ns, waker });
        }
        for period in off_periods(trace, row, &states) {
            let around = ancestors(trace, period[0].0).find_map(|span| owner.get(&span).copied());
            let Some(place) = around.or_else(|| begin_wait(trace, track, &period, &mut waits))
            else {
                continue;
            };
            add_period(trace, &period, &mut waits[place], has_wakeups);
            owner.extend(period.iter().map(|&(span, _)| (span, place)));
        }
    }
    add_wakers(trace, &owner, &mut waits);
    waits
}

/// A wait that only the scheduler tells of.
fn begin_wait(
    trace: &Trace,
    track: TrackId,
    period: &OffPeriod,
    waits: &mut Vec<WaitForLock>,
) -> Option<usize> {
    let (span, ThreadState::Blocked(on)) = period[0] else { return None };
    if !on.is_of_threads() && !matches!(on, BlockedOn::Join | BlockedOn::FileLock) {
        return None;
    }
    let delay_ns = period.iter().map(|&(span, _)| trace.spans().dur(span)).sum();
    let (blocked_ns, runnable_ns, waker) = (None, None, None);
    let lock = AwaitedLock { on, address: None };
    waits.push(WaitForLock { span, track, lock, delay_ns, blocked_ns, runnable_ns, waker });
    Some(waits.len() - 1)
}

fn add_period(trace: &Trace, period: &OffPeriod, wait: &mut WaitForLock, has_wakeups: bool) {
    for &(span, state) in period {
        let dur = trace.spans().dur(span);
        match state {
            ThreadState::Blocked(_) => *wait.blocked_ns.get_or_insert(0) += dur,
            ThreadState::Runnable(_) => *wait.runnable_ns.get_or_insert(0) += dur,
            ThreadState::Running | ThreadState::Unrecorded => {}
        }
    }
    // The scheduler was recorded, so what was not seen did not happen.
    wait.blocked_ns.get_or_insert(0);
    if has_wakeups {
        wait.runnable_ns.get_or_insert(0);
    }
}

/// The last one to wake a thread ended its wait.
fn add_wakers(trace: &Trace, owner: &HashMap<SpanId, usize>, waits: &mut [WaitForLock]) {
    let mut latest: BTreeMap<usize, (Nanos, SpanId)> = BTreeMap::new();
    for (to, from) in woken_by(trace) {
        let Some(&place) = ancestors(trace, to).find_map(|span| owner.get(&span)) else { continue };
        let this = (trace.spans().start(from), from);
        let entry = latest.entry(place).or_insert(this);
        *entry = (*entry).max(this);
    }
    for (place, (_, from)) in latest {
        waits[place].waker = Some(from);
    }
}

/// From the span of a wait to the one of who ended it, as the arrows say.
pub(crate) fn woken_by(trace: &Trace) -> BTreeMap<SpanId, SpanId> {
    let links = trace.links();
    let is_wakeup = |category: u16| {
        let category = trace.categories().get(category.into());
        trace.strings().get(category.name) == WAKEUP_CATEGORY
    };
    let arrows = links.iter().zip(links.category.iter());
    arrows.filter(|&(_, &category)| is_wakeup(category)).map(|((from, to), _)| (to, from)).collect()
}

/// A span and all around it, innermost first.
pub(crate) fn ancestors(trace: &Trace, span: SpanId) -> impl Iterator<Item = SpanId> {
    std::iter::successors(Some(span), |&span| trace.spans().parent(span))
}

/// The names around a wait, outermost first, as far as they are the program's own.
fn user_stack(trace: &Trace, span: SpanId) -> Vec<String> {
    let is_user = |&span: &SpanId| {
        let category = trace.categories().get(trace.spans().category(span));
        category.kind != SpanKind::LockWait && trace.strings().get(category.name) != "os_kernel"
    };
    let around = ancestors(trace, span).skip(1).filter(is_user);
    let mut names: Vec<String> = around.map(|span| trace.name(span).to_owned()).collect();
    names.reverse();
    names
}

fn runnable_ns(waits: &[WaitForLock]) -> Option<TotalNanos> {
    let known: Vec<Nanos> = waits.iter().filter_map(|wait| wait.runnable_ns).collect();
    (!known.is_empty()).then(|| known.iter().map(|&ns| i128::from(ns)).sum())
}

/// The thread that ended most of the waiting.
fn main_waker(trace: &Trace, waits: &[WaitForLock]) -> Option<(String, TotalNanos)> {
    let mut by_thread: BTreeMap<TrackId, TotalNanos> = BTreeMap::new();
    for wait in waits {
        if let Some(from) = wait.waker {
            *by_thread.entry(trace.spans().track(from)).or_default() += i128::from(wait.delay_ns);
        }
    }
    let (&track, &ns) =
        by_thread.iter().max_by_key(|&(track, ns)| (ns, std::cmp::Reverse(track)))?;
    Some((thread_name(trace, trace.tracks().get(track)), ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn sample() -> Trace {
        let mut sample = Sample::default();
        let mut span = |thread: &str, kind, name: &str, start, dur| {
            sample.span(thread, kind, name, start, dur);
        };
        span("7", SpanKind::Other, "work", 0, 100);
        span("7", SpanKind::LockWait, "[mutex 0x40]", 10, 20);
        span("7", SpanKind::OffCpu, "[blocked: mutex]", 12, 8);
        span("7", SpanKind::OffCpu, "[waiting for a CPU]", 20, 6);
        span("7", SpanKind::LockWait, "[mutex 0x40]", 50, 5);
        // Only the scheduler knows of this one.
        span("8", SpanKind::OffCpu, "[blocked: condition]", 10, 30);
        span("8", SpanKind::OffCpu, "[waiting for a CPU]", 40, 2);
        span("8", SpanKind::OffCpu, "[sleeping]", 60, 7);
        sample.finish()
    }

    #[test]
    fn waits_hold_the_time_without_a_processor_and_tell_it_apart() {
        let trace = sample();
        let found: Vec<_> = lock_waits(&trace)
            .iter()
            .map(|wait| (wait.lock.to_string(), wait.delay_ns, wait.blocked_ns, wait.runnable_ns))
            .collect();
        let expected = [
            ("[mutex 0x40]", 20, Some(8), Some(6)),
            ("[mutex 0x40]", 5, None, None),
            ("[condition]", 32, Some(30), Some(2)),
        ];
        assert_eq!(found, expected.map(|row| (row.0.to_owned(), row.1, row.2, row.3)));
    }

    #[test]
    fn rows_are_by_lock_and_stack_and_add_up() {
        let trace = sample();
        let facts = Facts::new(&trace);
        let rows = locks(&facts);
        let said: Vec<_> =
            rows.iter().map(|row| (row.delay_ns, row.waits.count, row.stack.join(";"))).collect();
        assert_eq!(said, [(32, 1, String::new()), (25, 2, "work".to_owned())]);
        assert_eq!(rows[1].runnable_ns, Some(6));
        let by_thread: TotalNanos = lock_threads(&facts).iter().map(|row| row.delay_ns).sum();
        assert_eq!(by_thread, 57);
    }
}
