//! Statistics for few samples: rank correlation, its significance, robust slopes.
//!
//! Runs and steps are few and their figures have outliers, so ranks are compared, not
//! values. Up to [`EXACT_MAX`] samples the p-value is exact: every order of one side is
//! tried. Nothing here is drawn by chance.

use std::collections::BTreeMap;

/// Samples up to which all orders are tried: 9! is 362,880.
const EXACT_MAX: usize = 9;

/// Pairs of samples to estimate a slope from; more would only cost time.
const SLOPE_PAIRS_MAX: usize = 500_000;

/// Ranks from 1, doubled so that the mean rank of equal values is whole. No NaN.
pub(crate) fn doubled_ranks(values: &[f64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let mut from = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let to = from + group.len();
        for &at in group {
            ranks[at] = (from + 1 + to) as i64;
        }
        from = to;
    }
    ranks
}

/// Spearman's rho of two columns of ranks; `None` where one of them is constant.
pub(crate) fn rho(a: &[i64], b: &[i64]) -> Option<f64> {
    debug_assert_eq!(a.len(), b.len());
    let scale = spread(a) as f64 * spread(b) as f64;
    (scale > 0.0).then(|| (covariance(a, b) as f64 / scale.sqrt()).clamp(-1.0, 1.0))
}

/// `n` squared times the variance.
fn spread(ranks: &[i64]) -> i128 {
    covariance(ranks, ranks)
}

/// `n` squared times the covariance, exactly.
fn covariance(a: &[i64], b: &[i64]) -> i128 {
    let sum = |ranks: &[i64]| ranks.iter().map(|&rank| i128::from(rank)).sum::<i128>();
    let products: i128 = a.iter().zip(b).map(|(&a, &b)| i128::from(a) * i128::from(b)).sum();
    a.len() as i128 * products - sum(a) * sum(b)
}

/// How likely a rank correlation at least as strong is where there is none, on
/// either side.
#[derive(Default)]
pub(crate) struct Significance {
    /// By the ranks of both sides in order: how strong each order is, ascending.
    exact: BTreeMap<(Vec<i64>, Vec<i64>), Vec<i128>>,
}

impl Significance {
    pub(crate) fn p(&mut self, a: &[i64], b: &[i64]) -> f64 {
        if a.len() > EXACT_MAX {
            return p_by_t(rho(a, b).unwrap_or(0.0), a.len());
        }
        let sorted = |ranks: &[i64]| {
            let mut ranks = ranks.to_vec();
            ranks.sort_unstable();
            ranks
        };
        let key = (sorted(a), sorted(b));
        let strengths = self.exact.entry(key).or_insert_with_key(|(a, b)| strengths(a, b));
        let weaker = strengths.partition_point(|&other| other < covariance(a, b).abs());
        (strengths.len() - weaker) as f64 / strengths.len() as f64
    }
}

/// The absolute covariance of `a` with each order of `b`, ascending.
fn strengths(a: &[i64], b: &[i64]) -> Vec<i128> {
    let mut all = Vec::new();
    let mut order = b.to_vec();
    every_order(&mut order, 0, &mut |order| all.push(covariance(a, order).abs()));
    all.sort_unstable();
    all
}

fn every_order(order: &mut [i64], fixed: usize, visit: &mut dyn FnMut(&[i64])) {
    if fixed + 1 >= order.len() {
        return visit(order);
    }
    for at in fixed..order.len() {
        order.swap(fixed, at);
        every_order(order, fixed + 1, visit);
        order.swap(fixed, at);
    }
}

/// By Student's t with n − 2 degrees of freedom; never below what the best of all
/// orders could reach.
fn p_by_t(rho: f64, samples: usize) -> f64 {
    let least = 2.0 / (1..=samples.min(170)).map(|n| n as f64).product::<f64>();
    let freedom = samples as f64 - 2.0;
    // 1 − rho² is freedom / (freedom + t²), the argument of the beta function.
    let p = beta_share(1.0 - rho * rho, freedom / 2.0, 0.5);
    p.clamp(least, 1.0)
}

/// How likely Student's t is at least so far from 0, on either side.
pub(crate) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    beta_share(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// 95 % of Student's t lie between this and its negative.
pub(crate) fn student_quantile(freedom: f64) -> f64 {
    // One degree of freedom has the widest: 12.706.
    let (mut low, mut high) = (0.0, 13.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        match student_two_sided(middle, freedom) > 0.05 {
            true => low = middle,
            false => high = middle,
        }
    }
    f64::midpoint(low, high)
}

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn beta_share(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly on this side only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_share(1.0 - x, b, a);
    }
    let front = a * x.ln() + b * (1.0 - x).ln() - (ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b));
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front.exp() * fraction / a
}

/// The logarithm of the gamma function for positive numbers: Stirling's series, moved
/// to where it is exact.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut moved) = (x, 0.0);
    while x < 10.0 {
        moved -= x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse / 1260.0)) / x;
    moved + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

/// Adjusts p-values for their number, after Benjamini and Hochberg: of the rows with an
/// adjusted p of at most q, a share of at most q is expected to be there by chance.
pub(crate) fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let (mut adjusted, mut least) = (vec![1.0; p_values.len()], 1.0_f64);
    for (place, &at) in order.iter().enumerate().rev() {
        least = least.min(p_values[at] * p_values.len() as f64 / (place + 1) as f64);
        adjusted[at] = least;
    }
    adjusted
}

/// The middle of the slopes of all pairs (Theil and Sen), which outliers do not move:
/// by how much `y` grows when `x` grows by one. `None` where `x` is constant.
pub(crate) fn slope(x: &[f64], y: &[f64]) -> Option<f64> {
    let lags = x.len().saturating_sub(1);
    // Of very many samples, pairs at evenly spread distances stand for all.
    let stride = (lags * x.len() / 2).div_ceil(SLOPE_PAIRS_MAX).max(1);
    let mut slopes = Vec::new();
    for lag in (1..=lags).step_by(stride) {
        for at in 0..x.len() - lag {
            if x[at] != x[at + lag] {
                slopes.push((y[at + lag] - y[at]) / (x[at + lag] - x[at]));
            }
        }
    }
    slopes.sort_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    match slopes.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(slopes[middle]),
        _ => Some(f64::midpoint(slopes[middle - 1], slopes[middle])),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rho_of(x: &[f64], y: &[f64]) -> Option<f64> {
        rho(&doubled_ranks(x), &doubled_ranks(y))
    }

    fn p_of(x: &[f64], y: &[f64]) -> f64 {
        Significance::default().p(&doubled_ranks(x), &doubled_ranks(y))
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1e-6), "{found} {expected}");
    }

    #[test]
    fn equal_values_share_their_mean_rank() {
        assert_eq!(doubled_ranks(&[5.0, 1.0, 5.0, 9.0]), [5, 2, 5, 8]);
        assert_eq!(doubled_ranks(&[]), [0; 0]);
    }

    #[test]
    fn p_is_exact_for_few_samples() {
        let x = [1.0, 2.0, 3.0, 4.0];
        // Two of 24 orders are as strong.
        near(p_of(&x, &[10.0, 20.0, 30.0, 40.0]), 2.0 / 24.0);
        near(p_of(&x, &[40.0, 30.0, 20.0, 10.0]), 2.0 / 24.0);
        // rho 0.8: the identity, three swaps of neighbours, and the same turned around.
        near(p_of(&x, &[1.0, 2.0, 4.0, 3.0]), 8.0 / 24.0);
    }

    #[test]
    fn p_of_many_samples_agrees_with_tables_of_student() {
        // Two-sided 5 % and 1 % points of t: 2.306004 for 8 degrees, 2.763262 for 28.
        for (t, freedom, expected) in [(2.306_004_f64, 8.0, 0.05), (2.763_262, 28.0, 0.01)] {
            let rho = t / (freedom + t * t).sqrt();
            assert!((p_by_t(rho, freedom as usize + 2) - expected).abs() < 1e-6);
        }
        near(p_by_t(0.0, 12), 1.0);
        near(p_by_t(1.0, 10), 2.0 / 3_628_800.0);
    }

    #[test]
    fn quantiles_agree_with_tables_of_student() {
        for (freedom, expected) in [(1.0, 12.706_205), (3.0, 3.182_446), (15.0, 2.131_450)] {
            assert!((student_quantile(freedom) - expected).abs() < 1e-5, "{freedom}");
        }
        assert!((student_two_sided(-2.306_004, 8.0) - 0.05).abs() < 1e-6);
    }

    #[test]
    fn both_ways_to_p_meet() {
        let x: Vec<f64> = (0..9).map(f64::from).collect();
        let y = [0.0, 2.0, 1.0, 5.0, 3.0, 4.0, 8.0, 6.0, 7.0];
        let by_t = p_by_t(rho_of(&x, &y).expect("varies"), 9);
        assert!((p_of(&x, &y) - by_t).abs() < 0.005, "{by_t}");
    }

    #[test]
    fn adjustment_grows_with_the_number_of_questions() {
        assert_eq!(adjusted(&[0.01, 0.5, 0.02, 0.04]), [0.04, 0.5, 0.04, 0.16 / 3.0]);
        assert_eq!(adjusted(&[0.9, 1.0]), [1.0, 1.0]);
    }

    #[test]
    fn an_outlier_does_not_turn_a_slope() {
        assert_eq!(slope(&[1.0, 2.0, 3.0, 4.0, 5.0], &[2.0, 4.0, 6.0, -90.0, 10.0]), Some(2.0));
        assert_eq!(slope(&[1.0, 1.0], &[2.0, 4.0]), None);
        let many: Vec<f64> = (0..3000).map(f64::from).collect();
        assert_eq!(slope(&many, &many.iter().map(|x| 3.0 * x).collect::<Vec<_>>()), Some(3.0));
    }

    /// By signs of all pairs: needs no ranks.
    fn rho_slowly(x: &[f64], y: &[f64]) -> Option<f64> {
        let sign = |a: f64, b: f64| if a == b { 0.0 } else { (a - b).signum() };
        let place = |values: &[f64], at: usize| -> f64 {
            values.iter().map(|&other| sign(values[at], other)).sum()
        };
        let sum = |of: &dyn Fn(usize) -> f64| -> f64 { (0..x.len()).map(of).sum() };
        let both = sum(&|at| place(x, at) * place(y, at));
        let scale = sum(&|at| place(x, at).powi(2)) * sum(&|at| place(y, at).powi(2));
        (scale > 0.0).then(|| both / scale.sqrt())
    }

    fn columns() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        let value = || (-4..5_i32).prop_map(f64::from);
        (2..12_usize).prop_flat_map(move |n| {
            (prop::collection::vec(value(), n), prop::collection::vec(value(), n))
        })
    }

    proptest! {
        #[test]
        fn rho_is_as_defined((x, y) in columns()) {
            match (rho_of(&x, &y), rho_slowly(&x, &y)) {
                (Some(found), Some(expected)) => prop_assert!((found - expected).abs() < 1e-12),
                (found, expected) => prop_assert_eq!(found, expected),
            }
        }

        #[test]
        fn only_order_counts((x, y) in columns()) {
            let curved: Vec<f64> = x.iter().map(|x| x.powi(3) + 7.0 * x - 1.0).collect();
            prop_assert_eq!(rho_of(&curved, &y), rho_of(&x, &y));
            let turned: Vec<f64> = x.iter().map(|x| -x).collect();
            prop_assert_eq!(rho_of(&turned, &y), rho_of(&x, &y).map(|rho| -rho));
        }

        #[test]
        fn p_counts_orders_that_are_as_strong((x, y) in columns()) {
            prop_assume!(x.len() <= 6);
            let (a, mut b) = (doubled_ranks(&x), doubled_ranks(&y));
            let found = Significance::default().p(&a, &b);
            let strength = covariance(&a, &b).abs();
            let (mut all, mut as_strong) = (0.0, 0.0);
            every_order(&mut b, 0, &mut |order| {
                all += 1.0;
                as_strong += f64::from(u8::from(covariance(&a, order).abs() >= strength));
            });
            prop_assert_eq!(found, as_strong / all);
        }
    }
}
