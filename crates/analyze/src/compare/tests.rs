//! Small traces of several steps, compared.

use proptest::prelude::*;
use spanwise_model::SpanKind;

use super::*;
use crate::sample::Sample;
use crate::{ClassRules, Facts};

/// A trace with a step for each row: the GPU times of its kernels.
fn series(steps: &[Vec<i64>]) -> CompareSeries {
    let mut sample = Sample::default();
    let mut key = 0;
    for (at, kernels) in steps.iter().enumerate() {
        let start = at as i64 * 1_000_000;
        sample.span("1", SpanKind::Annotation, &format!("ProfilerStep#{at}"), start, 900_000);
        for (nth, &dur) in kernels.iter().enumerate() {
            key += 1;
            let offset = start + 10 + nth as i64 * 20;
            sample.span("1", SpanKind::Operator, "aten::mm", offset, 15);
            sample.call("1", offset + 1, 5, key);
            sample.work("7", SpanKind::Kernel, &format!("k{nth}"), (offset + 100, dur), key);
        }
    }
    let trace = sample.finish();
    compare_series(&Facts::new(&trace), &ClassRules::standard(), CompareBy::Kernel)
}

fn found(base: &[Vec<i64>], other: &[Vec<i64>]) -> Comparison {
    compare(&[series(base)], &[series(other)], &Allowance::default())
}

#[test]
fn a_slower_kernel_is_named() {
    let steps = |factor: i64| -> Vec<Vec<i64>> {
        (0..12).map(|at| vec![10_000 * factor / 100 + at % 3, 5_000 + at % 2]).collect()
    };
    let found = found(&steps(100), &steps(110));
    let verdicts: Vec<_> = found.rows.iter().map(|row| (&*row.key, row.verdict)).collect();
    assert_eq!(verdicts, [("k0", Verdict::Slower), ("k1", Verdict::Same)]);
    assert_eq!(found.rows[0].change_ns(), 1000);
}

#[test]
fn one_side_alone_is_listed_and_few_steps_tell_nothing() {
    let found = found(&[vec![10]], &[vec![10, 7]]);
    let rows: Vec<_> =
        found.rows.iter().map(|row| (&*row.key, row.change_ns(), row.verdict)).collect();
    assert_eq!(rows, [("k1", 7, Verdict::CannotTell), ("k0", 0, Verdict::Same)]);
}

proptest! {
    #[test]
    fn sums_are_kept_and_swapping_negates(
        base in prop::collection::vec(prop::collection::vec(1i64..1000, 0..4), 1..9),
        other in prop::collection::vec(prop::collection::vec(1i64..1000, 0..4), 1..9),
    ) {
        let (there, back) = (found(&base, &other), found(&other, &base));
        let sum = |steps: &[Vec<i64>]| i128::from(steps.iter().flatten().sum::<i64>());
        let total = |side: fn(&CompareRow) -> StepTime| {
            there.rows.iter().map(|row| side(row).total_ns).sum::<i128>()
        };
        prop_assert_eq!(total(|row| row.base), sum(&base));
        prop_assert_eq!(total(|row| row.other), sum(&other));
        for row in &there.rows {
            let swapped = back.rows.iter().find(|other| other.key == row.key).expect("both ways");
            prop_assert_eq!(row.change_ns(), -swapped.change_ns());
            prop_assert_eq!(row.interval_ns, swapped.interval_ns.map(|(a, b)| (-b, -a)));
        }
        let same = found(&base, &base);
        prop_assert!(same.rows.iter().all(|row| row.change_ns() == 0));
        let differs = |row: &CompareRow| matches!(row.verdict, Verdict::Slower | Verdict::Faster);
        prop_assert!(!same.rows.iter().any(differs));
    }
}
