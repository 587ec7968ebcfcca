//! Perfetto's protobuf traces: the part that programs write themselves.
//!
//! Track descriptors, track events with interned or plain names, the older kinds of
//! events, counters and flows are read. Packets of the system (scheduling, logs and so
//! on) are counted and passed over, and arguments are not kept. Packets stand one behind
//! the other without marks between them, so damage to a length ends the reading there;
//! damage inside a packet costs that packet.

mod clocks;
mod event;
mod tracks;

use std::collections::HashMap;
use std::io::Read;

use spanwise_model::{
    CategoryId, CounterRow, InstantRow, Nanos, NoticeKind, SourceInfo, SpanRow, StrId, Trace,
};
use spanwise_protobuf::{Message, Value};

use clocks::Clocks;
use tracks::Tracks;

use crate::ReadErrorKind;
use crate::assembly::Assembly;
use crate::binary::{Feed, Records};
use crate::input::WAVE_BYTES;
use crate::input::memory::MemoryShare;

/// The most that the packets inside one compressed packet may inflate to.
const INFLATED_BYTES_MAX: u64 = 256 << 20;

/// Fields of a packet that are read.
mod field {
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const CLEARED: u32 = 41;
    pub(super) const PROCESS_DESCRIPTOR: u32 = 43;
    pub(super) const THREAD_DESCRIPTOR: u32 = 44;
    pub(super) const COMPRESSED: u32 = 50;
    pub(super) const TIMESTAMP_CLOCK: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    /// What our own writer adds: categories of the arrows that begin here.
    pub(super) const FLOW_CATEGORY: u32 = 50_001;
}

/// Fields of a packet that say nothing about what happened: ids and flags of the
/// recording service, its configuration, statistics, marks for synchronization.
const SILENT: [u32; 16] = [3, 33, 34, 35, 36, 42, 45, 55, 64, 75, 76, 79, 87, 89, 98, 103];

/// Whether a file begins with packets of a Perfetto trace.
pub(crate) fn seems_perfetto(head: &[u8]) -> bool {
    let mut fields = Message::new(head);
    let mut is_known = false;
    for _ in 0..8 {
        let packet = match fields.next_field() {
            Ok(Some((1, Value::Bytes(packet)))) => packet,
            Ok(None) => break,
            Err(damage) if damage.is_cut() => break,
            _ => return false,
        };
        let is_whole = packet.each(|number, value| {
            is_known |= match value {
                Value::Number(_) => {
                    [field::TIMESTAMP, field::SEQUENCE_ID, field::SEQUENCE_FLAGS].contains(&number)
                }
                Value::Bytes(_) => {
                    number == field::TRACK_DESCRIPTOR
                        || number == field::CLOCK_SNAPSHOT
                        || SILENT.contains(&number)
                }
                Value::Fixed(_) => false,
            };
        });
        if !is_whole {
            return false;
        }
    }
    is_known
}

/// What a sequence of packets has said so far.
#[derive(Default)]
struct Sequence {
    names: HashMap<u64, StrId>,
    categories: HashMap<u64, CategoryId>,
    default_track: Option<u64>,
    default_clock: Option<u64>,
    thread_track: Option<u64>,
    /// For times that are differences in microseconds.
    last_us: i64,
}

/// The parts of a packet, wherever in it they stand.
#[derive(Default)]
struct Packet<'a> {
    sequence: u64,
    time: Option<u64>,
    clock: Option<u64>,
    is_cleared: bool,
    interned: Option<Value<'a>>,
    defaults: Option<Value<'a>>,
    event: Option<Value<'a>>,
    flow_categories: Vec<u64>,
    others: Vec<(u32, Value<'a>)>,
}

/// Reads packets as they come.
#[derive(Default)]
pub(crate) struct Reader {
    assembly: Assembly,
    clocks: Clocks,
    tracks: Tracks,
    sequences: HashMap<u64, Sequence>,
    /// Of all packets inside compressed ones.
    decompressed_bytes: u64,
    next_check_bytes: u64,
    share: Option<MemoryShare>,
    too_large: Option<ReadErrorKind>,
    /// Instants and values, each with the uuid of its track.
    instants: Vec<(u64, InstantRow)>,
    counters: Vec<(u64, CounterRow)>,
    /// Spans that came whole, with their tracks.
    completes: Vec<(u64, SpanRow)>,
    last_offset: Option<u64>,
    is_done: bool,
}

impl Reader {
    fn skipped(&mut self, kind: NoticeKind, offset: u64) {
        self.assembly.batch.notice(kind, offset, b"");
    }

    fn packet(&mut self, bytes: &[u8], offset: u64, is_outer: bool) {
        // Packets inside a compressed one have no offset: they follow the one before.
        let offset = self.last_offset.map_or(offset, |last| offset.max(last + 1));
        self.last_offset = Some(offset);
        let mut packet = Packet::default();
        let is_whole = Message::new(bytes).each(|number, value| match number {
            field::TIMESTAMP => packet.time = Some(value.number()),
            field::TIMESTAMP_CLOCK => packet.clock = Some(value.number()),
            field::SEQUENCE_ID => packet.sequence = value.number(),
            field::SEQUENCE_FLAGS => packet.is_cleared |= value.number() & 1 != 0,
            field::CLEARED => packet.is_cleared |= value.number() != 0,
            field::INTERNED_DATA => packet.interned = Some(value),
            field::DEFAULTS => packet.defaults = Some(value),
            field::TRACK_EVENT => packet.event = Some(value),
            field::FLOW_CATEGORY => packet.flow_categories.push(value.number()),
            number => packet.others.push((number, value)),
        });
        if !is_whole {
            return self.skipped(NoticeKind::EventSkipped, offset);
        }
        let sequence = self.sequences.entry(packet.sequence).or_default();
        if packet.is_cleared {
            *sequence = Sequence::default();
        }
        if let Some(defaults) = packet.defaults {
            sequence.set_defaults(defaults);
        }
        for (number, value) in std::mem::take(&mut packet.others) {
            self.other(&packet, number, value, offset, is_outer);
        }
        if let Some(interned) = packet.interned {
            self.intern(packet.sequence, interned);
        }
        if let Some(event) = packet.event {
            let clock = packet.clock.or(self.sequences[&packet.sequence].default_clock);
            let clocks = &mut self.clocks;
            let time = packet.time.map(|time| clocks.time(packet.sequence, clock, time));
            self.event(&packet, time, event, offset);
        } else if let Some(time) = packet.time {
            // A clock of differences moves on with every packet.
            let clock = packet.clock.or(self.sequences[&packet.sequence].default_clock);
            self.clocks.time(packet.sequence, clock, time);
        }
    }

    fn other(
        &mut self,
        packet: &Packet<'_>,
        number: u32,
        value: Value<'_>,
        offset: u64,
        is_outer: bool,
    ) {
        match number {
            field::CLOCK_SNAPSHOT => {
                self.clocks.snapshot(packet.sequence, &clocks::readings(value));
            }
            field::TRACK_DESCRIPTOR => self.tracks.describe(value),
            field::THREAD_DESCRIPTOR => {
                let track = self.tracks.thread(tracks::thread_of(value));
                let sequence = self.sequences.entry(packet.sequence).or_default();
                sequence.thread_track = Some(track);
                value.message().each(|number, value| {
                    if number == 6 {
                        sequence.last_us = value.number() as i64;
                    }
                });
            }
            field::COMPRESSED if is_outer => self.compressed(value.bytes(), offset),
            field::PROCESS_DESCRIPTOR => {}
            number if SILENT.contains(&number) => {}
            _ => self.skipped(NoticeKind::UnknownRecord, offset),
        }
    }

    fn compressed(&mut self, bytes: &[u8], offset: u64) {
        if self.too_large.is_some() {
            return;
        }
        let mut inflated = Vec::new();
        let decoder = flate2::read::ZlibDecoder::new(bytes).take(INFLATED_BYTES_MAX);
        if { decoder }.read_to_end(&mut inflated).is_err() {
            self.skipped(NoticeKind::CompressedDataDamaged, offset);
        }
        self.decompressed_bytes += inflated.len() as u64;
        let share = self.share.get_or_insert_with(MemoryShare::start);
        if self.decompressed_bytes >= self.next_check_bytes {
            self.next_check_bytes = self.decompressed_bytes + WAVE_BYTES as u64;
            self.too_large = share.check(self.decompressed_bytes).err();
        }
        let mut fields = Message::new(&inflated);
        loop {
            match fields.next_field() {
                Ok(Some((1, Value::Bytes(packet)))) => self.packet(packet.bytes(), offset, false),
                Ok(Some(_)) => self.skipped(NoticeKind::UnknownRecord, offset),
                Ok(None) => return,
                Err(_) => return self.skipped(NoticeKind::EventSkipped, offset),
            }
        }
    }

    fn intern(&mut self, sequence: u64, interned: Value<'_>) {
        let batch = &mut self.assembly.batch;
        let sequence = self.sequences.entry(sequence).or_default();
        interned.message().each(|number, value| {
            if !matches!(number, 1 | 2) {
                return;
            }
            let (mut iid, mut name) = (0, Value::Bytes(Message::new(&[])));
            value.message().each(|number, value| match number {
                1 => iid = value.number(),
                2 => name = value,
                _ => {}
            });
            if number == 2 {
                sequence.names.insert(iid, batch.string(&name.text()));
            } else {
                let kind = crate::json::kineto::span_kind(name.bytes());
                sequence.categories.insert(iid, batch.category(&name.text(), kind));
            }
        });
    }
}

impl Feed for Reader {
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize {
        let mut fields = Message::new(bytes);
        while !self.is_done {
            let offset = base + fields.offset() as u64;
            match fields.next_field() {
                Ok(Some((1, Value::Bytes(packet)))) => self.packet(packet.bytes(), offset, true),
                Ok(Some(_)) => self.skipped(NoticeKind::UnknownRecord, offset),
                Ok(None) => break,
                Err(damage) if damage.is_cut() && !is_last => break,
                Err(damage) if damage.is_cut() => {
                    self.skipped(NoticeKind::FileCut, offset);
                    self.is_done = true;
                }
                Err(_) => {
                    self.skipped(NoticeKind::TooDamaged, offset);
                    self.is_done = true;
                }
            }
        }
        if self.is_done { bytes.len() } else { fields.offset() }
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
        if let Some(error) = self.too_large {
            return Err(error);
        }
        info.format = "Perfetto".to_owned();
        info.base_time_ns = self.clocks.base_time_ns;
        let (assembly, tracks) = (&mut self.assembly, &mut self.tracks);
        tracks.make_threads(&mut assembly.batch);
        for (uuid, row) in self.completes {
            let track = tracks.track(&mut assembly.batch, uuid);
            assembly.span(track, row);
        }
        assembly.pair(|batch, uuid| tracks.track(batch, uuid));
        for (uuid, row) in self.instants {
            let track = tracks.track(&mut assembly.batch, uuid);
            assembly.batch.instants.push(InstantRow { track, ..row });
        }
        let mut known = HashMap::new();
        for (uuid, row) in self.counters {
            let track =
                *known.entry(uuid).or_insert_with(|| tracks.counter(&mut assembly.batch, uuid));
            assembly.batch.counters.push(CounterRow { track, ..row });
        }
        Ok(self.assembly.finish(info, threads))
    }
}

impl Sequence {
    fn set_defaults(&mut self, defaults: Value<'_>) {
        defaults.message().each(|number, value| match number {
            field::TIMESTAMP_CLOCK => self.default_clock = Some(value.number()),
            field::TRACK_EVENT => {
                value.message().each(|number, value| {
                    if number == 11 {
                        self.default_track = Some(value.number());
                    }
                });
            }
            _ => {}
        });
    }

    /// A time in microseconds, as a difference or whole.
    fn micros(&mut self, delta: Option<i64>, whole: Option<i64>) -> Option<Nanos> {
        let us = whole.or_else(|| Some(self.last_us.saturating_add(delta?)))?;
        self.last_us = us;
        us.checked_mul(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_distinguished() {
        let check = |head: &[u8], expected| assert_eq!(seems_perfetto(head), expected, "{head:?}");
        check(b"", false);
        check(b"\n{\"traceEvents\": [\n", false);
        check(b"\n[\n{\"ph\": \"X\", \"ts\": 1}]", false);
        check(&[10, 4, 8, 1, 16, 2, 10, 4, 8, 3, 16, 4], false);
        check(&[10, 4, 0x50, 1, 0x68, 1], true);
        check(&[10, 4, 0x50, 1, 0x68, 1, 10, 100, 1], true);
        check(&[10, 4, 0x50, 1, 0x68, 1, 0xff, 1], false);
    }
}
