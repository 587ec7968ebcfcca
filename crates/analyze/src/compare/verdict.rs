//! When a difference is one.
//!
//! Two recordings of one program are never equal: clocks and temperatures of a GPU, caches,
//! memory layout and schedulers of a host differ from run to run, and steps of one run share
//! them. One recording a side cannot show how much that is, so it is allowed for. Recordings
//! that were repeated often enough show it themselves.

use super::{CompareRow, Place};
use crate::TotalNanos;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Slower,
    Faster,
    Same,
    /// Too few steps, or too much noise.
    CannotTell,
}

impl Verdict {
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::CannotTell => "cannot tell",
        }
    }
}

/// What two recordings of one program differ by anyway, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    pub gpu_permille: i128,
    /// Of the clock: steps and phases.
    pub wall_permille: i128,
    pub host_permille: i128,
    /// Of the whole step: a host's small functions vary by their neighbours' doing.
    pub host_step_permille: i128,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance { gpu_permille: 15, wall_permille: 20, host_permille: 100, host_step_permille: 5 }
    }
}

/// Times on the clock that surely differ by less are the same.
const WALL_SAME_PERMILLE: i128 = 50;

/// A difference so likely by chance is none.
const P_MAX: f64 = 0.05;

/// What is known besides the row itself.
pub(super) struct Measured {
    /// The shorter of both steps.
    pub(super) step_ns: TotalNanos,
    /// What recordings of one side differ by.
    pub(super) spread_ns: TotalNanos,
    /// The samples are recordings, so that their noise is in the interval.
    pub(super) is_repeated: bool,
    /// Every value equals its counterpart.
    pub(super) is_equal: bool,
}

pub(super) fn verdict(row: &CompareRow, measured: &Measured, allowance: &Allowance) -> Verdict {
    if measured.is_equal {
        return Verdict::Same;
    }
    let (Some((low, high)), Some(p)) = (row.interval_ns, row.p) else {
        return Verdict::CannotTell;
    };
    let larger_ns = row.base.step_ns().max(row.other.step_ns());
    let permille = |part: i128| larger_ns.saturating_mul(part) / 1000;
    let allowed = match row.place {
        Place::Gpu => permille(allowance.gpu_permille),
        Place::Wall => permille(allowance.wall_permille),
        Place::Host | Place::Waiting => permille(allowance.host_permille)
            .max(measured.step_ns.saturating_mul(allowance.host_step_permille) / 1000),
    };
    let needed = if measured.is_repeated { 0 } else { allowed.max(measured.spread_ns) };
    if p < P_MAX && low > needed {
        return Verdict::Slower;
    }
    if p < P_MAX && high < -needed {
        return Verdict::Faster;
    }
    let same = match row.place {
        Place::Wall => permille(WALL_SAME_PERMILLE),
        _ => allowed,
    };
    // Rare steps move the sum, not the middle: then the sides are not the same.
    let is_within = -same <= low && high <= same && row.change_ns().abs() <= same;
    if is_within { Verdict::Same } else { Verdict::CannotTell }
}
