//! The document around the events: properties before them and after them.

use spanwise_model::{ArgValue, Batch, NoticeKind, Notices};

use super::blocks::{self, Effort, Region, Stop};
use super::lenient::{self, Node, Walk};
use super::scan::{Piece, skip_blanks, string, value_end};
use super::simd::{Simd, Work, dispatch};
use crate::ReadErrorKind;

/// A property is kept when it is this short; longer ones are for their producer.
const PROPERTY_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// Between the members of the outermost object.
    Members,
    Events,
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
    pub(crate) notices: Notices,
    pub(crate) properties: Vec<(String, ArgValue)>,
}

/// Properties whose content tells about the whole trace; of others only scalars.
const KNOWN_CONTAINERS: [&str; 2] = ["deviceProperties", "distributedInfo"];

impl Document {
    pub(crate) fn new() -> Self {
        Document {
            state: State::Start,
            is_bare_array: false,
            has_events: false,
            is_array_start: true,
            batches: Vec::new(),
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
                State::Start => self.start(region)?,
                State::Events => {
                    self.array_start(region, at);
                    let (batches, stop) = blocks::read_events(region, at, effort);
                    self.batches.extend(batches);
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
                State::Done => return Ok(self.trailing(region, at)),
            };
        }
    }

    fn start(&mut self, region: Region<'_>) -> Result<usize, ReadErrorKind> {
        let text = region.text;
        let byte_order_mark = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let at = skip_blanks(text, byte_order_mark);
        match text.get(at) {
            Some(b'{') => self.state = State::Members,
            Some(b'[') => {
                (self.state, self.is_bare_array, self.has_events) = (State::Events, true, true);
            }
            Some(_) => return Err(not_a_trace(text, at, "neither { nor [ at the start")),
            None => return Err(not_a_trace(text, at, "the file is empty")),
        }
        Ok(at + 1)
    }

    /// A comma before the first event: the readers of blocks cannot tell that it is one.
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
            _ => return self.skip_to_events(region, at),
        }
        let Some((key, value)) = dispatch(Key { text, at }) else {
            return match region.is_last {
                true => self.skip_to_events(region, at),
                false => None,
            };
        };
        if key.of(text) == b"traceEvents" && text.get(value) == Some(&b'[') {
            (self.state, self.has_events) = (State::Events, true);
            return Some(value + 1);
        }
        let mut walk = Walk::new(text, value);
        let end = match dispatch(ValueEnd { text, at: value }) {
            Some(end) => end,
            None if !region.is_last => return None,
            // Damaged: only reading it leniently tells where it ends.
            None => match walk.value(value, 0) {
                Ok((_, end)) => end,
                Err(_) => return self.skip_to_events(region, at),
            },
        };
        self.property(region, key, Piece { from: value, to: end, escaped: false });
        Some(end)
    }

    /// Damage between members: goes on at the events, if they are still to come.
    fn skip_to_events(&mut self, region: Region<'_>, at: usize) -> Option<usize> {
        let text = region.text;
        let example = &text[at..text.len().min(at + 60)];
        self.notices.add(NoticeKind::MetadataSkipped, region.base + at as u64, example);
        if !self.has_events
            // Behind this place, or a key that is cut off would be found for ever.
            && let Some(step) = memchr::memmem::find(&text[at + 1..], b"\"traceEvents\"")
        {
            return Some(at + 1 + step);
        }
        if region.is_last || self.has_events {
            self.state = State::Done;
            return Some(text.len());
        }
        None
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
        let mut walk = Walk::new(&text[..value.to], value.from);
        // A scalar at the very end of the slice has nothing behind it to end it.
        let node = match is_container || text[value.from] == b'"' {
            true => walk.value(value.from, 0).map(|(node, _)| node),
            false => Ok(Node::Scalar(value)),
        };
        if let Ok(node) = node {
            let value = match node {
                Node::Text(piece) if piece.to + 1 != value.to => return,
                node => lenient::to_value(text, &node),
            };
            self.properties.push((name, value));
        }
    }

    fn trailing(&mut self, region: Region<'_>, at: usize) -> usize {
        let at = skip_blanks(region.text, at);
        if at < region.text.len() {
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
    type Output = Option<(Piece, usize)>;

    #[inline(always)]
    fn run<S: Simd>(self) -> Self::Output {
        let key = string::<S>(self.text, self.at + 1, &mut false).ok()?;
        let colon = skip_blanks(self.text, key.to + 1);
        let value = skip_blanks(self.text, colon + 1);
        let is_whole = self.text.get(colon) == Some(&b':') && value < self.text.len();
        is_whole.then_some((key, value))
    }
}

struct ValueEnd<'t> {
    text: &'t [u8],
    at: usize,
}

impl Work for ValueEnd<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<S: Simd>(self) -> Option<usize> {
        value_end::<S>(self.text, self.at, &mut false).ok()
    }
}
