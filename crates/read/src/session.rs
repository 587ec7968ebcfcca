//! Sessions of programs with spans of their own (`spanwise-probe`).
//!
//! Chunks, each with a length and a check: a damaged one costs itself, and a file that still
//! grows, or whose program was killed, is read as far as it goes. docs/session-format.md
//! describes every byte. Times are ticks; pairs of a tick and the clocks stand in between,
//! and times are interpolated from one pair to the next.

use std::collections::{BTreeMap, HashMap, HashSet};

use spanwise_model::{
    Batch, CategoryId, CounterRow, InstantRow, NO_KEY, NO_OFFSET, Nanos, NoticeKind, SourceInfo,
    SpanKind, SpanRow, StrId, Trace, TraceBuilder, TrackId, TrackKind, TrackLabel,
};

use crate::ReadErrorKind;
use crate::binary::{Feed, Records};

const MAGIC: &[u8; 8] = b"SPANSES1";

/// Kind, length and check of a chunk.
const HEAD_BYTES: usize = 16;

/// Start, end or value, and number of the site.
const RECORD_BYTES: usize = 24;

pub(crate) fn seems_session(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// A tick and the clocks at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    tick: u64,
    monotonic_ns: i64,
    calendar_ns: i64,
}

/// A place of the program.
#[derive(Debug, PartialEq, Eq)]
struct Site {
    kind: SiteKind,
    name: String,
    place: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SiteKind {
    Span,
    Mark,
    Counter,
    Task,
}

#[derive(Debug, Default)]
struct Thread {
    id: u64,
    name: String,
    dropped: u64,
    /// Two times, or a time and a value; and the site.
    records: Vec<[u64; 3]>,
}

#[derive(Default)]
pub(crate) struct Reader {
    has_magic: bool,
    process_id: u32,
    program: String,
    moments: Vec<Moment>,
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
            let Some((chunk, check, body)) = chunk(&bytes[at..]) else {
                if is_last {
                    self.notice(NoticeKind::FileCut, offset, b"");
                    return bytes.len();
                }
                return at;
            };
            if check != self::check(body) || self.chunk(chunk, Words(body)).is_none() {
                self.notice(NoticeKind::EventSkipped, offset, b"");
            }
            at += HEAD_BYTES + body.len();
        }
        at
    }

    fn notice(&mut self, kind: NoticeKind, offset: u64, example: &[u8]) {
        self.batch.notice(kind, offset, example);
    }
}

/// The site that the third word of a record tells. The upper half is for those who watch the
/// program from within: what it says is in other records too, or not about time.
fn site_of(word: u64) -> u32 {
    word as u32
}

/// The kind, the check and the body of the chunk that the bytes begin with, if it is whole.
fn chunk(bytes: &[u8]) -> Option<(u32, u64, &[u8])> {
    let mut head = Words(bytes.get(..HEAD_BYTES)?);
    let (kind, len, check) = (head.u32()?, head.u32()?, head.u64()?);
    let body = bytes[HEAD_BYTES..].get(..len as usize)?;
    Some((kind, check, body))
}

/// FNV-1a over words of eight bytes, the last one filled up with zeros.
fn check(bytes: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for piece in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

/// What is left of a chunk.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(std::str::from_utf8(text).unwrap_or("\u{fffd}"))
    }
}

impl Reader {
    /// Takes in one chunk; `None` where it is damaged.
    fn chunk(&mut self, chunk: u32, mut words: Words<'_>) -> Option<()> {
        match chunk {
            1 => {
                self.process_id = words.u32()?;
                self.program = words.text()?.to_owned();
            }
            2 => self.moments.push(Moment {
                tick: words.u64()?,
                monotonic_ns: words.u64()? as i64,
                calendar_ns: words.u64()? as i64,
            }),
            3 => {
                let number = words.u32()?;
                let kind = match words.u32()? {
                    0 => SiteKind::Span,
                    1 => SiteKind::Mark,
                    2 => SiteKind::Counter,
                    3 => SiteKind::Task,
                    _ => return None,
                };
                let line = words.u32()?;
                let name = words.text()?.to_owned();
                let place = format!("{}:{line}", words.text()?);
                self.sites.insert(number, Site { kind, name, place });
            }
            4 => {
                let thread = self.threads.entry(words.u32()?).or_default();
                thread.id = words.u64()?;
                thread.name = words.text()?.to_owned();
            }
            5 => {
                let thread = self.threads.entry(words.u32()?).or_default();
                thread.dropped = words.u64()?;
                let (records, rest) = words.0.as_chunks::<RECORD_BYTES>();
                let word = |record: &[u8; RECORD_BYTES], at: usize| {
                    let word = record[at * 8..][..8].try_into().expect("eight bytes");
                    u64::from_le_bytes(word)
                };
                let record = |record| std::array::from_fn(|at| word(record, at));
                thread.records.extend(records.iter().map(record));
                return rest.is_empty().then_some(());
            }
            6 => {
                let _records = words.u64()?;
                self.end_dropped = Some(words.u64()?);
            }
            _ => self.notice(NoticeKind::UnknownRecord, NO_OFFSET, b""),
        }
        Some(())
    }
}

/// From ticks to nanoseconds.
struct Clock(Vec<Moment>);

impl Clock {
    /// Moments that go back on either clock, or are before its beginning, are left out.
    fn new(mut moments: Vec<Moment>) -> Self {
        moments.retain(|moment| moment.monotonic_ns >= 0);
        moments
            .dedup_by(|next, last| next.tick <= last.tick || next.monotonic_ns < last.monotonic_ns);
        Clock(moments)
    }

    /// The time of a tick, on the line through the moments around it; beyond the first and
    /// the last, on the line through the two that are closest.
    fn time(&self, tick: u64) -> Nanos {
        let [first, .., last] = &*self.0 else {
            // One moment tells no rate: a tick is taken for a nanosecond.
            let base = self
                .0
                .first()
                .map_or(0, |only| i128::from(only.monotonic_ns) - i128::from(only.tick));
            return narrow(base + i128::from(tick));
        };
        let after = self.0.partition_point(|moment| moment.tick <= tick);
        let (from, to) = match after {
            0 => (first, &self.0[1]),
            after if after == self.0.len() => (&self.0[after - 2], last),
            after => (&self.0[after - 1], &self.0[after]),
        };
        let ticks = i128::from(to.tick) - i128::from(from.tick);
        let ns = i128::from(to.monotonic_ns) - i128::from(from.monotonic_ns);
        let since = i128::from(tick) - i128::from(from.tick);
        // Ticks fit 64 bits and nanoseconds, which are not below zero, 63: the product fits.
        narrow(i128::from(from.monotonic_ns) + (since * ns).div_euclid(ticks))
    }

    /// What to add to a time to get nanoseconds since 1970.
    fn base_time_ns(&self) -> Option<i64> {
        let first = self.0.first()?;
        first.calendar_ns.checked_sub(first.monotonic_ns)
    }
}

fn narrow(ns: i128) -> Nanos {
    ns.clamp(i128::from(Nanos::MIN / 2), i128::from(Nanos::MAX / 2)) as Nanos
}

impl Records for Reader {
    fn finish(
        mut self: Box<Self>,
        mut info: SourceInfo,
        threads: usize,
    ) -> Result<Trace, ReadErrorKind> {
        let clock = Clock::new(std::mem::take(&mut self.moments));
        info.format = "spanwise session".to_owned();
        info.base_time_ns = clock.base_time_ns();
        if self.end_dropped.is_none() {
            let state = "still going on, or its program was ended".to_owned();
            info.properties.insert("session".to_owned(), state);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_time(moments: &[(u64, i64)], tick: u64, expected: Nanos) {
        let moment = |&(tick, monotonic_ns)| Moment { tick, monotonic_ns, calendar_ns: 0 };
        let clock = Clock::new(moments.iter().map(moment).collect());
        assert_eq!(clock.time(tick), expected);
    }

    #[test]
    fn times_lie_on_the_line_between_moments() {
        let moments = [(1000, 500), (3000, 1500), (4000, 3500)];
        check_time(&moments, 1000, 500);
        check_time(&moments, 2001, 1000);
        check_time(&moments, 3500, 2500);
        check_time(&moments, 0, 0);
        check_time(&moments, 5000, 5500);
    }

    #[test]
    fn moments_that_make_no_sense_do_no_harm() {
        check_time(&[], 7, 7);
        check_time(&[(10, 100)], 12, 102);
        check_time(&[(10, 100), (10, 200), (20, 110)], 15, 105);
        check_time(&[(10, 100), (20, 90), (30, 120)], 20, 110);
        check_time(&[(0, 0), (1, i64::MAX)], u64::MAX, Nanos::MAX / 2);
        check_time(&[(u64::MAX - 1, 0), (u64::MAX, i64::MAX)], 0, Nanos::MIN / 2);
        check_time(&[(5, i64::MIN), (6, 7)], 8, 9);
    }
}
