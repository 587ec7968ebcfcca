//! Profiles that tests write, with names that have broken clients before.

use spanwise_model::{Label, LabelValue, Profile, ProfileBuilder, ProfileFrame, StackId};

pub(crate) const TYPES: [(&str, &str); 4] =
    [("samples", "count"), ("wall", "nanoseconds"), ("gpu", "nanoseconds"), ("copy", "bytes")];

/// Row of [`TYPES`].
pub(crate) const WALL: usize = 1;

/// Frames from the root on, as (name, group, file, line).
type Frames<'a> = &'a [(&'a str, &'a str, &'a str, i64)];

/// A label that is a text, or a number with a unit.
#[derive(Clone, Copy)]
pub(crate) enum Tag<'a> {
    Text(&'a str, &'a str),
    Number(&'a str, i64, &'a str),
}

use Tag::{Number, Text};

const MAIN: (&str, &str, &str, i64) = ("train.py(3): <module>", "[python]", "train.py", 3);
const STEP: (&str, &str, &str, i64) = ("train.py(12): step", "[python]", "train.py", 12);
const OP: (&str, &str, &str, i64) = ("aten::copy_", "[cpu_op]", "", 0);

pub(crate) fn add(
    builder: &mut ProfileBuilder,
    frames: Frames<'_>,
    tags: &[Tag<'_>],
    values: [i64; 4],
) {
    let mut stack = StackId::EMPTY;
    for &(name, group, file, line) in frames {
        let (name, group) = (builder.string(name), builder.string(group));
        let frame = ProfileFrame { name, group, file: builder.string(file), line };
        let frame = builder.frame(frame);
        stack = builder.push(stack, frame);
    }
    let mut labels = Vec::new();
    for tag in tags {
        labels.push(match *tag {
            Text(key, text) => {
                Label { key: builder.string(key), value: LabelValue::Text(builder.string(text)) }
            }
            Number(key, value, unit) => Label {
                key: builder.string(key),
                value: LabelValue::Number { value, unit: builder.string(unit) },
            },
        });
    }
    let labels = builder.labels(labels);
    for (value_type, value) in values.into_iter().enumerate() {
        builder.add(stack, labels, value_type, value);
    }
}

/// A profile with everything in it. `scale` multiplies its values.
pub(crate) fn nasty(scale: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&TYPES, WALL);
    builder.time_ns = Some(1_700_000_000_000_000_000);
    builder.duration_ns = 2_000_000;
    builder.comments = vec!["made for a test".to_owned(), "Grüße, \"quoted\"".to_owned()];
    let main = [Text("thread", "main"), Text("state", "running"), Number("step", 0, "step")];
    let later = [Text("thread", "main"), Text("state", "running"), Number("step", 1, "step")];
    let idle = [Text("thread", "pin memory"), Text("state", "waiting"), Number("part", 0, "")];
    let gpu = [
        Text("thread", "main"),
        Text("device", "gpu0"),
        Text("stream", "stream 7"),
        Number("step", 0, "step"),
    ];
    let k = ("at::native::(anonymous namespace)::k<float>", "[kernel]", "", 0);
    let copy = ("Memcpy DtoH (Device -> Pageable)", "[gpu_memcpy]", "", 0);
    let wait = ("<built-in method wait>", "[python]", "", 0);
    let odd = ("größe; \"q\" \\x3b 'é' 名前\n2", "", "dir/ünï.py", 7);
    let values = |values: [i64; 4]| values.map(|value| value * scale);
    add(&mut builder, &[MAIN], &main, values([1, 1_000, 0, 0]));
    add(&mut builder, &[MAIN, STEP], &main, values([2, 20_000, 0, 0]));
    add(&mut builder, &[MAIN, STEP], &later, values([2, 21_000, 0, 0]));
    add(&mut builder, &[MAIN, STEP, OP], &main, values([1, 300_000, 0, 0]));
    add(&mut builder, &[MAIN, STEP, STEP, OP], &later, values([1, 400_000, 0, 0]));
    add(&mut builder, &[MAIN, STEP, OP, k], &gpu, values([0, 0, 5_000_000, 0]));
    add(&mut builder, &[MAIN, STEP, OP, copy], &gpu, values([0, 0, 600_000, 4096]));
    add(&mut builder, &[wait], &idle, values([1, 70_000_000, 0, 0]));
    add(&mut builder, &[MAIN, odd], &[], values([1, 800_000, 0, 0]));
    add(&mut builder, &[], &[Text("thread", "main")], values([1, 9_000_000, 0, 0]));
    builder.finish()
}

pub(crate) fn names_of(profile: &Profile, stack: StackId) -> Vec<&str> {
    profile.frames_of(stack).map(|frame| profile.text(frame.name)).collect()
}
