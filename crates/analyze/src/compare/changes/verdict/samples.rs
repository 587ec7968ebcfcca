//! Which values of the two sides are held against each other.
//!
//! Four recordings a side or more are samples themselves: what they differ by says more
//! than what their steps differ by. With fewer, steps are. Where all recordings have the
//! same sequence of steps, a step is compared with its counterpart; else steps of a phase
//! with steps of that phase. Ranks of a run are no repetitions of it: their steps are
//! averaged.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::changes::sides::series::{Cell, CompareSeries, StepOf};
use crate::compare::changes::verdict::shift::{STEPS_MIN, Shift, Stratum, paired, unpaired};
use crate::{Phase, TotalNanos};

/// How the values of two sides are brought together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedBy {
    /// A recording is a sample.
    Recordings,
    /// Each step with its counterpart.
    PairedSteps,
    /// All steps of a phase with all of that phase.
    Steps,
}

impl ComparedBy {
    pub(in crate::compare::changes) fn of(base: &[CompareSeries], other: &[CompareSeries]) -> Self {
        if is_repeated(base) && is_repeated(other) {
            return ComparedBy::Recordings;
        }
        let mut sequences = base.iter().chain(other).map(|series| phases(&series.steps));
        let first = sequences.next().unwrap_or_default();
        match sequences.all(|sequence| sequence == first) {
            true => ComparedBy::PairedSteps,
            false => ComparedBy::Steps,
        }
    }
}

fn phases(steps: &[StepOf]) -> Vec<Option<Phase>> {
    steps.iter().map(|step| step.phase).collect()
}

/// Whether a side has enough recordings of the same thing.
fn is_repeated(side: &[CompareSeries]) -> bool {
    let ranks: BTreeSet<i64> = side.iter().filter_map(|series| series.rank).collect();
    side.len() >= STEPS_MIN && ranks.len() <= 1
}

/// The cells of one key in each recording of a side.
pub(in crate::compare::changes) type SideCells<'a> = Vec<(&'a CompareSeries, Vec<Cell>)>;

/// How much a key is shifted; `None` where there are too few values to know.
pub(in crate::compare::changes) fn shift_of(
    how: ComparedBy,
    base: &SideCells<'_>,
    other: &SideCells<'_>,
) -> Option<Shift> {
    match how {
        ComparedBy::Recordings => unpaired(&[(means(base), means(other))]),
        ComparedBy::PairedSteps => paired(&averaged(base), &averaged(other)),
        ComparedBy::Steps => {
            let mut strata: BTreeMap<Option<Phase>, Stratum> = BTreeMap::new();
            for (phase, ns) in by_phase(base) {
                strata.entry(phase).or_default().0.push(ns);
            }
            for (phase, ns) in by_phase(other) {
                strata.entry(phase).or_default().1.push(ns);
            }
            unpaired(&strata.into_values().collect::<Vec<_>>())
        }
    }
}

/// Time a step in each recording.
fn means(side: &SideCells<'_>) -> Vec<TotalNanos> {
    let mean = |(_, cells): &(&CompareSeries, Vec<Cell>)| {
        per(cells.iter().map(|cell| cell.ns).sum(), cells.len())
    };
    side.iter().map(mean).collect()
}

/// Each step, averaged over the recordings.
fn averaged(side: &SideCells<'_>) -> Vec<TotalNanos> {
    let steps = side.first().map_or(0, |(_, cells)| cells.len());
    let at = |step: usize| side.iter().filter_map(|(_, cells)| Some(cells.get(step)?.ns)).sum();
    (0..steps).map(|step| per(at(step), side.len())).collect()
}

fn by_phase<'a>(
    side: &'a SideCells<'_>,
) -> impl Iterator<Item = (Option<Phase>, TotalNanos)> + use<'a> {
    let of = |(series, cells): &'a (&CompareSeries, Vec<Cell>)| {
        // Where some steps were left out, they were those of other phases.
        let is_whole = cells.len() == series.steps.len();
        let phases = series.steps.iter().map(|step| step.phase).filter(move |_| is_whole);
        phases.chain(std::iter::repeat(None)).zip(cells.iter().map(|cell| cell.ns))
    };
    side.iter().flat_map(of)
}

/// Rounded to the nearest whole.
pub(in crate::compare::changes) fn per(total: TotalNanos, count: usize) -> TotalNanos {
    let count = count.max(1) as i128;
    (total + count / 2).div_euclid(count)
}

/// What repetitions of one side differ by at most, time a step; 0 of one recording, and of
/// ranks, which differ for other reasons.
pub(in crate::compare::changes) fn spread_ns(
    base: &SideCells<'_>,
    other: &SideCells<'_>,
) -> TotalNanos {
    let of = |side: &SideCells<'_>| {
        let ranks: BTreeSet<i64> = side.iter().filter_map(|(series, _)| series.rank).collect();
        if ranks.len() > 1 {
            return 0;
        }
        let means = means(side);
        let range = means.iter().max().zip(means.iter().min());
        range.map_or(0, |(most, least)| most - least)
    };
    of(base).max(of(other))
}
