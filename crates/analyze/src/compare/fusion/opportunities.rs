//! Kernels of one side that could be fewer.
//!
//! Where the other side does the same work with fewer kernels in less time, the gain is
//! measured. Elsewhere chains are searched for: work that only moves and maps numbers
//! (element by element, sums, norms, copies) costs what its reads and writes cost, and
//! kernels that follow one another in one module write what the next one reads.

use std::collections::HashMap;

use super::items::Side;
use super::rows::kernels;
use super::split::Swap;
use super::{Confidence, Kernels, Replacement, ReplacementKind};
use crate::TotalNanos;
use crate::compare::align::tree::NodeKind;

/// Classes of work that is bound by memory and that compilers fuse.
const FUSIBLE: [&str; 9] = [
    "elementwise",
    "activation",
    "norm",
    "reduce",
    "rope",
    "copy",
    "softmax",
    "random",
    "quantization",
];

/// Kernels of one side that could be fewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opportunity {
    /// The side that could do better.
    pub is_base: bool,
    /// Modules and operators around it, or the step.
    pub place: String,
    pub count: u64,
    pub kernels: Kernels,
    /// What does the same work on the other side; `None` where neither side fuses it.
    pub shown_by: Option<Kernels>,
    /// Less time than that of the other side's kernels; of a chain all but the longest
    /// kernel, which is the most that can be saved if the one that remains takes as long.
    pub saving_ns: TotalNanos,
}

/// Shorter chains are not worth a row.
const CHAIN_MIN: usize = 2;
/// A longer chain is cut: its names would fill the screen, and no compiler takes it whole.
const CHAIN_MAX: usize = 64;

pub(super) fn opportunities(
    sides: &[Side<'_>; 2],
    swaps: &[Swap],
    changes: &[Replacement],
) -> Vec<Opportunity> {
    let mut found: Vec<Opportunity> = changes.iter().filter_map(shown).collect();
    for (number, side) in sides.iter().enumerate() {
        let mut is_fused = vec![false; side.tree.work.len()];
        // The other side runs these as fewer kernels.
        let fewer = |swap: &&Swap| {
            let (ours, theirs) = (swap.rows[number].len(), swap.rows[1 - number].len());
            0 < theirs && theirs < ours
        };
        for swap in swaps.iter().filter(fewer) {
            for &row in &swap.rows[number] {
                is_fused[row] = true;
            }
        }
        found.extend(of_side(side, number == 0, &is_fused));
    }
    found.sort_by(|a, b| {
        // What was measured first.
        let key = |row: &Opportunity| (row.shown_by.is_none(), -row.saving_ns, !row.is_base);
        (key(a), &a.place, &a.kernels.names).cmp(&(key(b), &b.place, &b.kernels.names))
    });
    found
}

/// What one side does with fewer kernels and faster, the other could.
fn shown(change: &Replacement) -> Option<Opportunity> {
    let is_base = change.kind == ReplacementKind::Fused;
    if !matches!(change.kind, ReplacementKind::Fused | ReplacementKind::Split) {
        return None;
    }
    let (more, fewer) = match is_base {
        true => (&change.base, &change.other),
        false => (&change.other, &change.base),
    };
    let saving_ns = more.total_ns - fewer.total_ns;
    (saving_ns > 0 && change.confidence > Confidence::Low).then(|| Opportunity {
        is_base,
        place: change.place.clone(),
        count: change.count,
        kernels: more.clone(),
        shown_by: Some(fewer.clone()),
        saving_ns,
    })
}

fn of_side(side: &Side<'_>, is_base: bool, is_fused: &[bool]) -> Vec<Opportunity> {
    let mut found: Vec<Opportunity> = Vec::new();
    let mut numbers: HashMap<(String, Vec<u32>), usize> = HashMap::new();
    let is_fusible: Vec<bool> = side
        .items
        .iter()
        .map(|item| item.is_kernel && FUSIBLE.contains(&item.class.as_str()))
        .collect();
    let modules = modules(side);
    let link = |row: usize| -> Option<usize> {
        let is_free = is_fusible[side.items_of[row] as usize] && !is_fused[row];
        let module = modules[side.tree.node_of_work[row]];
        // What lies outside of all steps is not of one piece.
        (is_free && !side.tree.is_outside(module)).then_some(module)
    };
    let mut from = 0;
    while from < side.tree.work.len() {
        let Some(module) = link(from) else {
            from += 1;
            continue;
        };
        let rest = from..(from + CHAIN_MAX).min(side.tree.work.len());
        let len = rest.take_while(|&row| link(row) == Some(module)).count();
        if len >= CHAIN_MIN {
            let place = side.tree.nodes[module].name.clone();
            let items = side.items_of[from..from + len].to_vec();
            let durations: Vec<TotalNanos> = (from..from + len).map(|row| side.dur(row)).collect();
            let number = *numbers.entry((place, items)).or_insert_with_key(|(place, items)| {
                let items = items.iter().map(|&item| &side.items[item as usize]);
                found.push(Opportunity {
                    is_base,
                    place: place.clone(),
                    count: 0,
                    kernels: kernels(&items.collect::<Vec<_>>(), 0),
                    shown_by: None,
                    saving_ns: 0,
                });
                found.len() - 1
            });
            let (total, longest) = (durations.iter().sum::<TotalNanos>(), durations.iter().max());
            found[number].count += 1;
            found[number].kernels.total_ns += total;
            found[number].saving_ns += total - longest.copied().unwrap_or(0);
        }
        from += len;
    }
    found
}

/// For each node the innermost module or step around it.
fn modules(side: &Side<'_>) -> Vec<usize> {
    let mut modules = Vec::with_capacity(side.tree.nodes.len());
    for (at, node) in side.tree.nodes.iter().enumerate() {
        let module = match (node.kind, node.parent) {
            (NodeKind::Operator | NodeKind::Annotation, Some(parent)) => modules[parent],
            _ => at,
        };
        modules.push(module);
    }
    modules
}
