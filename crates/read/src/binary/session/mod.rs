//! Sessions of programs with spans of their own (`spanwise-probe`).
//!
//! Chunks, each with a length and a check: a damaged one costs itself, and a file that still
//! grows, or whose program was killed, is read as far as it goes. docs/reference/formats/session.md
//! describes every byte. Times are ticks; pairs of a tick and the clocks stand in between,
//! and times are interpolated from one pair to the next.

mod chunks;
mod follow;
mod sums;

use std::collections::{BTreeMap, HashMap, HashSet};

use spanwise_model::{
    BOOT_PROPERTY, Batch, CategoryId, CounterRow, InstantRow, NO_KEY, NO_OFFSET, NoticeKind,
    SourceInfo, SpanKind, SpanRow, StrId, Trace, TraceBuilder, TrackId, TrackKind, TrackLabel,
};

use crate::ReadErrorKind;
use crate::binary::{Feed, Records};
use chunks::{Chunk, Clock, ClockReading, MAGIC, Site, SiteKind, next_chunk, record_of, site_of};
pub use follow::SessionFollower;

pub(crate) fn seems_session(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

#[derive(Debug, Default)]
struct Thread {
    id: u64,
    name: String,
    dropped: u64,
    records: Vec<[u64; 3]>,
}

#[derive(Default)]
pub(crate) struct Reader {
    has_magic: bool,
    process_id: u32,
    program: String,
    boot: Option<String>,
    clock_readings: Vec<ClockReading>,
    sites: BTreeMap<u32, Site>,
    threads: BTreeMap<u32, Thread>,
    /// What the end says was dropped.
    end_dropped: Option<u64>,
    batch: Batch,
}

impl Feed for Reader {
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize {
        let mut at = 0;
        if !self.has_magic {
            if bytes.len() < MAGIC.len() && !is_last {
                return 0;
            }
            self.has_magic = true;
            at = MAGIC.len().min(bytes.len());
        }
        while at < bytes.len() {
            let offset = base + at as u64;
            let Some((chunk, len)) = next_chunk(&bytes[at..]) else {
                if is_last {
                    self.notice(NoticeKind::FileCut, offset, b"");
                    return bytes.len();
                }
                return at;
            };
            if chunk.and_then(|chunk| self.take(chunk)).is_none() {
                self.notice(NoticeKind::EventSkipped, offset, b"");
            }
            at += len;
        }
        at
    }

    fn notice(&mut self, kind: NoticeKind, offset: u64, example: &[u8]) {
        self.batch.notice(kind, offset, example);
    }
}

impl Reader {
    fn take(&mut self, chunk: Chunk<'_>) -> Option<()> {
        match chunk {
            Chunk::Process { id, program, boot } => {
                self.process_id = id;
                self.program = program.to_owned();
                self.boot = boot.filter(|boot| !boot.is_empty()).map(str::to_owned);
            }
            Chunk::Clock(reading) => self.clock_readings.push(reading),
            Chunk::Site(number, site) => {
                self.sites.insert(number, site);
            }
            Chunk::Thread { number, id, name } => {
                let thread = self.threads.entry(number).or_default();
                thread.id = id;
                thread.name = name.to_owned();
            }
            Chunk::Records { thread, dropped, records, is_whole } => {
                let thread = self.threads.entry(thread).or_default();
                thread.dropped = dropped;
                thread.records.extend(records.iter().map(record_of));
                return is_whole.then_some(());
            }
            Chunk::End { dropped } => self.end_dropped = Some(dropped),
            Chunk::Unknown => self.notice(NoticeKind::UnknownRecord, NO_OFFSET, b""),
        }
        Some(())
    }
}

impl Records for Reader {
    fn finish(
        mut self: Box<Self>,
        mut info: SourceInfo,
        threads: usize,
    ) -> Result<Trace, ReadErrorKind> {
        let clock = Clock::new(std::mem::take(&mut self.clock_readings));
        info.format = "spanwise session".to_owned();
        info.base_time_ns = clock.base_time_ns();
        if self.end_dropped.is_none() {
            let state = "still going on, or its program was ended".to_owned();
            info.properties.insert("session".to_owned(), state);
        }
        if let Some(boot) = self.boot.take() {
            info.properties.insert(BOOT_PROPERTY.to_owned(), boot);
        }
        let names = self.names();
        let category = self.batch.category("span", SpanKind::Other);
        let of_threads = std::mem::take(&mut self.threads);
        let dropped: u64 =
            of_threads.values().fold(0, |sum, thread| sum.saturating_add(thread.dropped));
        let dropped = self.end_dropped.unwrap_or(0).max(dropped);
        self.batch.notices.add_count(NoticeKind::EventsLost, dropped, NO_OFFSET);
        let mut making = Making { reader: *self, clock, names, category };
        for thread in of_threads.into_values() {
            making.thread(&thread);
        }
        let mut batch = making.reader.batch;
        batch.seal();
        let mut builder = TraceBuilder::new(threads);
        builder.push(batch);
        Ok(builder.finish(info, None))
    }
}

impl Reader {
    /// The names of sites; with the place where several that were used share one.
    fn names(&mut self) -> HashMap<u32, StrId> {
        let records = self.threads.values().flat_map(|thread| &thread.records);
        let used: HashSet<u32> = records.map(|record| site_of(record[2])).collect();
        let sites = self.sites.iter().filter(|(number, _)| used.contains(*number));
        let mut places: HashMap<&str, (&str, bool)> = HashMap::new();
        for (_, site) in sites.filter(|(_, site)| site.kind == SiteKind::Span) {
            let seen = places.entry(&site.name).or_insert((&site.place, false));
            seen.1 |= seen.0 != site.place;
        }
        let name = |site: &Site| match places.get(&*site.name) {
            Some((_, true)) if site.kind == SiteKind::Span => {
                format!("{} ({})", site.name, site.place)
            }
            _ => site.name.clone(),
        };
        let names: Vec<(u32, String)> =
            self.sites.iter().map(|(&number, site)| (number, name(site))).collect();
        names.into_iter().map(|(number, name)| (number, self.batch.string(&name))).collect()
    }
}

/// Rows of a trace, thread by thread.
struct Making {
    reader: Reader,
    clock: Clock,
    names: HashMap<u32, StrId>,
    category: CategoryId,
}

impl Making {
    fn thread(&mut self, thread: &Thread) {
        let process = self.reader.process_id.to_string();
        let batch = &mut self.reader.batch;
        let track = batch.track(TrackKind::Thread, &process, &thread.id.to_string());
        let program = batch.string(&self.reader.program);
        batch.label(track, TrackLabel::ProcessName(program));
        if !thread.name.is_empty() {
            let name = batch.string(&thread.name);
            batch.label(track, TrackLabel::ThreadName(name));
        }
        for (at, &record) in thread.records.iter().enumerate() {
            if self.record(track, &process, at, record).is_none() {
                self.reader.batch.notice(NoticeKind::EventSkipped, NO_OFFSET, b"");
            }
        }
    }

    /// `None` where the record has no known site.
    fn record(&mut self, track: TrackId, process: &str, at: usize, words: [u64; 3]) -> Option<()> {
        let [start_tick, end_tick, site_and_flags] = words;
        let number = site_of(site_and_flags);
        let kind = self.reader.sites.get(&number)?.kind;
        let (name, category) = (self.names[&number], self.category);
        let start = self.clock.time(start_tick);
        let batch = &mut self.reader.batch;
        // A span is recorded when it ends, so of two with the same times the later record
        // is the outer one; rows of equal times go by their offsets.
        let offset = NO_OFFSET - 1 - at as u64;
        let phase = match kind {
            SiteKind::Span => {
                let dur = (self.clock.time(end_tick) - start).max(0);
                let row = SpanRow { start, dur, key: NO_KEY, offset, name, category };
                batch.push_span(track, row);
                b'X'
            }
            SiteKind::Task => {
                let dur = (self.clock.time(end_tick) - start).max(0);
                let lane = batch.text(name).to_owned();
                let track = batch.track(TrackKind::Async, process, &lane);
                let row = SpanRow { start, dur, key: NO_KEY, offset, name, category };
                batch.push_span(track, row);
                b'X'
            }
            SiteKind::Mark => {
                let row = InstantRow { time: start, offset, name, track, category };
                batch.instants.push(row);
                b'i'
            }
            SiteKind::Counter => {
                let name = batch.text(name).to_owned();
                let track = batch.track(TrackKind::Counter, process, &name);
                let value = f64::from_bits(end_tick);
                batch.counters.push(CounterRow { time: start, offset, value, track });
                b'C'
            }
        };
        *batch.phases.entry(phase).or_insert(0) += 1;
        Some(())
    }
}
