//! Events become rows of a batch.

use std::borrow::Cow;

use spanwise_model::{
    ArgValue, AsyncPhase, AsyncRow, Batch, CategoryId, CounterRow, FlowPhase, FlowRow, InstantRow,
    NO_KEY, NoticeKind, PairRow, SpanKind, SpanRow, StrId, TrackId, TrackKind, TrackLabel,
    hash_bytes,
};

use super::kineto;
use super::samples::cpu_profiles::{Content, ProfilePiece};
use super::syntax::decimal::Time;
use super::syntax::event;
use super::syntax::event::{ArgId, ArgLayout, Event};
use super::syntax::lenient;
use super::syntax::scan::Piece;
use super::syntax::simd::Simd;
use super::syntax::text;
use super::syntax::text::StringDamage;

/// How many tracks and categories are remembered by their text. Neighboring
/// events share a handful; comparing those is cheaper than hashing.
const RECENT_MAX: usize = 8;

#[derive(Clone, Copy)]
struct KnownCategory {
    piece: Piece,
    id: CategoryId,
    kind: SpanKind,
    is_launch_flow: bool,
}

#[derive(Clone, Copy)]
struct KnownTrack {
    process: Piece,
    thread: Piece,
    id: TrackId,
}

/// What a block of events came to.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) batch: Batch,
    /// Pieces of CPU profiles, which need those of other blocks.
    pub(super) profiles: Vec<ProfilePiece>,
}

/// Puts the events of one block of text into a batch.
pub(crate) struct Emitter<'t> {
    text: &'t [u8],
    /// Offset of the text in the source.
    base: u64,
    pub(crate) batch: Batch,
    profiles: Vec<ProfilePiece>,
    phases: [u64; 256],
    event_end: usize,
    categories: Vec<KnownCategory>,
    tracks: Vec<KnownTrack>,
    layout: ArgLayout,
}

impl<'t> Emitter<'t> {
    pub(crate) fn new(text: &'t [u8], base: u64) -> Self {
        Emitter {
            text,
            base,
            batch: Batch::default(),
            profiles: Vec::new(),
            phases: [0; 256],
            event_end: 0,
            categories: Vec::with_capacity(RECENT_MAX),
            tracks: Vec::with_capacity(RECENT_MAX),
            layout: ArgLayout::new(),
        }
    }

    pub(crate) fn finish(mut self) -> Part {
        for (phase, &count) in self.phases.iter().enumerate().filter(|&(_, &count)| count > 0) {
            self.batch.phases.insert(phase as u8, count);
        }
        self.batch.seal();
        Part { batch: self.batch, profiles: self.profiles }
    }

    pub(crate) fn notice(&mut self, kind: NoticeKind, at: usize, len: usize) {
        let example = &self.text[at.min(self.text.len())..self.text.len().min(at + len)];
        self.batch.notice(kind, self.base + at as u64, example);
    }

    /// A notice about the event at hand, with its beginning as the example.
    fn event_notice(&mut self, kind: NoticeKind, at: usize) {
        self.notice(kind, at, self.event_end.saturating_sub(at).min(80));
    }

    /// Takes in the event that stands at `at..end`.
    #[inline(always)]
    pub(crate) fn event<S: Simd>(&mut self, at: usize, end: usize, event: &Event) {
        self.event_end = end;
        self.phases[usize::from(if event.phase == 0 { b'?' } else { event.phase })] += 1;
        if event.has_control {
            self.event_notice(NoticeKind::ControlCharacter, at);
        }
        if event.phase == b'M' {
            return self.metadata(event);
        }
        let Some(time) = self.time(at, event) else { return };
        match event.phase {
            b'X' => self.complete::<S>(at, event, time),
            b's' | b't' | b'f' => self.flow(at, event, time),
            _ => self.rarer(at, event, time),
        }
    }

    /// The event's time, or a notice why it has none.
    #[inline(always)]
    fn time(&mut self, at: usize, event: &Event) -> Option<i64> {
        match event.time {
            Time::At(time) if event.phase != 0 => return Some(time),
            _ if !event.has_phase => self.event_notice(NoticeKind::NoPhase, at),
            Time::OutOfRange => self.event_notice(NoticeKind::TimeOutOfRange, at),
            _ if event.phase == 0 => self.event_notice(NoticeKind::UnknownPhase, at),
            _ => self.event_notice(NoticeKind::NoTime, at),
        }
        None
    }

    #[inline(always)]
    fn complete<S: Simd>(&mut self, at: usize, event: &Event, start: i64) {
        let dur = match event.duration {
            Time::At(dur) if dur >= 0 => dur,
            Time::At(_) => {
                self.event_notice(NoticeKind::NegativeDuration, at);
                0
            }
            Time::OutOfRange => i64::MAX,
            Time::Absent | Time::NotANumber => {
                self.event_notice(NoticeKind::NoDuration, at);
                0
            }
        };
        if start.checked_add(dur).is_none() {
            return self.event_notice(NoticeKind::TimeOutOfRange, at);
        }
        let category = self.category(event.category);
        let key = self.key::<S>(event, category.kind);
        let name = self.string(event.name);
        let track = self.track(event);
        let offset = self.base + at as u64;
        let row = SpanRow { start, dur, key, offset, name, category: category.id };
        self.batch.push_span(track, row);
    }

    /// What joins a span with others; see [`SpanRow::key`].
    #[inline(always)]
    fn key<S: Simd>(&mut self, event: &Event, kind: SpanKind) -> u64 {
        match kind {
            SpanKind::Python => {
                let wanted = [ArgId::PythonId, ArgId::PythonParent];
                let [id, parent] = self.integers::<S, 2>(event, wanted);
                id.map_or(NO_KEY, |id| SpanRow::python_key(id, parent))
            }
            SpanKind::Runtime
            | SpanKind::Kernel
            | SpanKind::Memcpy
            | SpanKind::Memset
            | SpanKind::Sync => {
                self.integers::<S, 1>(event, [ArgId::Correlation])[0].unwrap_or(NO_KEY)
            }
            _ => NO_KEY,
        }
    }

    #[inline(always)]
    fn integers<S: Simd, const N: usize>(
        &mut self,
        event: &Event,
        wanted: [ArgId; N],
    ) -> [Option<u64>; N] {
        if event.args.is_empty() {
            return [None; N];
        }
        if !event.is_repaired {
            return event::integers::<S, N>(self.text, event.args, wanted, &mut self.layout);
        }
        let members = lenient::members(self.text, event.args);
        wanted.map(|wanted| {
            let found = members.iter().find(|(name, _)| ArgId::of(name.as_bytes()) == wanted);
            found.and_then(|(_, value)| match value {
                ArgValue::Int(value) => u64::try_from(*value).ok(),
                ArgValue::Number(word) | ArgValue::Text(word) => event::integer(word.as_bytes()),
                _ => None,
            })
        })
    }

    #[inline(always)]
    fn flow(&mut self, at: usize, event: &Event, time: i64) {
        let category = self.category(event.category);
        let phase = match event.phase {
            b's' => FlowPhase::Start,
            b't' => FlowPhase::Step,
            _ => FlowPhase::End,
        };
        let row = FlowRow {
            time,
            key: id_key(self.text, event),
            offset: self.base + at as u64,
            track: self.track(event),
            category: category.id,
            phase,
            // Only an end without `bp` stands on the next span to begin.
            binds_enclosing: phase != FlowPhase::End || event.binds_enclosing,
            is_launch: category.is_launch_flow,
        };
        self.batch.flows.push(row);
    }

    #[cold]
    #[inline(never)]
    fn rarer(&mut self, at: usize, event: &Event, time: i64) {
        match event.phase {
            b'B' | b'E' => self.pair(at, event, time),
            b'b' | b'S' => self.asynchronous(at, event, time, AsyncPhase::Begin),
            b'e' | b'F' => self.asynchronous(at, event, time, AsyncPhase::End),
            b'n' | b'T' | b'p' => {
                let track = self.async_track(event);
                self.instant(at, event, time, track);
            }
            b'P' if self.profile(event, time) => {}
            b'i' | b'I' | b'R' => {
                if event.name.of(self.text) == b"CpuProfile" {
                    self.profile(event, time);
                }
                let track = self.track(event);
                self.instant(at, event, time, track);
            }
            b'C' => self.counter(at, event, time),
            _ => self.event_notice(NoticeKind::UnknownPhase, at),
        }
    }

    /// True for a piece of a CPU profile.
    fn profile(&mut self, event: &Event, time: i64) -> bool {
        let name = event.name.of(self.text);
        if !matches!(name, b"Profile" | b"ProfileChunk" | b"CpuProfile") {
            return false;
        }
        let args = lenient::members(self.text, event.args);
        let Some(content) = Content::read(name, &args, time) else { return false };
        let [process, thread, id] = [event.process, event.thread, event.id];
        let [process, thread, id] = [process, thread, id].map(|it| self.text_of(it).into_owned());
        self.profiles.push(ProfilePiece { process, thread, id, time, content });
        true
    }

    fn pair(&mut self, at: usize, event: &Event, time: i64) {
        let row = PairRow {
            time,
            offset: self.base + at as u64,
            name: self.string(event.name),
            track: self.track(event),
            category: self.category(event.category).id,
            is_begin: event.phase == b'B',
        };
        self.batch.pairs.push(row);
    }

    fn asynchronous(&mut self, at: usize, event: &Event, time: i64, phase: AsyncPhase) {
        let row = AsyncRow {
            time,
            key: id_key(self.text, event),
            offset: self.base + at as u64,
            name: self.string(event.name),
            track: self.async_track(event),
            category: self.category(event.category).id,
            phase,
        };
        self.batch.asyncs.push(row);
    }

    fn instant(&mut self, at: usize, event: &Event, time: i64, track: TrackId) {
        let row = InstantRow {
            time,
            offset: self.base + at as u64,
            name: self.string(event.name),
            track,
            category: self.category(event.category).id,
        };
        self.batch.instants.push(row);
    }

    /// Each number among the arguments is a series of its own.
    fn counter(&mut self, at: usize, event: &Event, time: i64) {
        let process = self.text_of(event.process);
        let name = self.text_of(event.name);
        let id = self.text_of(event.id);
        for (series, value) in lenient::members(self.text, event.args) {
            let value = match &value {
                ArgValue::Int(value) => *value as f64,
                ArgValue::Number(word) | ArgValue::Text(word) => match word.parse() {
                    Ok(value) => value,
                    Err(_) => continue,
                },
                _ => continue,
            };
            let parts = [&*name, &*id, &*series];
            let label = parts.iter().filter(|part| !part.is_empty() && **part != "value");
            let label = label.copied().collect::<Vec<_>>().join(" ");
            let track = self.batch.track(TrackKind::Counter, &process, &label);
            let offset = self.base + at as u64;
            self.batch.counters.push(CounterRow { time, offset, value, track });
        }
    }

    #[cold]
    #[inline(never)]
    fn metadata(&mut self, event: &Event) {
        let members = lenient::members(self.text, event.args);
        let member = |key: &str| members.iter().find(|(name, _)| name == key).map(|(_, v)| v);
        let text = member("name").and_then(ArgValue::as_text);
        let number = member("sort_index").and_then(ArgValue::as_i64);
        let label = match (event.name.of(self.text), text, number) {
            (b"process_name", Some(text), _) => TrackLabel::ProcessName(self.batch.string(text)),
            (b"thread_name", Some(text), _) => {
                TrackLabel::ThreadName(self.batch.string(text.trim()))
            }
            (b"process_sort_index", _, Some(index)) => TrackLabel::ProcessSort(index),
            (b"thread_sort_index", _, Some(index)) => TrackLabel::ThreadSort(index),
            // Others (`process_labels`, producers' own) say nothing that is shown.
            _ => return,
        };
        let track = self.track(event);
        self.batch.label(track, label);
    }

    #[inline(always)]
    fn category(&mut self, piece: Piece) -> KnownCategory {
        let text = piece.of(self.text);
        for known in &self.categories {
            if event::same(known.piece.of(self.text), text) {
                return *known;
            }
        }
        self.new_category(piece)
    }

    #[cold]
    fn new_category(&mut self, piece: Piece) -> KnownCategory {
        let raw = piece.of(self.text);
        let kind = kineto::span_kind(raw);
        let name = text::decode(raw, &mut StringDamage::default());
        let id = self.batch.category(&name, kind);
        let is_launch_flow = kineto::is_launch_flow(raw);
        let known = KnownCategory { piece, id, kind, is_launch_flow };
        remember(&mut self.categories, known);
        known
    }

    #[inline(always)]
    fn track(&mut self, event: &Event) -> TrackId {
        let process = event.process.of(self.text);
        let thread = event.thread.of(self.text);
        for known in &self.tracks {
            if event::same(known.thread.of(self.text), thread)
                && event::same(known.process.of(self.text), process)
            {
                return known.id;
            }
        }
        self.new_track(event)
    }

    #[cold]
    fn new_track(&mut self, event: &Event) -> TrackId {
        let (process, thread) = (self.text_of(event.process), self.text_of(event.thread));
        let id = self.batch.track(TrackKind::Thread, &process, &thread);
        remember(&mut self.tracks, KnownTrack { process: event.process, thread: event.thread, id });
        id
    }

    /// Asynchronous spans of one process and category share a lane.
    fn async_track(&mut self, event: &Event) -> TrackId {
        let (process, category) = (self.text_of(event.process), self.text_of(event.category));
        self.batch.track(TrackKind::Async, &process, &category)
    }

    #[inline(always)]
    fn string(&mut self, piece: Piece) -> StrId {
        if piece.escapes == 0
            && let Some(known) = self.batch.find_string(piece.of(self.text))
        {
            return known;
        }
        self.new_string(piece)
    }

    #[inline(never)]
    fn new_string(&mut self, piece: Piece) -> StrId {
        let mut odd = StringDamage::default();
        let text = text::decode(piece.of(self.text), &mut odd);
        let id = self.batch.string(&text);
        if odd.invalid_escape {
            self.notice(NoticeKind::InvalidEscape, piece.from, (piece.to - piece.from).min(80));
        }
        if odd.invalid_utf8 {
            self.notice(NoticeKind::InvalidUtf8, piece.from, (piece.to - piece.from).min(80));
        }
        id
    }

    fn text_of(&self, piece: Piece) -> Cow<'t, str> {
        text::decode(piece.of(self.text), &mut StringDamage::default())
    }
}

/// Puts the newest first; the oldest falls out.
fn remember<T>(recent: &mut Vec<T>, new: T) {
    recent.truncate(RECENT_MAX - 1);
    recent.insert(0, new);
}

/// What joins events of one id: the number itself, or a hash of the text.
#[inline(always)]
fn id_key(text: &[u8], event: &Event) -> u64 {
    let piece = if event.id.is_empty() { event.id2 } else { event.id };
    let word = piece.of(text);
    match event::integer(word) {
        Some(id) if id < 1 << 63 => id,
        _ => hash_bytes(word) >> 1 | 1 << 63,
    }
}
