//! How much one set of times is shifted against another, and how sure that is.
//!
//! Times of steps are few, skewed by outliers, and follow one another. So the shift is
//! that of Hodges and Lehmann, the median of all differences between a value of one
//! side and one of the other, which outliers do not move; its interval comes from the
//! distribution of the rank sum (Mann and Whitney). Neighbouring steps resemble each
//! other, which makes them worth less than as many independent ones: the variance is
//! raised by (1 + r) / (1 − r), r being how much a step resembles the one before it.

use crate::stats::doubled_ranks;

/// How two sets of times differ: `other` minus `base`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    /// Twice the estimate: the sum of the two middle differences, so that it stays whole.
    pub(super) doubled_ns: i128,
    /// 95 %.
    pub(super) interval: (i128, i128),
    /// How likely such a difference is by chance alone; between 0 and 1.
    pub(super) p: f64,
}

/// 97.5 % of a normal distribution lie below this.
const NORMAL_975: f64 = 1.959_963_984_540_054;

/// At most so many values of a side are paired; more say nothing more.
const VALUES_MAX: usize = 400;

pub(super) fn shift(base: &[i128], other: &[i128]) -> Option<Shift> {
    let (base, other) = (thinned(base), thinned(other));
    let (m, n) = (base.len() as f64, other.len() as f64);
    let mut differences: Vec<i128> =
        other.iter().flat_map(|b| base.iter().map(move |a| b - a)).collect();
    differences.sort_unstable();
    let count = differences.len();
    let (low, high) = (differences.get(count.checked_sub(1)? / 2)?, differences[count / 2]);
    let positive = differences.iter().filter(|&&d| d > 0).count() as f64;
    let zero = differences.iter().filter(|&&d| d == 0).count() as f64;
    let above = positive + zero / 2.0;
    let inflation = resemblance(&base).max(resemblance(&other));
    let variance = m * n * (m + n + 1.0) / 12.0 * (1.0 + inflation) / (1.0 - inflation);
    let deviation = variance.sqrt();
    // Half a step towards the middle, since counts are whole.
    let distance = ((above - m * n / 2.0).abs() - 0.5).max(0.0);
    let all_equal = zero as usize == count;
    let p = if all_equal || distance == 0.0 {
        1.0
    } else {
        (2.0 * normal_above(distance / deviation)).min(1.0)
    };
    let cut = (m * n / 2.0 - NORMAL_975 * deviation).floor().max(0.0) as usize;
    let interval = (differences[cut.min(count - 1)], differences[count - 1 - cut.min(count - 1)]);
    Some(Shift { doubled_ns: low + high, interval, p })
}

/// Evenly chosen values, in order.
fn thinned(values: &[i128]) -> Vec<i128> {
    let every = values.len().div_ceil(VALUES_MAX).max(1);
    values.iter().copied().step_by(every).collect()
}

/// How much a value resembles the one before it: the rank correlation of neighbours, from
/// 0 to 0.9.
fn resemblance(values: &[i128]) -> f64 {
    if values.len() < 6 {
        return 0.0;
    }
    let ranks = doubled_ranks(&values.iter().map(|&value| value as f64).collect::<Vec<_>>());
    // Twice the middle rank, like the ranks themselves.
    let middle = values.len() as f64 + 1.0;
    let off: Vec<f64> = ranks.iter().map(|&rank| rank as f64 - middle).collect();
    let spread: f64 = off.iter().map(|off| off * off).sum();
    if spread == 0.0 {
        return 0.0;
    }
    let together: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
    (together / spread).clamp(0.0, 0.9)
}

/// The part of a normal distribution above `z` ≥ 0 (Abramowitz and Stegun 26.2.17, good
/// to 7.5e-8).
fn normal_above(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, count: usize) -> Vec<i128> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i128::from(state >> 40) % 1000
        };
        (0..count).map(|_| 100_000 + next()).collect()
    }

    #[test]
    fn the_same_values_are_not_shifted() {
        let values = noise(1, 20);
        let found = shift(&values, &values).expect("values");
        assert_eq!((found.doubled_ns, found.p), (0, 1.0));
        assert!(found.interval.0 <= 0 && found.interval.1 >= 0);
    }

    #[test]
    fn swapping_negates() {
        let (a, b) = (noise(1, 17), noise(2, 24));
        let (there, back) = (shift(&a, &b).expect("a"), shift(&b, &a).expect("b"));
        assert_eq!(there.doubled_ns, -back.doubled_ns);
        assert_eq!(there.interval, (-back.interval.1, -back.interval.0));
        assert_eq!(there.p, back.p);
    }

    #[test]
    fn a_shift_is_found_and_outliers_do_not_matter() {
        let a = noise(1, 24);
        let mut b: Vec<i128> = noise(2, 24).iter().map(|value| value + 3000).collect();
        b[3] = 90_000_000;
        let found = shift(&a, &b).expect("values");
        assert!((found.doubled_ns / 2 - 3000).abs() < 400, "{found:?}");
        assert!(found.p < 1e-6 && found.interval.0 > 2000 && found.interval.1 < 4000, "{found:?}");
    }

    #[test]
    fn resembling_neighbours_make_less_sure() {
        let drift: Vec<i128> = (0..20).map(|at| 1000 + at * 10).collect();
        let other: Vec<i128> = drift.iter().map(|value| value + 60).collect();
        let shuffled: Vec<i128> = (0..20).map(|at| 1000 + (at * 7 % 20) * 10).collect();
        let moved: Vec<i128> = shuffled.iter().map(|value| value + 60).collect();
        let (drifting, mixed) = (shift(&drift, &other), shift(&shuffled, &moved));
        assert!(drifting.expect("values").p > mixed.expect("values").p);
    }

    #[test]
    fn the_normal_distribution_is_right() {
        assert!((normal_above(0.0) - 0.5).abs() < 1e-7);
        assert!((normal_above(NORMAL_975) - 0.025).abs() < 1e-7);
    }

    #[test]
    fn false_alarms_are_as_rare_as_promised() {
        let alarms = (0..400)
            .filter(|&seed| {
                let found = shift(&noise(seed * 2 + 7, 16), &noise(seed * 2 + 8, 16));
                found.expect("values").p < 0.05
            })
            .count();
        assert!(alarms <= 30, "{alarms} of 400");
    }
}
