//! Which kernels do the work of those that only one side has.
//!
//! `fusion` knows: what it found is set behind the causes that name other kernels. It needs
//! both traces, so a baseline cannot know it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::base::names::unnumbered;
use crate::compare::changes::causes::{CauseKind, WHOLE_STEP};
use crate::compare::changes::{Comparison, StepTime};
use crate::compare::fusion::{Confidence, Fusion, Kernels, Replacement, ReplacementKind};
use crate::{Phase, TotalNanos};

/// Kernels of one side in the place of kernels of the other: base, then other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSwap {
    pub kernels: [Kernels; 2],
    /// How often, in all steps.
    pub count: u64,
    /// `count` is that of the kernels.
    pub time: [StepTime; 2],
}

impl KernelSwap {
    /// Time a step: other minus base.
    pub fn change_ns(&self) -> TotalNanos {
        self.time[1].step_ns() - self.time[0].step_ns()
    }
}

impl Comparison {
    /// Whether a cause names kernels that only one side has.
    pub fn has_other_kernels(&self) -> bool {
        self.causes.iter().any(|cause| matches!(cause.kind, CauseKind::OtherKernels { .. }))
    }

    /// Names what replaces what, for every cause that names other kernels. `fusion` is that
    /// of the first recording of each side, which have this many steps of the phase that was
    /// asked for: more than are compared, where only some of them are.
    pub fn name_replaced(&mut self, fusion: &Fusion, phase: Option<Phase>, steps: [u64; 2]) {
        let is_asked = |row: &&Replacement| phase.is_none_or(|phase| row.phase == phase.text());
        let rows: Vec<&Replacement> =
            fusion.changes.iter().filter(is_sure).filter(is_asked).collect();
        let steps = steps.map(|steps| steps.max(1));
        for cause in &mut self.causes {
            if let CauseKind::OtherKernels { module, kernels, swaps, .. } = &mut cause.kind {
                let belonging = rows.iter().filter(|row| belongs(row, module, kernels));
                *swaps = summed(belonging.copied(), steps);
                for (side, kernels) in kernels.iter_mut().enumerate() {
                    kernels.retain(|(name, _)| !is_named(swaps, side, name));
                }
            }
        }
    }
}

/// Whether both sides have kernels for it, and more than their order says so.
fn is_sure(row: &&Replacement) -> bool {
    let is_pair = matches!(
        row.kind,
        ReplacementKind::Fused | ReplacementKind::Split | ReplacementKind::Replaced
    );
    is_pair && row.confidence >= Confidence::Medium
}

/// Whether a replacement is part of what a cause reports: at its place, one of its kernels.
fn belongs(row: &Replacement, module: &str, kernels: &[Vec<(String, u64)>; 2]) -> bool {
    if module == WHOLE_STEP {
        return true;
    }
    // The place of a replacement are the innermost modules, and perhaps an operator.
    let around = row.place.rsplit_once('/').map_or("", |(around, _)| around);
    let is_there = [row.place.as_str(), around]
        .iter()
        .any(|place| !place.is_empty() && format!("/{module}").ends_with(&format!("/{place}")));
    let is_named = |own: &Kernels, named: &[(String, u64)]| {
        named.iter().any(|(name, _)| own.names.iter().any(|own| own == unnumbered(name)))
    };
    is_there && (is_named(&row.base, &kernels[0]) || is_named(&row.other, &kernels[1]))
}

/// Whether a replacement names the kernel already.
fn is_named(swaps: &[KernelSwap], side: usize, name: &str) -> bool {
    let mut names = swaps.iter().flat_map(|swap| &swap.kernels[side].names);
    names.any(|named| named == unnumbered(name))
}

/// Equal replacements of all places as one, the largest change first.
fn summed<'a>(rows: impl Iterator<Item = &'a Replacement>, steps: [u64; 2]) -> Vec<KernelSwap> {
    let mut sums: BTreeMap<[&[String]; 2], KernelSwap> = BTreeMap::new();
    for row in rows {
        let sides = [&row.base, &row.other];
        let sum = sums.entry(sides.map(|kernels| kernels.names.as_slice())).or_insert_with(|| {
            let time = steps.map(|steps| StepTime { steps, ..StepTime::default() });
            let kernels = sides.map(|kernels| Kernels { total_ns: 0, ..kernels.clone() });
            KernelSwap { kernels, count: 0, time }
        });
        sum.count += row.count;
        for (side, kernels) in sides.into_iter().enumerate() {
            sum.kernels[side].total_ns += kernels.total_ns;
            sum.time[side].total_ns += kernels.total_ns;
            sum.time[side].count += row.count * kernels.names.len() as u64;
        }
    }
    let mut swaps: Vec<KernelSwap> = sums.into_values().collect();
    // The sort is stable, and they come in order of names.
    swaps.sort_by_key(|swap| Reverse(swap.change_ns().abs()));
    swaps
}
