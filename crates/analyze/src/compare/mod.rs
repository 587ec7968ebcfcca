//! What changed between two sets of traces, and whether that is more than noise.
//!
//! Every key (an operator, a kernel, a function …) has a value a step on each side. Sums
//! are exact; verdicts come from how the values of the steps are distributed
//! ([`shift`](self)), corrected for how many keys are compared (Benjamini and Hochberg),
//! and leave alone what two recordings of the same program differ by anyway.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::TotalNanos;
use crate::stats::adjusted;

mod series;
mod shift;
#[cfg(test)]
mod tests;

use series::{Cell, CompareKey};
pub use series::{CompareBy, CompareSeries, Place, compare_series};
use shift::shift;

/// Two sides, key by key.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub base: SideTotals,
    pub other: SideTotals,
    /// The whole step.
    pub wall: CompareRow,
    /// All keys of both sides: what surely changed first, the largest change on top.
    pub rows: Vec<CompareRow>,
}

/// One side as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideTotals {
    pub traces: u64,
    pub steps: u64,
    /// Some trace has no steps and counts as one.
    pub lacks_steps: bool,
    /// Inside of steps, all keys together.
    pub gpu_ns: TotalNanos,
    pub host_ns: TotalNanos,
    /// Outside of steps, not compared.
    pub outside_ns: TotalNanos,
}

/// One key on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareRow {
    /// `None` for the whole step.
    pub place: Option<Place>,
    pub key: String,
    pub base: StepTime,
    pub other: StepTime,
    /// Of the time a step, 95 %: `None` where there are too few steps to tell.
    pub interval_ns: Option<(TotalNanos, TotalNanos)>,
    /// Corrected for the number of keys.
    pub p: Option<f64>,
    pub verdict: Verdict,
}

/// Sums of one key over the steps of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepTime {
    pub total_ns: TotalNanos,
    pub count: u64,
    pub steps: u64,
}

impl StepTime {
    /// Time a step, rounded to the nearest nanosecond.
    pub fn step_ns(self) -> TotalNanos {
        let steps = i128::from(self.steps.max(1));
        (self.total_ns + steps / 2) / steps
    }
}

impl CompareRow {
    /// Time a step: other minus base.
    pub fn change_ns(&self) -> TotalNanos {
        self.other.step_ns() - self.base.step_ns()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Slower,
    Faster,
    Same,
    /// Too few steps, or too much noise.
    CannotTell,
}

/// What two recordings of one program differ by anyway, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    pub gpu_permille: i128,
    pub host_permille: i128,
    /// Of the whole step: a host's small functions vary by their neighbours' doing.
    pub host_step_permille: i128,
}

impl Default for Allowance {
    /// Clocks and temperatures of GPUs, caches and schedulers of hosts.
    fn default() -> Self {
        Allowance { gpu_permille: 15, host_permille: 100, host_step_permille: 5 }
    }
}

/// Fewer steps on a side say nothing about noise.
pub const STEPS_MIN: usize = 4;

/// A difference so likely by chance is none.
const P_MAX: f64 = 0.05;

pub fn compare(
    base: &[CompareSeries],
    other: &[CompareSeries],
    allowance: &Allowance,
) -> Comparison {
    let keys: BTreeSet<&CompareKey> =
        base.iter().chain(other).flat_map(|series| series.rows.keys()).collect();
    let mut rows: Vec<CompareRow> = keys
        .into_iter()
        .map(|key| {
            let (left, right) = (values(base, key), values(other, key));
            row(Some(key.0), &key.1, &left, &right)
        })
        .collect();
    correct(&mut rows);
    let mut wall = row(None, "step", &walls(base), &walls(other));
    let step_ns = wall.base.step_ns().max(wall.other.step_ns());
    wall.verdict = verdict(&wall, step_ns, allowance);
    rows.iter_mut().for_each(|row| row.verdict = verdict(row, step_ns, allowance));
    rows.sort_by(|a, b| {
        let is_open = |row: &CompareRow| !matches!(row.verdict, Verdict::Slower | Verdict::Faster);
        let order = |row: &CompareRow| (is_open(row), Reverse(row.change_ns().abs()), row.place);
        (order(a), &a.key).cmp(&(order(b), &b.key))
    });
    Comparison { base: totals(base), other: totals(other), wall, rows }
}

/// The cells of a key, a step each, one trace after the other.
fn values(side: &[CompareSeries], key: &CompareKey) -> Vec<Cell> {
    let of = |series: &CompareSeries| match series.rows.get(key) {
        Some(cells) => cells.clone(),
        None => vec![Cell::default(); series.steps],
    };
    side.iter().flat_map(of).collect()
}

fn walls(side: &[CompareSeries]) -> Vec<Cell> {
    let of = |series: &CompareSeries| series.wall.clone();
    side.iter().flat_map(of).map(|ns| Cell { ns, count: 1 }).collect()
}

fn totals(side: &[CompareSeries]) -> SideTotals {
    let sum = |place: Place| {
        let rows = side.iter().flat_map(|series| &series.rows);
        let rows = rows.filter(|((of, _), _)| *of == place);
        rows.flat_map(|(_, cells)| cells).map(|cell| cell.ns).sum()
    };
    SideTotals {
        traces: side.len() as u64,
        steps: side.iter().map(|series| series.steps as u64).sum(),
        lacks_steps: side.iter().any(|series| !series.has_steps),
        gpu_ns: sum(Place::Gpu),
        host_ns: sum(Place::Host),
        outside_ns: side.iter().flat_map(|series| series.outside.values()).sum(),
    }
}

fn row(place: Option<Place>, key: &str, base: &[Cell], other: &[Cell]) -> CompareRow {
    let spent = |cells: &[Cell]| StepTime {
        total_ns: cells.iter().map(|cell| cell.ns).sum(),
        count: cells.iter().map(|cell| cell.count).sum(),
        steps: cells.len() as u64,
    };
    let times = |cells: &[Cell]| cells.iter().map(|cell| cell.ns).collect::<Vec<_>>();
    let is_enough = base.len() >= STEPS_MIN && other.len() >= STEPS_MIN;
    let shift = is_enough.then(|| shift(&times(base), &times(other))).flatten();
    CompareRow {
        place,
        key: key.to_owned(),
        base: spent(base),
        other: spent(other),
        interval_ns: shift.map(|shift| shift.interval),
        p: shift.map(|shift| shift.p),
        verdict: Verdict::CannotTell,
    }
}

/// Raises each p to the rate of false discoveries that accepting it would bring.
fn correct(rows: &mut [CompareRow]) {
    let p_values: Vec<f64> = rows.iter().filter_map(|row| row.p).collect();
    let with_p = rows.iter_mut().filter(|row| row.p.is_some());
    for (row, p) in with_p.zip(adjusted(&p_values)) {
        row.p = Some(p);
    }
}

fn verdict(row: &CompareRow, step_ns: TotalNanos, allowance: &Allowance) -> Verdict {
    let (Some((low, high)), Some(p)) = (row.interval_ns, row.p) else {
        let is_equal = row.base.step_ns() == row.other.step_ns();
        return if is_equal { Verdict::Same } else { Verdict::CannotTell };
    };
    let larger_ns = row.base.step_ns().max(row.other.step_ns());
    let allowed = match row.place {
        Some(Place::Gpu) => larger_ns * allowance.gpu_permille / 1000,
        Some(Place::Host) | None => (larger_ns * allowance.host_permille / 1000)
            .max(step_ns * allowance.host_step_permille / 1000),
    };
    if p < P_MAX && low > allowed {
        return Verdict::Slower;
    }
    if p < P_MAX && high < -allowed {
        return Verdict::Faster;
    }
    // Rare steps move the sum, not the middle: then the sides are not the same.
    let is_within = -allowed <= low && high <= allowed && row.change_ns().abs() <= allowed;
    if is_within { Verdict::Same } else { Verdict::CannotTell }
}
