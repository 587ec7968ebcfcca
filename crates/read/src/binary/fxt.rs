//! The Fuchsia trace format: records of 64-bit words.
//!
//! Spans (whole, or begin and end), asynchronous ones, instants, counters, flows and names
//! are read; other records are counted and passed over, and arguments are not kept. Every
//! record says its length, so damage inside one costs that one; a length that cannot be
//! ends the reading there.

use std::collections::{HashMap, VecDeque};

use spanwise_model::{
    Batch, CategoryId, CounterRow, FlowPhase, InstantRow, NO_KEY, Nanos, NoticeKind, SourceInfo,
    SpanRow, StrId, Trace, TrackId, TrackKind, TrackLabel, hash_bytes,
};

use super::{Feed, Records};
use crate::ReadErrorKind;
use crate::assembly::{Assembly, Edge, FlowPoint};
use crate::json::kineto;

/// The record that every such file begins with.
const MAGIC: [u8; 8] = 0x0016_5478_4604_0010u64.to_le_bytes();

/// How many earlier spans of a thread are searched for the start of a flow.
const RECENT_MAX: usize = 64;

pub(crate) fn seems_fxt(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// A process and a thread, by their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct ThreadKoids {
    process: u64,
    thread: u64,
}

/// Where an event belongs: a place, or a lane beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Home {
    Thread(ThreadKoids),
    /// With the category, which names the lane where nothing else does.
    Lane(ThreadKoids, CategoryId),
    /// With the counter's name.
    Counter(ThreadKoids, StrId),
}

/// What a record says about a process or a thread.
#[derive(Debug, Default)]
struct NamedObject {
    name: String,
    texts: HashMap<String, String>,
}

/// What one program of the recording has said so far.
#[derive(Default)]
struct Provider {
    strings: HashMap<u64, StrId>,
    threads: HashMap<u64, ThreadKoids>,
    ticks_per_second: Option<u64>,
}

#[derive(Default)]
pub(crate) struct Reader {
    assembly: Assembly,
    providers: HashMap<u64, Provider>,
    provider: u64,
    base_time_ns: Option<i64>,
    processes: HashMap<u64, NamedObject>,
    threads: HashMap<ThreadKoids, NamedObject>,
    thread_order: Vec<ThreadKoids>,
    homes: Vec<Home>,
    home_ids: HashMap<Home, usize>,
    lanes: HashMap<u64, usize>,
    /// Spans that came whole, with their homes.
    completes: Vec<(usize, SpanRow)>,
    instants: Vec<(usize, InstantRow)>,
    counters: Vec<(usize, CounterRow)>,
    /// The latest spans of each thread: start, end, offset.
    recent: HashMap<ThreadKoids, VecDeque<(Nanos, Nanos, u64)>>,
    is_done: bool,
}

/// The words of a record behind the first one.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// Text that fills whole words.
    fn text(&mut self, len: usize) -> Option<&'a str> {
        let (text, rest) = self.0.split_at_checked(len.next_multiple_of(8))?;
        self.0 = rest;
        Some(std::str::from_utf8(&text[..len]).unwrap_or("\u{fffd}"))
    }
}

fn bits(word: u64, from: u32, count: u32) -> u64 {
    word >> from & ((1 << count) - 1)
}

impl Feed for Reader {
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize {
        let mut at = 0;
        while !self.is_done && at < bytes.len() {
            let offset = base + at as u64;
            let mut words = Words(&bytes[at..]);
            let header = words.next();
            let size = header.map(|header| match bits(header, 0, 4) {
                15 => bits(header, 4, 32) as usize * 8,
                _ => bits(header, 4, 12) as usize * 8,
            });
            match (header, size) {
                (Some(_), Some(0)) => {
                    self.notice(NoticeKind::TooDamaged, offset, b"");
                    self.is_done = true;
                }
                (Some(header), Some(size)) if size <= bytes.len() - at => {
                    let body = Words(&bytes[at + 8..at + size]);
                    if self.record(header, body, offset).is_none() {
                        self.notice(NoticeKind::EventSkipped, offset, b"");
                    }
                    at += size;
                }
                _ if is_last => {
                    self.notice(NoticeKind::FileCut, offset, b"");
                    self.is_done = true;
                }
                _ => return at,
            }
        }
        if self.is_done { bytes.len() } else { at }
    }

    fn notice(&mut self, kind: NoticeKind, offset: u64, example: &[u8]) {
        self.assembly.batch.notice(kind, offset, example);
    }
}

impl Records for Reader {
    fn finish(
        mut self: Box<Self>,
        mut info: SourceInfo,
        threads: usize,
    ) -> Result<Trace, ReadErrorKind> {
        info.format = "Fuchsia".to_owned();
        info.base_time_ns = self.base_time_ns;
        let mut assembly = std::mem::take(&mut self.assembly);
        for place in std::mem::take(&mut self.thread_order) {
            if !self.threads[&place].texts.contains_key("spanwise:lane") {
                self.track(&mut assembly.batch, Home::Thread(place));
            }
        }
        let homes = std::mem::take(&mut self.homes);
        let tracks: Vec<TrackId> =
            homes.iter().map(|&home| self.track(&mut assembly.batch, home)).collect();
        for (home, row) in std::mem::take(&mut self.completes) {
            assembly.span(tracks[home], row);
        }
        assembly.pair(|_, lane| tracks[self.lanes[&lane]]);
        for (home, row) in std::mem::take(&mut self.instants) {
            assembly.batch.instants.push(InstantRow { track: tracks[home], ..row });
        }
        for (home, row) in std::mem::take(&mut self.counters) {
            assembly.batch.counters.push(CounterRow { track: tracks[home], ..row });
        }
        Ok(assembly.finish(info, threads))
    }
}

impl Reader {
    /// Takes in one record; `None` where it is damaged.
    fn record(&mut self, header: u64, mut words: Words<'_>, offset: u64) -> Option<()> {
        match bits(header, 0, 4) {
            0 => match bits(header, 16, 4) {
                // Provider information and section.
                1 | 2 => self.provider = bits(header, 20, 32),
                _ => {}
            },
            1 => {
                let provider = self.providers.entry(self.provider).or_default();
                provider.ticks_per_second = Some(words.next()?).filter(|&ticks| ticks > 0);
                if let (Some(ticks), Some(calendar)) = (words.next(), words.next()) {
                    let base = (calendar as i64).checked_sub(self.time(ticks)?);
                    self.base_time_ns = self.base_time_ns.or(base);
                }
            }
            2 => {
                let text = words.text(bits(header, 32, 15) as usize)?;
                let text = self.assembly.batch.string(text);
                let provider = self.providers.entry(self.provider).or_default();
                provider.strings.insert(bits(header, 16, 15), text);
            }
            3 => {
                let place = ThreadKoids { process: words.next()?, thread: words.next()? };
                let provider = self.providers.entry(self.provider).or_default();
                provider.threads.insert(bits(header, 16, 8), place);
            }
            4 => self.event(header, words, offset)?,
            7 => self.object(header, words)?,
            _ => self.notice(NoticeKind::UnknownRecord, offset, b""),
        }
        Some(())
    }

    fn time(&self, ticks: u64) -> Option<Nanos> {
        let provider = self.providers.get(&self.provider);
        match provider.and_then(|provider| provider.ticks_per_second) {
            None | Some(1_000_000_000) => Some(ticks as i64),
            Some(rate) => i64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(rate)).ok(),
        }
    }

    /// A text by its number, or as it stands in the record.
    fn text(&mut self, code: u64, words: &mut Words<'_>) -> Option<StrId> {
        if code & 0x8000 != 0 {
            let text = words.text((code & 0x7fff) as usize)?;
            return Some(self.assembly.batch.string(text));
        }
        let known = self.providers.get(&self.provider).and_then(|p| p.strings.get(&code));
        Some(known.copied().unwrap_or(StrId::EMPTY))
    }

    /// Names a process or a thread.
    fn object(&mut self, header: u64, mut words: Words<'_>) -> Option<()> {
        let koid = words.next()?;
        let name = self.text(bits(header, 24, 16), &mut words)?;
        let mut named =
            NamedObject { name: self.assembly.batch.text(name).to_owned(), texts: HashMap::new() };
        let mut process = 0;
        for _ in 0..bits(header, 40, 4) {
            let (key, value) = self.argument(&mut words)?;
            let key = self.assembly.batch.text(key).to_owned();
            match value {
                Argument::Koid(koid) if key == "process" => process = koid,
                Argument::Text(text) => {
                    named.texts.insert(key, self.assembly.batch.text(text).to_owned());
                }
                _ => {}
            }
        }
        match bits(header, 16, 8) {
            1 => drop(self.processes.insert(koid, named)),
            2 => {
                let place = ThreadKoids { process, thread: koid };
                let is_new = self.threads.insert(place, named).is_none();
                self.thread_order.extend(is_new.then_some(place));
            }
            _ => {}
        }
        Some(())
    }

    fn argument(&mut self, words: &mut Words<'_>) -> Option<(StrId, Argument)> {
        let header = words.next()?;
        let body = (bits(header, 4, 12) as usize).checked_sub(1)? * 8;
        let (body, rest) = words.0.split_at_checked(body)?;
        words.0 = rest;
        let mut body = Words(body);
        let key = self.text(bits(header, 16, 16), &mut body)?;
        let value = match bits(header, 0, 4) {
            1 => Argument::Number(f64::from((header >> 32) as i32)),
            2 => Argument::Number((header >> 32) as f64),
            3 => Argument::Number(body.next()? as i64 as f64),
            4 => Argument::Number(body.next()? as f64),
            5 => Argument::Number(f64::from_bits(body.next()?)),
            6 => Argument::Text(self.text(bits(header, 32, 16), &mut body)?),
            8 => Argument::Koid(body.next()?),
            _ => Argument::Other,
        };
        Some((key, value))
    }

    fn event(&mut self, header: u64, mut words: Words<'_>, offset: u64) -> Option<()> {
        let time = self.time(words.next()?)?;
        let place = match bits(header, 24, 8) {
            0 => ThreadKoids { process: words.next()?, thread: words.next()? },
            code => {
                let provider = self.providers.get(&self.provider);
                let known = provider.and_then(|provider| provider.threads.get(&code));
                known.copied().unwrap_or_default()
            }
        };
        let category_name = self.text(bits(header, 32, 16), &mut words)?;
        let name = self.text(bits(header, 48, 16), &mut words)?;
        let mut numbers = Vec::new();
        for _ in 0..bits(header, 20, 4) {
            if let (key, Argument::Number(value)) = self.argument(&mut words)? {
                numbers.push((key, value));
            }
        }
        let category = self.assembly.batch.text(category_name).to_owned();
        let kind = kineto::span_kind(category.as_bytes());
        let category = self.assembly.batch.category(&category, kind);
        let texts = (name, category);
        let event = EventHead { place, time, texts, offset };
        let phase = match bits(header, 16, 4) {
            0 => self.instant(Home::Thread(place), &event, b'i'),
            1 => self.counter(&event, &numbers, words.next()?),
            kind @ (2 | 3) => self.edge(Home::Thread(place), &event, kind == 2, 0),
            4 => self.complete(&event, words.next()?)?,
            kind @ (5 | 7) => {
                let id = words.next()?;
                self.edge(Home::Lane(place, category), &event, kind == 5, id)
            }
            6 => self.instant(Home::Lane(place, category), &event, b'n'),
            kind @ 8..=10 => self.flow(&event, kind, words.next()?),
            _ => {
                self.notice(NoticeKind::UnknownPhase, offset, b"");
                b'?'
            }
        };
        *self.assembly.batch.phases.entry(phase).or_insert(0) += 1;
        Some(())
    }

    fn home(&mut self, home: Home) -> usize {
        *self.home_ids.entry(home).or_insert_with(|| {
            self.homes.push(home);
            self.homes.len() - 1
        })
    }

    fn remember(&mut self, event: &EventHead, end: Nanos) {
        let recent = self.recent.entry(event.place).or_default();
        recent.truncate(RECENT_MAX - 1);
        recent.push_front((event.time, end, event.offset));
    }

    fn instant(&mut self, home: Home, event: &EventHead, phase: u8) -> u8 {
        let (home, (name, category)) = (self.home(home), event.texts);
        let (time, offset) = (event.time, event.offset);
        let row = InstantRow { time, offset, name, track: TrackId(0), category };
        self.instants.push((home, row));
        phase
    }

    /// Each number among the arguments is a series of its own.
    fn counter(&mut self, event: &EventHead, numbers: &[(StrId, f64)], id: u64) -> u8 {
        let batch = &mut self.assembly.batch;
        let name = batch.text(event.texts.0).to_owned();
        let id = if id == 0 { String::new() } else { id.to_string() };
        for &(series, value) in numbers {
            let batch = &mut self.assembly.batch;
            let series = batch.text(series).to_owned();
            let series = if series == "value" { "" } else { &series };
            let parts = [&*name, &*id, series];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let label = batch.string(&parts.join(" "));
            let home = self.home(Home::Counter(ThreadKoids { thread: 0, ..event.place }, label));
            let (time, offset) = (event.time, event.offset);
            self.counters.push((home, CounterRow { time, offset, value, track: TrackId(0) }));
        }
        b'C'
    }

    fn edge(&mut self, home: Home, event: &EventHead, is_begin: bool, id: u64) -> u8 {
        let home = self.home(home);
        let lane = hash_bytes(format!("{home} {id}").as_bytes());
        self.lanes.insert(lane, home);
        let begin = is_begin.then_some(event.texts);
        let edge = Edge { lane, time: event.time, offset: event.offset, begin };
        self.assembly.edges.push(edge);
        if is_begin {
            self.remember(event, Nanos::MAX);
        }
        if is_begin { b'B' } else { b'E' }
    }

    fn complete(&mut self, event: &EventHead, end: u64) -> Option<u8> {
        let end = self.time(end)?;
        let dur = end.checked_sub(event.time)?;
        if dur < 0 {
            self.notice(NoticeKind::NegativeDuration, event.offset, b"");
        }
        let home = self.home(Home::Thread(event.place));
        let (name, category) = event.texts;
        let (start, dur, offset) = (event.time, dur.max(0), event.offset);
        self.completes.push((home, SpanRow { start, dur, key: NO_KEY, offset, name, category }));
        self.remember(event, end);
        Some(b'X')
    }

    /// A flow stands on the latest span of its thread that is open then.
    fn flow(&mut self, event: &EventHead, kind: u64, id: u64) -> u8 {
        let time = event.time;
        let is_open = |&&(start, end, _): &&(Nanos, Nanos, u64)| {
            start <= time && (time < end || (start == end && time == start))
        };
        let span = self.recent.get(&event.place).and_then(|recent| recent.iter().find(is_open));
        let (phase, letter) = match kind {
            8 => (FlowPhase::Start, b's'),
            9 => (FlowPhase::Step, b't'),
            _ => (FlowPhase::End, b'f'),
        };
        let (name, category) = event.texts;
        let id = hash_bytes(format!("{} {} {id}", name.0, category.0).as_bytes());
        let event = span.map_or(event.offset, |&(.., offset)| offset);
        let point = FlowPoint { id, time, event, phase, category: Some(category) };
        self.assembly.flows.push(point);
        letter
    }

    /// The track of a home, with the names that are known now.
    fn track(&self, batch: &mut Batch, home: Home) -> TrackId {
        let (Home::Thread(place) | Home::Lane(place, _) | Home::Counter(place, _)) = home;
        let process = self.processes.get(&place.process);
        let process_text = process.and_then(|named| named.texts.get("spanwise:process"));
        let process_text = process_text.cloned().unwrap_or_else(|| place.process.to_string());
        let named = self.threads.get(&place);
        let said = |key| named.and_then(|named| named.texts.get(key));
        let track = match home {
            Home::Thread(place) => {
                let thread = said("spanwise:thread").or(said("spanwise:lane"));
                let thread = thread.cloned().unwrap_or_else(|| place.thread.to_string());
                batch.track(TrackKind::Thread, &process_text, &thread)
            }
            Home::Lane(_, category) => {
                let category = batch.category_text(category).to_owned();
                let lane = said("spanwise:lane").cloned().unwrap_or(category);
                batch.track(TrackKind::Async, &process_text, &lane)
            }
            Home::Counter(_, label) => {
                let label = batch.text(label).to_owned();
                batch.track(TrackKind::Counter, &process_text, &label)
            }
        };
        let is_unnamed = |named: &NamedObject| {
            named.name.is_empty() || named.texts.contains_key("spanwise:unnamed")
        };
        if let Some(named) = process.filter(|named| !is_unnamed(named)) {
            let name = batch.string(&named.name);
            batch.label(track, TrackLabel::ProcessName(name));
        }
        if !matches!(home, Home::Thread(_)) {
            return track;
        }
        if let Some(named) = named.filter(|named| !is_unnamed(named)) {
            let name = batch.string(&named.name);
            batch.label(track, TrackLabel::ThreadName(name));
        }
        if let Some(sort) = said("spanwise:sort").and_then(|text| text.parse().ok()) {
            batch.label(track, TrackLabel::ThreadSort(sort));
        }
        track
    }
}

/// The parts that all events have.
struct EventHead {
    place: ThreadKoids,
    time: Nanos,
    texts: (StrId, CategoryId),
    offset: u64,
}

/// The value of an argument, as far as it says something.
enum Argument {
    Number(f64),
    Text(StrId),
    Koid(u64),
    Other,
}
