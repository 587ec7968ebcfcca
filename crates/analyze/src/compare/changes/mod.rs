//! What changed between two sets of recordings, and whether that is more than noise.
//!
//! Every key (an operator, a kernel, a function …) has a value a step on each side
//! (`series`, `gather`). Sums are exact, and what only one side has is a row like any
//! other. Verdicts come from how the values of the steps are distributed (`samples`,
//! `shift`), corrected for how many keys are compared (Benjamini and Hochberg), and leave
//! alone what two recordings of the same program differ by anyway (`verdict`). Causes are
//! differences that explain others (`causes`).

use std::cmp::Reverse;

use crate::TotalNanos;

mod causes;
mod sides;
#[cfg(test)]
mod tests;
mod verdict;

pub use causes::places::row_spans;
pub use causes::replaced::KernelSwap;
pub use causes::why::{Reason, Why};
pub use causes::{Cause, CauseKind};
pub use sides::gather::{CompareOptions, compare_series, steps_of};
use sides::pairs::{KeyPair, pairs};
use sides::series::{Aspect, Behind, Cell};
pub use sides::series::{CompareBy, ComparePlace, CompareSeries};
pub use verdict::baseline::{BaselineError, baseline_text, parse_baseline};
pub use verdict::samples::ComparedBy;
use verdict::samples::{SideCells, shift_of, spread_ns};
pub use verdict::shift::STEPS_MIN;
use verdict::shift::{Shift, corrected};
pub use verdict::{Allowance, Verdict};
use verdict::{Measured, verdict};

/// Two sides, key by key.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub by: CompareBy,
    pub compared_by: ComparedBy,
    pub base: SideTotals,
    pub other: SideTotals,
    /// The whole step.
    pub wall: CompareRow,
    /// All GPU work, all work of threads, all their waiting, and the time of each phase.
    pub overall: Vec<CompareRow>,
    /// All keys of both sides: what changed significantly first, the largest change on top.
    pub rows: Vec<CompareRow>,
    /// What explains the differences, as far as the recordings show it.
    pub causes: Vec<Cause>,
    /// While a GPU worked; `None` without GPUs.
    pub busy: Option<[StepTime; 2]>,
}

/// One side as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideTotals {
    pub traces: u64,
    pub steps: u64,
    /// Some trace has no steps and counts as one.
    pub lacks_steps: bool,
    /// Markers of steps in traces that count as one, since they are too many.
    pub ignored_steps: u64,
    /// What is compared.
    pub gpu_ns: TotalNanos,
    pub host_ns: TotalNanos,
    pub waiting_ns: TotalNanos,
    /// Outside of the steps and phases that are compared.
    pub outside_gpu_ns: TotalNanos,
    pub outside_host_ns: TotalNanos,
}

/// One key on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareRow {
    pub place: ComparePlace,
    pub key: String,
    pub base: StepTime,
    pub other: StepTime,
    /// Of the time of a typical step, 95 %: `None` where there are too few steps for one.
    pub interval_ns: Option<(TotalNanos, TotalNanos)>,
    /// Corrected for the number of keys.
    pub p: Option<f64>,
    pub verdict: Verdict,
    /// What stands behind it on both sides.
    pub why: Why,
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
        verdict::samples::per(self.total_ns, self.steps as usize)
    }

    /// Whether this side has it at all.
    pub fn is_there(self) -> bool {
        self.count > 0 || self.total_ns > 0
    }
}

impl CompareRow {
    /// Time a step: other minus base.
    pub fn change_ns(&self) -> TotalNanos {
        self.other.step_ns() - self.base.step_ns()
    }

    /// Whether a change is sure.
    pub fn is_changed(&self) -> bool {
        matches!(self.verdict, Verdict::Slower | Verdict::Faster)
    }
}

/// `by` names the rows to show; recordings that were gathered for other rows have none.
pub fn compare(
    base: &[CompareSeries],
    other: &[CompareSeries],
    by: CompareBy,
    allowance: &Allowance,
) -> Comparison {
    let sides = Sides::new(base, other, allowance);
    let rows = sides.rows(Aspect::Rows(by));
    let overall = sides.overall();
    let causes = causes::causes(&sides, &overall);
    Comparison {
        by,
        compared_by: sides.how,
        busy: causes::busy(&sides),
        base: totals(base),
        other: totals(other),
        wall: sides.wall,
        overall,
        rows,
        causes,
    }
}

/// Both sides, and what holds for all rows of them.
struct Sides<'a> {
    sides: [&'a [CompareSeries]; 2],
    how: ComparedBy,
    wall: CompareRow,
    /// The lesser GPU work a step of both.
    gpu_ns: TotalNanos,
    allowance: Allowance,
}

/// A row before its verdict.
struct Draft {
    row: CompareRow,
    shift: Option<Shift>,
    spread_ns: TotalNanos,
    is_equal: bool,
}

impl<'a> Sides<'a> {
    fn new(base: &'a [CompareSeries], other: &'a [CompareSeries], allowance: &Allowance) -> Self {
        let how = ComparedBy::of(base, other);
        let walls = |side: &'a [CompareSeries]| -> SideCells<'a> {
            let cells = |series: &CompareSeries| {
                series.wall.iter().map(|&ns| Cell { ns, count: 1 }).collect::<Vec<_>>()
            };
            side.iter().map(|series| (series, cells(series))).collect()
        };
        let draft = draft(how, ComparePlace::Wall, "step".to_owned(), &walls(base), &walls(other));
        let gpu_ns = [base, other].map(gpu_step_ns).into_iter().min().unwrap_or(0);
        let wall = draft.row.clone();
        let mut sides = Sides { sides: [base, other], how, wall, gpu_ns, allowance: *allowance };
        let step_ns = sides.step_ns();
        sides.wall = sides.judged(vec![draft], step_ns).remove(0);
        sides
    }

    /// The shorter of both steps: what matters there matters.
    fn step_ns(&self) -> TotalNanos {
        self.wall.base.step_ns().min(self.wall.other.step_ns())
    }

    /// All keys of a group with their verdicts, sure changes first.
    fn rows(&self, aspect: Aspect) -> Vec<CompareRow> {
        let drafts = pairs(aspect, self.sides).into_iter().map(|pair| {
            let cells = [0, 1].map(|side| self.cells(aspect, &pair, side));
            let mut draft = match aspect {
                // A step is not repeated inside of its recording.
                Aspect::Rows(CompareBy::Step) => one_step(self.how, &pair, &cells),
                _ => draft(self.how, pair.place, pair.label.clone(), &cells[0], &cells[1]),
            };
            let behind = [0, 1].map(|side| self.behind(aspect, &pair, side));
            draft.row.why = causes::why::why(&draft.row, &behind);
            draft
        });
        let drafts = drafts.collect();
        let mut rows = self.judged(drafts, self.step_ns());
        let order =
            |row: &CompareRow| (!row.is_changed(), Reverse(row.change_ns().abs()), row.place);
        rows.sort_by(|a, b| (order(a), &a.key).cmp(&(order(b), &b.key)));
        rows
    }

    /// The sums over all rows of each place, and the phases.
    fn overall(&self) -> Vec<CompareRow> {
        let mut drafts = Vec::new();
        for (place, label) in [
            (ComparePlace::Gpu, "all GPU work"),
            (ComparePlace::Host, "all work"),
            (ComparePlace::Waiting, "all waiting"),
        ] {
            let cells =
                self.sides.map(|side| side.iter().map(|of| (of, summed(of, place))).collect());
            let draft = draft(self.how, place, label.to_owned(), &cells[0], &cells[1]);
            if draft.row.base.is_there() || draft.row.other.is_there() {
                drafts.push(draft);
            }
        }
        for pair in pairs(Aspect::PhaseWalls, self.sides) {
            let cells = [0, 1].map(|side| self.cells(Aspect::PhaseWalls, &pair, side));
            let [base, other] = occurring(self.how, cells);
            drafts.push(draft(self.how, pair.place, pair.label.clone(), &base, &other));
        }
        self.judged(drafts, self.step_ns())
    }

    /// The cells of a key, a step each, in every recording of a side.
    fn cells(&self, aspect: Aspect, pair: &KeyPair, side: usize) -> SideCells<'a> {
        let key = pair.key(side);
        let of = |series: &'a CompareSeries| {
            let row = key.as_ref().and_then(|key| series.group(aspect)?.get(key));
            let cells = row.map_or_else(Vec::new, |row| row.cells.clone());
            (series, filled(cells, series.steps.len()))
        };
        self.sides[side].iter().map(of).collect()
    }

    fn behind(&self, aspect: Aspect, pair: &KeyPair, side: usize) -> Behind {
        let mut behind = Behind::default();
        let Some(key) = pair.key(side) else { return behind };
        for series in self.sides[side] {
            if let Some(row) = series.group(aspect).and_then(|group| group.get(&key)) {
                behind.add(&row.behind);
            }
        }
        behind
    }

    /// Gives verdicts to rows that were compared together.
    fn judged(&self, drafts: Vec<Draft>, step_ns: TotalNanos) -> Vec<CompareRow> {
        let numbered = drafts.iter().enumerate();
        let p_values: Vec<(usize, f64)> =
            numbered.filter_map(|(at, draft)| Some((at, draft.shift?.p))).collect();
        let corrected = corrected(&p_values);
        let is_repeated = self.how == ComparedBy::Recordings;
        let judge = |(at, draft): (usize, Draft)| {
            let mut row = draft.row;
            row.p = corrected.get(&at).copied();
            let measured = Measured {
                step_ns,
                gpu_ns: self.gpu_ns,
                spread_ns: draft.spread_ns,
                is_repeated,
                is_equal: draft.is_equal,
            };
            row.verdict = verdict(&row, &measured, &self.allowance);
            row
        };
        drafts.into_iter().enumerate().map(judge).collect()
    }
}

/// Without the steps in which there is none of it: of a phase, a step is one that has it.
fn occurring(how: ComparedBy, sides: [SideCells<'_>; 2]) -> [SideCells<'_>; 2] {
    let is_anywhere = |step: usize| {
        let mut all = sides.iter().flatten();
        all.any(|(_, cells)| cells.get(step).is_some_and(|cell| cell.count > 0))
    };
    let only = |cells: &[Cell]| -> Vec<Cell> {
        let kept = cells.iter().enumerate().filter(|&(step, cell)| match how {
            ComparedBy::PairedSteps => is_anywhere(step),
            ComparedBy::Recordings | ComparedBy::Steps => cell.count > 0,
        });
        kept.map(|(_, &cell)| cell).collect()
    };
    let of = |side: &SideCells<'_>| side.iter().map(|(_, cells)| only(cells)).collect::<Vec<_>>();
    let kept = [of(&sides[0]), of(&sides[1])];
    let mut kept = kept.into_iter();
    sides.map(|side| {
        let cells = kept.next().unwrap_or_default();
        side.into_iter().zip(cells).map(|((series, _), cells)| (series, cells)).collect()
    })
}

fn filled(mut cells: Vec<Cell>, steps: usize) -> Vec<Cell> {
    cells.resize(steps, Cell::default());
    cells
}

/// GPU work a step of one side.
fn gpu_step_ns(side: &[CompareSeries]) -> TotalNanos {
    let cells: Vec<Cell> =
        side.iter().flat_map(|series| summed(series, ComparePlace::Gpu)).collect();
    verdict::samples::per(sum(&cells).ns, cells.len())
}

/// All time of a place, step by step.
fn summed(series: &CompareSeries, place: ComparePlace) -> Vec<Cell> {
    let mut sums = vec![Cell::default(); series.steps.len()];
    let group = series.group(Aspect::Rows(CompareBy::Operator));
    for ((of, _), row) in group.into_iter().flatten() {
        if *of == place {
            sums.iter_mut().zip(&row.cells).for_each(|(sum, &cell)| sum.add(cell));
        }
    }
    sums
}

fn draft(
    how: ComparedBy,
    place: ComparePlace,
    key: String,
    base: &SideCells<'_>,
    other: &SideCells<'_>,
) -> Draft {
    let spent = |side: &SideCells<'_>| {
        let cells = || side.iter().flat_map(|(_, cells)| cells);
        StepTime {
            total_ns: cells().map(|cell| cell.ns).sum(),
            count: cells().map(|cell| cell.count).sum(),
            steps: cells().count() as u64,
        }
    };
    let times = |side: &SideCells<'_>| -> Vec<TotalNanos> {
        side.iter().flat_map(|(_, cells)| cells).map(|cell| cell.ns).collect()
    };
    let shift = shift_of(how, base, other);
    Draft {
        row: CompareRow {
            place,
            key,
            base: spent(base),
            other: spent(other),
            interval_ns: shift.map(|shift| shift.interval),
            p: None,
            verdict: Verdict::Inconclusive,
            why: Why::default(),
        },
        shift,
        spread_ns: spread_ns(base, other),
        is_equal: times(base) == times(other),
    }
}

/// The row of one step: a value a recording.
fn one_step(how: ComparedBy, pair: &KeyPair, cells: &[SideCells<'_>; 2]) -> Draft {
    let how = match how {
        ComparedBy::Recordings => how,
        _ => ComparedBy::PairedSteps,
    };
    draft(how, pair.place, pair.label.clone(), &alone(&cells[0]), &alone(&cells[1]))
}

/// Each recording as one value.
fn alone<'a>(side: &SideCells<'a>) -> SideCells<'a> {
    side.iter().map(|(of, cells)| (*of, vec![sum(cells)])).collect()
}

fn sum(cells: &[Cell]) -> Cell {
    let mut sum = Cell::default();
    cells.iter().for_each(|&cell| sum.add(cell));
    sum
}

fn totals(side: &[CompareSeries]) -> SideTotals {
    let inside = |place: ComparePlace| -> TotalNanos {
        side.iter().filter_map(|series| series.inside.get(&place)).sum()
    };
    let outside = |places: &[ComparePlace]| -> TotalNanos {
        let of = |series: &CompareSeries| -> TotalNanos {
            places.iter().filter_map(|place| series.outside.get(place)).sum()
        };
        side.iter().map(of).sum()
    };
    SideTotals {
        traces: side.len() as u64,
        steps: side.iter().map(|series| series.steps.len() as u64).sum(),
        lacks_steps: side.iter().any(|series| !series.has_steps && series.ignored_steps == 0),
        ignored_steps: side.iter().map(|series| series.ignored_steps).sum(),
        gpu_ns: inside(ComparePlace::Gpu),
        host_ns: inside(ComparePlace::Host),
        waiting_ns: inside(ComparePlace::Waiting),
        outside_gpu_ns: outside(&[ComparePlace::Gpu]),
        outside_host_ns: outside(&[ComparePlace::Host, ComparePlace::Waiting]),
    }
}
