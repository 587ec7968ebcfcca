//! speedscope's own format, sampled and evented.
//!
//! Each profile of the file is a thread, which becomes a label. Times become
//! nanoseconds. The file does not say what its values count beyond their unit, so a
//! column is named for its kind: time, space, or samples.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use spanwise_model::{Label, LabelValue, Profile, ProfileBuilder, ProfileFrame, StackId, StrId};

use super::{NO_STACK, NotAProfile, excerpt};

#[derive(Deserialize)]
struct File {
    shared: Option<SharedFrames>,
    profiles: Option<Vec<Thread>>,
}

#[derive(Deserialize)]
struct SharedFrames {
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Frame {
    name: String,
    file: Option<String>,
    line: Option<Number>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    #[serde(default)]
    name: String,
    #[serde(default)]
    unit: String,
    end_value: Option<Number>,
    samples: Option<Vec<Vec<usize>>>,
    weights: Option<Vec<Number>>,
    events: Option<Vec<Event>>,
}

#[derive(Deserialize)]
struct Event {
    r#type: EventType,
    at: Number,
    frame: usize,
}

#[derive(Deserialize, PartialEq, Eq)]
enum EventType {
    #[serde(rename = "O")]
    Open,
    #[serde(rename = "C")]
    Close,
}

/// A number of JSON, whole where it is written so.
#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(i128),
    Float(f64),
}

impl Number {
    /// A number of units, rounded to the nearest.
    fn scaled(self, factor: i64) -> i64 {
        let clamp = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        match self {
            Number::Whole(value) => clamp(value.saturating_mul(factor.into())),
            // Conversions of floats saturate, and give 0 for what is no number.
            Number::Float(value) => (value * factor as f64).round() as i64,
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asking for any type would give numbers in the form that keeps their digits.
        deserializer.deserialize_f64(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number::Whole(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
        Ok(Number::Whole(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
        Ok(Number::Float(value))
    }
}

pub(crate) fn read(text: &[u8]) -> Result<Profile, NotAProfile> {
    let file: File = serde_json::from_slice(text).map_err(|error| json_error(text, &error))?;
    let (Some(shared), Some(threads)) = (file.shared, file.profiles) else {
        let offset = text.len() as u64;
        let found = excerpt(&text[text.len().saturating_sub(1)..]);
        return Err(NotAProfile { offset, what: "no speedscope profile", found });
    };
    let mut columns: Vec<Column> = Vec::new();
    for thread in &threads {
        let column = Column::of(&thread.unit);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    if columns.is_empty() {
        columns.push(Column::Samples);
    }
    let types: Vec<(&str, &str)> = columns.iter().map(|column| column.value_type()).collect();
    let mut reader = Reader { builder: ProfileBuilder::new(&types, 0), frames: Vec::new() };
    reader.read_frames(&shared.frames);
    for (at, thread) in threads.iter().enumerate() {
        let column = Column::of(&thread.unit);
        let place = columns.iter().position(|other| *other == column).unwrap_or(0);
        reader.read_thread(thread, place).map_err(|(what, found)| {
            let found = format!("{found}, in profile {at}");
            NotAProfile { offset: 0, what, found }
        })?;
    }
    Ok(reader.builder.finish())
}

fn json_error(text: &[u8], error: &serde_json::Error) -> NotAProfile {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let offset = before + error.column().saturating_sub(1);
    let what = match error.classify() {
        serde_json::error::Category::Eof => "the JSON ends too early",
        serde_json::error::Category::Data => "not as speedscope writes it",
        _ => "the JSON is damaged",
    };
    NotAProfile { offset: offset as u64, what, found: error.to_string() }
}

/// What values of a unit count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Time,
    Space,
    Samples,
}

impl Column {
    fn of(unit: &str) -> Self {
        match unit {
            "nanoseconds" | "microseconds" | "milliseconds" | "seconds" => Column::Time,
            "bytes" => Column::Space,
            _ => Column::Samples,
        }
    }

    fn value_type(self) -> (&'static str, &'static str) {
        match self {
            Column::Time => ("time", "nanoseconds"),
            Column::Space => ("space", "bytes"),
            Column::Samples => ("samples", "count"),
        }
    }
}

/// How many nanoseconds, bytes or samples a unit is.
fn factor(unit: &str) -> i64 {
    match unit {
        "microseconds" => 1_000,
        "milliseconds" => 1_000_000,
        "seconds" => 1_000_000_000,
        _ => 1,
    }
}

/// What is wrong, and the value found.
type Wrong = (&'static str, String);

struct Reader {
    builder: ProfileBuilder,
    /// Frames of the builder; `None` stands for no frame at all.
    frames: Vec<Option<u32>>,
}

impl Reader {
    fn read_frames(&mut self, frames: &[Frame]) {
        for frame in frames {
            let name = self.builder.string(&frame.name);
            let file = self.builder.string(frame.file.as_deref().unwrap_or_default());
            let line = frame.line.map_or(0, |line| line.scaled(1));
            let is_none = frame.name == NO_STACK && file == StrId::EMPTY && line == 0;
            let frame = ProfileFrame { name, group: StrId::EMPTY, file, line };
            let number = (!is_none).then(|| self.builder.frame(frame));
            self.frames.push(number);
        }
    }

    fn read_thread(&mut self, thread: &Thread, column: usize) -> Result<(), Wrong> {
        let mut labels = Vec::new();
        if !thread.name.is_empty() {
            let key = self.builder.string("thread");
            let value = LabelValue::Text(self.builder.string(&thread.name));
            labels.push(Label { key, value });
        }
        let labels = self.builder.labels(labels);
        if let Some(samples) = &thread.samples {
            let weights = thread.weights.as_deref().unwrap_or_default();
            return self.read_samples(samples, weights, factor(&thread.unit), labels, column);
        }
        match &thread.events {
            Some(events) => self.read_events(thread, events, labels, column),
            None => Err(("neither samples nor events", "none".to_owned())),
        }
    }

    fn read_samples(
        &mut self,
        samples: &[Vec<usize>],
        weights: &[Number],
        factor: i64,
        labels: u32,
        column: usize,
    ) -> Result<(), Wrong> {
        if samples.len() != weights.len() {
            let found = format!("{} for {} samples", weights.len(), samples.len());
            return Err(("another number of weights", found));
        }
        for (sample, weight) in samples.iter().zip(weights) {
            let mut stack = StackId::EMPTY;
            for &frame in sample {
                stack = self.push(stack, frame)?;
            }
            self.builder.add(stack, labels, column, weight.scaled(factor));
        }
        Ok(())
    }

    /// What passes between two events is spent under the stack open then.
    fn read_events(
        &mut self,
        thread: &Thread,
        events: &[Event],
        labels: u32,
        column: usize,
    ) -> Result<(), Wrong> {
        let factor = factor(&thread.unit);
        let mut open: Vec<(usize, StackId)> = Vec::new();
        let mut reached = events.first().map_or(0, |event| event.at.scaled(factor));
        for (number, event) in events.iter().enumerate() {
            let at = event.at.scaled(factor);
            if at < reached {
                return Err(("events that go back in time", format!("event {number}")));
            }
            let stack = open.last().map_or(StackId::EMPTY, |open| open.1);
            if !open.is_empty() {
                self.builder.add(stack, labels, column, at.saturating_sub(reached));
            }
            reached = at;
            match event.r#type {
                EventType::Open => open.push((event.frame, self.push(stack, event.frame)?)),
                EventType::Close => {
                    if open.pop().map(|open| open.0) != Some(event.frame) {
                        let found = format!("event {number} closes frame {}", event.frame);
                        return Err(("a frame closed that is not the innermost", found));
                    }
                }
            }
        }
        if let (Some(&(_, stack)), Some(end)) = (open.last(), thread.end_value) {
            let rest = end.scaled(factor).saturating_sub(reached).max(0);
            self.builder.add(stack, labels, column, rest);
        }
        Ok(())
    }

    fn push(&mut self, stack: StackId, frame: usize) -> Result<StackId, Wrong> {
        match self.frames.get(frame) {
            Some(&Some(frame)) => Ok(self.builder.push(stack, frame)),
            Some(None) => Ok(stack),
            None => Err(("no such frame", format!("{frame} of {}", self.frames.len()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: &str = r#""shared":{"frames":[{"name":"a"},{"name":"b","file":"f","line":3}]}"#;

    /// Samples as `frames value value…`, frames joined by `|`.
    fn shown(profiles: &str) -> Result<Vec<String>, String> {
        let text = format!("{{{FRAMES},\"profiles\":[{profiles}]}}");
        let profile = read(text.as_bytes()).map_err(|error| error.to_string())?;
        let line = |(row, sample): (usize, &spanwise_model::Sample)| {
            let frames = profile.frames_of(sample.stack);
            let mut names: Vec<&str> = frames.map(|frame| profile.text(frame.name)).collect();
            names.reverse();
            let values = profile.values_of(row).iter().map(|value| format!(" {value}"));
            format!("{}{}", names.join("|"), values.collect::<String>())
        };
        Ok(profile.samples.iter().enumerate().map(line).collect())
    }

    #[track_caller]
    fn check(profiles: &str, expected: &[&str]) {
        assert_eq!(shown(profiles), Ok(expected.iter().map(|&line| line.to_owned()).collect()));
    }

    #[test]
    fn weights_become_nanoseconds() {
        let seconds = r#"{"type":"sampled","name":"t","unit":"seconds",
            "samples":[[0],[0,1]],"weights":[0.01,2]}"#;
        check(seconds, &["a 10000000", "a|b 2000000000"]);
        let exact = r#"{"unit":"nanoseconds","samples":[[0]],"weights":[9007199254740993]}"#;
        check(exact, &["a 9007199254740993"]);
    }

    #[test]
    fn units_that_differ_are_columns() {
        let bytes = r#"{"unit":"bytes","samples":[[0]],"weights":[5]}"#;
        let counts = r#"{"unit":"none","samples":[[0]],"weights":[7]}"#;
        check(&format!("{bytes},{counts}"), &["a 5 7"]);
    }

    #[test]
    fn events_give_self_time() {
        let events = r#"{"type":"evented","name":"","unit":"microseconds","startValue":5,
            "endValue":40,"events":[{"type":"O","at":10,"frame":0},
            {"type":"O","at":12.5,"frame":1},{"type":"C","at":20,"frame":1}]}"#;
        check(events, &["a 22500", "a|b 7500"]);
    }

    #[track_caller]
    fn check_error(profile: &str, expected: &str) {
        let expected = format!("byte 0: not a profile: {expected}, in profile 0)");
        assert_eq!(shown(profile), Err(expected));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        check_error(r#"{"samples":[[2]],"weights":[1]}"#, "no such frame (2 of 2");
        let weights = "another number of weights (0 for 1 samples";
        check_error(r#"{"samples":[[0]],"weights":[]}"#, weights);
        check_error("{}", "neither samples nor events (none");
        let closed = r#"{"events":[{"type":"C","at":1,"frame":0}]}"#;
        let what = "a frame closed that is not the innermost (event 0 closes frame 0";
        check_error(closed, what);
        let back = r#"{"events":[{"type":"O","at":2,"frame":0},{"type":"C","at":1,"frame":0}]}"#;
        check_error(back, "events that go back in time (event 1");
    }
}
