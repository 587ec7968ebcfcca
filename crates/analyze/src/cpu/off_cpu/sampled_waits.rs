//! What stacks that were sampled say of sums of waits, and how far that may be off.
//!
//! Of short waits recorders take a stack now and then, for so much time of them. Their times are
//! exact and so is the sum of all; which reason and which stack has how much of it is an estimate
//! from as many stacks as were taken.

use std::collections::HashSet;

use spanwise_model::{Nanos, StackId, StateRow, ThreadState, Trace};

use crate::cpu::sampled::share_error_percent;
use crate::{Facts, TotalNanos};

/// Time of waits that stacks were sampled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampledWaits {
    pub total_ns: TotalNanos,
    /// How many stacks stand for it.
    pub stacks: u64,
}

impl SampledWaits {
    /// By how much this part of all may be off: in 19 of 20 recordings it is off by less.
    /// `None` where it holds no sampled stack, as then nothing of it is an estimate.
    pub fn error_ns(&self, all: &SampledWaits) -> Option<TotalNanos> {
        let percent = share_error_percent(self.stacks, all.stacks).filter(|_| self.stacks > 0)?;
        Some((percent / 100.0 * all.total_ns as f64) as TotalNanos)
    }
}

/// Waits of which nothing says where the thread stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitsWithoutStack {
    pub total_ns: TotalNanos,
    pub count: u64,
}

/// How the stacks of a trace's waits were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitStacks {
    pub sampled: SampledWaits,
    /// Empty where no wait has a stack: then none was wanted.
    pub without: WaitsWithoutStack,
}

/// How the stacks of waits were recorded.
pub fn wait_stacks(facts: &Facts) -> WaitStacks {
    let trace = facts.trace();
    let (mut found, mut sums) = (WaitStacks::default(), SampledSums::default());
    let mut has_stacks = false;
    for wait in counted_waits(trace) {
        let is_blocked = matches!(wait.state.state, ThreadState::Blocked(_));
        let is_missing = wait.state.stack == StackId::EMPTY;
        has_stacks |= is_blocked && !is_missing;
        if is_blocked && is_missing {
            found.without.total_ns += i128::from(wait.state.dur);
            found.without.count += 1;
        }
        sums.add(&wait);
    }
    found.sampled = sums.sum();
    if !has_stacks {
        found.without = WaitsWithoutStack::default();
    }
    found
}

/// A state as sums count it, and the row of the stack that was sampled for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedWait {
    pub(super) state: StateRow,
    pub(super) sampled_row: Option<usize>,
}

/// All states, with where their stacks come from.
pub(super) fn counted_waits(trace: &Trace) -> impl Iterator<Item = CountedWait> + '_ {
    let states = trace.thread_states();
    let sampled = |row: usize| row.wrapping_add_signed(states.stand_in[row] as isize);
    let stands_for_others: HashSet<usize> =
        (0..states.len()).filter(|&row| states.stand_in[row] != 0).map(sampled).collect();
    (0..states.len()).map(move |row| {
        let is_sampled = states.stand_in[row] != 0 || stands_for_others.contains(&row);
        let sampled_row = is_sampled.then(|| sampled(row));
        CountedWait { state: states.counted(row), sampled_row }
    })
}

/// Sums of sampled waits while they are added up.
#[derive(Debug, Default)]
pub(super) struct SampledSums {
    total_ns: TotalNanos,
    rows: HashSet<usize>,
}

impl SampledSums {
    pub(super) fn add(&mut self, wait: &CountedWait) {
        if let Some(row) = wait.sampled_row {
            self.total_ns += i128::from(wait.state.dur);
            self.rows.insert(row);
        }
    }

    pub(super) fn sum(&self) -> SampledWaits {
        SampledWaits { total_ns: self.total_ns, stacks: self.rows.len() as u64 }
    }
}

/// The part of a wait inside of a range of time.
pub(super) fn clipped(wait: CountedWait, window: &std::ops::Range<Nanos>) -> Option<CountedWait> {
    let row = wait.state;
    let start = row.start.max(window.start);
    let end = row.start.saturating_add(row.dur).min(window.end);
    let state = StateRow { start, dur: end.saturating_sub(start), ..row };
    (start < end).then_some(CountedWait { state, ..wait })
}

#[cfg(test)]
mod tests {
    use spanwise_model::BlockedOn;

    use super::*;
    use crate::base::sample::Sample;
    use crate::off_cpu_reasons;

    /// Two long waits with their own stacks; short ones by two sampled stacks; one without.
    fn sample() -> Sample {
        let mut sample = Sample::default();
        sample.wait("7", BlockedOn::Fsync, 0, 5_000, &["main", "log"]);
        sample.wait("7", BlockedOn::Sleep, 6_000, 4_000, &["main", "nap"]);
        for (at, on, stack, distance) in [
            (11_000, BlockedOn::Unknown, &[][..], 2),
            (12_000, BlockedOn::Unknown, &[], 1),
            (13_000, BlockedOn::Mutex, &["main", "lock"], 0),
            (14_000, BlockedOn::Unknown, &[], 1),
            (15_000, BlockedOn::Socket, &["main", "ask"], 0),
            (16_000, BlockedOn::Unknown, &[], 0),
        ] {
            sample.wait("7", on, at, 100, stack);
            sample.stands_in(distance);
        }
        sample
    }

    #[test]
    fn sums_say_how_much_of_them_was_sampled_and_how_far_off_that_may_be() {
        let trace = sample().finish();
        let facts = Facts::new(&trace);
        let rows = off_cpu_reasons(&facts);
        let row = |name: &str| {
            let row = rows.iter().find(|row| row.stack.last().is_some_and(|last| last == name));
            row.map(|row| (row.total_ns, row.sampled, row.error_ns)).expect("a row")
        };
        let sampled = |total_ns, stacks| SampledWaits { total_ns, stacks };
        let error = |stacks| {
            let percent = share_error_percent(stacks, 2).expect("samples");
            Some((percent / 100.0 * 500.0) as TotalNanos)
        };
        assert_eq!(row("log"), (5_000, sampled(0, 0), None));
        assert_eq!(row("lock"), (300, sampled(300, 1), error(1)));
        assert_eq!(row("ask"), (200, sampled(200, 1), error(1)));
        let found = wait_stacks(&facts);
        assert_eq!(found.sampled, sampled(500, 2));
        assert_eq!(found.without, WaitsWithoutStack { total_ns: 100, count: 1 });
    }

    #[test]
    fn who_recorded_no_stacks_of_waits_lacks_none() {
        let mut sample = Sample::default();
        sample.wait("7", BlockedOn::Sleep, 0, 4_000, &[]);
        assert_eq!(wait_stacks(&Facts::new(&sample.finish())), WaitStacks::default());
    }
}
