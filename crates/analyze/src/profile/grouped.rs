//! Stacks under one more root: the value of a label, or the profile that they come from.

use spanwise_model::{Label, LabelValue, Profile, ProfileBuilder, QuickMap, StackId};

use super::frames::made_up;

/// Puts each sample under a root that says the value of a label, such as its thread. Numbers get
/// one width, so that they stand in order.
pub fn profile_by_label(profile: &Profile, key: &str) -> Profile {
    let mut builder = builder_for(profile);
    let digits = widest(profile, key);
    let text = |labels: &[Label]| match label_of(profile, labels, key) {
        None => format!("[no {key}]"),
        Some(LabelValue::Text(text)) => profile.text(text).to_owned(),
        Some(LabelValue::Number { value, .. }) => format!("{key} {value:>digits$}"),
    };
    let roots = profile.label_sets.iter().map(|labels| made_up(&mut builder, &text(labels)));
    let roots: Vec<u32> = roots.collect();
    add_under(&mut builder, profile, |labels| roots[labels as usize]);
    builder.finish()
}

/// Puts several profiles, whose columns must be the same, under a root each.
pub fn profiles_side_by_side(parts: &[(&str, &Profile)]) -> Profile {
    let Some((_, first)) = parts.first() else { return ProfileBuilder::new(&[], 0).finish() };
    let mut builder = builder_for(first);
    for (name, profile) in parts {
        let root = made_up(&mut builder, name);
        add_under(&mut builder, profile, |_| root);
    }
    builder.finish()
}

fn builder_for(profile: &Profile) -> ProfileBuilder {
    let types = profile.value_types.iter().map(|value| (&*value.name, &*value.unit));
    let types: Vec<(&str, &str)> = types.collect();
    ProfileBuilder::new(&types, profile.default_value)
}

fn label_of(profile: &Profile, labels: &[Label], key: &str) -> Option<LabelValue> {
    labels.iter().find(|label| profile.text(label.key) == key).map(|label| label.value)
}

/// How many digits the longest number of a label has.
fn widest(profile: &Profile, key: &str) -> usize {
    let values = profile.label_sets.iter().filter_map(|labels| label_of(profile, labels, key));
    let digits = values.map(|value| match value {
        LabelValue::Number { value, .. } => value.to_string().len(),
        LabelValue::Text(_) => 0,
    });
    digits.max().unwrap_or(0)
}

/// Adds the samples of a profile, each below the root that its labels give.
fn add_under(builder: &mut ProfileBuilder, profile: &Profile, root_of: impl Fn(u32) -> u32) {
    let no_labels = builder.labels(Vec::new());
    let mut frames: Vec<Option<u32>> = vec![None; profile.frames.len()];
    let mut known: QuickMap<(u32, u32), StackId> = QuickMap::default();
    let mut path = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let root = root_of(sample.labels);
        // Up to what is known already, then down again.
        let mut at = sample.stack;
        let mut stack = loop {
            if let Some(&stack) = known.get(&(root, at.0)) {
                break stack;
            }
            if at == StackId::EMPTY {
                let stack = builder.push(StackId::EMPTY, root);
                known.insert((root, at.0), stack);
                break stack;
            }
            path.push(at);
            at = StackId(profile.stack_parents[at.index()]);
        };
        for old in path.drain(..).rev() {
            let frame = profile.stack_frames[old.index()] as usize;
            let copied = frames[frame]
                .unwrap_or_else(|| builder.copied_frame(profile, profile.frames[frame]));
            frames[frame] = Some(copied);
            stack = builder.push(stack, copied);
            known.insert((root, old.0), stack);
        }
        for (column, &value) in profile.values_of(row).iter().enumerate() {
            builder.add(stack, no_labels, column, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::ProfileFrame;
    use spanwise_model::StrId;

    use super::*;

    /// Stacks with a step, as `a;b`, and what was spent under them.
    fn profile(samples: &[(&str, Option<i64>, i64)]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")], 0);
        for &(path, step, value) in samples {
            let mut stack = StackId::EMPTY;
            for name in path.split(';') {
                let name = builder.string(name);
                let (group, file) = (StrId::EMPTY, StrId::EMPTY);
                let frame = builder.frame(ProfileFrame { name, group, file, line: 0 });
                stack = builder.push(stack, frame);
            }
            let (key, unit) = (builder.string("step"), builder.string("step"));
            let label = step.map(|value| Label { key, value: LabelValue::Number { value, unit } });
            let labels = builder.labels(label.into_iter().collect());
            builder.add(stack, labels, 0, value);
        }
        builder.finish()
    }

    /// `root;a;b 5` lines.
    fn lines(profile: &Profile) -> Vec<String> {
        let line = |(row, sample): (usize, &spanwise_model::Sample)| {
            let frames = profile.frames_of(sample.stack).map(|frame| profile.text(frame.name));
            let mut frames: Vec<&str> = frames.collect();
            frames.reverse();
            format!("{} {}", frames.join(";"), profile.values_of(row)[0])
        };
        profile.samples.iter().enumerate().map(line).collect()
    }

    #[test]
    fn samples_stand_under_the_value_of_their_label() {
        let made = profile(&[
            ("a;b", Some(9), 1),
            ("a;b", Some(10), 2),
            ("a", Some(9), 4),
            ("c", None, 8),
        ]);
        let expected = ["[no step];c 8", "step  9;a 4", "step  9;a;b 1", "step 10;a;b 2"];
        assert_eq!(lines(&profile_by_label(&made, "step")), expected);
        let all = profile_by_label(&made, "thread");
        assert_eq!(all.totals(), made.totals());
        assert!(lines(&all).iter().all(|line| line.starts_with("[no thread];")));
    }

    #[test]
    fn profiles_stand_beside_each_other() {
        let (one, other) =
            (profile(&[("a", None, 3)]), profile(&[("a", None, 4), ("a;b", None, 5)]));
        let both = profiles_side_by_side(&[("rank 0", &one), ("rank 1", &other)]);
        assert_eq!(lines(&both), ["rank 0;a 3", "rank 1;a 4", "rank 1;a;b 5"]);
    }
}
