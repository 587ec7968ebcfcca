//! pprof's protobuf, encoded by hand: the schema is small and has not changed in years.
//!
//! What the client makes of a field decides how it is filled:
//! - `system_name` stays empty. Where it equals the name, the client takes the name for
//!   a mangled one: `<built-in method wait>` disappears, template arguments too.
//! - Mappings say that they have functions, files and lines, or the client searches for
//!   binaries to ask. The first one is the program, which the client shows as the file.
//! - The client drops a number 0 that has no unit. It gets its key for a unit, which is
//!   what the client takes a number without one to be in; and as a string of its own,
//!   so that a reader can distinguish it from a unit that was there.
//! - Samples without a frame count in the total but are never shown; they get a root.
//! - Without a default the client shows the last type of value.

use std::collections::HashMap;
use std::io::{self, Write as _};

use flate2::{Compression, GzBuilder};
use spanwise_model::{Label, LabelValue, Profile, StackId, StrId};
use spanwise_protobuf::MessageWriter;

use super::NO_STACK;

/// What the file is to say beside the profile.
#[derive(Debug, Clone, Copy)]
pub struct PprofOptions<'a> {
    /// What was recorded; shown as the file of the profile.
    pub program: &'a str,
    /// Clients read both; every tool that writes pprof compresses it.
    pub is_compressed: bool,
}

impl Default for PprofOptions<'_> {
    fn default() -> Self {
        PprofOptions { program: "", is_compressed: true }
    }
}

/// Writes all of the profile.
pub fn write_pprof(
    profile: &Profile,
    options: &PprofOptions<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    if !options.is_compressed {
        let mut out = io::BufWriter::new(out);
        write_message(profile, options.program, &mut out)?;
        return out.flush();
    }
    // No time and no system in the header: the same profile gives the same bytes.
    let gzip = GzBuilder::new().mtime(0).operating_system(255);
    let gzip = gzip.write(out, Compression::fast());
    // Whole buffers keep the compressed bytes independent of how messages are cut.
    let mut out = io::BufWriter::with_capacity(64 << 10, gzip);
    write_message(profile, options.program, &mut out)?;
    out.into_inner()?.finish()?;
    Ok(())
}

/// Numbers of fields in `profile.proto`.
mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

fn write_message(profile: &Profile, program: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let mut texts = Texts::new(profile);
    let mut message = MessageWriter::default();
    for value_type in &profile.value_types {
        message.clear();
        message.nonzero(1, texts.of(&value_type.name));
        message.nonzero(2, texts.of(&value_type.unit));
        message.write(field::SAMPLE_TYPE, out)?;
    }
    write_samples(profile, &mut texts, out)?;
    write_code(profile, program, &mut texts, out)?;
    let mut ending = MessageWriter::default();
    if let Some(time_ns) = profile.time_ns {
        // Also when it is 0: that is not the same as unknown.
        ending.uint(field::TIME_NANOS, time_ns as u64);
    }
    ending.nonzero(field::DURATION_NANOS, profile.duration_ns as u64);
    let comments: Vec<u64> = profile.comments.iter().map(|text| texts.of(text)).collect();
    ending.packed(field::COMMENT, comments.into_iter());
    if let Some(default) = profile.value_types.get(profile.default_value) {
        ending.nonzero(field::DEFAULT_SAMPLE_TYPE, texts.present(&default.name));
    }
    for text in texts.all() {
        MessageWriter::write_text(field::STRING_TABLE, text, out)?;
    }
    out.write_all(ending.bytes())
}

fn write_samples(
    profile: &Profile,
    texts: &mut Texts<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let label_sets: Vec<MessageWriter> =
        profile.label_sets.iter().map(|labels| labels_message(labels, texts)).collect();
    let mut message = MessageWriter::default();
    let mut locations = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        locations.clear();
        let mut at = sample.stack;
        while at != StackId::EMPTY {
            locations.push(u64::from(profile.stack_frames[at.index()]) + 1);
            at = StackId(profile.stack_parents[at.index()]);
        }
        if locations.is_empty() {
            locations.push(no_stack_id(profile));
        }
        message.clear();
        message.packed(1, locations.iter().copied());
        message.packed(2, profile.values_of(row).iter().map(|&value| value as u64));
        message.fields(&label_sets[sample.labels as usize]);
        message.write(field::SAMPLE, out)?;
    }
    Ok(())
}

fn labels_message(labels: &[Label], texts: &mut Texts<'_>) -> MessageWriter {
    let (mut all, mut one) = (MessageWriter::default(), MessageWriter::default());
    for label in labels {
        one.clear();
        one.nonzero(1, u64::from(label.key.0));
        match label.value {
            LabelValue::Text(StrId::EMPTY) => one.nonzero(2, texts.present("")),
            LabelValue::Text(text) => one.nonzero(2, u64::from(text.0)),
            LabelValue::Number { value, unit } => {
                one.nonzero(3, value as u64);
                match unit {
                    StrId::EMPTY if value == 0 => one.nonzero(4, texts.copy_of(label.key)),
                    unit => one.nonzero(4, u64::from(unit.0)),
                }
            }
        }
        all.message(3, &one);
    }
    all
}

/// The location and the function of [`NO_STACK`]; behind those of the frames.
fn no_stack_id(profile: &Profile) -> u64 {
    profile.frames.len() as u64 + 1
}

/// Mappings, locations and functions. A frame is a location of its own.
fn write_code(
    profile: &Profile,
    program: &str,
    texts: &mut Texts<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    // An unnamed first mapping would be joined to the next one by the client.
    let program = if program.is_empty() { "profile" } else { program };
    let mut mappings = vec![texts.of(program)];
    let mut mapping_ids: HashMap<u64, u64> = HashMap::new();
    let mut mapping_id = |file: u64| match file {
        0 => 0,
        file => *mapping_ids.entry(file).or_insert_with(|| {
            mappings.push(file);
            mappings.len() as u64
        }),
    };
    let mut functions = Vec::new();
    let mut function_ids = HashMap::new();
    let mut locations = MessageWriter::default();
    for (at, frame) in profile.frames.iter().enumerate() {
        let function = [u64::from(frame.name.0), u64::from(frame.file.0), frame.line as u64];
        let function_id = *function_ids.entry(function).or_insert_with(|| {
            functions.push(function);
            functions.len() as u64
        });
        let mapping_id = mapping_id(u64::from(frame.group.0));
        add_location(&mut locations, at as u64 + 1, mapping_id, function_id, frame.line as u64);
    }
    if profile.samples.iter().any(|sample| sample.stack == StackId::EMPTY) {
        let name = texts.of(NO_STACK);
        functions.push([name, 0, 0]);
        let (id, mapping) = (no_stack_id(profile), mapping_id(name));
        add_location(&mut locations, id, mapping, functions.len() as u64, 0);
    }
    let mut message = MessageWriter::default();
    for (at, &file) in mappings.iter().enumerate() {
        message.clear();
        message.nonzero(1, at as u64 + 1);
        message.nonzero(5, file);
        for has_what in 7..=9 {
            message.nonzero(has_what, 1);
        }
        message.write(field::MAPPING, out)?;
    }
    out.write_all(locations.bytes())?;
    for (at, [name, file, line]) in functions.into_iter().enumerate() {
        message.clear();
        message.nonzero(1, at as u64 + 1);
        message.nonzero(2, name);
        message.nonzero(4, file);
        message.nonzero(5, line);
        message.write(field::FUNCTION, out)?;
    }
    Ok(())
}

/// The string table: the profile's own strings, so that their ids serve as they are,
/// and behind them what else is needed.
struct Texts<'p> {
    profile: &'p Profile,
    added: Vec<String>,
    ids: HashMap<String, u64>,
}

impl<'p> Texts<'p> {
    fn new(profile: &'p Profile) -> Self {
        Texts { profile, added: Vec::new(), ids: HashMap::new() }
    }

    fn of(&mut self, text: &str) -> u64 {
        if text.is_empty() { 0 } else { self.present(text) }
    }

    /// Never 0, also for the empty text; nor a number of the profile's own strings.
    fn present(&mut self, text: &str) -> u64 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = (self.profile.strings.len() + self.added.len()) as u64;
        self.added.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    /// The same text under another number.
    fn copy_of(&mut self, id: StrId) -> u64 {
        self.present(self.profile.text(id))
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        let own = (0..self.profile.strings.len()).map(|id| self.profile.text(StrId(id as u32)));
        own.chain(self.added.iter().map(String::as_str))
    }
}

/// Adds a location with one line, as a field of the profile.
fn add_location(
    locations: &mut MessageWriter,
    id: u64,
    mapping_id: u64,
    function_id: u64,
    line: u64,
) {
    let (mut place, mut location) = (MessageWriter::default(), MessageWriter::default());
    place.nonzero(1, function_id);
    place.nonzero(2, line);
    location.nonzero(1, id);
    location.nonzero(2, mapping_id);
    location.message(4, &place);
    locations.message(field::LOCATION, &location);
}
