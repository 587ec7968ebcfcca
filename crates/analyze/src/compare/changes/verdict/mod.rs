//! When a difference is one.
//!
//! Two recordings of one program are never equal: clocks and temperatures of a GPU, caches,
//! memory layout and schedulers of a host differ from run to run, and steps of one run share
//! them. One recording a side cannot show how much that is, so it is allowed for. Recordings
//! that were repeated often enough show it themselves.

pub(super) mod baseline;
pub(super) mod samples;
pub(super) mod shift;

use crate::TotalNanos;
use crate::compare::changes::{ComparePlace, CompareRow};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Slower,
    Faster,
    Same,
    /// Too few steps, or too much noise.
    Inconclusive,
}

impl Verdict {
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// What two recordings of one program differ by anyway, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    pub gpu_points: i128,
    /// Of all GPU work of the step: a kernel of a microsecond is measured in steps of 32 ns.
    pub gpu_step_points: i128,
    /// Of the clock: steps and phases.
    pub wall_points: i128,
    pub host_points: i128,
    /// Of the whole step: a host's small functions vary by their neighbors' doing.
    pub host_step_points: i128,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance {
            gpu_points: 150,
            gpu_step_points: 2,
            wall_points: 200,
            host_points: 1000,
            host_step_points: 50,
        }
    }
}

/// Times on the clock that certainly differ by less are the same.
const WALL_SAME_POINTS: i128 = 500;

/// Repeated recordings show their noise: a quarter of what is allowed for otherwise is
/// enough to matter.
const REPEATED_PART: i128 = 4;

/// A difference so likely by chance is none.
const P_MAX: f64 = 0.05;

/// What is known besides the row itself.
pub(super) struct Measured {
    /// The shorter of both steps, and the lesser GPU work of both.
    pub(super) step_ns: TotalNanos,
    pub(super) gpu_ns: TotalNanos,
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
        return Verdict::Inconclusive;
    };
    let larger_ns = row.base.step_ns().max(row.other.step_ns());
    let of = |whole: TotalNanos, points: i128| whole.saturating_mul(points) / 10_000;
    let allowed = match row.place {
        ComparePlace::Gpu => {
            of(larger_ns, allowance.gpu_points).max(of(measured.gpu_ns, allowance.gpu_step_points))
        }
        ComparePlace::Wall => of(larger_ns, allowance.wall_points),
        ComparePlace::Host | ComparePlace::Waiting => of(larger_ns, allowance.host_points)
            .max(of(measured.step_ns, allowance.host_step_points)),
    };
    let needed = match measured.is_repeated {
        true => allowed / REPEATED_PART,
        false => allowed.max(measured.spread_ns),
    };
    if p < P_MAX && low > needed {
        return Verdict::Slower;
    }
    if p < P_MAX && high < -needed {
        return Verdict::Faster;
    }
    let same = match row.place {
        ComparePlace::Wall => of(larger_ns, WALL_SAME_POINTS),
        _ => allowed,
    };
    // Rare steps move the sum, not the middle: then the sides are not the same.
    let is_within = -same <= low && high <= same && row.change_ns().abs() <= same;
    if is_within { Verdict::Same } else { Verdict::Inconclusive }
}
