//! The chunks of a session's file, and its clock: what both readers of it share.
//!
//! docs/reference/formats/session.md describes every byte.

use spanwise_model::Nanos;

/// What every session file begins with.
pub(super) const MAGIC: &[u8; 8] = b"SPANSES1";

/// Kind, length and check of a chunk.
pub(super) const HEAD_BYTES: usize = 16;

/// Start, end or value, and number of the site.
pub(super) const RECORD_BYTES: usize = 24;

/// A tick, and what the clocks read then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockReading {
    pub(super) tick: u64,
    pub(super) monotonic_ns: i64,
    pub(super) calendar_ns: i64,
}

/// A place of the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) kind: SiteKind,
    pub(super) name: String,
    pub(super) place: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SiteKind {
    Span,
    Mark,
    Counter,
    Task,
}

/// One chunk that is sound.
pub(super) enum Chunk<'a> {
    /// `boot` is missing in files of older programs.
    Process {
        id: u32,
        program: &'a str,
        boot: Option<&'a str>,
    },
    Clock(ClockReading),
    Site(u32, Site),
    Thread {
        number: u32,
        id: u64,
        name: &'a str,
    },
    /// `is_whole` where no bytes are left over behind the last record.
    Records {
        thread: u32,
        dropped: u64,
        records: &'a [[u8; RECORD_BYTES]],
        is_whole: bool,
    },
    End {
        dropped: u64,
    },
    Unknown,
}

/// The chunk that the bytes begin with and how long it is; no length where it is not whole,
/// no chunk where it is damaged.
pub(super) fn next_chunk(bytes: &[u8]) -> Option<(Option<Chunk<'_>>, usize)> {
    let (kind, expected, body) = chunk(bytes)?;
    let sound = (check(body) == expected).then(|| parse(kind, Words(body))).flatten();
    Some((sound, HEAD_BYTES + body.len()))
}

fn parse(kind: u32, mut words: Words<'_>) -> Option<Chunk<'_>> {
    Some(match kind {
        1 => Chunk::Process { id: words.u32()?, program: words.text()?, boot: words.text() },
        2 => Chunk::Clock(ClockReading {
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
            Chunk::Site(number, Site { kind, name, place })
        }
        4 => Chunk::Thread { number: words.u32()?, id: words.u64()?, name: words.text()? },
        5 => {
            let (thread, dropped) = (words.u32()?, words.u64()?);
            let (records, rest) = words.0.as_chunks::<RECORD_BYTES>();
            Chunk::Records { thread, dropped, records, is_whole: rest.is_empty() }
        }
        6 => {
            let _records = words.u64()?;
            Chunk::End { dropped: words.u64()? }
        }
        _ => Chunk::Unknown,
    })
}

/// Two times, or a time and a value; and the site.
pub(super) fn record_of(bytes: &[u8; RECORD_BYTES]) -> [u64; 3] {
    std::array::from_fn(|at| {
        let word = bytes[at * 8..][..8].try_into().expect("eight bytes");
        u64::from_le_bytes(word)
    })
}

/// The site in the third word of a record. The upper half is for observers of the
/// program from within: what it says is in other records too, or not about time.
pub(super) fn site_of(word: u64) -> u32 {
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

/// From ticks to nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Clock(Vec<ClockReading>);

impl Clock {
    pub(super) fn new(readings: Vec<ClockReading>) -> Self {
        let mut clock = Clock::default();
        readings.into_iter().for_each(|reading| clock.push(reading));
        clock
    }

    /// Readings that go back on either clock, or are before its beginning, are left out.
    pub(super) fn push(&mut self, reading: ClockReading) {
        let goes_back = |last: &ClockReading| {
            reading.tick <= last.tick || reading.monotonic_ns < last.monotonic_ns
        };
        if reading.monotonic_ns >= 0 && !self.0.last().is_some_and(goes_back) {
            self.0.push(reading);
        }
    }

    /// Leaves out every second reading of the older half if there are more than `max`.
    pub(super) fn thin(&mut self, max: usize) {
        if self.0.len() > max {
            let half = self.0.len() / 2;
            let mut at = 0;
            self.0.retain(|_| {
                at += 1;
                at > half || at % 2 == 1
            });
        }
    }

    /// The time of a tick, on the line through the readings around it; beyond the first and
    /// the last, on the line through the two that are closest.
    pub(super) fn time(&self, tick: u64) -> Nanos {
        let [first, .., last] = &*self.0 else {
            // One reading gives no rate: a tick is taken for a nanosecond.
            let base = self
                .0
                .first()
                .map_or(0, |only| i128::from(only.monotonic_ns) - i128::from(only.tick));
            return narrow(base + i128::from(tick));
        };
        let after = self.0.partition_point(|reading| reading.tick <= tick);
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
    pub(super) fn base_time_ns(&self) -> Option<i64> {
        let first = self.0.first()?;
        first.calendar_ns.checked_sub(first.monotonic_ns)
    }
}

fn narrow(ns: i128) -> Nanos {
    ns.clamp(i128::from(Nanos::MIN / 2), i128::from(Nanos::MAX / 2)) as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_time(readings: &[(u64, i64)], tick: u64, expected: Nanos) {
        let reading = |&(tick, monotonic_ns)| ClockReading { tick, monotonic_ns, calendar_ns: 0 };
        let clock = Clock::new(readings.iter().map(reading).collect());
        assert_eq!(clock.time(tick), expected);
    }

    #[test]
    fn times_lie_on_the_line_between_readings() {
        let readings = [(1000, 500), (3000, 1500), (4000, 3500)];
        check_time(&readings, 1000, 500);
        check_time(&readings, 2001, 1000);
        check_time(&readings, 3500, 2500);
        check_time(&readings, 0, 0);
        check_time(&readings, 5000, 5500);
    }

    #[test]
    fn implausible_clock_readings_do_no_harm() {
        check_time(&[], 7, 7);
        check_time(&[(10, 100)], 12, 102);
        check_time(&[(10, 100), (10, 200), (20, 110)], 15, 105);
        check_time(&[(10, 100), (20, 90), (30, 120)], 20, 110);
        check_time(&[(0, 0), (1, i64::MAX)], u64::MAX, Nanos::MAX / 2);
        check_time(&[(u64::MAX - 1, 0), (u64::MAX, i64::MAX)], 0, Nanos::MIN / 2);
        check_time(&[(5, i64::MIN), (6, 7)], 8, 9);
    }
}
