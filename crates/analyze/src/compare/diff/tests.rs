//! Differences against a count that visits every sample.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use spanwise_model::{Label, LabelValue, Profile, ProfileBuilder, ProfileFrame, StackId, StrId};

use super::*;

/// Frames from the root on, step (0 for none), value.
type Row = (Vec<&'static str>, i64, i64);

fn build(rows: &[Row]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds"), ("calls", "count")], 0);
    for (frames, step, value) in rows {
        let mut stack = StackId::EMPTY;
        for name in frames {
            let name = builder.string(name);
            let (group, file) = (StrId::EMPTY, StrId::EMPTY);
            let frame = builder.frame(ProfileFrame { name, group, file, line: 0 });
            stack = builder.push(stack, frame);
        }
        let mut labels = Vec::new();
        if *step > 0 {
            let (key, unit) = (builder.string("step"), builder.string("step"));
            labels.push(Label { key, value: LabelValue::Number { value: *step, unit } });
        }
        let labels = builder.labels(labels);
        builder.add(stack, labels, 0, *value);
        builder.add(stack, labels, 1, 1);
    }
    builder.finish()
}

const PLAIN: DiffOptions = DiffOptions { values: [0, 0], steps: [1, 1] };

/// Rows as "label base-self base-total other-self other-total", - where missing.
#[track_caller]
fn check(base: &[Row], other: &[Row], expected: &[&str]) {
    let diff = profile_diff(&build(base), &build(other), &PLAIN);
    let side = |spent: Option<SideSums>| match spent {
        Some(spent) => format!("{} {}", spent.self_sum, spent.total_sum),
        None => "- -".to_owned(),
    };
    let line = |row: &FunctionDiff| format!("{} {} {}", row.label, side(row.base), side(row.other));
    let lines: Vec<String> = diff.functions.iter().map(line).collect();
    assert_eq!(lines, expected);
}

#[test]
fn what_changed_most_comes_first_and_nothing_is_left_out() {
    check(
        &[(vec!["f", "g"], 0, 10), (vec!["f"], 0, 5), (vec!["old"], 0, 1)],
        &[(vec!["f", "g"], 0, 30), (vec!["f"], 0, 5), (vec!["new"], 0, 3)],
        &["g 10 10 30 30", "new - - 3 3", "old 1 1 - -", "f 5 15 5 35"],
    );
}

#[test]
fn recursion_counts_once() {
    check(
        &[(vec!["f", "g", "f"], 0, 10), (vec!["f", "f"], 0, 1)],
        &[(vec![], 0, 4)],
        &["f 11 11 - -", "[no stack] - - 4 4", "g 0 10 - -"],
    );
}

#[test]
fn code_that_moved_down_its_file_is_the_same() {
    check(
        &[(vec!["a.py(10): f", "a.py(50): f"], 0, 7), (vec!["a.py(10): f"], 0, 1)],
        &[(vec!["a.py(12): f", "a.py(53): f"], 0, 9), (vec!["a.py(12): f"], 0, 1)],
        &["a.py(50→53): f 7 7 9 9", "a.py(10→12): f 1 8 1 10"],
    );
    check(
        &[(vec!["f (a.py:3)"], 0, 7), (vec!["f (a.py:4)"], 0, 1)],
        &[(vec!["f (a.py:9)"], 0, 8)],
        &["f (a.py) 8 8 8 8"],
    );
}

#[test]
fn steps_are_one_function_and_are_counted() {
    let base = [(vec!["ProfilerStep#4", "f"], 4, 10), (vec!["ProfilerStep#5", "f"], 5, 10)];
    let other = [(vec!["ProfilerStep#9", "f"], 9, 12)];
    check(&base, &other, &["f 20 20 12 12", "ProfilerStep# 0 20 0 12"]);
    let (base, other) = (build(&base), build(&other));
    let steps = [step_count(&base), step_count(&other)];
    assert_eq!(steps, [2, 1]);
    let diff = profile_diff(&base, &other, &DiffOptions { steps, ..PLAIN });
    let [base_spent, other_spent] = diff.functions[0].both();
    // 12 - 20/2, times 2.
    assert_eq!(diff.change(base_spent.self_sum, other_spent.self_sum), 4);
    assert_eq!(diff.change_divisor(), 2);
    assert_eq!(step_count(&build(&[(vec!["f"], 0, 1)])), 0);
}

#[test]
fn a_difference_by_step_divides_and_names_both_alike() {
    let base = build(&[(vec!["a.py(1): f"], 1, 11), (vec!["a.py(1): f"], 2, 10)]);
    let other = build(&[(vec!["a.py(2): f"], 1, 40)]);
    let options = DiffOptions { steps: [2, 1], ..PLAIN };
    let profile = difference(&base, &other, &options);
    let names: Vec<&str> = profile.frames.iter().map(|frame| profile.text(frame.name)).collect();
    assert_eq!(names, ["a.py(2): f"]);
    // 21 / 2 is rounded away from zero, after the steps were added up.
    assert_eq!(profile.values, [40, 1, -11, -1]);
    let labels: Vec<usize> = profile.label_sets.iter().map(Vec::len).collect();
    assert_eq!(labels, [0, 1]);
    let sides = base_and_other(&base, &other, &options);
    assert_eq!(sides.values, [11, 40]);
}

#[test]
fn only_columns_that_both_have_are_subtracted() {
    let base = build(&[(vec!["f"], 0, 5)]);
    let mut builder = ProfileBuilder::new(&[("gpu", "nanoseconds"), ("wall", "nanoseconds")], 0);
    let labels = builder.labels(Vec::new());
    builder.add(StackId::EMPTY, labels, 1, 3);
    let other = builder.finish();
    let options = DiffOptions { values: [0, 1], ..PLAIN };
    let profile = difference(&base, &other, &options);
    let columns: Vec<&str> = profile.value_types.iter().map(|value| &*value.name).collect();
    assert_eq!(columns, ["wall"]);
    assert_eq!(profile.totals(), [-2]);
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let name = prop::sample::select(vec!["a", "b", "a.py(1): f", "a.py(3): f", "a.py(2): f"]);
    let frames = prop::collection::vec(name, 0..5);
    prop::collection::vec((frames, 0i64..4, -5i64..50), 0..20)
}

/// Self and total of each name as it stands, sample by sample.
fn counted(profile: &Profile) -> BTreeMap<String, (i128, i128)> {
    let mut rows: BTreeMap<String, (i128, i128)> = BTreeMap::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let value = i128::from(profile.values_of(row)[0]);
        let names: Vec<&str> =
            profile.frames_of(sample.stack).map(|frame| profile.text(frame.name)).collect();
        rows.entry(names.first().unwrap_or(&"[no stack]").to_string()).or_default().0 += value;
        let distinct: BTreeSet<&str> = match names.is_empty() {
            true => ["[no stack]"].into(),
            false => names.into_iter().collect(),
        };
        for name in distinct {
            rows.entry(name.to_owned()).or_default().1 += value;
        }
    }
    rows.retain(|_, sums| *sums != (0, 0));
    rows
}

/// One side of the rows, under the names that this side uses.
fn side(diff: &ProfileDiff, at: usize) -> BTreeMap<String, (i128, i128)> {
    let rows = diff.functions.iter().map(|row| {
        let line = [row.base_line, row.other_line][at];
        let name = match line {
            Some(line) => format!("{}({line}): {}", row.file, row.name),
            None => row.label.clone(),
        };
        let spent = row.both()[at];
        (name, (spent.self_sum, spent.total_sum))
    });
    rows.filter(|(_, sums)| *sums != (0, 0)).collect()
}

proptest! {
    #[test]
    fn rows_are_what_a_count_of_all_samples_gives(base in rows(), other in rows()) {
        let (base, other) = (build(&base), build(&other));
        let diff = profile_diff(&base, &other, &PLAIN);
        prop_assert_eq!(side(&diff, 0), counted(&base));
        prop_assert_eq!(side(&diff, 1), counted(&other));
    }

    #[test]
    fn self_columns_add_up_to_the_totals(base in rows(), other in rows(), steps in 1u64..5) {
        let (base, other) = (build(&base), build(&other));
        let options = DiffOptions { steps: [steps, 3], ..PLAIN };
        let diff = profile_diff(&base, &other, &options);
        for (at, profile) in [&base, &other].into_iter().enumerate() {
            let sum: i128 = diff.functions.iter().map(|row| row.both()[at].self_sum).sum();
            prop_assert_eq!(sum, profile.totals()[0]);
        }
        let change = |row: &FunctionDiff| {
            let [base, other] = row.both();
            diff.change(base.self_sum, other.self_sum)
        };
        let sum: i128 = diff.functions.iter().map(change).sum();
        prop_assert_eq!(sum, diff.change(diff.totals[0], diff.totals[1]));
        prop_assert!(diff.functions.is_sorted_by_key(|row| -change(row).abs()));
    }

    #[test]
    fn no_change_is_zero_and_swapping_negates(base in rows(), other in rows()) {
        let (base, other) = (build(&base), build(&other));
        let changes = |a: &Profile, b: &Profile| -> BTreeMap<String, (i128, i128)> {
            let diff = profile_diff(a, b, &PLAIN);
            let change = |row: &FunctionDiff| {
                let [base, other] = row.both();
                let own = diff.change(base.self_sum, other.self_sum);
                (row.label.clone(), (own, diff.change(base.total_sum, other.total_sum)))
            };
            diff.functions.iter().map(change).collect()
        };
        prop_assert!(changes(&base, &base).values().all(|change| *change == (0, 0)));
        let negated: BTreeMap<String, (i128, i128)> = changes(&other, &base)
            .into_iter()
            .map(|(name, (own, total))| (swapped(&name), (-own, -total)))
            .collect();
        prop_assert_eq!(changes(&base, &other), negated);
    }

    #[test]
    fn a_difference_adds_up_to_the_change(base in rows(), other in rows()) {
        let (base, other) = (build(&base), build(&other));
        let profile = difference(&base, &other, &PLAIN);
        let expected: Vec<i128> =
            other.totals().iter().zip(base.totals()).map(|(other, base)| other - base).collect();
        prop_assert_eq!(profile.totals(), expected);
        let sides = base_and_other(&base, &other, &PLAIN);
        prop_assert_eq!(sides.totals(), vec![base.totals()[0], other.totals()[0]]);
    }
}

/// The label with its two lines the other way round.
fn swapped(label: &str) -> String {
    match label.split_once('→') {
        Some((head, tail)) => {
            let (file, base) = head.rsplit_once('(').expect("a line in brackets");
            let (other, name) = tail.split_once(')').expect("a line in brackets");
            format!("{file}({other}→{base}){name}")
        }
        None => label.to_owned(),
    }
}
