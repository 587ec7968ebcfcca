//! Summaries as pandas gives them, for the tables of HTA.

/// Count, mean, deviation, least, quartiles, greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Described {
    pub(super) count: usize,
    pub(super) mean: f64,
    pub(super) std: f64,
    pub(super) quartiles: [f64; 5],
}

impl Described {
    /// What is not known, such as the mean of nothing, is not a number.
    pub(super) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Described {
            count: values.len(),
            mean: mean(values),
            std: std(values),
            quartiles: [0.0, 0.25, 0.5, 0.75, 1.0].map(|at| quantile(&sorted, at)),
        }
    }

    /// All eight, in the order of their columns.
    pub(super) fn values(&self) -> [f64; 8] {
        let [min, q1, q2, q3, max] = self.quartiles;
        [self.count as f64, self.mean, self.std, min, q1, q2, q3, max]
    }
}

pub(super) fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    match values.len() {
        0 => f64::NAN,
        count => sum(values) / count as f64,
    }
}

/// Of a sample: divided by one less than their number.
pub(super) fn std(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Between the two nearest of the sorted values, in proportion.
pub(super) fn quantile(sorted: &[f64], at: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = at * last as f64;
    let low = place.floor() as usize;
    let (low_value, high_value) = (sorted[low], sorted[(low + 1).min(last)]);
    low_value + (high_value - low_value) * (place - place.floor())
}

/// To so many decimals, half to even.
pub(super) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round_ties_even() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_values() {
        let found = Described::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(found.quartiles, [1.0, 1.75, 2.5, 3.25, 4.0]);
        assert_eq!((found.count, found.mean), (4, 2.5));
        assert!((found.std - 1.290_994).abs() < 1e-6);
    }

    #[test]
    fn nothing_has_no_mean_and_one_no_deviation() {
        assert!(Described::of(&[]).mean.is_nan());
        assert!(Described::of(&[1.0]).std.is_nan());
    }

    #[test]
    fn halves_go_to_even() {
        assert_eq!(rounded(0.125, 2), 0.12);
        assert_eq!(rounded(0.375, 2), 0.38);
    }
}
