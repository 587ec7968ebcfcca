//! Why threads did not run: off-CPU time by reason and stack.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use spanwise_model::{Nanos, RunnableSince, StackId, ThreadState, Trace, TrackId};

use crate::cpu::off_cpu::locks::user_stack;
use crate::cpu::off_cpu::sampled_waits::{
    CountedWait, SampledSums, SampledWaits, clipped, counted_waits,
};
use crate::{Facts, Percentiles, TotalNanos};

/// All waits for one reason on one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuReason {
    pub state: ThreadState,
    /// The stack, outermost call first, without the kernel's part. Empty where it was not
    /// recorded.
    pub stack: Vec<String>,
    pub total_ns: TotalNanos,
    /// The part of it that has its reason and its stack from sampled ones.
    pub sampled: SampledWaits,
    /// How far the sum may be off for that; `None` where nothing of it was sampled.
    pub error_ns: Option<TotalNanos>,
    pub threads: u64,
    pub waits: Percentiles,
}

/// Off-CPU time of all threads by reason and stack, the longest first; what threads spend waiting
/// for something to do keeps nobody from anything and comes last. A wait for a processor
/// after another wait has a row of its own.
pub fn off_cpu_reasons(facts: &Facts) -> Vec<OffCpuReason> {
    let trace = facts.trace();
    reasons(trace, counted_waits(trace))
}

/// The same of a range of time: waits that reach out of it count with the part inside.
pub fn off_cpu_reasons_within(trace: &Trace, window: Range<Nanos>) -> Vec<OffCpuReason> {
    reasons(trace, counted_waits(trace).filter_map(|wait| clipped(wait, &window)))
}

fn reasons(trace: &Trace, waits: impl Iterator<Item = CountedWait>) -> Vec<OffCpuReason> {
    let mut by_stack: BTreeMap<(u16, StackId), Vec<CountedWait>> = BTreeMap::new();
    let mut all = SampledSums::default();
    for wait in waits.filter(|wait| wait.state.state != ThreadState::Running) {
        let key = (wait.state.state.code(), wait.state.stack);
        all.add(&wait);
        by_stack.entry(key).or_default().push(wait);
    }
    let all = all.sum();
    // Stacks that differ in the kernel's part alone are one for the reader.
    let mut groups: BTreeMap<(u16, Vec<String>), Vec<CountedWait>> = BTreeMap::new();
    for ((code, stack), waits) in by_stack {
        groups.entry((code, user_stack(trace, stack))).or_default().extend(waits);
    }
    let row = |((_, stack), waits): ((u16, Vec<String>), Vec<CountedWait>)| {
        let threads: BTreeSet<TrackId> = waits.iter().map(|wait| wait.state.track).collect();
        let lengths: Vec<Nanos> = waits.iter().map(|wait| wait.state.dur).collect();
        let mut sampled = SampledSums::default();
        waits.iter().for_each(|wait| sampled.add(wait));
        let sampled = sampled.sum();
        OffCpuReason {
            state: waits.first().map_or(ThreadState::Unrecorded, |wait| wait.state.state),
            stack,
            total_ns: lengths.iter().map(|&ns| i128::from(ns)).sum(),
            sampled,
            error_ns: sampled.error_ns(&all),
            threads: threads.len() as u64,
            waits: Percentiles::of(lengths),
        }
    };
    let mut rows: Vec<OffCpuReason> = groups.into_iter().map(row).collect();
    let is_idle = |state| matches!(state, ThreadState::Blocked(on) if on.is_idle());
    rows.sort_by_key(|row| (is_idle(row.state), std::cmp::Reverse(row.total_ns)));
    rows
}

/// What a state is called in a column of reasons.
pub fn reason_text(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "running",
        ThreadState::Blocked(on) => on.text(),
        ThreadState::Runnable(RunnableSince::Woken) => "CPU, after a wake-up",
        ThreadState::Runnable(RunnableSince::Preempted) => "CPU, preempted",
        ThreadState::Runnable(RunnableSince::Created) => "CPU, new thread",
        ThreadState::Unrecorded => "not recorded",
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::BlockedOn;

    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn waits_are_grouped_by_reason_and_stack() {
        let mut sample = Sample::default();
        sample.state("7", ThreadState::Running, 0, 10);
        sample.wait("7", BlockedOn::Mutex, 10, 5, &["main", "lock"]);
        sample.state("7", ThreadState::Runnable(RunnableSince::Woken), 15, 2);
        sample.wait("7", BlockedOn::Mutex, 20, 7, &["main", "lock"]);
        sample.wait("8", BlockedOn::Mutex, 0, 1, &["main", "lock"]);
        sample.wait("8", BlockedOn::Sleep, 5, 90, &["main"]);
        let trace = sample.finish();
        let rows = off_cpu_reasons(&Facts::new(&trace));
        let found: Vec<_> = rows
            .iter()
            .map(|row| (reason_text(row.state), row.stack.join(";"), row.total_ns, row.threads))
            .collect();
        let expected = [
            ("sleep", "main", 90, 1),
            ("mutex", "main;lock", 13, 2),
            ("CPU, after a wake-up", "", 2, 1),
        ];
        assert_eq!(found, expected.map(|row| (row.0, row.1.to_owned(), row.2, row.3)));
        assert_eq!(rows[1].waits.count, 3);
        let part = off_cpu_reasons_within(&trace, 12..22);
        let found: Vec<_> = part.iter().map(|row| (reason_text(row.state), row.total_ns)).collect();
        assert_eq!(found, [("sleep", 10), ("mutex", 5), ("CPU, after a wake-up", 2)]);
    }
}
