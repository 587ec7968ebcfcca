//! Small traces of several steps, compared.

use proptest::prelude::*;
use spanwise_model::SpanKind;

use super::*;
use crate::base::sample::Sample;
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
    let options = CompareOptions::by(CompareBy::Kernel);
    compare_series(&Facts::new(&trace), &ClassRules::standard(), &options)
}

fn found(base: &[Vec<i64>], other: &[Vec<i64>]) -> Comparison {
    compare(&[series(base)], &[series(other)], CompareBy::Kernel, &Allowance::default())
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
fn one_side_alone_is_listed_and_few_steps_show_nothing() {
    let found = found(&[vec![10]], &[vec![10, 7]]);
    let rows: Vec<_> =
        found.rows.iter().map(|row| (&*row.key, row.change_ns(), row.verdict)).collect();
    assert_eq!(rows, [("k1", 7, Verdict::Inconclusive), ("k0", 0, Verdict::Same)]);
}

fn kernels(steps: i64, ns: i64) -> Vec<Vec<i64>> {
    (0..steps).map(|at| vec![ns + at * 7 % 5]).collect()
}

#[test]
fn four_recordings_a_side_are_samples_themselves() {
    let side = |of: [i64; 4]| of.map(|ns| series(&kernels(3, ns)));
    let by = CompareBy::Kernel;
    let allowance = Allowance::default();
    // Every recording alone would be sure of its few nanoseconds.
    let found =
        compare(&side([1000, 1040, 980, 1020]), &side([1030, 990, 1050, 1010]), by, &allowance);
    assert_eq!(found.compared_by, ComparedBy::Recordings);
    assert_eq!(found.rows[0].verdict, Verdict::Inconclusive);
    // Repetition shows differences that would be allowed for otherwise.
    let found =
        compare(&side([1000, 1001, 999, 1000]), &side([1010, 1011, 1009, 1010]), by, &allowance);
    assert_eq!(found.rows[0].verdict, Verdict::Slower);
}

#[test]
fn a_few_recordings_widen_what_is_allowed() {
    let side = |of: [i64; 2]| of.map(|ns| series(&kernels(12, ns)));
    let verdict = |base, other| {
        let (base, other) = (side(base), side(other));
        compare(&base, &other, CompareBy::Kernel, &Allowance::default()).rows[0].verdict
    };
    assert_eq!(verdict([1000, 1000], [1100, 1100]), Verdict::Slower);
    assert_eq!(verdict([900, 1100], [1000, 1200]), Verdict::Inconclusive);
}

#[test]
fn sides_with_other_numbers_of_steps_compare() {
    let found = found(&kernels(12, 1000), &kernels(20, 1200));
    assert_eq!(found.compared_by, ComparedBy::Steps);
    assert_eq!(found.rows[0].verdict, Verdict::Slower);
}

/// A step each with a function of two definitions, the second `shift` lines further down.
fn defined(shift: i64, second_ns: i64) -> CompareSeries {
    let mut sample = Sample::default();
    for at in 0..6 {
        let start = at * 1_000_000;
        sample.span("1", SpanKind::Annotation, &format!("ProfilerStep#{at}"), start, 900_000);
        let line = |line: i64| format!("m.py({}): forward", line + shift);
        sample.span("1", SpanKind::Python, &line(5), start + 10, 100_000 + at);
        sample.span("1", SpanKind::Python, &line(50), start + 200_000, second_ns + at % 3);
    }
    let trace = sample.finish();
    let options = CompareOptions::by(CompareBy::PythonLine);
    compare_series(&Facts::new(&trace), &ClassRules::standard(), &options)
}

#[test]
fn functions_that_moved_down_their_file_are_the_same() {
    let (base, other) = ([defined(0, 100_000)], [defined(3, 300_000)]);
    let found = compare(&base, &other, CompareBy::PythonLine, &Allowance::default());
    let changed: Vec<&str> =
        found.rows.iter().filter(|row| row.is_changed()).map(|row| &*row.key).collect();
    // The step around them has less time left.
    assert_eq!(changed, ["[none]", "m.py(50→53): forward"]);
    let lines = [Some("m.py(50): forward".to_owned()), Some("m.py(53): forward".to_owned())];
    assert_eq!((&found.causes[0].lines, found.causes.len()), (&lines, 1));
    assert_eq!(found.causes[0].cost_ns, 200_000);
}

/// Six steps in which a script calls a model, which calls itself or not.
fn scripted(script: &[&str], forward_ns: i64) -> CompareSeries {
    let mut sample = Sample::default();
    for at in 0..6 {
        let start = at * 1_000_000;
        sample.span("1", SpanKind::Annotation, &format!("ProfilerStep#{at}"), start, 900_000);
        for (depth, function) in (0_i64..).zip(script) {
            sample.span("1", SpanKind::Python, function, start + 10 + depth, 800_000 - 2 * depth);
        }
        sample.span("1", SpanKind::Python, "m.py(5): forward", start + 50, forward_ns + at);
        sample.span("1", SpanKind::Python, "m.py(9): norm", start + 60, 10_000);
    }
    let trace = sample.finish();
    let options = CompareOptions::by(CompareBy::Stack);
    compare_series(&Facts::new(&trace), &ClassRules::standard(), &options)
}

#[track_caller]
fn check_stacks(base: &[&str], other: &[&str], expected: &[&str]) {
    let sides = ([scripted(base, 100_000)], [scripted(other, 300_000)]);
    let found = compare(&sides.0, &sides.1, CompareBy::Stack, &Allowance::default());
    let mut paired: Vec<&str> = found
        .rows
        .iter()
        .filter(|row| row.base.is_there() && row.other.is_there() && row.key != "[none]")
        .map(|row| row.key.as_str())
        .collect();
    paired.sort_unstable();
    assert_eq!(paired, expected);
    let total = |side: fn(&CompareRow) -> StepTime| -> i128 {
        found.rows.iter().map(|row| side(row).total_ns).sum()
    };
    assert_eq!((total(|row| row.base), total(|row| row.other)), (6 * 900_000, 6 * 900_000));
}

#[test]
fn stacks_that_begin_in_another_script_are_the_same() {
    check_stacks(
        &["a.py(1): <module>"],
        &["a.py(7): <module>"],
        &[
            "a.py: <module>",
            "a.py: <module>; m.py: forward",
            "a.py: <module>; m.py: forward; m.py: norm",
        ],
    );
    check_stacks(
        &["a.py(1): <module>", "a.py(9): main"],
        &["b.py(1): <module>"],
        &[
            "[a.py: <module>; a.py: main → b.py: <module>]; m.py: forward",
            "[a.py: <module>; a.py: main → b.py: <module>]; m.py: forward; m.py: norm",
        ],
    );
    // What only one side has around the same script.
    check_stacks(
        &["a.py(1): <module>"],
        &["runpy.py(1): run", "a.py(1): <module>"],
        &[
            "[ → runpy.py: run]; a.py: <module>",
            "[ → runpy.py: run]; a.py: <module>; m.py: forward",
            "[ → runpy.py: run]; a.py: <module>; m.py: forward; m.py: norm",
        ],
    );
}

#[test]
fn a_step_with_its_counterpart_has_no_verdict() {
    let of = |ns: i64| {
        let mut sample = Sample::default();
        for at in 0..5 {
            sample.span("1", SpanKind::Annotation, &format!("ProfilerStep#{at}"), at * 1000, 900);
            sample.span("1", SpanKind::Operator, "aten::mm", at * 1000, ns * (at + 1));
        }
        let trace = sample.finish();
        let options = CompareOptions::by(CompareBy::Step);
        compare_series(&Facts::new(&trace), &ClassRules::standard(), &options)
    };
    let found = compare(&[of(100)], &[of(150)], CompareBy::Step, &Allowance::default());
    assert!(
        found.rows.iter().all(|row| row.verdict != Verdict::Slower && row.interval_ns.is_none())
    );
    let total: i128 = found.rows.iter().map(|row| row.other.step_ns()).sum();
    assert_eq!(total, 4500 - 150 * 5 + 750);
    assert_eq!(found.rows.len(), 5);
}

#[test]
fn only_the_steps_and_phases_asked_for_count() {
    let mut sample = Sample::default();
    for (at, name) in ["prefill", "decode", "decode"].iter().enumerate() {
        let (at, key) = (at as i64 * 100, at as u64 + 1);
        sample.span("1", SpanKind::Annotation, &format!("ProfilerStep#{key}"), at, 90);
        sample.span("1", SpanKind::Annotation, name, at + 5, 60);
        sample.call("1", at + 10, 5, key);
        sample.work("7", SpanKind::Kernel, "k", (at + 1000, 7), key);
    }
    let trace = sample.finish();
    let facts = Facts::new(&trace);
    let check = |phase: Option<crate::Phase>, steps, expected: (usize, i128, i128, i128)| {
        let options = CompareOptions { phase, steps, ..CompareOptions::by(CompareBy::Kernel) };
        let series = compare_series(&facts, &ClassRules::standard(), &options);
        let found = totals(std::slice::from_ref(&series));
        let wall: i128 = series.wall.iter().sum();
        assert_eq!((series.step_count(), wall, found.gpu_ns, found.outside_gpu_ns), expected);
    };
    check(None, None, (3, 270, 21, 0));
    check(Some(crate::Phase::Decode), None, (2, 120, 14, 7));
    check(Some(crate::Phase::Decode), Some((3, 9)), (1, 60, 7, 14));
    check(Some(crate::Phase::Backward), None, (0, 0, 0, 21));
}

#[track_caller]
fn check_baseline_error(text: &str, line: usize, what: &str) {
    let error = parse_baseline(text).expect_err("no baseline");
    assert!(error.line == line && error.what.contains(what), "{error}");
}

#[test]
fn baselines_are_checked_and_errors_have_a_line() {
    let options = CompareOptions { steps: Some((1, 9)), ..CompareOptions::by(CompareBy::Kernel) };
    let text = baseline_text(&[series(&kernels(5, 100))], &options);
    assert_eq!(parse_baseline(&text), Ok((vec![series(&kernels(5, 100))], options)));
    check_baseline_error("", 1, "not a baseline");
    check_baseline_error(&text.replace("baseline 1", "baseline 2"), 1, "not a baseline");
    check_baseline_error(&text[..text.len() - 30], text.lines().count() - 1, "checksum");
    // Right sums over wrong lines.
    let summed =
        |body: &str| format!("{body}end {:016x}\n", spanwise_model::hash_bytes(body.as_bytes()));
    let body = &text[..text.rfind("end ").expect("an end")];
    let broken = |from: &str, to: &str| summed(&body.replacen(from, to, 1));
    check_baseline_error(&broken("by kernel", "by colour"), 2, "way to group");
    check_baseline_error(&broken("steps 1", "steps x"), 3, "not a number");
    check_baseline_error(
        &broken("recording steps", "recording some"),
        1 + at(body, "recording"),
        "",
    );
    check_baseline_error(&broken("/1 ", " "), 1 + at(body, "/1 "), "time/count");
    check_baseline_error(&summed("spanwise-baseline 1\n"), 2, "no step");
    check_baseline_error(&summed("spanwise-baseline 1\nrow gpu 0\n"), 2, "no name");
}

/// The first line with this in it, from 0.
fn at(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).expect("there")
}

proptest! {
    #[test]
    fn no_text_upsets_the_reader_of_baselines(
        lines in prop::collection::vec(
            prop::sample::select(vec![
                "by op", "steps 1 2", "phase decode", "name a", "name ", "recording steps 0",
                "recording whole -", "step 1 - 5", "step 2 decode 7", "inside gpu 4", "has decode",
                "group op", "group syncs", "row gpu 0 1/1", "row gpu 0 1/1 2/2", "row wall 9",
                "kernel 0 4/1", "line 0 4/1", "shape 0 3", "copied 1 2", "outside host 1", "x", "",
                "achieved 1 2 3", "achieved 1 2",
                "row gpu 0 99999999999999999999/1", "step 1 - 18446744073709551615",
            ]),
            0..14,
        ),
    ) {
        let body = format!("spanwise-baseline 1\n{}\n", lines.join("\n"));
        let sum = spanwise_model::hash_bytes(body.as_bytes());
        if let Ok((read, options)) = parse_baseline(&format!("{body}end {sum:016x}\n")) {
            let again = parse_baseline(&baseline_text(&read, &options)).expect("what was written");
            prop_assert_eq!(&again.0, &read);
            let found = compare(&read, &read, options.by, &Allowance::default());
            prop_assert!(found.rows.iter().all(|row| row.verdict == Verdict::Same));
        }
    }

    #[test]
    fn no_change_by_hand_upsets_the_reader_of_baselines(
        at in 0_usize..4000,
        byte in prop::sample::select(b"0123456789/ -abz\n\\".to_vec()),
        cut in 0_usize..6,
    ) {
        let text = baseline_text(&[defined(0, 100)], &CompareOptions::by(CompareBy::PythonLine));
        let mut bytes = text.as_bytes()[..text.rfind("end ").expect("an end")].to_vec();
        let at = at % bytes.len();
        bytes.splice(at..(at + cut).min(text.len() - 21), [byte]);
        let body = String::from_utf8_lossy(&bytes).into_owned();
        let body = format!("{}\n", body.trim_end());
        let sum = spanwise_model::hash_bytes(body.as_bytes());
        if let Ok((read, options)) = parse_baseline(&format!("{body}end {sum:016x}\n")) {
            let base = [defined(0, 100)];
            let there = compare(&base, &read, options.by, &Allowance::default());
            let back = compare(&read, &base, options.by, &Allowance::default());
            prop_assert_eq!(there.wall.change_ns(), -back.wall.change_ns());
        }
    }

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
            let mirrored = match swapped.verdict {
                Verdict::Slower => Verdict::Faster,
                Verdict::Faster => Verdict::Slower,
                verdict => verdict,
            };
            prop_assert_eq!(row.verdict, mirrored);
        }
        let same = found(&base, &base);
        prop_assert!(same.rows.iter().all(|row| row.change_ns() == 0));
        prop_assert!(same.rows.iter().all(|row| row.verdict == Verdict::Same));
    }
}
