//! Where a profile spent what it counts: by function, and by label.
//!
//! Functions are those of a comparison, so that `report` and `compare` name them alike:
//! lines that ran do not split a function, lines of definitions do. Every sample is in
//! the self sum of one function and, for each key of labels, in the sum of one value or
//! of none, so that each of these columns adds up to the total.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::{Label, LabelValue, Profile};

use crate::SideSums;
use crate::compare::diff::{Function, Functions, no_stack, spent};

/// One column of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileUse {
    pub total: i128,
    /// Most self first.
    pub functions: Vec<FunctionUse>,
    /// By key; only those that anything in this column has.
    pub labels: Vec<LabelUse>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionUse {
    /// For people: the name, with the place of its definition where it has one.
    pub label: String,
    pub name: String,
    /// Empty where it is not known.
    pub file: String,
    /// What sort of frame.
    pub group: String,
    /// The line of its definition.
    pub line: Option<i64>,
    pub sums: SideSums,
}

/// All values of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelUse {
    pub key: String,
    /// Most first; `None` stands for samples without this label.
    pub values: Vec<(Option<String>, i128)>,
}

/// Sums of one column; a profile without it has none.
pub fn profile_use(profile: &Profile, value: usize) -> ProfileUse {
    let total = profile.totals().get(value).copied().unwrap_or(0);
    let labels = if value < profile.value_types.len() { labels(profile, value) } else { vec![] };
    ProfileUse { total, functions: functions(profile, value), labels }
}

impl ProfileUse {
    /// The functions in the order of what they spent with what they called.
    pub fn functions_by_total(&self) -> Vec<&FunctionUse> {
        let mut rows: Vec<&FunctionUse> = self.functions.iter().collect();
        // Equal ones stay in the order of their self sums.
        rows.sort_by_key(|row| Reverse(row.sums.total_sum.unsigned_abs()));
        rows
    }
}

fn functions(profile: &Profile, value: usize) -> Vec<FunctionUse> {
    let functions = Functions::new([profile, profile]);
    let sums = spent(profile, value, 0, &functions);
    let outside = no_stack();
    let all = functions.rows.iter().chain([&outside]);
    let mut rows: Vec<FunctionUse> = all
        .zip(sums)
        .filter_map(|(function, sums)| Some((function, sums?)))
        .filter(|(_, sums)| *sums != SideSums::default())
        .map(|(function, sums)| row(function, sums))
        .collect();
    rows.sort_by_cached_key(|row| {
        let SideSums { self_sum, total_sum } = row.sums;
        let size = Reverse((self_sum.unsigned_abs(), total_sum.unsigned_abs()));
        (size, row.label.clone(), row.file.clone(), row.line)
    });
    rows
}

fn row(function: &Function, sums: SideSums) -> FunctionUse {
    FunctionUse {
        label: function.label(),
        name: function.key.name.clone(),
        file: function.key.file.clone(),
        group: function.group.clone(),
        line: function.lines[0],
        sums,
    }
}

fn labels(profile: &Profile, value: usize) -> Vec<LabelUse> {
    let mut set_sums = vec![0i128; profile.label_sets.len()];
    for (row, sample) in profile.samples.iter().enumerate() {
        set_sums[sample.labels as usize] += i128::from(profile.values_of(row)[value]);
    }
    let keys: BTreeSet<&str> =
        profile.label_sets.iter().flatten().map(|label| profile.text(label.key)).collect();
    let of_key = |key: &str| {
        let mut sums: BTreeMap<Option<String>, i128> = BTreeMap::new();
        for (labels, sum) in profile.label_sets.iter().zip(&set_sums) {
            *sums.entry(value_text(profile, labels, key)).or_default() += sum;
        }
        let mut values: Vec<(Option<String>, i128)> =
            sums.into_iter().filter(|&(_, sum)| sum != 0).collect();
        values.sort_by_key(|&(_, sum)| Reverse(sum.unsigned_abs()));
        LabelUse { key: key.to_owned(), values }
    };
    // A label of what other columns count says nothing here.
    let is_used = |label: &LabelUse| label.values.iter().any(|(value, _)| value.is_some());
    keys.into_iter().map(of_key).filter(is_used).collect()
}

/// What a set of labels says under a key; several values of one key are one text.
fn value_text(profile: &Profile, labels: &[Label], key: &str) -> Option<String> {
    let values: Vec<String> = labels
        .iter()
        .filter(|label| profile.text(label.key) == key)
        .map(|label| match label.value {
            LabelValue::Text(text) => profile.text(text).to_owned(),
            LabelValue::Number { value, unit } => match profile.text(unit) {
                // A number under its own name, such as step 3, needs no unit.
                unit if unit.is_empty() || unit == key => value.to_string(),
                unit => format!("{value} {unit}"),
            },
        })
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spanwise_model::{ProfileBuilder, ProfileFrame, StackId, StrId};

    use super::*;

    /// Frames from the root on, labels as (key, value), value.
    type Row = (Vec<&'static str>, Vec<(&'static str, i64)>, i64);

    fn build(rows: &[Row]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds"), ("calls", "count")], 0);
        for (frames, labels, value) in rows {
            let mut stack = StackId::EMPTY;
            for name in frames {
                let name = builder.string(name);
                let (group, file) = (StrId::EMPTY, StrId::EMPTY);
                let frame = builder.frame(ProfileFrame { name, group, file, line: 0 });
                stack = builder.push(stack, frame);
            }
            let labels = labels
                .iter()
                .map(|&(key, value)| {
                    let (key, unit) = (builder.string(key), builder.string("step"));
                    Label { key, value: LabelValue::Number { value, unit } }
                })
                .collect();
            let labels = builder.labels(labels);
            builder.add(stack, labels, 0, *value);
            builder.add(stack, labels, 1, 1);
        }
        builder.finish()
    }

    #[track_caller]
    fn check(rows: &[Row], functions: &[&str], labels: &[&str]) {
        let found = profile_use(&build(rows), 0);
        let line = |row: &FunctionUse| {
            format!("{} {} {}", row.label, row.sums.self_sum, row.sums.total_sum)
        };
        assert_eq!(found.functions.iter().map(line).collect::<Vec<_>>(), functions);
        let lines = found.labels.iter().flat_map(|label| {
            label.values.iter().map(|(value, sum)| {
                format!("{} {} {sum}", label.key, value.as_deref().unwrap_or("-"))
            })
        });
        assert_eq!(lines.collect::<Vec<_>>(), labels);
    }

    #[test]
    fn recursion_counts_once_and_lines_that_ran_are_one_function() {
        check(
            &[
                (vec!["f (a.py:1)", "g", "f (a.py:2)"], vec![], 5),
                (vec!["f (a.py:3)"], vec![], 2),
                (vec![], vec![], 1),
            ],
            &["f (a.py) 7 7", "[no stack] 1 1", "g 0 5"],
            &[],
        );
    }

    #[test]
    fn each_label_has_all_samples() {
        check(
            &[
                (vec!["f"], vec![("step", 1), ("rank", 0)], 5),
                (vec!["f"], vec![("step", 2)], 3),
                (vec!["f"], vec![], 4),
            ],
            &["f 12 12"],
            &["rank - 7", "rank 0 step 5", "step 1 5", "step - 4", "step 2 3"],
        );
    }

    #[test]
    fn a_sample_with_two_values_of_a_key_counts_once() {
        check(&[(vec!["f"], vec![("step", 1), ("step", 2)], 5)], &["f 5 5"], &["step 1, 2 5"]);
    }

    #[test]
    fn a_column_that_is_missing_has_nothing() {
        let found = profile_use(&build(&[(vec!["f"], vec![("step", 1)], 5)]), 9);
        assert_eq!(found, ProfileUse { total: 0, functions: vec![], labels: vec![] });
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let name = prop::sample::select(vec!["a", "b", "f (a.py:1)", "f (a.py:2)", "a.py(3): f"]);
        let frames = prop::collection::vec(name, 0..5);
        let key = prop::sample::select(vec!["step", "rank"]);
        let labels = prop::collection::vec((key, 0i64..3), 0..3);
        prop::collection::vec((frames, labels, -5i64..50), 0..20)
    }

    /// The function of a frame's name, as [`rows`] makes them.
    fn function(name: &str) -> &str {
        if name.starts_with("f (a.py") { "f (a.py)" } else { name }
    }

    /// What every sample adds, one after the other.
    fn counted(profile: &Profile) -> BTreeMap<String, SideSums> {
        let mut sums: BTreeMap<String, SideSums> = BTreeMap::new();
        for (row, sample) in profile.samples.iter().enumerate() {
            let value = i128::from(profile.values_of(row)[0]);
            let mut names: Vec<&str> = profile
                .frames_of(sample.stack)
                .map(|frame| function(profile.text(frame.name)))
                .collect();
            if names.is_empty() {
                names.push("[no stack]");
            }
            sums.entry(names[0].to_owned()).or_default().self_sum += value;
            for name in names.into_iter().collect::<BTreeSet<_>>() {
                sums.entry(name.to_owned()).or_default().total_sum += value;
            }
        }
        sums.retain(|_, sums| *sums != SideSums::default());
        sums
    }

    proptest! {
        #[test]
        fn sums_are_what_a_count_of_all_samples_gives(rows in rows()) {
            let profile = build(&rows);
            let found = profile_use(&profile, 0);
            let functions: BTreeMap<String, SideSums> =
                found.functions.iter().map(|row| (row.label.clone(), row.sums)).collect();
            prop_assert_eq!(functions, counted(&profile));
        }

        #[test]
        fn self_sums_and_labels_add_up_to_the_total(rows in rows()) {
            let profile = build(&rows);
            for (column, total) in profile.totals().into_iter().enumerate() {
                let found = profile_use(&profile, column);
                prop_assert_eq!(found.total, total);
                let own: i128 = found.functions.iter().map(|row| row.sums.self_sum).sum();
                prop_assert_eq!(own, total);
                for label in &found.labels {
                    let sum: i128 = label.values.iter().map(|value| value.1).sum();
                    prop_assert_eq!(sum, total);
                }
                let by_total = found.functions_by_total();
                prop_assert_eq!(by_total.len(), found.functions.len());
                let size = |row: &&FunctionUse| Reverse(row.sums.total_sum.unsigned_abs());
                prop_assert!(by_total.is_sorted_by_key(size));
            }
        }
    }
}
