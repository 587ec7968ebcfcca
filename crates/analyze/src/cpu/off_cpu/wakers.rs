//! Which threads ended the waits of which: whom a thread depends on.

use std::collections::BTreeMap;

use spanwise_model::{BlockedOn, Nanos, RunnableSince, StackId, ThreadState, Trace, TrackId};

use crate::cpu::off_cpu::locks::user_stack;
use crate::cpu::off_cpu::threads::thread_name;
use crate::{Facts, Percentiles, TotalNanos};

/// All waits of one thread for one reason that another thread ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakerRow {
    pub waker: String,
    pub woken: String,
    pub reason: BlockedOn,
    /// How long the woken thread was blocked.
    pub blocked_ns: TotalNanos,
    pub waits: Percentiles,
    /// How long it then waited for a CPU; unknown where no wake-up was recorded.
    pub runnable_ns: Option<TotalNanos>,
    /// Where the waker stood when it ended most of the blocked time, outermost call first; empty
    /// where that was not recorded.
    pub waker_stack: Vec<String>,
}

/// Waits by waker, woken thread and reason, the longest first; idle waits come last.
pub fn wakers(facts: &Facts) -> Vec<WakerRow> {
    let trace = facts.trace();
    let mut groups: BTreeMap<(TrackId, TrackId, BlockedOn), Group> = BTreeMap::new();
    let mut last = None;
    for state in trace.thread_states().iter_counted() {
        let key = match (state.state, state.waker) {
            (ThreadState::Blocked(on), Some(waker)) => Some((waker, state.track, on)),
            _ => None,
        };
        if let Some(key) = key {
            let group = groups.entry(key).or_default();
            group.lengths.push(state.dur);
            *group.stacks.entry(state.waker_stack).or_default() += i128::from(state.dur);
        } else if state.state == ThreadState::Runnable(RunnableSince::Woken)
            && let Some((key, end)) = last
            && state.start == end
            && let Some(group) = groups.get_mut(&key).filter(|_| key.1 == state.track)
        {
            *group.runnable_ns.get_or_insert(0) += i128::from(state.dur);
        }
        last = key.map(|key| (key, state.start.saturating_add(state.dur)));
    }
    let name = |track| thread_name(trace, trace.tracks().get(track));
    let row = |((waker, woken, reason), group): ((TrackId, TrackId, BlockedOn), Group)| WakerRow {
        waker: name(waker),
        woken: name(woken),
        reason,
        blocked_ns: group.lengths.iter().map(|&ns| i128::from(ns)).sum(),
        waker_stack: group.waker_stack(trace),
        runnable_ns: group.runnable_ns,
        waits: Percentiles::of(group.lengths),
    };
    let mut rows: Vec<WakerRow> = groups.into_iter().map(row).collect();
    rows.sort_by_key(|row| (row.reason.is_idle(), std::cmp::Reverse(row.blocked_ns)));
    rows
}

#[derive(Default)]
struct Group {
    lengths: Vec<Nanos>,
    runnable_ns: Option<TotalNanos>,
    /// Blocked time by where the waker stood.
    stacks: BTreeMap<StackId, TotalNanos>,
}

impl Group {
    fn waker_stack(&self, trace: &Trace) -> Vec<String> {
        let known = self.stacks.iter().filter(|(stack, _)| **stack != StackId::EMPTY);
        let most = known.max_by_key(|&(stack, ns)| (ns, std::cmp::Reverse(stack)));
        most.map(|(&stack, _)| user_stack(trace, stack)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn waits_are_grouped_by_who_ended_them() {
        let mut sample = Sample::default();
        sample.state("1", ThreadState::Running, 0, 100);
        sample.wait("7", BlockedOn::Mutex, 0, 10, &["work"]);
        sample.woken_by("1", &["main", "unlock"]);
        sample.state("7", ThreadState::Runnable(RunnableSince::Woken), 10, 3);
        sample.wait("7", BlockedOn::Mutex, 20, 5, &["work"]);
        sample.woken_by("1", &[]);
        sample.wait("7", BlockedOn::Poll, 30, 60, &["work"]);
        sample.woken_by("1", &["main"]);
        sample.wait("8", BlockedOn::Sleep, 0, 50, &["work"]);
        let trace = sample.finish();
        let rows = wakers(&Facts::new(&trace));
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.reason, row.blocked_ns, row.waits.count, row.runnable_ns))
            .collect();
        let expected = [(BlockedOn::Mutex, 15, 2, Some(3)), (BlockedOn::Poll, 60, 1, None)];
        assert_eq!(found, expected);
        assert_eq!((&*rows[0].waker, &*rows[0].woken), ("thread 1", "thread 7"));
        assert_eq!(rows[0].waker_stack, ["main", "unlock"]);
    }
}
