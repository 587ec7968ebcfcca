//! How much one set of times is shifted against another, and how sure that is.
//!
//! Times of steps are few, skewed by outliers, and follow one another. Where the steps of
//! both sides correspond, each is compared with its partner: what grows from step to step
//! falls out, and the difference of two skewed times of one kind is not skewed. The fifth of
//! the differences at either end is left out (Tukey and McLaughlin; Yuen for two sets that
//! do not correspond), so that outliers move neither the estimate nor its error. Neighbors
//! that resemble each other are worth less than as many independent ones: the error grows
//! by (1 + r) / (1 − r), r being the correlation of neighbors, corrected for being estimated
//! from few. Ranks were tried first: of 6 steps their p cannot fall below 0.03, however
//! large the difference, which no correction for many rows survives.
//!
//! Sums are whole numbers and everything else is even or odd in the sign of the difference:
//! swapping the sides negates the result exactly.

use std::collections::BTreeMap;

use crate::base::stats::{student_quantile, student_two_sided};

/// How two sets of times differ: `other` minus `base`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::compare::changes) struct Shift {
    /// Of the typical step.
    pub(in crate::compare::changes) estimate_ns: i128,
    /// 95 %.
    pub(in crate::compare::changes) interval: (i128, i128),
    /// How likely such a difference is by chance alone; between 0 and 1.
    pub(in crate::compare::changes) p: f64,
}

/// Fewer values say nothing about noise.
pub const STEPS_MIN: usize = 4;

/// Of fewer values none is left out, and neighbors are not compared.
const MANY: usize = 10;

/// Values that drift are worth few, but an interval of one degree of freedom, six times as
/// wide, says no more about them.
const FREEDOM_MIN: f64 = 3.0;

/// Values of one sort on both sides.
pub(in crate::compare::changes) type Stratum = (Vec<i128>, Vec<i128>);

/// Each value of `other` less its partner of `base`.
pub(in crate::compare::changes) fn paired(base: &[i128], other: &[i128]) -> Option<Shift> {
    let differences: Vec<i128> = base.iter().zip(other).map(|(a, b)| b - a).collect();
    if differences.len() < STEPS_MIN {
        return None;
    }
    let middle = Middle::of(&differences)?;
    Some(shift(middle.mean, middle.variance, middle.freedom))
}

/// Values without partners, compared inside each sort of step.
pub(in crate::compare::changes) fn unpaired(strata: &[Stratum]) -> Option<Shift> {
    let is_known =
        |stratum: &&Stratum| stratum.0.len() >= STEPS_MIN && stratum.1.len() >= STEPS_MIN;
    let known: Vec<&Stratum> = strata.iter().filter(is_known).collect();
    let size = |stratum: &Stratum| (stratum.0.len() + stratum.1.len()) as f64;
    let all: f64 = known.iter().map(|stratum| size(stratum)).sum();
    let (mut estimate, mut variance, mut spread) = (0.0, 0.0, 0.0);
    for stratum in &known {
        let weight = size(stratum) / all;
        let (base, other) = (Middle::of(&stratum.0)?, Middle::of(&stratum.1)?);
        let part = |middle: &Middle| weight * weight * middle.variance;
        estimate += weight * (other.mean - base.mean);
        variance += part(&base) + part(&other);
        // Welch and Satterthwaite.
        let of = |middle: &Middle| part(middle).powi(2) / middle.freedom;
        spread += of(&base) + of(&other);
    }
    if known.is_empty() {
        return None;
    }
    let freedom = if spread > 0.0 { variance * variance / spread } else { f64::from(u8::MAX) };
    Some(shift(estimate, variance, freedom.max(1.0)))
}

fn shift(estimate: f64, variance: f64, freedom: f64) -> Shift {
    let error = variance.sqrt();
    let p = match (estimate == 0.0, error == 0.0) {
        (true, _) => 1.0,
        (false, true) => 0.0,
        (false, false) => student_two_sided(estimate / error, freedom),
    };
    let reach = student_quantile(freedom) * error;
    // A float becomes the nearest whole number that there is.
    let whole = |value: f64| value.round() as i128;
    Shift {
        estimate_ns: whole(estimate),
        interval: (whole(estimate - reach), whole(estimate + reach)),
        p,
    }
}

/// The trimmed mean of some values and the variance of that mean.
struct Middle {
    mean: f64,
    variance: f64,
    freedom: f64,
}

impl Middle {
    fn of(values: &[i128]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let count = sorted.len();
        let cut = if count < MANY { 0 } else { count / 5 };
        let kept = &sorted[cut..count - cut];
        let (&low, &high) = (kept.first()?, kept.last()?);
        let mean = kept.iter().sum::<i128>() as f64 / kept.len() as f64;
        let held = |value: i128| value.clamp(low, high);
        let centre = sorted.iter().map(|&value| held(value)).sum::<i128>() as f64 / count as f64;
        let mut squares: Vec<f64> =
            sorted.iter().map(|&value| (held(value) as f64 - centre).powi(2)).collect();
        // In an order that a change of sign does not turn.
        squares.sort_by(f64::total_cmp);
        let spread: f64 = squares.iter().sum();
        let size = kept.len() as f64;
        let in_time: Vec<f64> = values.iter().map(|&value| held(value) as f64 - centre).collect();
        let worth = worth(&in_time, spread);
        Some(Middle {
            mean,
            variance: spread / (size * (size - 1.0).max(1.0)) / worth,
            freedom: ((size - 1.0) * worth).max((size - 1.0).clamp(1.0, FREEDOM_MIN)),
        })
    }
}

/// What one of these values is worth, from 0.1 to 1, given how neighbors resemble each
/// other. `off` are the distances from the mean, in order of time.
fn worth(off: &[f64], spread: f64) -> f64 {
    let count = off.len() as f64;
    if off.len() < MANY || spread == 0.0 {
        return 1.0;
    }
    let together: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
    // What is estimated from few values comes out too low (Kendall).
    let resemblance = ((together / spread + 1.0 / count) / (1.0 - 3.0 / count)).clamp(0.0, 0.82);
    (1.0 - resemblance) / (1.0 + resemblance)
}

/// Raises each p to the rate of false discoveries that accepting it would bring
/// (Benjamini and Hochberg), by key.
pub(in crate::compare::changes) fn corrected<K: Ord + Copy>(
    p_values: &[(K, f64)],
) -> BTreeMap<K, f64> {
    let plain: Vec<f64> = p_values.iter().map(|&(_, p)| p).collect();
    let adjusted = crate::base::stats::adjusted(&plain);
    p_values.iter().map(|&(key, _)| key).zip(adjusted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly between 100,000 and 101,000, after Steele, Lea and Flood (splitmix).
    fn noise(seed: u64, count: usize) -> Vec<i128> {
        let mut state = seed << 32;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            i128::from((z ^ (z >> 31)) % 1000)
        };
        (0..count).map(|_| 100_000 + next()).collect()
    }

    fn both(base: &[i128], other: &[i128]) -> [Shift; 2] {
        let strata = [(base.to_vec(), other.to_vec())];
        [paired(base, other).expect("values"), unpaired(&strata).expect("values")]
    }

    #[test]
    fn the_same_values_are_not_shifted() {
        let values = noise(1, 20);
        for found in both(&values, &values) {
            assert_eq!((found.estimate_ns, found.p), (0, 1.0));
            assert!(found.interval.0 <= 0 && found.interval.1 >= 0);
        }
    }

    #[test]
    fn swapping_negates_exactly() {
        for (m, n) in [(24, 24), (7, 7), (13, 13)] {
            let (a, b) = (noise(1, m), noise(2, n));
            for (there, back) in both(&a, &b).into_iter().zip(both(&b, &a)) {
                assert_eq!(there.estimate_ns, -back.estimate_ns);
                assert_eq!(there.interval, (-back.interval.1, -back.interval.0));
                assert_eq!(there.p.to_bits(), back.p.to_bits());
            }
        }
    }

    #[test]
    fn a_shift_is_found_and_outliers_do_not_matter() {
        let a = noise(1, 24);
        let mut b: Vec<i128> = noise(2, 24).iter().map(|value| value + 3000).collect();
        b[3] = 90_000_000;
        for found in both(&a, &b) {
            assert!((found.estimate_ns - 3000).abs() < 400, "{found:?}");
            assert!(found.p < 1e-6 && found.interval.0 > 2000, "{found:?}");
            assert!(found.interval.1 < 4000, "{found:?}");
        }
    }

    #[test]
    fn what_grows_with_the_steps_falls_out_where_they_correspond() {
        let grow = |values: Vec<i128>| -> Vec<i128> {
            values.iter().enumerate().map(|(at, value)| value + 5000 * at as i128).collect()
        };
        let moved: Vec<i128> = noise(4, 24).iter().map(|value| value + 1500).collect();
        let [paired, unpaired] = both(&grow(noise(3, 24)), &grow(moved));
        assert!(paired.p < 1e-6, "{paired:?}");
        assert!(unpaired.p > 0.2, "{unpaired:?}");
    }

    #[test]
    fn sorts_of_steps_are_compared_with_their_own() {
        let slow: Vec<i128> = noise(5, 12).iter().map(|value| value * 10).collect();
        let strata = [(noise(6, 12), noise(7, 12)), (slow.clone(), slow)];
        assert!(unpaired(&strata).expect("values").p > 0.05);
        // One value of a kind says nothing about its noise.
        assert_eq!(unpaired(&[(vec![1], vec![2])]), None);
    }

    #[test]
    fn resembling_neighbors_make_less_sure() {
        let wave: Vec<i128> = (0..20).map(|at| if at < 10 { 100 } else { 20 }).collect();
        let mixed: Vec<i128> = (0..20).map(|at| if at % 2 < 1 { 100 } else { 20 }).collect();
        let base = vec![0; 20];
        let p = |values: &[i128]| paired(&base, values).expect("values").p;
        assert!(p(&wave) > 0.2 && p(&mixed) < 0.05, "{} {}", p(&wave), p(&mixed));
    }

    #[test]
    fn a_large_difference_shows_also_in_four_steps() {
        let found = paired(&[100, 101, 99, 100], &[250, 252, 251, 249]).expect("values");
        assert!(found.p < 1e-3, "{found:?}");
        assert_eq!(paired(&[1, 1, 1], &[2, 2, 2]), None);
    }

    #[test]
    fn false_alarms_are_as_rare_as_promised() {
        let mut alarms = [0; 2];
        for seed in 0..400 {
            for (at, found) in
                both(&noise(seed * 2 + 7, 16), &noise(seed * 2 + 8, 16)).into_iter().enumerate()
            {
                alarms[at] += u32::from(found.p < 0.05);
            }
        }
        assert!(alarms.iter().all(|&alarms| alarms <= 30), "{alarms:?} of 400");
    }
}
