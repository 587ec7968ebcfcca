//! Keeps what recording calls costs a program within a budget.
//!
//! Each call that is noted takes time from the program, up to tens of microseconds where `ret` is
//! executed as a single step. What that comes to is known from the number of hits and from what
//! one costs on this machine, which is measured beforehand. The program earns credit with its own
//! processor time; when that is used up, the functions that cost most are recorded less closely,
//! one level after the other.

use std::collections::BTreeMap;

use spanwise_recording::calls::CallLevel;

/// The next level, less close.
fn next(level: CallLevel) -> CallLevel {
    match level {
        CallLevel::Recorded => CallLevel::Counted,
        CallLevel::Counted => CallLevel::CountedWithoutEnds,
        CallLevel::CountedWithoutEnds | CallLevel::Detached => CallLevel::Detached,
    }
}

/// What one hit costs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HitCosts {
    pub(super) call_ns: u64,
    pub(super) return_ns: u64,
}

/// So much may be used in any case: programs that run briefly are recorded as a whole.
const CREDIT_MAX_NS: i64 = 500_000_000;

/// What is granted after a step, to see what came of it.
const CREDIT_AFTER_STEP_NS: i64 = 20_000_000;

/// Beyond the budget by this much in all, nothing is watched any more: where thousands of
/// functions are called often, step after step would take minutes.
const OVERSPENT_MAX_NS: i64 = 1_500_000_000;

#[derive(Debug)]
pub(super) struct Brake {
    /// Of the program's own processor time, in percent.
    percent: f64,
    costs: HitCosts,
    /// Which levels there are besides the first.
    can_count: bool,
    credit_ns: i64,
    /// What was used beyond the credit, of all steps together.
    overspent_ns: i64,
    cpu_before_ns: u64,
    /// What each function has cost since the last check.
    latest: BTreeMap<u32, u64>,
    levels: BTreeMap<u32, CallLevel>,
}

impl Brake {
    pub(super) fn new(percent: f64, costs: HitCosts, can_count: bool) -> Brake {
        Brake {
            percent,
            costs,
            can_count,
            credit_ns: CREDIT_MAX_NS,
            overspent_ns: 0,
            cpu_before_ns: 0,
            latest: BTreeMap::new(),
            levels: BTreeMap::new(),
        }
    }

    pub(super) fn begin_at(&mut self, function: u32, level: CallLevel) {
        self.levels.insert(function, level);
    }

    /// Calls and returns of a function that were noted since the last check.
    pub(super) fn note(&mut self, function: u32, calls: u64, returns: u64) {
        let cost = calls * self.costs.call_ns + returns * self.costs.return_ns;
        *self.latest.entry(function).or_default() += cost;
    }

    /// Time for which steps themselves held up the program.
    pub(super) fn note_step(&mut self, took_ns: u64) {
        self.overspent_ns = self.overspent_ns.saturating_add_unsigned(took_ns);
    }

    /// Steps do not help: everything has to be let go.
    pub(super) fn has_failed(&self) -> bool {
        self.overspent_ns > OVERSPENT_MAX_NS
    }

    /// Settles accounts, given the processor time of the program up to now, which includes the
    /// cost. Gives functions that are to be recorded less closely from now on.
    pub(super) fn settle(&mut self, cpu_ns: u64) -> Vec<(u32, CallLevel)> {
        let latest = std::mem::take(&mut self.latest);
        let cost: u64 = latest.values().sum();
        let cpu = cpu_ns.saturating_sub(self.cpu_before_ns);
        self.cpu_before_ns = self.cpu_before_ns.max(cpu_ns);
        let earned = cpu.saturating_sub(cost) as f64 * self.percent / 100.0;
        let credit = self.credit_ns + earned as i64;
        // What a program earns beyond its credit makes up for what was overspent.
        self.overspent_ns = (self.overspent_ns - (credit - CREDIT_MAX_NS).max(0)).max(0);
        self.credit_ns = credit.min(CREDIT_MAX_NS) - cost as i64;
        if self.credit_ns >= 0 {
            return Vec::new();
        }
        self.overspent_ns += CREDIT_AFTER_STEP_NS - self.credit_ns;
        self.credit_ns = CREDIT_AFTER_STEP_NS;
        let mut dearest: Vec<(u64, u32)> =
            latest.into_iter().map(|(function, cost)| (cost, function)).collect();
        dearest.sort_unstable_by(|one, other| other.cmp(one));
        let mut steps = Vec::new();
        let mut saved = 0;
        for (one, function) in dearest {
            // Half of it: the others may be within the budget then.
            if saved * 2 > cost {
                break;
            }
            saved += one;
            let level = self.levels.entry(function).or_insert(CallLevel::Recorded);
            if *level < CallLevel::Detached {
                *level = if self.can_count { next(*level) } else { CallLevel::Detached };
                steps.push((function, *level));
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn brake(can_count: bool) -> Brake {
        Brake::new(5.0, HitCosts { call_ns: 1000, return_ns: 9000 }, can_count)
    }

    #[test]
    fn what_is_within_the_budget_is_recorded_for_ever() {
        let mut brake = brake(true);
        for round in 1..1000 {
            // 4 % of 25 ms.
            brake.note(1, 100, 100);
            assert_eq!(brake.settle(round * 26 * MS), []);
        }
    }

    #[test]
    fn a_brief_program_is_recorded_as_a_whole() {
        let mut brake = brake(true);
        brake.note(1, 40_000, 40_000);
        assert_eq!(brake.settle(401 * MS), []);
    }

    #[test]
    fn the_dearest_goes_down_level_by_level() {
        let mut brake = brake(true);
        let mut round = |is_hot: bool| {
            brake.note(1, 60_000 * u64::from(is_hot), 60_000 * u64::from(is_hot));
            brake.note(2, 10, 10);
            brake.settle(0)
        };
        assert_eq!(round(true), [(1, CallLevel::Counted)]);
        assert_eq!(round(true), [(1, CallLevel::CountedWithoutEnds)]);
        assert_eq!(round(true), [(1, CallLevel::Detached)]);
        // What was on its way is no reason for more.
        assert_eq!(round(false), []);
    }

    #[test]
    fn what_no_step_cures_is_given_up() {
        let mut brake = brake(true);
        for round in 0..3 {
            assert!(!brake.has_failed(), "in round {round}");
            // Always other functions: 0.5 s in each round.
            (0..50).for_each(|function| brake.note(round * 50 + function, 1000, 1000));
            brake.settle(0);
        }
        assert!(!brake.has_failed(), "1.02 s over the budget");
        brake.note_step(500_000_000);
        assert!(brake.has_failed());
    }

    #[test]
    fn without_counting_it_is_detached_at_once() {
        let mut brake = brake(false);
        brake.note(7, 100_000, 100_000);
        assert_eq!(brake.settle(0), [(7, CallLevel::Detached)]);
    }

    #[test]
    fn several_functions_share_the_blame() {
        let mut brake = brake(true);
        for function in 1..=10 {
            brake.note(function, 10_000, 10_000);
        }
        assert_eq!(brake.settle(0).len(), 6);
    }
}
