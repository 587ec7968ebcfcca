//! The document around the events: properties before them and after them.

use std::collections::HashMap;

use spanwise_model::{ArgValue, Batch, NO_OFFSET, NoticeKind, Notices};

use super::blocks::{self, Effort, Region, Stop};
use super::samples::cpu_profiles;
use super::samples::cpu_profiles::ProfilePiece;
use super::samples::stack_samples::StackSamples;
use super::syntax::lenient;
use super::syntax::lenient::{Node, Walk};
use super::syntax::scan::{Piece, ScanStop, expect, skip_blanks, string, value_end};
use super::syntax::simd::{Simd, Work, dispatch};
use crate::ReadErrorKind;

/// A property is kept when it is this short; longer ones are for their producer.
const PROPERTY_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// Between the members of the outermost object.
    Members,
    Events,
    /// Among the samples beside the events.
    Samples,
    /// Among the frames of those samples.
    Frames,
    /// Behind damage between the members: the search for the events.
    Seeking,
    Done,
}

/// What has been read of a document, region by region.
pub(crate) struct Document {
    state: State,
    is_bare_array: bool,
    has_events: bool,
    /// Nothing of the array has been seen but its opening bracket.
    is_array_start: bool,
    pub(crate) batches: Vec<Batch>,
    profiles: Vec<ProfilePiece>,
    stack_samples: StackSamples,
    pub(crate) notices: Notices,
    pub(crate) properties: Vec<(String, ArgValue)>,
}

const EVENTS_KEY: &[u8] = b"\"traceEvents\"";

/// Properties whose content is about the whole trace; of others only scalars.
const KNOWN_CONTAINERS: [&str; 2] = ["deviceProperties", "distributedInfo"];

impl Document {
    pub(crate) fn new() -> Self {
        Document {
            state: State::Start,
            is_bare_array: false,
            has_events: false,
            is_array_start: true,
            batches: Vec::new(),
            profiles: Vec::new(),
            stack_samples: StackSamples::default(),
            notices: Notices::default(),
            properties: Vec::new(),
        }
    }

    /// Reads on; gives how much of the region it is done with. What is left has to
    /// come again at the start of the next region.
    pub(crate) fn feed(
        &mut self,
        region: Region<'_>,
        effort: Effort<'_>,
    ) -> Result<usize, ReadErrorKind> {
        let text = region.text;
        let mut at = 0;
        loop {
            at = match self.state {
                State::Start => match self.start(region)? {
                    Some(at) => at,
                    None => return Ok(0),
                },
                State::Events => {
                    self.array_start(region, at);
                    let (parts, stop) = blocks::read_events(region, at, effort);
                    for part in parts {
                        self.batches.push(part.batch);
                        self.profiles.extend(part.profiles);
                    }
                    match stop {
                        Stop::Closed(end) => {
                            self.state =
                                if self.is_bare_array { State::Done } else { State::Members };
                            end
                        }
                        Stop::Reached(end) | Stop::Open(end) => return Ok(end),
                    }
                }
                State::Members => match self.member(region, skip_separators(text, at)) {
                    Some(end) => end,
                    None => return Ok(at),
                },
                State::Samples | State::Frames => {
                    match self.element(region, skip_separators(text, at)) {
                        Some(end) => end,
                        None => return Ok(at),
                    }
                }
                State::Seeking => match self.seek(region, at) {
                    Ok(found) => found,
                    Err(end) => return Ok(end),
                },
                State::Done => return Ok(self.trailing(region, at)),
            };
        }
    }

    fn start(&mut self, region: Region<'_>) -> Result<Option<usize>, ReadErrorKind> {
        let text = region.text;
        let byte_order_mark = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let at = skip_blanks(text, byte_order_mark);
        match text.get(at) {
            Some(b'{') => self.state = State::Members,
            Some(b'[') => {
                (self.state, self.is_bare_array, self.has_events) = (State::Events, true, true);
            }
            Some(_) => return Err(not_a_trace(text, at, "neither { nor [ at the start")),
            // Nothing but blanks so far.
            None if !region.is_last => return Ok(None),
            None => return Err(not_a_trace(text, at, "the file is empty")),
        }
        Ok(Some(at + 1))
    }

    /// A comma before the first event: the readers of blocks cannot know that it is one.
    fn array_start(&mut self, region: Region<'_>, at: usize) {
        let at = skip_blanks(region.text, at);
        let Some(&byte) = region.text.get(at).filter(|_| self.is_array_start) else { return };
        self.is_array_start = false;
        if byte == b',' {
            self.notices.add(NoticeKind::ExtraComma, region.base + at as u64, b",");
        }
    }

    /// Reads one member of the outermost object; `None` when the text ends first.
    fn member(&mut self, region: Region<'_>, at: usize) -> Option<usize> {
        let text = region.text;
        match text.get(at)? {
            b'}' => {
                self.state = State::Done;
                return Some(at + 1);
            }
            b'"' => {}
            _ => return Some(self.damaged(region, at)),
        }
        let (key, value) = match dispatch(Key { text, at }) {
            Ok(found) => found,
            Err(stop) if region.may_go_on(at, stop) => return None,
            Err(_) => return Some(self.damaged(region, at)),
        };
        if key.of(text) == b"traceEvents" && text.get(value) == Some(&b'[') {
            (self.state, self.has_events) = (State::Events, true);
            return Some(value + 1);
        }
        match (key.of(text), text.get(value)) {
            (b"samples", Some(b'[')) => {
                self.state = State::Samples;
                return Some(value + 1);
            }
            (b"stackFrames", Some(b'{')) => {
                self.state = State::Frames;
                return Some(value + 1);
            }
            _ => {}
        }
        let mut notes = Vec::new();
        let end = match dispatch(ValueEnd { text, at: value }) {
            Ok(end) => end,
            Err(stop) if region.may_go_on(at, stop) => return None,
            // Damaged: only a lenient reading finds its end.
            Err(_) => {
                let mut walk = Walk::new(text, value);
                let Ok((_, end)) = walk.value(value, 0) else {
                    return Some(self.damaged(region, at));
                };
                notes = walk.notes;
                end
            }
        };
        if !self.has_events && hides_events(&text[value..end]) {
            return Some(self.damaged(region, at));
        }
        for (kind, place) in notes {
            self.notices.add(kind, region.base + place as u64, &text[place..end.max(place)]);
        }
        self.property(region, key, Piece { from: value, to: end, escapes: 0 });
        Some(end)
    }

    /// Reads one sample or one frame; `None` when the text ends first.
    fn element(&mut self, region: Region<'_>, at: usize) -> Option<usize> {
        let text = region.text;
        if let b']' | b'}' = text.get(at)? {
            self.state = State::Members;
            return Some(at + 1);
        }
        let is_frame = self.state == State::Frames;
        let (key, value) = match is_frame.then(|| dispatch(Key { text, at })) {
            None => (None, at),
            Some(Ok((key, value))) if text[at] == b'"' => (Some(key), value),
            Some(Err(stop)) if region.may_go_on(at, stop) => return None,
            Some(_) => return Some(self.damaged(region, at)),
        };
        let end = match dispatch(ValueEnd { text, at: value }) {
            Ok(end) => end,
            Err(stop) if region.may_go_on(at, stop) => return None,
            Err(_) => return Some(self.damaged(region, at)),
        };
        let members = lenient::members(text, Piece { from: value, to: end, escapes: 0 });
        match key {
            Some(key) => {
                let id = String::from_utf8_lossy(key.of(text));
                self.stack_samples.add_frame(&id, &members);
            }
            None => self.stack_samples.add_sample(&members),
        }
        Some(end)
    }

    /// What samplers saw, once all of the text was read.
    pub(super) fn observed(&mut self) -> Vec<Batch> {
        let mut threads: HashMap<String, Option<String>> = HashMap::new();
        if !self.stack_samples.is_empty() {
            for (process, thread) in self.batches.iter().flat_map(Batch::threads) {
                let known = threads.entry(thread.to_owned());
                let known = known.or_insert_with(|| Some(process.to_owned()));
                if known.as_deref() != Some(process) {
                    *known = None;
                }
            }
        }
        let profiles = cpu_profiles::samples(std::mem::take(&mut self.profiles));
        profiles.into_iter().chain(self.stack_samples.batch(&threads)).collect()
    }

    /// Damage between members.
    fn damaged(&mut self, region: Region<'_>, at: usize) -> usize {
        let example = &region.text[at..region.text.len().min(at + 60)];
        self.notices.add(NoticeKind::MetadataSkipped, region.base + at as u64, example);
        self.state = State::Seeking;
        at + 1
    }

    /// Goes on at the events, if they are still to come; else says how much of the
    /// region is done with.
    fn seek(&mut self, region: Region<'_>, at: usize) -> Result<usize, usize> {
        let Region { text, is_last, .. } = region;
        let found = memchr::memmem::find(&text[at..], EVENTS_KEY);
        if let Some(step) = found.filter(|_| !self.has_events) {
            self.state = State::Members;
            return Ok(at + step);
        }
        // Without the bracket that closes the document, the file was cut.
        if is_last && text.trim_ascii_end().ends_with(b"}") {
            self.state = State::Done;
            return Ok(text.len());
        }
        // The key may stand across the end of the region.
        let rest = if is_last { 0 } else { EVENTS_KEY.len() };
        Err(text.len().saturating_sub(rest).max(at))
    }

    fn property(&mut self, region: Region<'_>, key: Piece, value: Piece) {
        let text = region.text;
        let name = String::from_utf8_lossy(key.of(text)).into_owned();
        let is_container = matches!(text[value.from], b'{' | b'[');
        let is_kept = !is_container || KNOWN_CONTAINERS.contains(&&*name);
        if !is_kept || value.to - value.from > PROPERTY_BYTES_MAX {
            let offset = region.base + value.from as u64;
            self.notices.add(NoticeKind::MetadataSkipped, offset, name.as_bytes());
            return;
        }
        // A text or scalar at the very end of the slice has nothing behind it to end it.
        let node = match text[value.from] {
            b'{' | b'[' => {
                let mut walk = Walk::new(&text[..value.to], value.from);
                walk.value(value.from, 0).ok().map(|(node, _)| node)
            }
            b'"' => {
                let inside = Piece { from: value.from + 1, to: value.to - 1, escapes: 0 };
                let is_whole = inside.from <= inside.to && text[inside.to] == b'"';
                is_whole.then_some(Node::Text(inside))
            }
            _ => Some(Node::Scalar(value)),
        };
        if let Some(node) = node {
            self.properties.push((name, lenient::to_value(text, &node)));
        }
    }

    fn trailing(&mut self, region: Region<'_>, at: usize) -> usize {
        let at = skip_blanks(region.text, at);
        // Reported once, in however many regions it comes.
        if at < region.text.len() && self.notices.count(NoticeKind::TrailingText) == 0 {
            let example = &region.text[at..region.text.len().min(at + 60)];
            self.notices.add(NoticeKind::TrailingText, region.base + at as u64, example);
        }
        region.text.len()
    }

    /// Called when the source has ended, with the last region that was fed.
    pub(crate) fn end(&mut self, text_bytes: u64, head: &[u8]) -> Result<(), ReadErrorKind> {
        let is_cut = self.state != State::Done;
        let phased = |batch: &Batch| batch.phases.iter().any(|(&phase, _)| phase != b'?');
        // Much that is no trace begins with a bracket: an array must hold an event,
        // or plainly nothing.
        let is_empty =
            self.batches.iter().all(|batch| batch.phases.is_empty() && batch.notices.is_empty());
        if self.is_bare_array && !self.batches.iter().any(phased) && (is_cut || !is_empty) {
            return Err(not_a_trace(head, 0, "an array whose elements are no trace events"));
        }
        if !self.has_events {
            let is_kineto = self.properties.iter().any(|(key, _)| key == "schemaVersion");
            if !is_cut || !is_kineto {
                return Err(not_a_trace(head, 0, "a JSON object without a `traceEvents` array"));
            }
        }
        // A bare array may leave its closing bracket out: writers append as they go.
        if self.stack_samples.skipped > 0 {
            let count = self.stack_samples.skipped;
            self.notices.add_count(NoticeKind::MetadataSkipped, count, NO_OFFSET);
        }
        if is_cut && (!self.is_bare_array || self.has_cut_event()) {
            self.notices.add(NoticeKind::FileCut, text_bytes, b"");
        }
        Ok(())
    }

    fn has_cut_event(&self) -> bool {
        self.batches.iter().any(|batch| batch.notices.count(NoticeKind::EventCut) > 0)
    }
}

fn skip_separators(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t' | b',') = text.get(at) {
        at += 1;
    }
    at
}

fn not_a_trace(text: &[u8], at: usize, what: &'static str) -> ReadErrorKind {
    let shown = &text[at.min(text.len())..text.len().min(at + 40)];
    let shown = String::from_utf8_lossy(shown).escape_debug().to_string();
    ReadErrorKind::NotATrace { offset: at as u64, what, found: shown }
}

/// The key at a quote, and where its value begins.
struct Key<'t> {
    text: &'t [u8],
    at: usize,
}

impl Work for Key<'_> {
    type Output = Result<(Piece, usize), ScanStop>;

    #[inline(always)]
    fn run<S: Simd>(self) -> Self::Output {
        let key = string::<S>(self.text, self.at + 1, &mut false)?;
        let colon = skip_blanks(self.text, key.to + 1);
        let value = skip_blanks(self.text, expect(self.text, colon, b':')?);
        if value == self.text.len() {
            return Err(ScanStop::End);
        }
        Ok((key, value))
    }
}

struct ValueEnd<'t> {
    text: &'t [u8],
    at: usize,
}

impl Work for ValueEnd<'_> {
    type Output = Result<usize, ScanStop>;

    #[inline(always)]
    fn run<S: Simd>(self) -> Self::Output {
        value_end::<S>(self.text, self.at, &mut false)
    }
}

/// Whether a property that is not JSON has the events inside: then one of its
/// brackets is missing, and it ended where an outer one does.
fn hides_events(value: &[u8]) -> bool {
    memchr::memmem::find(value, EVENTS_KEY).is_some()
        && serde_json::from_slice::<serde::de::IgnoredAny>(value).is_err()
}
