//! A profile as a trace: its rows are samples without times.
//!
//! Each column of values is an event, and a row a sample of each that it has a value of. So what
//! asks traces for samples works on files of profiles too.

use spanwise_model::{
    Batch, Frame, FrameKind, LabelValue, NO_CPU, NO_TIME, Profile, ProfileFrame, SampleEvent,
    SampleRow, SourceInfo, StackId, StrId, Trace, TraceBuilder, TrackId, TrackKind, TrackLabel,
};

pub(super) fn trace(profile: &Profile, mut info: SourceInfo) -> Trace {
    let mut batch = Batch::default();
    let stacks = stacks(profile, &mut batch);
    let events: Vec<u16> = profile
        .value_types
        .iter()
        .map(|of_values| {
            let unit = match of_values.unit.as_str() {
                "nanoseconds" => "ns",
                // What is counted is in the name.
                "count" | "" => &of_values.name,
                unit => unit,
            };
            let (name, unit) = (batch.string(&of_values.name), batch.string(unit));
            batch.observed.event(SampleEvent { name, unit, interval_ns: None })
        })
        .collect();
    let tracks: Vec<TrackId> =
        (0..profile.label_sets.len()).map(|set| track(profile, set, &mut batch)).collect();
    for (row, sample) in profile.samples.iter().enumerate() {
        let (track, stack) = (tracks[sample.labels as usize], stacks[sample.stack.index()]);
        let values = profile.values_of(row).iter().zip(&events);
        for (&weight, &event) in values.filter(|(weight, _)| **weight != 0) {
            let (time, cpu) = (NO_TIME, NO_CPU);
            batch.observed.samples.push(SampleRow { time, track, cpu, stack, event, weight });
        }
    }
    batch.seal();
    for comment in &profile.comments {
        let (key, value) = comment.split_once(": ").unwrap_or(("comment", comment));
        info.properties.insert(key.to_owned(), value.to_owned());
    }
    let mut builder = TraceBuilder::new(1);
    builder.push(batch);
    builder.finish(info, None)
}

/// The number of each stack.
fn stacks(profile: &Profile, batch: &mut Batch) -> Vec<StackId> {
    let mut stacks = vec![StackId::EMPTY; profile.stack_parents.len()];
    for row in 1..stacks.len() {
        let frame = &profile.frames[profile.stack_frames[row] as usize];
        let frame = Frame {
            function: batch.string(profile.text(frame.name)),
            file: batch.string(profile.text(frame.file)),
            line: u32::try_from(frame.line).unwrap_or(0),
            mapping: batch.string(mapping(profile, frame)),
            kind: kind(profile, frame),
            ..Frame::default()
        };
        let frame = batch.observed.frame(frame);
        stacks[row] = batch.observed.stack(stacks[profile.stack_parents[row] as usize], frame);
    }
    stacks
}

/// The group of a frame, where that is what was mapped.
fn mapping<'a>(profile: &'a Profile, frame: &ProfileFrame) -> &'a str {
    let group = profile.text(frame.group);
    if group.starts_with(['/', '[']) || group.contains(".so") { group } else { "" }
}

fn kind(profile: &Profile, frame: &ProfileFrame) -> FrameKind {
    let file = profile.text(frame.file);
    match profile.text(frame.group) {
        "python" => FrameKind::Python,
        group if group.starts_with("[kernel") => FrameKind::Kernel,
        _ if file.ends_with(".py") => FrameKind::Python,
        _ if [".js", ".mjs", ".ts", ".rb", ".php"].iter().any(|end| file.ends_with(end)) => {
            FrameKind::Script
        }
        _ => FrameKind::Native,
    }
}

/// The track of a set of labels: that of its thread, where one is said.
fn track(profile: &Profile, set: usize, batch: &mut Batch) -> TrackId {
    let labels = &profile.label_sets[set];
    let thread = labels.iter().find(|label| profile.text(label.key) == "thread");
    let name = thread.and_then(|label| match label.value {
        LabelValue::Text(name) => Some(profile.text(name)),
        LabelValue::Number { .. } => None,
    });
    let name = name.unwrap_or("");
    let track = batch.track(TrackKind::Thread, "", name);
    let label = batch.string(name);
    if label != StrId::EMPTY {
        batch.label(track, TrackLabel::ThreadName(label));
    }
    track
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{ProfileFile, read_bytes};

    /// A line for each sample: thread, event, weight with its unit, and stack.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let (profile, format) = read_bytes(text.as_bytes()).expect("a profile");
        let info = SourceInfo { format: format.to_owned(), ..SourceInfo::default() };
        let trace = ProfileFile { profile, info }.into_trace();
        assert_eq!(trace.check(), Ok(()));
        assert_eq!(trace.window(), None);
        let strings = trace.strings();
        let line = |row: SampleRow| {
            let event = trace.sample_events().rows()[usize::from(row.event)];
            let [name, unit] = [event.name, event.unit].map(|text| strings.get(text));
            let frames = trace.stacks().frames(row.stack).map(|frame| trace.frames().get(frame));
            let mut names: Vec<String> = frames
                .map(|frame| format!("{}@{}", strings.get(frame.function), frame.line))
                .collect();
            names.reverse();
            let thread = strings.get(trace.tracks().get(row.track).thread);
            format!("{thread} {name} {} {unit} {}", row.weight, names.join(";"))
        };
        let lines: Vec<String> = trace.samples().iter().map(line).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn rows_become_samples_without_times() {
        check("a;b 3\na 1\n", &[" samples 1 samples a@0", " samples 3 samples a@0;b@0"]);
    }

    #[test]
    fn threads_become_tracks_and_columns_events() {
        let thread = |name: &str, unit: &str| {
            format!(
                r#"{{"type":"sampled","name":"{name}","unit":"{unit}","startValue":0,"endValue":3,
                "samples":[[0],[0,1]],"weights":[1,2]}}"#
            )
        };
        let (one, two) = (thread("one", "milliseconds"), thread("two", "none"));
        let frames = r#"[{"name":"f","file":"f.py","line":4},{"name":"g"}]"#;
        let text = format!(r#"{{"shared":{{"frames":{frames}}},"profiles":[{one},{two}]}}"#);
        check(
            &text,
            &[
                "one time 1000000 ns f@4",
                "one time 2000000 ns f@4;g@0",
                "two samples 1 samples f@4",
                "two samples 2 samples f@4;g@0",
            ],
        );
    }
}
