//! What explains the differences: added waiting, copies through the host, slower code,
//! other kernels, communication that nothing hides any more.
//!
//! A cause is a sure difference of its own (or, where there are too few steps to be sure of
//! anything, a large one), reported with what it costs a step. What is new or gone comes before
//! what merely takes longer, for it is what somebody changed; the rest often follows from
//! it.

pub(super) mod achieved;
pub(super) mod places;
pub(super) mod replaced;
pub(super) mod why;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::TotalNanos;
use crate::compare::changes::causes::replaced::KernelSwap;
use crate::compare::changes::causes::why::{Reason, counts_differ, other_kernels};
use crate::compare::changes::sides::aspects::{BUSY, EXPOSED, IN};
use crate::compare::changes::sides::keys::function_text;
use crate::compare::changes::sides::pairs::pairs;
use crate::compare::changes::sides::series::{Aspect, Behind, CompareBy, ComparePlace};
use crate::compare::changes::{CompareRow, Sides, StepTime};

/// A difference that explains others; costs are time a step, more than 0 where the other
/// side is slower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    pub kind: CauseKind,
    pub cost_ns: TotalNanos,
    /// The change of the whole step where that is larger and nothing else was changed.
    pub at_most_ns: Option<TotalNanos>,
    /// The Python line of each side.
    pub lines: [Option<String>; 2],
    /// False where there are too few steps to be sure.
    pub is_sure: bool,
}

/// What differs; pairs are base and other, times of all steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CauseKind {
    /// Calls that wait for the GPU.
    Synchronization { operator: String, calls: [StepTime; 2], idle: [StepTime; 2] },
    /// Copies between the GPU and memory of the host that must be staged.
    HostCopies { copies: [StepTime; 2] },
    /// A Python function, which works or waits.
    HostCode { time: [StepTime; 2], is_waiting: bool },
    /// The host as a whole, beyond what other causes name.
    HostEverywhere { functions: u64, time: [StepTime; 2] },
    /// A module runs other kernels: what replaces what, where that is known, and the others
    /// that only one side has, with their counts.
    OtherKernels {
        module: String,
        time: [StepTime; 2],
        kernels: [Vec<(String, u64)>; 2],
        swaps: Vec<KernelSwap>,
    },
    /// An operator's GPU work.
    GpuWork { operator: String, time: [StepTime; 2], reasons: Vec<Reason> },
    /// Communication while nothing computes.
    ExposedCommunication { time: [StepTime; 2] },
}

impl Cause {
    /// Whether something is there that was not, or the other way around.
    fn is_new(&self) -> bool {
        let one_sided = |time: &[StepTime; 2]| time[0].is_there() != time[1].is_there();
        match &self.kind {
            CauseKind::Synchronization { .. }
            | CauseKind::HostCopies { .. }
            | CauseKind::OtherKernels { .. } => true,
            CauseKind::HostCode { time, .. } | CauseKind::GpuWork { time, .. } => one_sided(time),
            CauseKind::HostEverywhere { .. } | CauseKind::ExposedCommunication { .. } => false,
        }
    }
}

/// Stands for a module where modules say nothing.
pub(super) const WHOLE_STEP: &str = "The step";

/// So many functions are named one by one.
const FUNCTIONS_MAX: usize = 5;

/// Below this part of the step, in thousandths, an unsure difference is not reported.
const UNSURE_PERMILLE: i128 = 20;

/// Below this part of the step, in thousandths, a sure difference explains nothing.
const WORTH_PERMILLE: i128 = 1;

/// What is new comes first unless it costs less than this part of the step's change.
const NEW_PERMILLE: i128 = 100;

pub(super) fn causes(sides: &Sides<'_>, overall: &[CompareRow]) -> Vec<Cause> {
    let mut finding = Finding::new(sides);
    finding.copies();
    finding.synchronizations();
    finding.host_code();
    finding.exposed_communication();
    finding.modules();
    finding.whole_step(overall);
    finding.operators();
    finding.host_everywhere(overall);
    finding.finish()
}

struct Finding<'a, 's> {
    sides: &'a Sides<'s>,
    lines: Vec<CompareRow>,
    /// Functions that a cause names already, and those of them whose GPU work it explains.
    named: BTreeSet<String>,
    named_work: BTreeSet<String>,
    /// Lines of modules whose kernels differ.
    named_lines: BTreeSet<String>,
    found: Vec<Cause>,
}

/// The function of a row that has lines.
fn function(row: &CompareRow) -> Option<String> {
    let [base, other] = &row.why.lines;
    other.as_ref().or(base.as_ref()).map(|line| function_text(line))
}

fn both(row: &CompareRow) -> [StepTime; 2] {
    [row.base, row.other]
}

impl<'a, 's> Finding<'a, 's> {
    fn new(sides: &'a Sides<'s>) -> Self {
        let lines = sides.rows(Aspect::Rows(CompareBy::PythonLine));
        let (named, named_work, named_lines) = Default::default();
        Finding { sides, lines, named, named_work, named_lines, found: Vec::new() }
    }

    /// Whether a row is worth a cause: sure, or large where nothing can be sure.
    fn counts(&self, row: &CompareRow) -> bool {
        let change = row.change_ns().abs().saturating_mul(1000);
        let reaches = |part: i128| change >= self.sides.step_ns().saturating_mul(part);
        (row.is_changed() && reaches(WORTH_PERMILLE))
            || (row.interval_ns.is_none() && reaches(UNSURE_PERMILLE))
    }

    /// Kernels that functions launch which a cause names already.
    fn named_kernels(&self) -> BTreeSet<&str> {
        let is_named = |row: &&CompareRow| {
            let name = function(row);
            row.place == ComparePlace::Gpu
                && name.is_some_and(|name| self.named_work.contains(&name))
        };
        let names = self.lines.iter().filter(is_named).flat_map(|row| row.why.kernels.iter());
        names.flatten().map(String::as_str).collect()
    }

    /// The kernels that only one side of a row has, unless a cause explains them already.
    fn new_kernels(&self, row: &CompareRow) -> Option<[Vec<(String, u64)>; 2]> {
        let known = self.named_kernels();
        row.why.reasons.iter().find_map(|reason| match reason {
            Reason::OtherKernels { base, other } => {
                let is_known = |kernel: &(String, u64)| known.contains(kernel.0.as_str());
                let all_known = base.iter().chain(other).all(is_known);
                (!all_known).then(|| [base.clone(), other.clone()])
            }
            _ => None,
        })
    }

    /// Change of the time that threads spend in a function, and whether it counts.
    fn function_cost(&self, name: &str) -> (TotalNanos, bool) {
        let of_host =
            |row: &&CompareRow| matches!(row.place, ComparePlace::Host | ComparePlace::Waiting);
        let rows = self.lines.iter().filter(of_host);
        let rows: Vec<&CompareRow> =
            rows.filter(|row| function(row).as_deref() == Some(name)).collect();
        let cost = rows.iter().map(|row| row.change_ns()).sum();
        (cost, rows.iter().any(|row| self.counts(row)))
    }

    fn push(&mut self, kind: CauseKind, cost_ns: TotalNanos, row: &CompareRow) {
        let is_sure = row.interval_ns.is_some();
        let lines = row.why.lines.clone();
        self.found.push(Cause { kind, cost_ns, at_most_ns: None, lines, is_sure });
    }

    fn copies(&mut self) {
        for row in self.sides.rows(Aspect::Copies) {
            let (cost_ns, counts) = self.function_cost(&row.key);
            if counts_differ(&row) && (counts || self.counts(&row)) {
                self.named.insert(row.key.clone());
                self.push(CauseKind::HostCopies { copies: both(&row) }, cost_ns, &row);
            }
        }
    }

    fn synchronizations(&mut self) {
        let rows = self.sides.rows(Aspect::Syncs);
        let (idle, calls): (Vec<CompareRow>, Vec<CompareRow>) =
            rows.into_iter().partition(|row| row.place == ComparePlace::Wall);
        for row in calls {
            let (operator, name) = row.key.split_once(IN).unwrap_or((&row.key, ""));
            let (cost_ns, counts) = self.function_cost(name);
            if !counts_differ(&row) || !(counts || self.counts(&row)) || self.named.contains(name) {
                continue;
            }
            let idle = idle.iter().find(|idle| idle.key == row.key).map(both);
            let kind = CauseKind::Synchronization {
                operator: operator.to_owned(),
                calls: both(&row),
                idle: idle.unwrap_or_default(),
            };
            self.named.insert(name.to_owned());
            // Without Python frames the calls themselves are all that is known.
            let cost_ns = if name.is_empty() { row.change_ns() } else { cost_ns };
            self.push(kind, cost_ns, &row);
        }
    }

    fn host_code(&mut self) {
        self.named_work = self.named.clone();
        // A thread that waits from begin to end explains nothing.
        let walls = both(&self.sides.wall);
        let is_idle = |row: &CompareRow| {
            let most = |side: usize| both(row)[side].total_ns * 10 >= walls[side].total_ns * 9;
            row.place == ComparePlace::Waiting && most(0) && most(1)
        };
        let of_host = |row: &&CompareRow| row.place != ComparePlace::Gpu && !is_idle(row);
        let counting = self.lines.iter().filter(of_host).filter(|row| self.counts(row));
        let rows: Vec<CompareRow> = counting.cloned().collect();
        for row in rows.into_iter().take(FUNCTIONS_MAX) {
            let Some(name) = function(&row) else { continue };
            if !self.named.contains(&name) {
                let is_waiting = row.place == ComparePlace::Waiting;
                let kind = CauseKind::HostCode { time: both(&row), is_waiting };
                self.push(kind, row.change_ns(), &row);
            }
        }
        let named = self.found.iter().flat_map(|cause| cause.lines.iter().flatten());
        self.named.extend(named.map(|line| function_text(line)).collect::<Vec<_>>());
    }

    fn exposed_communication(&mut self) {
        for row in self.sides.rows(Aspect::Devices) {
            if row.key == EXPOSED && self.counts(&row) {
                let kind = CauseKind::ExposedCommunication { time: both(&row) };
                self.push(kind, row.change_ns(), &row);
            }
        }
    }

    /// Modules that run other kernels than they did.
    fn modules(&mut self) {
        for row in self.sides.rows(Aspect::Rows(CompareBy::Module)) {
            let is_there = row.base.is_there() && row.other.is_there();
            if row.place != ComparePlace::Gpu || !is_there || !self.counts(&row) {
                continue;
            }
            let Some(kernels) = self.new_kernels(&row) else { continue };
            self.named_lines.extend(row.why.lines.iter().flatten().cloned());
            let (module, time) = (row.key.clone(), both(&row));
            let kind = CauseKind::OtherKernels { module, time, kernels, swaps: Vec::new() };
            self.push(kind, row.change_ns(), &row);
        }
    }

    /// Where modules say nothing, as when a compiler took them away: the step as a whole.
    fn whole_step(&mut self, overall: &[CompareRow]) {
        let names_kernels = |cause: &Cause| matches!(cause.kind, CauseKind::OtherKernels { .. });
        let gpu = overall.iter().find(|row| row.place == ComparePlace::Gpu && self.counts(row));
        let Some(gpu) = gpu.filter(|_| !self.found.iter().any(names_kernels)) else { return };
        let aspect = Aspect::Rows(CompareBy::Operator);
        let mut behind: [Behind; 2] = Default::default();
        for pair in pairs(aspect, self.sides.sides) {
            if pair.place == ComparePlace::Gpu {
                behind[0].add(&self.sides.behind(aspect, &pair, 0));
                behind[1].add(&self.sides.behind(aspect, &pair, 1));
            }
        }
        let Some(Reason::OtherKernels { base, other }) = other_kernels(&behind) else { return };
        let known = self.named_kernels();
        let is_new = |kernels: &[(String, u64)]| {
            kernels.iter().any(|(name, _)| !known.contains(name.as_str()))
        };
        if is_new(&base) && is_new(&other) {
            let (module, kernels) = (WHOLE_STEP.to_owned(), [base, other]);
            let (time, swaps) = (both(gpu), Vec::new());
            let kind = CauseKind::OtherKernels { module, time, kernels, swaps };
            self.push(kind, gpu.change_ns(), gpu);
        }
    }

    fn operators(&mut self) {
        for row in self.sides.rows(Aspect::Rows(CompareBy::Operator)) {
            if row.place != ComparePlace::Gpu || !self.counts(&row) {
                continue;
            }
            // It is part of what is reported already.
            let lines: Vec<&String> = row.why.lines.iter().flatten().collect();
            let is_named = |line: &&String| {
                self.named_lines.contains(*line) || self.named_work.contains(&function_text(line))
            };
            let has_others =
                row.why.reasons.iter().any(|reason| matches!(reason, Reason::OtherKernels { .. }));
            let is_explained = has_others && self.new_kernels(&row).is_none();
            if is_explained || (!lines.is_empty() && lines.iter().all(is_named)) {
                continue;
            }
            let (operator, time) = (row.key.clone(), both(&row));
            let reasons = row.why.reasons.clone();
            let kind = CauseKind::GpuWork { operator, time, reasons };
            self.push(kind, row.change_ns(), &row);
        }
    }

    /// What the host takes longer for all over.
    fn host_everywhere(&mut self, overall: &[CompareRow]) {
        let Some(host) = overall.iter().find(|row| row.place == ComparePlace::Host) else { return };
        let is_host = |cause: &&Cause| {
            matches!(
                cause.kind,
                CauseKind::Synchronization { .. }
                    | CauseKind::HostCopies { .. }
                    | CauseKind::HostCode { .. }
            )
        };
        let reported: TotalNanos =
            self.found.iter().filter(is_host).map(|cause| cause.cost_ns).sum();
        let rest = host.change_ns() - reported;
        let same_way = |row: &&CompareRow| {
            row.place == ComparePlace::Host
                && row.change_ns().signum() == rest.signum()
                && function(row).is_some_and(|name| !self.named.contains(&name))
        };
        let functions = self.lines.iter().filter(same_way).count() as u64;
        let is_much = rest.signum() == host.change_ns().signum()
            && rest.abs().saturating_mul(1000)
                > host.change_ns().abs().saturating_mul(NEW_PERMILLE);
        if self.counts(host) && is_much && functions > 1 {
            let kind = CauseKind::HostEverywhere { functions, time: both(host) };
            let is_sure = host.interval_ns.is_some();
            let lines = [None, None];
            self.found.push(Cause { kind, cost_ns: rest, at_most_ns: None, lines, is_sure });
        }
    }

    fn finish(mut self) -> Vec<Cause> {
        let wall = &self.sides.wall;
        let change = wall.change_ns();
        let comes_first = |cause: &Cause| {
            let cost = cause.cost_ns.abs().saturating_mul(1000);
            cause.is_new() && cost >= change.abs().saturating_mul(NEW_PERMILLE)
        };
        let changes_gpu = |cause: &Cause| {
            matches!(cause.kind, CauseKind::OtherKernels { .. } | CauseKind::GpuWork { .. })
        };
        let gpu: Vec<TotalNanos> =
            self.found.iter().filter(|cause| changes_gpu(cause)).map(|c| c.cost_ns).collect();
        // As many calls that wait longer do so for what is waited for.
        let follows = |cause: &Cause| match cause.kind {
            CauseKind::HostCode { is_waiting: true, .. } => {
                gpu.iter().any(|cost| cost.signum() == cause.cost_ns.signum())
            }
            _ => false,
        };
        self.found.sort_by_key(|cause| {
            (!comes_first(cause), follows(cause), Reverse(cause.cost_ns.abs()))
        });
        let new = self.found.iter().filter(|cause| cause.is_new()).count();
        if let Some(first) = self.found.first_mut().filter(|first| first.is_new() && new == 1) {
            let is_more = change.signum() == first.cost_ns.signum()
                && change.abs() > first.cost_ns.abs()
                && wall.is_changed();
            first.at_most_ns = is_more.then_some(change);
        }
        self.found
    }
}

/// How busy the GPU is in a step, on both sides.
pub(super) fn busy(sides: &Sides<'_>) -> Option<[StepTime; 2]> {
    let rows = sides.rows(Aspect::Devices);
    rows.iter().find(|row| row.key == BUSY).map(both)
}
