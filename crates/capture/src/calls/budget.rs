//! Keeps an account of what hits cost, and has functions recorded less closely where that is too
//! much: what the brake decides is done here, and noted in the recording.

use std::collections::{BTreeMap, BTreeSet};

use spanwise_recording::calls::{CallHit, CallHits, CallLevel, CallRecord, LevelChange};

use super::{Backend, BrakedFunction, Calls};
use crate::system::sys;

/// How long until what was counted in the kernel is read again.
const SUMMED_APART_NS: u64 = 50_000_000;

impl Calls<'_> {
    /// Checks what the hits cost, and records functions less closely where that is too much.
    pub(super) fn keep_budget(&mut self, hits: CallHits<'_>) {
        for CallHit { function, is_return, .. } in hits.iter() {
            let is_return = u64::from(is_return);
            *self.recorded.entry(function).or_default() += 1 - is_return;
            self.brake.note(function, 1 - is_return, is_return);
        }
        let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let is_counting = self.options.aggregates || !self.braked.is_empty();
        if is_counting && (self.has_stopped || now.saturating_sub(self.summed_ns) > SUMMED_APART_NS)
        {
            self.summed_ns = now;
            self.note_sums();
        }
        let cpu_ns = self.cpu_ns();
        if self.has_stopped {
            return;
        }
        let mut steps = self.brake.settle(cpu_ns);
        if self.brake.has_failed() {
            steps = self.let_go_of_all();
        }
        let is_set = match &mut self.backend {
            Backend::Bpf(bpf) => bpf.set_levels(&steps).is_ok(),
            Backend::Probes(probes) => {
                steps.iter().for_each(|&(function, _)| probes.detach(function));
                true
            }
        };
        if !steps.is_empty() {
            self.brake.note_step(sys::clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(now));
        }
        if is_set {
            steps.into_iter().for_each(|(function, level)| self.note_level(function, level, now));
        }
    }

    /// Ends the watch of all functions at once, and of all that come; gives those that were called.
    fn let_go_of_all(&mut self) -> Vec<(u32, CallLevel)> {
        if self.has_let_go {
            return Vec::new();
        }
        self.has_let_go = true;
        if let Backend::Bpf(bpf) = &mut self.backend {
            bpf.stop();
        }
        let called = self.recorded.keys().chain(self.summed.keys()).copied();
        let called: BTreeSet<u32> = called.collect();
        called.into_iter().map(|function| (function, CallLevel::Detached)).collect()
    }

    /// Takes in what was counted in the kernel since the last time.
    fn note_sums(&mut self) {
        let Backend::Bpf(bpf) = &self.backend else { return };
        let mut by_function: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        let sums = bpf.sums();
        for sum in &sums {
            let [calls, returns] = by_function.entry(sum.function).or_default();
            (*calls, *returns) = (*calls + sum.calls, *returns + sum.returns);
        }
        for (&function, &[calls, returns]) in &by_function {
            let [before, returns_before] = self.summed.get(&function).copied().unwrap_or_default();
            let new = (calls.saturating_sub(before), returns.saturating_sub(returns_before));
            self.brake.note(function, new.0, new.1);
        }
        self.summed = by_function;
        if self.has_stopped {
            let records = sums.into_iter().map(|sum| CallRecord::Sum(sum).to_bytes());
            self.new.facts.extend(records.flatten());
        }
    }

    /// Processor time of all processes that are recorded.
    fn cpu_ns(&mut self) -> u64 {
        let pids: BTreeSet<i32> = self.watched.keys().chain(&self.pids).copied().collect();
        for pid in pids {
            let now = sys::process_cpu_ns(pid);
            let known = self.cpu_ns.entry(pid).or_default();
            *known = now.max(*known);
        }
        self.cpu_ns.values().sum()
    }

    /// A function is recorded less closely from now on.
    fn note_level(&mut self, function: u32, level: CallLevel, now: u64) {
        let counted = self.summed.get(&function).map_or(0, |counts| counts[0]);
        let calls = self.recorded.get(&function).copied().unwrap_or(0) + counted;
        let change = LevelChange { function, level, time: now, calls };
        self.new.facts.extend(CallRecord::Level(change).to_bytes());
        let name = self.files.values().flat_map(|functions| functions.iter());
        let name = name.into_iter().find(|(number, _)| *number == function);
        let name = name.map_or(String::new(), |(_, function)| function.name.clone());
        let after_ns = now.saturating_sub(self.began_ns);
        self.braked.retain(|braked| braked.function != function);
        self.braked.push(BrakedFunction { function, name, level, after_ns, calls });
    }
}
