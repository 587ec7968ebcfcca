//! What moves with a figure that was measured beside the traces.
//!
//! Every feature of the runs or steps is compared with every metric by the order of
//! their values (`stats.rs`). Many questions asked of few samples find something by
//! chance, so p-values are adjusted for all pairs together.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::stats::{Significance, adjusted, doubled_ranks, rho, slope};
use crate::compare::observe::{Feature, FeatureGroup, Observation};

/// Fewer samples say nothing: of three, every third order is as strong as any.
pub const SAMPLES_MIN: usize = 4;

/// Time below this share of every sample is too little to consider, in thousandths.
const SHARE_MIN_PER_MILLE: f64 = 1.0;

/// A metric with a value for each observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

/// What moves with each metric, and how much was examined.
#[derive(Debug, Clone, PartialEq)]
pub struct Correlations {
    pub samples: usize,
    pub outcomes: Vec<Association>,
    /// Metrics that do not vary, so that nothing can move with them.
    pub constant: Vec<String>,
    pub features: usize,
    pub features_constant: usize,
    /// Features that take too little time in every sample.
    pub features_small: usize,
    /// Pairs of metric and feature that p-values are adjusted for.
    pub pairs: usize,
}

/// One metric: what moves with it, the surest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Association {
    pub name: String,
    /// Samples that have it.
    pub samples: usize,
    /// What grows when it grows.
    pub with: Vec<CorrelatedFeature>,
    /// What shrinks when it grows.
    pub against: Vec<CorrelatedFeature>,
    /// Rows of both lists that the limit left out.
    pub left_out: usize,
}

/// A feature beside a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrelatedFeature {
    pub feature: Feature,
    pub samples: usize,
    /// Spearman's.
    pub rho: f64,
    pub p: f64,
    /// After Benjamini and Hochberg, over all pairs.
    pub p_adjusted: f64,
    /// How much the metric grows with a millisecond, or a percent, of the feature.
    pub slope: Option<f64>,
    /// From which to which value the feature goes.
    pub range: (f64, f64),
}

/// Compares all metrics with all features; `rows_max` rows a metric and direction.
pub fn correlate(
    observations: &[Observation],
    outcomes: &[Outcome],
    rows_max: Option<usize>,
) -> Correlations {
    let (features, features_small) = columns(observations);
    let varies = |values: &[Option<f64>]| {
        let mut known = values.iter().flatten();
        known.next().is_some_and(|first| known.any(|value| value != first))
    };
    let (moving, still): (Vec<_>, Vec<_>) =
        outcomes.iter().partition(|outcome| varies(&outcome.values));
    let features_all = features.len() + features_small;
    let features: Vec<_> = features.into_iter().filter(|(_, values)| varies(values)).collect();
    let features_constant = features_all - features_small - features.len();

    let mut pairs = Vec::new();
    let mut significance = Significance::default();
    for (at, outcome) in moving.iter().enumerate() {
        for (feature, values) in &features {
            pairs.extend(pair(&mut significance, feature, values, outcome).map(|row| (at, row)));
        }
    }
    let p_values: Vec<f64> = pairs.iter().map(|(_, row)| row.p).collect();
    for ((_, row), p) in pairs.iter_mut().zip(adjusted(&p_values)) {
        row.p_adjusted = p;
    }
    let mut rows: Vec<Vec<CorrelatedFeature>> = moving.iter().map(|_| Vec::new()).collect();
    let pairs_all = pairs.len();
    for (at, row) in pairs {
        rows[at].push(row);
    }
    let features: BTreeMap<Feature, Vec<Option<f64>>> = features.into_iter().collect();
    let moved = |(outcome, rows)| moved(outcome, rows, &features, rows_max);
    Correlations {
        samples: observations.len(),
        outcomes: moving.into_iter().zip(rows).map(moved).collect(),
        constant: still.into_iter().map(|outcome| outcome.name.clone()).collect(),
        features: features_all,
        features_constant,
        features_small,
        pairs: pairs_all,
    }
}

type Columns = Vec<(Feature, Vec<Option<f64>>)>;

/// Every feature with its value in each observation, and how many were too small.
fn columns(observations: &[Observation]) -> (Columns, usize) {
    let names: BTreeSet<&Feature> =
        observations.iter().flat_map(|seen| seen.features.keys()).collect();
    // What a run did not record at all is unknown in it, not zero.
    let recorded: Vec<BTreeSet<FeatureGroup>> = observations
        .iter()
        .map(|seen| seen.features.keys().map(|feature| feature.group).collect())
        .collect();
    let (mut kept, mut small) = (Vec::new(), 0);
    for name in names {
        let value = |(seen, recorded): (&Observation, &BTreeSet<FeatureGroup>)| {
            let is_zero = name.group.absent_is_zero() && recorded.contains(&name.group);
            seen.features.get(name).copied().or(is_zero.then_some(0.0))
        };
        let values: Vec<Option<f64>> = observations.iter().zip(&recorded).map(value).collect();
        let is_large = |(seen, value): (&Observation, &Option<f64>)| {
            let least = seen.window_ns as f64 * SHARE_MIN_PER_MILLE / 1000.0;
            value.is_some_and(|value| value >= least)
        };
        if name.group.absent_is_zero() && !observations.iter().zip(&values).any(is_large) {
            small += 1;
        } else {
            kept.push((name.clone(), values));
        }
    }
    (kept, small)
}

/// Samples that have both.
fn both(x: &[Option<f64>], y: &[Option<f64>]) -> (Vec<f64>, Vec<f64>) {
    x.iter().zip(y).filter_map(|(&x, &y)| Some((x?, y?))).unzip()
}

/// The pair, where enough samples have both and both vary in them.
fn pair(
    significance: &mut Significance,
    feature: &Feature,
    values: &[Option<f64>],
    outcome: &Outcome,
) -> Option<CorrelatedFeature> {
    let (x, y) = both(values, &outcome.values);
    if x.len() < SAMPLES_MIN {
        return None;
    }
    let (ranks_x, ranks_y) = (doubled_ranks(&x), doubled_ranks(&y));
    let least = x.iter().copied().fold(f64::INFINITY, f64::min);
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(CorrelatedFeature {
        feature: feature.clone(),
        samples: x.len(),
        rho: rho(&ranks_x, &ranks_y)?,
        p: significance.p(&ranks_x, &ranks_y),
        p_adjusted: 1.0,
        slope: None,
        range: (least, most),
    })
}

fn moved(
    outcome: &Outcome,
    mut rows: Vec<CorrelatedFeature>,
    features: &BTreeMap<Feature, Vec<Option<f64>>>,
    rows_max: Option<usize>,
) -> Association {
    // Of equally sure rows, what moves most comes first.
    let moves = |row: &CorrelatedFeature| row.range.1 - row.range.0;
    rows.sort_by(|a, b| {
        let sure = a.p_adjusted.total_cmp(&b.p_adjusted).then(a.p.total_cmp(&b.p));
        let size = (b.feature.group.is_time(), moves(b));
        let size = (size.0.cmp(&a.feature.group.is_time())).then(size.1.total_cmp(&moves(a)));
        sure.then(size).then_with(|| a.feature.cmp(&b.feature))
    });
    let all = rows.iter().filter(|row| row.rho != 0.0).count();
    let (mut with, mut against): (Vec<CorrelatedFeature>, Vec<CorrelatedFeature>) =
        rows.into_iter().filter(|row| row.rho != 0.0).partition(|row| row.rho > 0.0);
    for rows in [&mut with, &mut against] {
        rows.truncate(rows_max.unwrap_or(usize::MAX));
        for row in rows {
            let (x, y) = both(&features[&row.feature], &outcome.values);
            let unit = if row.feature.group.is_time() { 1e6 } else { 1.0 };
            row.slope = slope(&x, &y).map(|slope| slope * unit);
        }
    }
    let left_out = all - with.len() - against.len();
    let samples = outcome.values.iter().flatten().count();
    Association { name: outcome.name.clone(), samples, with, against, left_out }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;
    use crate::{Facts, observe_run};

    /// A run in which `hot` takes so long, `steady` always the same, `noise` at whim.
    fn run(hot: i64, noise: i64) -> Observation {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "a.py(1): steady", 0, 1_000_000);
        sample.span("1", SpanKind::Python, "a.py(2): hot", 2_000_000, hot);
        sample.span("2", SpanKind::Python, "a.py(3): noise", 0, noise);
        let trace = sample.finish();
        observe_run(&Facts::new(&trace))
    }

    fn outcome(name: &str, values: &[f64]) -> Outcome {
        Outcome { name: name.to_owned(), values: values.iter().copied().map(Some).collect() }
    }

    fn observations() -> Vec<Observation> {
        let noise = [5, 2, 9, 4, 7, 1, 8, 3];
        (1..=8).zip(noise).map(|(at, noise)| run(at * 1_000_000, noise * 100_000)).collect()
    }

    #[test]
    fn what_was_planted_is_found_with_its_slope() {
        let speed: Vec<f64> = (1..=8).map(|at| 100.0 - 3.0 * f64::from(at)).collect();
        let found = correlate(&observations(), &[outcome("speed", &speed)], None);
        let [moved] = found.outcomes.as_slice() else { panic!("one metric") };
        let hot = moved.against.iter().find(|row| row.feature.name == "a.py(2): hot");
        let hot = hot.expect("it is there");
        assert_eq!((hot.rho, hot.samples), (-1.0, 8));
        assert_eq!(hot.p, 2.0 / 40_320.0);
        assert!(hot.p_adjusted < 0.01);
        assert!((hot.slope.expect("it varies") + 3.0).abs() < 1e-9);
        assert_eq!(hot.range, (1e6, 8e6));
        let noise = moved.with.iter().chain(&moved.against);
        let noise = noise.filter(|row| row.feature.name == "a.py(3): noise");
        assert!(noise.into_iter().all(|row| row.p_adjusted > 0.1));
        let steady = moved.with.iter().chain(&moved.against);
        assert!(!steady.into_iter().any(|row| row.feature.name.ends_with("steady")));
        assert!(found.features_constant > 0);
    }

    #[test]
    fn metrics_that_do_not_vary_are_named() {
        let found = correlate(&observations(), &[outcome("lr", &[0.1; 8])], None);
        assert_eq!((found.constant, found.pairs), (vec!["lr".to_owned()], 0));
    }

    #[test]
    fn three_samples_say_nothing() {
        let runs = &observations()[..3];
        let found = correlate(runs, &[outcome("loss", &[1.0, 2.0, 3.0])], None);
        assert_eq!((found.pairs, found.outcomes[0].with.len()), (0, 0));
    }

    #[test]
    fn what_a_run_did_not_record_is_unknown_and_what_it_did_not_do_is_zero() {
        let mut runs = observations();
        // This run has no Python frames at all; that one did not call `hot`.
        runs[0].features.retain(|feature, _| feature.group != python());
        runs[7].features.remove(&Feature { group: python(), name: "a.py(2): hot".to_owned() });
        let speed: Vec<f64> = (1..=8).map(f64::from).collect();
        let found = correlate(&runs, &[outcome("speed", &speed)], None);
        let hot = found.outcomes[0].with.iter().find(|row| row.feature.name == "a.py(2): hot");
        let hot = hot.expect("it is there");
        assert_eq!((hot.samples, hot.range), (7, (0.0, 7e6)));
    }

    #[test]
    fn a_limit_holds_for_each_direction() {
        let speed: Vec<f64> = (1..=8).map(f64::from).collect();
        let all = correlate(&observations(), &[outcome("speed", &speed)], None);
        let few = correlate(&observations(), &[outcome("speed", &speed)], Some(1));
        let (all, few) = (&all.outcomes[0], &few.outcomes[0]);
        assert_eq!((few.with.len(), &few.with[0]), (1, &all.with[0]));
        assert_eq!(few.left_out, all.with.len() + all.against.len() - few.against.len() - 1);
    }

    fn python() -> FeatureGroup {
        FeatureGroup::Function(SpanKind::Python)
    }
}
