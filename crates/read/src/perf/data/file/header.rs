//! The head of a recording: which events were recorded, what their samples hold, which
//! files took part.

use std::borrow::Cow;
use std::collections::HashMap;

use super::bytes::Bytes;
use super::pipe;
use super::tracepoint_formats::Formats;
use super::unpack;
use super::unpack::TooMuch;
use crate::ReadErrorKind;
use crate::input::memory;

/// What the samples of one event hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// The number of its source, and what was asked of that.
    pub(crate) kind: u32,
    pub(crate) config: u64,
    /// How many samples per second were asked for; 0 where a period was.
    pub(crate) frequency: u64,
    /// After how many events a sample is taken; 0 where it changes.
    pub(crate) period: u64,
    /// Bits of `PERF_SAMPLE_…`.
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) regs_user: u64,
    /// Switches of threads are recorded with it.
    pub(crate) has_switches: bool,
    /// Its times are those of `CLOCK_MONOTONIC`.
    pub(crate) has_monotonic: bool,
    /// Other records carry thread and time behind them.
    pub(crate) has_sample_id: bool,
    pub(crate) ids: Vec<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Header<'a> {
    pub(crate) is_big_endian: bool,
    pub(crate) events: Vec<Event>,
    by_id: HashMap<u64, usize>,
    /// The records; other than in the file where they were packed there.
    pub(crate) data: Cow<'a, [u8]>,
    /// Where they begin in the file.
    pub(crate) data_offset: u64,
    /// Build ids of files by path.
    pub(crate) build_ids: HashMap<String, Vec<u8>>,
    pub(crate) kernel_release: String,
    /// The sort of processor, such as `x86_64`.
    pub(crate) machine: String,
    /// What tracepoints recorded.
    pub(crate) formats: Formats,
    /// Less is there than the header says.
    pub(crate) is_cut: bool,
}

/// How many events a recording may have; perf itself opens no more than files it may.
pub(crate) const EVENTS_MAX: usize = 4096;

pub(crate) const TRACING_DATA: u32 = 1;
pub(crate) const BUILD_ID: u32 = 2;
const OS_RELEASE: u32 = 4;
const ARCH: u32 = 6;
const EVENT_DESC: u32 = 12;

/// A part of the file.
#[derive(Debug, Clone, Copy)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn read(bytes: &mut Bytes<'_>) -> Option<Section> {
        Some(Section { offset: bytes.u64()?, size: bytes.u64()? })
    }

    /// As much of it as is there.
    fn of(self, file: &[u8]) -> &[u8] {
        let from = usize::try_from(self.offset).unwrap_or(usize::MAX).min(file.len());
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        &file[from..from.saturating_add(size).min(file.len())]
    }
}

pub(crate) const MAGIC: &[u8] = b"PERFILE2";
const MAGIC_SWAPPED: &[u8] = b"2ELIFREP";

pub(crate) fn seems_perf_data(head: &[u8]) -> bool {
    head.starts_with(MAGIC) || head.starts_with(MAGIC_SWAPPED)
}

/// Why a recording cannot be read at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotARecording(&'static str),
    /// It unpacks to more than there is memory for; this much was unpacked.
    TooLarge(u64),
}

impl Refusal {
    pub(crate) fn into_error(self) -> ReadErrorKind {
        match self {
            Refusal::TooLarge(unpacked_bytes) => memory::too_large(unpacked_bytes),
            Refusal::NotARecording(what) => {
                ReadErrorKind::NotATrace { offset: 0, what, found: "perf.data".to_owned() }
            }
        }
    }
}

impl<'a> Header<'a> {
    pub(crate) fn read(file: &'a [u8]) -> Result<Header<'a>, Refusal> {
        const CUT: Refusal = Refusal::NotARecording("the header of a perf recording is cut off");
        const EMPTY: Refusal = Refusal::NotARecording("a perf recording without events");
        let is_big_endian = file.starts_with(MAGIC_SWAPPED);
        let mut bytes = Bytes::new(file, is_big_endian);
        bytes.skip(MAGIC.len()).ok_or(CUT)?;
        let size = bytes.u64().ok_or(CUT)?;
        let mut header = Header { is_big_endian, ..Header::default() };
        match size {
            ..104 => pipe::read_into(&mut header, file),
            _ => header.read_file(file, bytes).ok_or(CUT)?,
        }
        if header.events.is_empty() {
            return Err(if header.is_cut { CUT } else { EMPTY });
        }
        for (row, event) in header.events.iter().enumerate() {
            header.by_id.extend(event.ids.iter().map(|&id| (id, row)));
        }
        let unpacked = unpack::unpacked(&header.data, is_big_endian, unpack::records_bytes_max());
        if let Some(unpacked) = unpacked.map_err(|TooMuch(bytes)| Refusal::TooLarge(bytes))? {
            header.is_cut |= !unpacked.is_whole;
            header.data = Cow::Owned(unpacked.records);
        }
        Ok(header)
    }

    /// What the head of a file points to. `None` where the head itself is cut off.
    fn read_file(&mut self, file: &'a [u8], mut bytes: Bytes<'a>) -> Option<()> {
        let attr_size = bytes.u64()?;
        let attrs = Section::read(&mut bytes)?;
        let mut data = Section::read(&mut bytes)?;
        Section::read(&mut bytes)?;
        let features = [(); 4].map(|()| bytes.u64().unwrap_or(0));
        // perf writes how much there is when it is through; one that was killed never did.
        let is_unfinished = data.size == 0 && data.offset < file.len() as u64;
        if is_unfinished {
            data.size = file.len() as u64 - data.offset;
        }
        let records = data.of(file);
        self.is_cut = is_unfinished
            || (records.len() as u64) < data.size
            || (attrs.of(file).len() as u64) < attrs.size;
        (self.data, self.data_offset) = (Cow::Borrowed(records), data.offset);
        self.read_attrs(file, attrs, attr_size);
        if !is_unfinished {
            self.read_features(file, data, features);
        }
        Some(())
    }

    fn read_attrs(&mut self, file: &[u8], attrs: Section, attr_size: u64) {
        let size = usize::try_from(attr_size).unwrap_or(0).max(16);
        for attr in attrs.of(file).chunks_exact(size).take(EVENTS_MAX) {
            let (attr, ids) = attr.split_at(size - 16);
            let Some(mut event) = self.event(attr) else { continue };
            if let Some(ids) = Section::read(&mut Bytes::new(ids, self.is_big_endian)) {
                let ids = ids.of(file);
                let count = ids.len() as u64 / 8;
                let numbers = Bytes::new(ids, self.is_big_endian).u64s(count);
                event.ids = numbers.into_iter().flatten().collect();
            }
            self.events.push(event);
        }
    }

    /// An event by its `perf_event_attr`, which newer kernels make longer.
    pub(crate) fn event(&self, attr: &[u8]) -> Option<Event> {
        let mut bytes = Bytes::new(attr, self.is_big_endian);
        let (kind, _) = (bytes.u32()?, bytes.u32()?);
        let (config, sampling) = (bytes.u64()?, bytes.u64()?);
        let (sample_type, read_format, flags) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        bytes.skip(24)?;
        let branch_sample_type = bytes.u64().unwrap_or(0);
        let regs_user = bytes.u64().unwrap_or(0);
        bytes.skip(4).unwrap_or(());
        let clock = bytes.i32().unwrap_or(0);
        let has = |bit: u32| {
            let bit = if self.is_big_endian { 63 - bit } else { bit };
            flags >> bit & 1 == 1
        };
        let (frequency, period) = if has(10) { (sampling, 0) } else { (0, sampling) };
        Some(Event {
            name: usual_name(kind, config),
            kind,
            config,
            frequency,
            period,
            sample_type,
            read_format,
            branch_sample_type,
            regs_user,
            has_switches: has(26),
            has_monotonic: has(25) && clock == 1,
            has_sample_id: has(18),
            ids: Vec::new(),
        })
    }

    /// Sections behind the records, one for each bit that is set.
    fn read_features(&mut self, file: &[u8], data: Section, features: [u64; 4]) {
        let places = Section { offset: data.offset.saturating_add(data.size), size: u64::MAX };
        let mut places = Bytes::new(places.of(file), self.is_big_endian);
        let is_set = |bit: &u32| features[(bit / 64) as usize] >> (bit % 64) & 1 == 1;
        for bit in (0..256).filter(is_set) {
            let Some(section) = Section::read(&mut places) else {
                self.is_cut = true;
                return;
            };
            self.read_feature(bit, Bytes::new(section.of(file), self.is_big_endian));
        }
    }

    pub(crate) fn read_feature(&mut self, bit: u32, bytes: Bytes<'_>) {
        match bit {
            OS_RELEASE => {
                self.kernel_release = bytes.rest().counted_text().unwrap_or_default();
            }
            ARCH => self.machine = bytes.rest().counted_text().unwrap_or_default(),
            TRACING_DATA => self.formats = Formats::read(bytes.all()),
            EVENT_DESC => self.name_events(bytes).unwrap_or(()),
            BUILD_ID => self.read_build_ids(bytes).unwrap_or(()),
            _ => {}
        }
    }

    /// The events again, with their names as the user gave them.
    fn name_events(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        let (count, attr_size) = (bytes.u32()?, bytes.u32()?);
        for _ in 0..(count as usize).min(EVENTS_MAX) {
            bytes.skip(usize::try_from(attr_size).ok()?)?;
            let ids = bytes.u32()?;
            let name = bytes.counted_text()?;
            let ids: Vec<u64> = bytes.u64s(ids.into())?.collect();
            let mut events = self.events.iter_mut();
            if let Some(event) = events.find(|event| event.ids == ids && !ids.is_empty()) {
                event.name = name;
            }
        }
        Some(())
    }

    fn read_build_ids(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        const HAS_SIZE: u16 = 1 << 15;
        while bytes.len() > 0 {
            bytes.skip(4)?;
            let (misc, size) = (bytes.u16()?, bytes.u16()?);
            let mut body =
                Bytes::new(bytes.take(usize::from(size).checked_sub(8)?)?, self.is_big_endian);
            body.skip(4)?;
            let id = body.take(24)?;
            let len = if misc & HAS_SIZE != 0 { usize::from(id[20]).min(20) } else { 20 };
            self.build_ids.insert(body.text(), id[..len].to_vec());
        }
        Some(())
    }

    /// The event with this id; where there is only one, that.
    pub(crate) fn event_of(&self, id: Option<u64>) -> Option<&Event> {
        match (self.events.as_slice(), id) {
            ([event], _) => Some(event),
            (_, Some(id)) => self.by_id.get(&id).map(|&row| &self.events[row]),
            (_, None) => None,
        }
    }
}

/// What an event is called where the file does not say.
fn usual_name(kind: u32, config: u64) -> String {
    let hardware = ["cycles", "instructions", "cache-references", "cache-misses", "branches"];
    let software = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
    ];
    let at = usize::try_from(config).unwrap_or(usize::MAX);
    let known = match kind {
        0 => hardware.get(at),
        1 => software.get(at),
        _ => None,
    };
    known.map_or_else(|| format!("event {kind}:{config:#x}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_recording_says_why() {
        let check = |bytes: &[u8], what: &'static str| {
            assert_eq!(Header::read(bytes).err(), Some(Refusal::NotARecording(what)));
        };
        check(b"PERFILE2", "the header of a perf recording is cut off");
        let pipe = [MAGIC, &16_u64.to_le_bytes()].concat();
        check(&pipe, "a perf recording without events");
        let pipe = [MAGIC, &16_u64.to_le_bytes(), &[64, 0, 0]].concat();
        check(&pipe, "the header of a perf recording is cut off");
        let empty = [MAGIC, &104_u64.to_le_bytes(), &[0; 24], &[0, 1], &[0; 62]].concat();
        check(&empty, "a perf recording without events");
        let attrs = [104_u64, 136, 104, 136].map(u64::to_le_bytes).concat();
        let cut = [MAGIC, &attrs, &[0; 64], &[0; 100]].concat();
        check(&cut, "the header of a perf recording is cut off");
    }

    #[test]
    fn sizes_that_are_not_there_are_cut() {
        let section = Section { offset: u64::MAX, size: u64::MAX };
        assert_eq!(section.of(b"abc"), b"");
        assert_eq!(Section { offset: 1, size: u64::MAX }.of(b"abc"), b"bc");
    }
}
