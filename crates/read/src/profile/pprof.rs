//! pprof's protobuf, of any program that writes it.
//!
//! Fields come in any order, so a first walk notes where tables and samples are, and
//! samples are read when all tables are known. Unknown fields are skipped. Lines that
//! were inlined into one location are frames of their own. What pprof says of periods
//! and of frames to drop is for its client, and is passed over.

use std::collections::HashMap;
use std::ops::Range;

use spanwise_model::{Label, LabelValue, Profile, ProfileBuilder, ProfileFrame, StackId, StrId};
use spanwise_protobuf::{Damage, DamageKind, Message, Value};

use super::{NO_STACK, NotAProfile};

/// How many frames a byte of input may unfold to. Samples take a byte or more for each
/// location, and real locations hold a few inlined lines; but a location of a thousand
/// lines that a thousand samples name would be a million frames in a few kilobytes.
const FRAMES_PER_BYTE: usize = 8;

/// What small inputs may unfold to whatever their size.
const FRAMES_FREE: usize = 1 << 16;

/// Whether the first field is one that a profile has.
pub(super) fn seems_pprof(bytes: &[u8]) -> bool {
    let Some(&tag) = bytes.first() else { return false };
    matches!((tag >> 3, tag & 7), (1..=6 | 11 | 13, 2) | (7..=10 | 12..=14, 0))
}

pub(crate) fn read(bytes: &[u8]) -> Result<Profile, NotAProfile> {
    let tables = Tables::walk(Message::new(bytes))?;
    let mut reader = Reader::new(&tables)?;
    reader.read_locations()?;
    let mut frames_left = bytes.len().saturating_mul(FRAMES_PER_BYTE).max(FRAMES_FREE);
    for &sample in &tables.samples {
        reader.read_sample(sample, &mut frames_left)?;
    }
    let mut comments = Vec::with_capacity(tables.comments.len());
    for &comment in &tables.comments {
        comments.push(tables.text(comment)?.into_owned());
    }
    let mut builder = reader.builder;
    builder.time_ns = tables.time_ns;
    builder.duration_ns = tables.duration_ns;
    builder.comments = comments;
    Ok(builder.finish())
}

/// Everything but samples, as it stands in the file.
#[derive(Default)]
struct Tables<'a> {
    strings: Vec<&'a [u8]>,
    /// Name and unit.
    value_types: Vec<(u64, u64)>,
    samples: Vec<Message<'a>>,
    /// The file of each.
    mappings: HashMap<u64, u64>,
    /// In the order of the file, so that frames get the same numbers each time.
    locations: Vec<Location>,
    /// Function and line; innermost first within a location.
    lines: Vec<(u64, i64)>,
    /// Name and file.
    functions: HashMap<u64, (u64, u64)>,
    time_ns: Option<i64>,
    duration_ns: i64,
    comments: Vec<u64>,
    default_type: u64,
}

#[derive(Debug, Clone, Default)]
struct Location {
    id: u64,
    mapping: u64,
    address: u64,
    lines: Range<usize>,
}

impl<'a> Tables<'a> {
    fn walk(mut profile: Message<'a>) -> Result<Self, NotAProfile> {
        let whole = profile;
        let mut tables = Tables::default();
        while let Some((field, value)) = profile.next_field()? {
            match (field, value) {
                (1, Value::Bytes(message)) => {
                    let [_, name, unit, ..] = numbers_of(message)?;
                    tables.value_types.push((name, unit));
                }
                (2, Value::Bytes(message)) => tables.samples.push(message),
                (3, Value::Bytes(message)) => {
                    let [_, id, .., file] = numbers_of(message)?;
                    tables.mappings.insert(id, file);
                }
                (4, Value::Bytes(message)) => tables.location(message)?,
                (5, Value::Bytes(message)) => {
                    let [_, id, name, _, file, _] = numbers_of(message)?;
                    tables.functions.insert(id, (name, file));
                }
                (6, Value::Bytes(text)) => tables.strings.push(text.bytes()),
                (9, Value::Number(number)) => tables.time_ns = Some(number as i64),
                (10, Value::Number(number)) => tables.duration_ns = number as i64,
                (13, value) => value.add_varints(&mut tables.comments)?,
                (14, value) => tables.default_type = value.varint(),
                _ => {}
            }
        }
        match tables.strings.first() {
            Some([]) => Ok(tables),
            Some(text) => Err(wrong(whole, "string 0 is not empty", String::from_utf8_lossy(text))),
            None => Err(wrong(whole, "no strings", "none")),
        }
    }

    fn location(&mut self, mut message: Message<'a>) -> Result<(), NotAProfile> {
        let from = self.lines.len();
        let mut location = Location::default();
        while let Some((field, value)) = message.next_field()? {
            match (field, value) {
                (1, value) => location.id = value.varint(),
                (2, value) => location.mapping = value.varint(),
                (3, value) => location.address = value.varint(),
                (4, Value::Bytes(line)) => {
                    let [_, function, line, ..] = numbers_of(line)?;
                    self.lines.push((function, line as i64));
                }
                _ => {}
            }
        }
        location.lines = from..self.lines.len();
        self.locations.push(location);
        Ok(())
    }

    fn text(&self, id: u64) -> Result<std::borrow::Cow<'a, str>, NotAProfile> {
        let text = usize::try_from(id).ok().and_then(|id| self.strings.get(id));
        match text {
            Some(text) => Ok(String::from_utf8_lossy(text)),
            None => {
                let found = format!("{id} of {}", self.strings.len());
                Err(NotAProfile { offset: 0, what: "no such string", found })
            }
        }
    }

    /// Where the default type is, by its name; the last where none is named.
    fn default_value(&self) -> Result<usize, NotAProfile> {
        let last = self.value_types.len().saturating_sub(1);
        if self.default_type == 0 {
            return Ok(last);
        }
        let name = self.text(self.default_type)?;
        for (at, value_type) in self.value_types.iter().enumerate() {
            if self.text(value_type.0)? == name {
                return Ok(at);
            }
        }
        Ok(last)
    }
}

/// An error at the place where a message begins.
fn wrong(message: Message<'_>, what: &'static str, found: impl ToString) -> NotAProfile {
    NotAProfile { offset: message.offset() as u64, what, found: found.to_string() }
}

impl From<Damage> for NotAProfile {
    fn from(damage: Damage) -> Self {
        let (what, found) = match damage.kind {
            DamageKind::CutNumber(left) => ("ends inside a number", left.to_string()),
            DamageKind::CutField(left) => ("ends inside a field", left.to_string()),
            DamageKind::EndlessNumber => ("a number of more than ten bytes", "no end".to_owned()),
            DamageKind::NoField(number) => ("a field number out of range", number.to_string()),
            DamageKind::NoKind(kind) => ("no such kind of field", kind.to_string()),
        };
        NotAProfile { offset: damage.offset as u64, what, found }
    }
}

/// The numbers among the first five fields of a message, at the places of their fields.
fn numbers_of(mut message: Message<'_>) -> Result<[u64; 6], NotAProfile> {
    let mut numbers = [0; 6];
    while let Some((field, value)) = message.next_field()? {
        if let Some(slot) = numbers.get_mut(field as usize) {
            *slot = value.varint();
        }
    }
    Ok(numbers)
}

/// Turns tables and samples into a profile.
struct Reader<'t, 'a> {
    tables: &'t Tables<'a>,
    builder: ProfileBuilder,
    /// By string of the file, once it was asked for.
    strings: Vec<Option<StrId>>,
    /// Frames of the builder, innermost first, by location.
    frames: Vec<u32>,
    locations: HashMap<u64, Range<usize>>,
    /// What stands for no frame at all.
    no_stack: Option<u32>,
    location_ids: Vec<u64>,
    values: Vec<u64>,
}

impl<'t, 'a> Reader<'t, 'a> {
    fn new(tables: &'t Tables<'a>) -> Result<Self, NotAProfile> {
        let mut types = Vec::new();
        for &(name, unit) in &tables.value_types {
            types.push((tables.text(name)?, tables.text(unit)?));
        }
        let types: Vec<(&str, &str)> =
            types.iter().map(|(name, unit)| (&**name, &**unit)).collect();
        Ok(Reader {
            tables,
            builder: ProfileBuilder::new(&types, tables.default_value()?),
            strings: vec![None; tables.strings.len()],
            frames: Vec::new(),
            locations: HashMap::new(),
            no_stack: None,
            location_ids: Vec::new(),
            values: Vec::new(),
        })
    }

    fn string(&mut self, id: u64) -> Result<StrId, NotAProfile> {
        let known = usize::try_from(id).ok().and_then(|id| *self.strings.get(id)?);
        if let Some(known) = known {
            return Ok(known);
        }
        let text = self.tables.text(id)?;
        let string = self.builder.string(&text);
        self.strings[id as usize] = Some(string);
        Ok(string)
    }

    fn read_locations(&mut self) -> Result<(), NotAProfile> {
        for location in &self.tables.locations {
            let group = match self.tables.mappings.get(&location.mapping) {
                Some(&file) => self.string(file)?,
                None => StrId::EMPTY,
            };
            let from = self.frames.len();
            for &(function, line) in &self.tables.lines[location.lines.clone()] {
                let frame = match self.tables.functions.get(&function) {
                    Some(&(name, file)) => {
                        let (name, file) = (self.string(name)?, self.string(file)?);
                        ProfileFrame { name, group, file, line }
                    }
                    None => self.unnamed(location, group),
                };
                self.push_frame(frame);
            }
            if location.lines.is_empty() {
                let frame = self.unnamed(location, group);
                self.push_frame(frame);
            }
            self.locations.insert(location.id, from..self.frames.len());
        }
        Ok(())
    }

    /// A frame that only has an address.
    fn unnamed(&mut self, location: &Location, group: StrId) -> ProfileFrame {
        let name = self.builder.string(&format!("{:#x}", location.address));
        ProfileFrame { name, group, file: StrId::EMPTY, line: 0 }
    }

    fn push_frame(&mut self, frame: ProfileFrame) {
        let number = self.builder.frame(frame);
        self.frames.push(number);
        if frame.name == frame.group && frame.name == self.builder.string(NO_STACK) {
            self.no_stack = Some(number);
        }
    }

    fn read_sample(
        &mut self,
        sample: Message<'a>,
        frames_left: &mut usize,
    ) -> Result<(), NotAProfile> {
        let (mut ids, mut values) =
            (std::mem::take(&mut self.location_ids), std::mem::take(&mut self.values));
        ids.clear();
        values.clear();
        let mut labels = Vec::new();
        let mut rest = sample;
        while let Some((field, value)) = rest.next_field()? {
            match (field, value) {
                (1, value) => value.add_varints(&mut ids)?,
                (2, value) => value.add_varints(&mut values)?,
                (3, Value::Bytes(label)) => labels.extend(self.label(label)?),
                _ => {}
            }
        }
        let width = self.tables.value_types.len();
        if values.len() != width {
            let found = format!("{} of {width}", values.len());
            return Err(wrong(sample, "a sample with another number of values", found));
        }
        let stack = self.stack(sample, &ids, frames_left)?;
        let labels = self.builder.labels(labels);
        for (value_type, &value) in values.iter().enumerate() {
            self.builder.add(stack, labels, value_type, value as i64);
        }
        (self.location_ids, self.values) = (ids, values);
        Ok(())
    }

    /// The stack of locations that are listed from the innermost on.
    fn stack(
        &mut self,
        sample: Message<'a>,
        ids: &[u64],
        frames_left: &mut usize,
    ) -> Result<StackId, NotAProfile> {
        let mut stack = StackId::EMPTY;
        for id in ids.iter().rev() {
            let Some(frames) = self.locations.get(id) else {
                return Err(wrong(sample, "no such location", id));
            };
            let frames = &self.frames[frames.clone()];
            if ids.len() == 1 && frames.len() == 1 && self.no_stack == Some(frames[0]) {
                return Ok(StackId::EMPTY);
            }
            let Some(left) = frames_left.checked_sub(frames.len()) else {
                return Err(wrong(sample, "stacks of too many frames", frames.len()));
            };
            *frames_left = left;
            for &frame in frames.iter().rev() {
                stack = self.builder.push(stack, frame);
            }
        }
        Ok(stack)
    }

    /// A label; `None` where nothing of it is set.
    fn label(&mut self, message: Message<'a>) -> Result<Option<Label>, NotAProfile> {
        let [_, key, text, number, unit, _] = numbers_of(message)?;
        if key == 0 && text == 0 && number == 0 && unit == 0 {
            return Ok(None);
        }
        let key_id = self.string(key)?;
        let value = match (text, self.string(unit)?) {
            // A 0 without a unit is not kept by pprof's client, so writers give it its
            // key for one, as a string of its own.
            (0, unit_id) if number == 0 && unit_id == key_id && unit != key => {
                LabelValue::Number { value: 0, unit: StrId::EMPTY }
            }
            (0, unit) => LabelValue::Number { value: number as i64, unit },
            (text, _) => LabelValue::Text(self.string(text)?),
        };
        Ok(Some(Label { key: key_id, value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that holds bytes; all lengths here are small.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    fn strings(texts: &[&str]) -> Vec<u8> {
        texts.iter().flat_map(|text| field(6, text.as_bytes())).collect()
    }

    /// Samples as `frames value…`, frames from the root on.
    fn shown(bytes: &[u8]) -> Result<Vec<String>, String> {
        let profile = read(bytes).map_err(|error| error.to_string())?;
        let line = |(row, sample): (usize, &spanwise_model::Sample)| {
            let mut names: Vec<String> = profile
                .frames_of(sample.stack)
                .map(|frame| format!("{}:{}", profile.text(frame.name), frame.line))
                .collect();
            names.reverse();
            let values = profile.values_of(row).iter().map(|value| format!(" {value}"));
            format!("{}{}", names.join("|"), values.collect::<String>())
        };
        Ok(profile.samples.iter().enumerate().map(line).collect())
    }

    #[track_caller]
    fn check(parts: &[Vec<u8>], expected: Result<&[&str], &str>) {
        let expected = match expected {
            Ok(lines) => Ok(lines.iter().map(|&line| line.to_owned()).collect()),
            Err(error) => Err(error.to_owned()),
        };
        assert_eq!(shown(&parts.concat()), expected);
    }

    /// One type of value; location 1 has `leaf` inlined into `caller`, location 2 has
    /// no lines.
    fn code() -> Vec<u8> {
        let line = |function, line| field(4, &[8, function, 16, line]);
        [
            field(1, &[8, 1, 16, 2]),
            field(4, &[vec![8, 1], line(1, 7), line(2, 8)].concat()),
            field(4, &[8, 2, 24, 0x1f]),
            field(5, &[8, 1, 16, 3]),
            field(5, &[8, 2, 16, 4]),
            strings(&["", "wall", "nanoseconds", "leaf", "caller"]),
        ]
        .concat()
    }

    #[test]
    fn inlined_lines_are_frames_and_bare_addresses_too() {
        let packed = field(2, &[10, 2, 1, 2, 18, 1, 5]);
        check(&[packed, code()], Ok(&["0x1f:0|caller:8|leaf:7 5"]));
    }

    #[test]
    fn numbers_need_not_be_packed_and_unknown_fields_are_skipped() {
        let single = field(2, &[8, 1, 8, 2, 16, 5, 0x7d, 0, 0, 0, 0]);
        let unknown = [0xa0, 0x1f, 1, 0xa2, 0x1f, 2, b'x', b'y'].to_vec();
        check(&[unknown, code(), single], Ok(&["0x1f:0|caller:8|leaf:7 5"]));
    }

    #[test]
    fn what_refers_to_nothing_is_an_error() {
        let error = "byte 2: not a profile: no such location (9)";
        check(&[field(2, &[8, 9, 16, 5]), code()], Err(error));
        let error = "byte 2: not a profile: a sample with another number of values (2 of 1)";
        check(&[field(2, &[8, 1, 16, 5, 16, 5]), code()], Err(error));
        let error = "byte 0: not a profile: no such string (9 of 5)";
        check(&[field(5, &[8, 1, 16, 9]), code(), field(5, &[8, 1, 16, 9])], Err(error));
        check(&[field(1, &[])], Err("byte 0: not a profile: no strings (none)"));
    }

    #[test]
    fn a_few_bytes_do_not_unfold_to_gigabytes() {
        let lines = field(4, &[8, 1, 16, 7]).repeat(20);
        let many = field(4, &[vec![8, 3], lines].concat());
        let ids = field(1, &[3; 100]);
        let sample = field(2, &[ids, vec![16, 5]].concat());
        let bytes = [code(), many, sample.repeat(200)].concat();
        let error = shown(&bytes).expect_err("too many frames");
        assert!(error.contains("stacks of too many frames"), "{error}");
    }
}
