//! Two profiles as one: a difference, or both side by side.
//!
//! Functions get one name in both, so that stacks of code that moved meet. Only columns
//! that both sides have are kept. By step, the label of the step goes, samples that are
//! then equal are added up, and what they sum to is divided: rounded once a sample.

use spanwise_model::{Label, LabelValue, Profile, ProfileBuilder, ProfileFrame, StrId};

use super::DiffOptions;
use super::names::Functions;

/// What pprof's client marks samples of the base with; it then shows shares of the
/// base's total instead of the difference's.
const BASE_LABEL: (&str, &str) = ("pprof::base", "true");

/// `other - base`: the samples of the other as they are, those of the base negated and
/// labelled so that pprof's client knows them.
pub fn difference(base: &Profile, other: &Profile, options: &DiffOptions) -> Profile {
    let columns = common_columns(base, other);
    let [aligned_base, aligned_other] = aligned(base, other, &columns, options);
    let chosen = columns.iter().position(|&[_, column]| column == options.values[1]);
    let mut builder = builder_of(&aligned_other, chosen.unwrap_or(0));
    builder.time_ns = other.time_ns;
    builder.duration_ns = other.duration_ns;
    let [base_steps, other_steps] = options.steps;
    builder.comments = vec!["the difference of two profiles, made by spanwise".to_owned()];
    if options.steps != [1, 1] {
        let note = format!("values are by step: {base_steps} in the base, {other_steps} after");
        builder.comments.push(note);
    }
    builder.add_profile(&aligned_other);
    builder.add_profile(&negated(&aligned_base));
    builder.finish()
}

/// Both profiles in two columns, `base` and `other`, without labels.
pub fn base_and_other(base: &Profile, other: &Profile, options: &DiffOptions) -> Profile {
    let sides = aligned(base, other, &[options.values], options);
    let unit = sides[1].value_types.first().map_or("", |value| &*value.unit);
    let mut builder = ProfileBuilder::new(&[("base", unit), ("other", unit)], 1);
    let no_labels = builder.labels(Vec::new());
    for (column, side) in sides.iter().enumerate() {
        let stacks = builder.copied_stacks(side, |builder, frame| {
            builder.copied_frame(side, side.frames[frame as usize])
        });
        for (row, sample) in side.samples.iter().enumerate() {
            let stack = stacks[sample.stack.index()];
            builder.add(stack, no_labels, column, side.values_of(row)[0]);
        }
    }
    builder.finish()
}

/// Columns that agree in name and unit: the base's number, the other's.
fn common_columns(base: &Profile, other: &Profile) -> Vec<[usize; 2]> {
    let column_of = |value| base.value_types.iter().position(|known| known == value);
    let others = other.value_types.iter().enumerate();
    others.filter_map(|(at, value)| Some([column_of(value)?, at])).collect()
}

fn aligned(
    base: &Profile,
    other: &Profile,
    columns: &[[usize; 2]],
    options: &DiffOptions,
) -> [Profile; 2] {
    let functions = Functions::new([base, other]);
    [(0, base), (1, other)].map(|(side, profile)| {
        let columns: Vec<usize> = columns.iter().map(|pair| pair[side]).collect();
        let mut aligned = renamed(profile, &columns, &functions, side, options.steps != [1, 1]);
        let steps = i64::try_from(options.steps[side]).unwrap_or(i64::MAX).max(1);
        for value in &mut aligned.values {
            *value = rounded(*value, steps);
        }
        aligned
    })
}

/// The profile with names that both sides share, and with some of its columns.
fn renamed(
    profile: &Profile,
    columns: &[usize],
    functions: &Functions,
    side: usize,
    is_by_step: bool,
) -> Profile {
    let types: Vec<(&str, &str)> = columns
        .iter()
        .map(|&column| &profile.value_types[column])
        .map(|value| (&*value.name, &*value.unit))
        .collect();
    let mut builder = ProfileBuilder::new(&types, 0);
    let stacks = builder.copied_stacks(profile, |builder, frame| {
        let function = &functions.rows[functions.of_frames[side][frame as usize] as usize];
        let line = function.lines[1].or(function.lines[0]).unwrap_or(0);
        let frame = ProfileFrame {
            name: builder.string(&function.common_name()),
            group: builder.string(&function.group),
            file: builder.string(&function.key.file),
            line,
        };
        builder.frame(frame)
    });
    let label_sets: Vec<u32> = profile
        .label_sets
        .iter()
        .map(|labels| {
            let kept = labels.iter().filter(|label| {
                let key = profile.text(label.key);
                key != BASE_LABEL.0 && !(is_by_step && key == "step")
            });
            let labels = kept.map(|&label| builder.copied_label(profile, label)).collect();
            builder.labels(labels)
        })
        .collect();
    for (row, sample) in profile.samples.iter().enumerate() {
        let (stack, labels) = (stacks[sample.stack.index()], label_sets[sample.labels as usize]);
        let values = profile.values_of(row);
        for (at, &column) in columns.iter().enumerate() {
            builder.add(stack, labels, at, values[column]);
        }
    }
    builder.finish()
}

/// All values with the other sign, and a label on every sample.
fn negated(profile: &Profile) -> Profile {
    let mut builder = builder_of(profile, 0);
    let stacks = builder.copied_stacks(profile, |builder, frame| {
        builder.copied_frame(profile, profile.frames[frame as usize])
    });
    let (key, text): (StrId, StrId) = (builder.string(BASE_LABEL.0), builder.string(BASE_LABEL.1));
    for (row, sample) in profile.samples.iter().enumerate() {
        let labels = &profile.label_sets[sample.labels as usize];
        let mut labels: Vec<Label> =
            labels.iter().map(|&label| builder.copied_label(profile, label)).collect();
        labels.push(Label { key, value: LabelValue::Text(text) });
        let labels = builder.labels(labels);
        for (column, value) in profile.values_of(row).iter().enumerate() {
            let value = value.saturating_neg();
            builder.add(stacks[sample.stack.index()], labels, column, value);
        }
    }
    builder.finish()
}

fn builder_of(profile: &Profile, default_value: usize) -> ProfileBuilder {
    let types: Vec<(&str, &str)> =
        profile.value_types.iter().map(|value| (&*value.name, &*value.unit)).collect();
    ProfileBuilder::new(&types, default_value)
}

/// The quotient, half away from zero.
fn rounded(value: i64, by: i64) -> i64 {
    let (quotient, rest) = (value / by, value % by);
    let is_up = rest.unsigned_abs() >= by.unsigned_abs().div_ceil(2);
    if is_up && rest != 0 { quotient + value.signum() } else { quotient }
}
