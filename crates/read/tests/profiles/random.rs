//! Random small profiles.

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_model::{Label, LabelValue, Profile, ProfileBuilder, ProfileFrame, StackId};

const TYPES: [(&str, &str); 3] = [("samples", "count"), ("wall", "nanoseconds"), ("copy", "bytes")];

const NAMES: [&str; 14] = [
    "",
    "a",
    "b",
    "main (x.py:3) 12",
    "<built-in method wait>",
    "at::native::(anonymous namespace)::k<float>",
    "Memcpy DtoH (Device -> Pageable)",
    "a;b",
    "two\nlines\r\n",
    "C:\\new\\x86",
    "\\x3b \\x5c",
    "größe 名前 😀",
    "\"quoted\" 'x' \u{202e}\u{0}\t",
    " spaces ",
];

/// A frame: its name, group, file and line.
type Frame = (String, &'static str, &'static str, i64);

#[derive(Debug, Clone)]
enum Tag {
    Text(String),
    Number(i64, &'static str),
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(NAMES.as_slice()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    let group = proptest::sample::select(["", "[python]", "[kernel]", "/lib/x.so"].as_slice());
    let file = proptest::sample::select(["", "x.py", "dir/ü.py"].as_slice());
    (name(), group, file, prop_oneof![Just(0), Just(12), any::<i64>()])
}

/// Texts and numbers have keys of their own, as in real profiles.
fn tags() -> impl Strategy<Value = Vec<(&'static str, Tag)>> {
    let text = proptest::sample::select(["thread", "device", ""].as_slice());
    let number = proptest::sample::select(["step", "part"].as_slice());
    let unit = proptest::sample::select(["", "step", "bytes"].as_slice());
    let value = prop_oneof![Just(0), Just(7), any::<i64>()];
    let tag = prop_oneof![
        (text, name().prop_map(Tag::Text)),
        (number, (value, unit).prop_map(|(value, unit)| Tag::Number(value, unit))),
    ];
    vec(tag, 0..4)
}

/// A profile whose values lie in a range.
pub(crate) fn profile(
    values: impl Strategy<Value = i64> + Clone + 'static,
) -> impl Strategy<Value = Profile> {
    let row = (vec(frame(), 0..5), tags(), [values.clone(), values.clone(), values]);
    let time = proptest::option::of(prop_oneof![Just(0), any::<i64>()]);
    (vec(row, 0..12), 0..TYPES.len(), time, any::<i64>(), vec(name(), 0..3)).prop_map(
        |(rows, default_value, time_ns, duration_ns, comments)| {
            let mut builder = ProfileBuilder::new(&TYPES, default_value);
            (builder.time_ns, builder.duration_ns) = (time_ns, duration_ns);
            builder.comments = comments;
            for row in rows {
                let (frames, tags, values) = row;
                add(&mut builder, frames, tags, values);
            }
            builder.finish()
        },
    )
}

fn add(
    builder: &mut ProfileBuilder,
    frames: Vec<Frame>,
    tags: Vec<(&'static str, Tag)>,
    values: [i64; TYPES.len()],
) {
    let mut stack = StackId::EMPTY;
    for (name, group, file, line) in frames {
        let (name, group) = (builder.string(&name), builder.string(group));
        let frame = ProfileFrame { name, group, file: builder.string(file), line };
        let frame = builder.frame(frame);
        stack = builder.push(stack, frame);
    }
    let mut labels = Vec::new();
    for (key, tag) in tags {
        let key = builder.string(key);
        let value = match tag {
            Tag::Text(text) => LabelValue::Text(builder.string(&text)),
            Tag::Number(value, unit) => LabelValue::Number { value, unit: builder.string(unit) },
        };
        labels.push(Label { key, value });
    }
    let labels = builder.labels(labels);
    for (value_type, value) in values.into_iter().enumerate() {
        builder.add(stack, labels, value_type, value);
    }
}
