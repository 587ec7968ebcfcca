//! What a row's change is made of: how often, how long each time, by which kernels, on
//! which shapes, from which line.

use std::collections::{BTreeMap, BTreeSet};

use crate::TotalNanos;
use crate::compare::changes::sides::series::{Behind, Cell};
use crate::compare::changes::{ComparePlace, CompareRow};

/// What stands behind a row on both sides: base, then other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Why {
    pub reasons: Vec<Reason>,
    /// The Python line with most of it.
    pub lines: [Option<String>; 2],
    /// The kernels with most of it.
    pub kernels: [Vec<String>; 2],
    /// The Python stacks with most of it, where they were asked for: time and count of all
    /// steps.
    pub stacks: [Vec<(String, TotalNanos, u64)>; 2],
}

/// A way in which the two sides differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    OnlyInBase,
    OnlyInOther,
    /// Launches, or calls, a step; their numbers are in the row.
    OtherCount,
    /// What only one side runs, with the count of all steps; the one with most time.
    OtherKernels {
        base: Vec<(String, u64)>,
        other: Vec<(String, u64)>,
    },
    /// The commonest shapes of inputs on each side.
    OtherShapes {
        base: String,
        other: String,
    },
    /// The mean time of one launch or call.
    OtherLength {
        base_ns: TotalNanos,
        other_ns: TotalNanos,
    },
    /// Of copies, in bytes a second.
    OtherBandwidth {
        base: TotalNanos,
        other: TotalNanos,
    },
    /// Of operators at the same shapes, in bytes or arithmetic operations a second.
    OtherRate {
        is_arithmetic: bool,
        base: TotalNanos,
        other: TotalNanos,
    },
}

/// Changes of counts and lengths below this, in thousandths, are not worth a word.
const WORTH_PERMILLE: i128 = 15;

/// A kernel with less of its side's time, in thousandths, does not make a difference.
const KERNEL_PERMILLE: i128 = 20;

pub(in crate::compare::changes) fn why(row: &CompareRow, behind: &[Behind; 2]) -> Why {
    Why {
        reasons: reasons(row, behind),
        lines: [0, 1].map(|side| top(&behind[side].lines)),
        kernels: [0, 1].map(|side| behind[side].kernels.keys().cloned().collect()),
        stacks: [0, 1].map(|side| {
            let mut stacks: Vec<(String, TotalNanos, u64)> = behind[side]
                .stacks
                .iter()
                .map(|(stack, cell)| (stack.clone(), cell.ns, cell.count))
                .collect();
            stacks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            stacks
        }),
    }
}

fn top(names: &BTreeMap<String, Cell>) -> Option<String> {
    let most = names.iter().rev().max_by_key(|(_, cell)| cell.ns);
    most.map(|(name, _)| name.clone())
}

fn reasons(row: &CompareRow, behind: &[Behind; 2]) -> Vec<Reason> {
    match (row.base.is_there(), row.other.is_there()) {
        (true, false) => return vec![Reason::OnlyInBase],
        (false, true) => return vec![Reason::OnlyInOther],
        (false, false) => return Vec::new(),
        (true, true) => {}
    }
    if row.change_ns() == 0 {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    if counts_differ(row) {
        reasons.push(Reason::OtherCount);
    }
    if row.place == ComparePlace::Gpu {
        reasons.extend(other_kernels(behind));
        reasons.extend(other_shapes(behind));
    }
    let mean = |total_ns: TotalNanos, count: u64| total_ns / i128::from(count.max(1));
    let base_ns = mean(row.base.total_ns, row.base.count);
    let other_ns = mean(row.other.total_ns, row.other.count);
    if differ(base_ns, other_ns) {
        reasons.push(Reason::OtherLength { base_ns, other_ns });
    }
    let speed = |behind: &Behind| {
        let per_second = behind.copied_bytes.saturating_mul(1_000_000_000);
        per_second.checked_div(behind.copied_ns)
    };
    let speeds = speed(&behind[0]).zip(speed(&behind[1]));
    if let Some((base, other)) = speeds.filter(|&(base, other)| differ(base, other)) {
        reasons.push(Reason::OtherBandwidth { base, other });
    }
    if row.place == ComparePlace::Gpu && base_ns != other_ns {
        reasons.extend(other_rate(behind).filter(|reason| match reason {
            // Of a sample: it must speak for all of it.
            Reason::OtherRate { base, other, .. } => (base_ns < other_ns) == (base > other),
            _ => false,
        }));
    }
    reasons
}

/// How fast operators with known bytes and arithmetic ran, where their shapes are the same.
fn other_rate(behind: &[Behind; 2]) -> Option<Reason> {
    let [base, other] = behind;
    let is_same = !base.shapes.is_empty() && base.shapes.keys().eq(other.shapes.keys());
    let is_arithmetic = base.achieved.is_arithmetic() && other.achieved.is_arithmetic();
    let rates = base.achieved.rate(is_arithmetic).zip(other.achieved.rate(is_arithmetic));
    let (base, other) = rates.filter(|&(base, other)| is_same && differ(base, other))?;
    Some(Reason::OtherRate { is_arithmetic, base, other })
}

fn differ(base: i128, other: i128) -> bool {
    (other - base).abs().saturating_mul(1000) > base.max(other).saturating_mul(WORTH_PERMILLE)
}

/// Whether there are more or fewer of them a step.
pub(in crate::compare::changes) fn counts_differ(row: &CompareRow) -> bool {
    let whole = |count: u64, steps: u64| i128::from(count) * i128::from(steps.max(1));
    differ(whole(row.base.count, row.other.steps), whole(row.other.count, row.base.steps))
}

/// What only one side runs, where it matters there.
pub(in crate::compare::changes) fn other_kernels(behind: &[Behind; 2]) -> Option<Reason> {
    let [base, other] = [0, 1].map(|side| -> Vec<(String, u64)> {
        let (own, elsewhere) = (&behind[side].kernels, &behind[1 - side].kernels);
        let all: TotalNanos = own.values().map(|cell| cell.ns).sum();
        let matters =
            |cell: &Cell| cell.ns.saturating_mul(1000) >= all.saturating_mul(KERNEL_PERMILLE);
        let mut alone: Vec<(&String, &Cell)> = own
            .iter()
            .filter(|(name, cell)| !elsewhere.contains_key(*name) && matters(cell))
            .collect();
        alone.sort_by(|a, b| b.1.ns.cmp(&a.1.ns).then_with(|| a.0.cmp(b.0)));
        alone.into_iter().map(|(name, cell)| (name.clone(), cell.count)).collect()
    });
    let is_other = !base.is_empty() || !other.is_empty();
    is_other.then_some(Reason::OtherKernels { base, other })
}

fn other_shapes(behind: &[Behind; 2]) -> Option<Reason> {
    let set = |side: usize| behind[side].shapes.keys().collect::<BTreeSet<_>>();
    let (base, other) = (set(0), set(1));
    if base.is_empty() || other.is_empty() || base == other {
        return None;
    }
    let commonest = |side: usize| {
        let most = behind[side].shapes.iter().rev().max_by_key(|(_, count)| **count);
        most.map(|(shape, _)| shape.clone())
    };
    let (base, other) = (commonest(0)?, commonest(1)?);
    (base != other).then_some(Reason::OtherShapes { base, other })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::changes::causes::achieved::Achieved;

    /// Shapes, bytes, arithmetic and time of each side; the rates, and whether of arithmetic.
    #[track_caller]
    fn check(sides: [(&str, i128, i128, i128); 2], expected: Option<(bool, i128, i128)>) {
        let behind = sides.map(|(shape, bytes, flops, ns)| Behind {
            shapes: [(shape.to_owned(), 1)].into(),
            achieved: Achieved { bytes, flops, ns },
            ..Behind::default()
        });
        let found = other_rate(&behind).map(|reason| match reason {
            Reason::OtherRate { is_arithmetic, base, other } => (is_arithmetic, base, other),
            other => panic!("{other:?}"),
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn rates_are_compared_at_the_same_shapes() {
        let gb = 1_000_000_000;
        check([("[8]", 3, 1, 1), ("[8]", 3, 1, 2)], Some((false, 3 * gb, 3 * gb / 2)));
        check([("[8]", 3, 900, 1), ("[8]", 3, 900, 2)], Some((true, 900 * gb, 450 * gb)));
        check([("[8]", 3, 1, 1), ("[9]", 3, 1, 2)], None);
        check([("[8]", 300, 1, 100), ("[8]", 300, 1, 101)], None);
        check([("[8]", 0, 0, 0), ("[8]", 3, 1, 1)], None);
    }
}
