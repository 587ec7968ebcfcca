//! A profile whose frames no longer begin with where the code lay.

use spanwise_model::{Profile, ProfileBuilder, ProfileFrame};

/// The profile with `prefix` left out where names or files begin with it. Frames that
/// become the same are added up.
pub fn without_prefix(profile: &Profile, prefix: &str) -> Profile {
    let types: Vec<(&str, &str)> =
        profile.value_types.iter().map(|value| (&*value.name, &*value.unit)).collect();
    let mut builder = ProfileBuilder::new(&types, profile.default_value);
    builder.time_ns = profile.time_ns;
    builder.duration_ns = profile.duration_ns;
    builder.comments.clone_from(&profile.comments);
    let stacks = builder.copied_stacks(profile, |builder, frame| {
        let frame = profile.frames[frame as usize];
        let rest = |text| {
            let text = profile.text(text);
            text.strip_prefix(prefix).unwrap_or(text)
        };
        let frame = ProfileFrame {
            name: builder.string(rest(frame.name)),
            group: builder.string(profile.text(frame.group)),
            file: builder.string(rest(frame.file)),
            line: frame.line,
        };
        builder.frame(frame)
    });
    for (row, sample) in profile.samples.iter().enumerate() {
        let labels = &profile.label_sets[sample.labels as usize];
        let labels = labels.iter().map(|&label| builder.copied_label(profile, label)).collect();
        let labels = builder.labels(labels);
        for (value_type, &value) in profile.values_of(row).iter().enumerate() {
            builder.add(stacks[sample.stack.index()], labels, value_type, value);
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use spanwise_model::StackId;

    use super::*;

    #[test]
    fn frames_that_become_the_same_are_added_up() {
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")], 0);
        let labels = builder.labels(Vec::new());
        for (name, file, value) in [("/old/a.py(1): f", "/old/a.py", 3), ("a.py(1): f", "a.py", 4)]
        {
            let (name, file) = (builder.string(name), builder.string(file));
            let group = builder.string("/old/bin");
            let frame = builder.frame(ProfileFrame { name, group, file, line: 1 });
            let stack = builder.push(StackId::EMPTY, frame);
            builder.add(stack, labels, 0, value);
        }
        let profile = without_prefix(&builder.finish(), "/old/");
        assert_eq!(profile.values, [7]);
        let frame = profile.frames[0];
        let texts = [frame.name, frame.file, frame.group].map(|id| profile.text(id));
        assert_eq!(texts, ["a.py(1): f", "a.py", "/old/bin"]);
    }
}
