//! Which kernels of one trace do the work of which kernels of another.
//!
//! Work is aligned by where it was launched ([`crate::align`]) and taken apart into
//! replacements: the same kernel, another kernel, several that became one, one that became
//! several, work of one side alone. Layers and steps repeat, so equal replacements are one
//! row. A row comes with how sure it is; nothing is left out: the rows of each side add
//! up to all of its GPU work.

mod evidence;
mod items;
mod layers;
mod opportunities;
mod rows;
mod split;
#[cfg(test)]
mod tests;

pub use layers::{LayerKernels, LayerPair, LayerSide, LayerView, layer_view};
pub use opportunities::Opportunity;

use std::collections::BTreeSet;

use crate::compare::align::pairing::{Groups, pair};
use crate::compare::align::tree::{NodeKind, ROOT};
use crate::{ClassRules, Facts, OTHER, TotalNanos};
use items::Side;

/// What replaces what between two traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fusion {
    pub base: FusionSide,
    pub other: FusionSide,
    /// Kernels that stand at the same place on both sides, most time first.
    pub same: Vec<SameKernel>,
    /// Everything else, what changed the time most first.
    pub changes: Vec<Replacement>,
    /// What was measured first, then what saves most.
    pub opportunities: Vec<Opportunity>,
    pub notes: Vec<FusionNote>,
}

/// One of the two traces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FusionSide {
    /// Steps with GPU work, and how many of them have a counterpart.
    pub steps: u64,
    pub paired_steps: u64,
    pub kernels: u64,
    pub work_ns: TotalNanos,
    /// Of that, in steps without a counterpart.
    pub unpaired_ns: TotalNanos,
    /// Of that, at the same place as the same kernel.
    pub same_ns: TotalNanos,
}

/// A kernel that both sides run at the same places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameKernel {
    pub name: String,
    pub count: u64,
    pub base_ns: TotalNanos,
    pub other_ns: TotalNanos,
}

/// Kernels of one side and those of the other that do their work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub kind: ReplacementKind,
    pub confidence: Confidence,
    /// The phase of the step, where it has one.
    pub phase: String,
    /// Modules and operators around it.
    pub place: String,
    /// How often.
    pub count: u64,
    pub base: Kernels,
    pub other: Kernels,
}

impl Replacement {
    /// Less than 0 where the other side is faster.
    pub fn change_ns(&self) -> TotalNanos {
        self.other.total_ns - self.base.total_ns
    }
}

/// The kernels of one side, in order of launch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kernels {
    pub names: Vec<String>,
    /// The innermost operators around their launches; empty where there is none.
    pub operators: Vec<String>,
    pub total_ns: TotalNanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplacementKind {
    /// Several kernels became fewer.
    Fused,
    /// One or several became more.
    Split,
    /// One for one, or as many for as many.
    Replaced,
    OnlyBase,
    OnlyOther,
    /// Work of a step without a counterpart, which is no difference of the steps.
    UnpairedBase,
    UnpairedOther,
}

impl ReplacementKind {
    /// Shown last: it is no difference of the steps.
    fn is_unpaired(self) -> bool {
        matches!(self, ReplacementKind::UnpairedBase | ReplacementKind::UnpairedOther)
    }
}

/// How sure it is that these kernels do the same work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    Low,
    Medium,
    High,
}

/// What limits the answer, and so what to record or to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FusionNote {
    /// A side has no steps: all of its work is taken for one.
    NoSteps {
        is_base: bool,
    },
    /// Steps of one side have no counterpart.
    UnpairedSteps {
        is_base: bool,
        steps: u64,
    },
    /// So many steps were set beside steps of another phase.
    OtherPhases {
        steps: u64,
    },
    /// A side has no modules: places are operators at best.
    NoModules {
        is_base: bool,
    },
    /// A side has no operators: kernels are identified by their order and names alone.
    NoOperators {
        is_base: bool,
    },
    /// Launches of more than a twentieth of the work are not in the trace.
    LaunchesNotRecorded {
        is_base: bool,
        work_ns: TotalNanos,
    },
    /// More than a fifth of the time has no class.
    Unclassified {
        is_base: bool,
        work_ns: TotalNanos,
    },
    /// Something was too long and too different to be aligned as well as possible.
    Bounded,
    NoGpuWork {
        is_base: bool,
    },
}

pub fn fusion(base: &Facts, other: &Facts, rules: &ClassRules) -> Fusion {
    let mut sides = Side::both(base, other, rules);
    items::number(&mut sides);
    let groups = pair(&sides[0].tree, &sides[1].tree);
    let swaps = split::swaps(&sides, &groups);
    let (same, changes) = (rows::same(&sides, &swaps.rows), rows::changes(&sides, &swaps.rows));
    let mut totals = [0, 1].map(|side| totals(&sides[side], &groups, side));
    totals[0].same_ns = same.iter().map(|row| row.base_ns).sum();
    totals[1].same_ns = same.iter().map(|row| row.other_ns).sum();
    let mut notes = notes(&sides, &totals, swaps.is_bounded);
    notes.extend(other_phases(&sides, &groups));
    let opportunities = opportunities::opportunities(&sides, &swaps.rows, &changes);
    let [base, other] = totals;
    Fusion { base, other, same, changes, opportunities, notes }
}

fn totals(side: &Side<'_>, groups: &Groups, number: usize) -> FusionSide {
    let mut totals = FusionSide {
        kernels: side.tree.work.len() as u64,
        work_ns: (0..side.tree.work.len()).map(|row| side.dur(row)).sum(),
        ..FusionSide::default()
    };
    let is_step = |node: usize| side.tree.is_step(node);
    let mut is_paired = vec![false; side.tree.nodes.len()];
    for group in &groups.rows {
        let node = if number == 0 { group.place.0 } else { group.place.1 };
        if let Some(step) = side.tree.step_of(node) {
            is_paired[step] = true;
        } else {
            let rows = groups.work_of(group, number);
            let alone = rows.iter().filter(|&&row| side.tree.is_in_step(row));
            totals.unpaired_ns += alone.map(|&row| side.dur(row)).sum::<TotalNanos>();
        }
    }
    totals.steps = (0..is_paired.len()).filter(|&node| is_step(node)).count() as u64;
    let paired = (0..is_paired.len()).filter(|&node| is_step(node) && is_paired[node]);
    totals.paired_steps = paired.count() as u64;
    totals
}

fn notes(sides: &[Side<'_>; 2], totals: &[FusionSide; 2], is_bounded: bool) -> Vec<FusionNote> {
    let mut notes = Vec::new();
    for (number, (side, totals)) in sides.iter().zip(totals).enumerate() {
        let is_base = number == 0;
        if side.tree.work.is_empty() {
            notes.push(FusionNote::NoGpuWork { is_base });
            continue;
        }
        if totals.steps == 0 {
            notes.push(FusionNote::NoSteps { is_base });
        } else if totals.paired_steps < totals.steps {
            let steps = totals.steps - totals.paired_steps;
            notes.push(FusionNote::UnpairedSteps { is_base, steps });
        }
        let has = |kind: NodeKind| side.tree.nodes.iter().any(|node| node.kind == kind);
        if !has(NodeKind::Module) {
            notes.push(FusionNote::NoModules { is_base });
        }
        if !has(NodeKind::Operator) {
            notes.push(FusionNote::NoOperators { is_base });
        }
        let spans = side.facts.trace().spans();
        let sum = |counts: &dyn Fn(usize) -> bool| -> TotalNanos {
            let rows = (0..side.tree.work.len()).filter(|&row| counts(row));
            rows.map(|row| side.dur(row)).sum()
        };
        let work_ns = sum(&|row| spans.launch(side.tree.work[row]).is_none());
        if work_ns * 20 > totals.work_ns {
            notes.push(FusionNote::LaunchesNotRecorded { is_base, work_ns });
        }
        let work_ns = sum(&|row| side.item(row).class == OTHER);
        if work_ns * 5 > totals.work_ns {
            notes.push(FusionNote::Unclassified { is_base, work_ns });
        }
    }
    if is_bounded {
        notes.push(FusionNote::Bounded);
    }
    notes
}

/// Where no steps of the same phase correspond, those of different ones may.
fn other_phases(sides: &[Side<'_>; 2], groups: &Groups) -> Option<FusionNote> {
    let step = |side: usize, node: usize| sides[side].tree.step_of(node);
    let name = |side: usize, step: usize| sides[side].tree.nodes[step].name.as_str();
    let places = groups.rows.iter().map(|group| group.place);
    let steps: BTreeSet<(usize, usize)> =
        places.filter_map(|place| step(0, place.0).zip(step(1, place.1))).collect();
    let unlike = steps.into_iter().filter(|&(base, other)| name(0, base) != name(1, other));
    let steps = unlike.map(|(base, _)| base).collect::<BTreeSet<usize>>().len() as u64;
    (steps > 0).then_some(FusionNote::OtherPhases { steps })
}

/// Whether a place stands for the whole of a trace that has steps.
fn is_beyond_steps(side: &Side<'_>, node: usize) -> bool {
    node == ROOT && side.tree.nodes.iter().any(|node| node.kind == NodeKind::Step)
}
