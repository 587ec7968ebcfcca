//! Writes what was recorded as `perf.data`, so that perf reads it as well.
//!
//! A head, the events, the records as they came, and behind them sections about the machine.
//! How far the records reach is noted after each round, so that a recording whose recorder
//! was killed can be read up to there.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use spanwise_recording::perf::{event_id, misc, record_kind};

use super::event::{ATTR_BYTES, Event};

const HEAD_BYTES: u64 = 104;
/// Where the head says how long the records are.
const DATA_SIZE_AT: u64 = 48;
/// Where it says which sections there are.
const FEATURES_AT: u64 = 72;

/// Names and build ids are padded to this.
const NAME_ALIGN: usize = 64;

/// The section of build ids, and what else is known about the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Features {
    pub(crate) host: String,
    pub(crate) kernel: String,
    pub(crate) machine: String,
    pub(crate) command: Vec<String>,
    pub(crate) processors: u32,
    pub(crate) times: Option<(u64, u64)>,
    /// Nanoseconds since 1970, and on the clock of the records, at one instant; none where that
    /// is a clock that nobody can read.
    pub(crate) clocks: Option<(u64, u64)>,
    /// With whether it is the kernel's.
    pub(crate) build_ids: Vec<(Vec<u8>, Vec<u8>, bool)>,
}

pub(crate) struct PerfFile {
    file: BufWriter<File>,
    events: Vec<Event>,
    data_bytes: u64,
    /// Where records are that pieces of the hardware's own trace stand behind, and their size.
    pieces: Vec<(u64, u64)>,
}

impl PerfFile {
    /// Begins an empty file.
    pub(crate) fn begin(file: File, events: Vec<Event>) -> io::Result<PerfFile> {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let attr_bytes = ATTR_BYTES as u64 + 16;
        let attrs_bytes = attr_bytes * events.len() as u64;
        let data_at = data_offset(&events);
        let mut head = Vec::from(b"PERFILE2");
        for word in [HEAD_BYTES, attr_bytes, HEAD_BYTES, attrs_bytes, data_at, 0, 0, 0, 0, 0, 0, 0]
        {
            head.extend(word.to_ne_bytes());
        }
        let mut ids_at = HEAD_BYTES + attrs_bytes;
        for event in &events {
            head.extend(event.attr.to_bytes());
            let ids_bytes = 8 * event.ids.len() as u64;
            head.extend(ids_at.to_ne_bytes());
            head.extend(ids_bytes.to_ne_bytes());
            ids_at += ids_bytes;
        }
        for id in events.iter().flat_map(|event| &event.ids) {
            head.extend(id.to_ne_bytes());
        }
        file.write_all(&head)?;
        Ok(PerfFile { file, events, data_bytes: 0, pieces: Vec::new() })
    }

    pub(crate) fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.file.write_all(records)?;
        self.data_bytes += records.len() as u64;
        Ok(())
    }

    /// A record, and what stands behind it.
    pub(crate) fn write_piece(&mut self, record: &[u8], behind: &[u8]) -> io::Result<()> {
        let at = data_offset(&self.events) + self.data_bytes;
        self.pieces.push((at, record.len() as u64));
        self.write_records(record)?;
        self.write_records(behind)
    }

    /// Notes how far the records reach.
    pub(crate) fn note_size(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().write_all_at(&self.data_bytes.to_ne_bytes(), DATA_SIZE_AT)
    }

    pub(crate) fn finish(mut self, features: &Features) -> io::Result<()> {
        self.note_size()?;
        let sections = sections(features, &self.events, &self.pieces);
        let places_at = data_offset(&self.events) + self.data_bytes;
        let mut at = places_at + 16 * sections.len() as u64;
        let mut bits = 0_u64;
        for (bit, section) in &sections {
            bits |= 1 << bit;
            self.file.write_all(&at.to_ne_bytes())?;
            self.file.write_all(&(section.len() as u64).to_ne_bytes())?;
            at += section.len() as u64;
        }
        for (_, section) in &sections {
            self.file.write_all(section)?;
        }
        self.file.flush()?;
        // Last, so that nobody searches for sections that are not there yet.
        self.file.get_ref().write_all_at(&bits.to_ne_bytes(), FEATURES_AT)
    }
}

fn data_offset(events: &[Event]) -> u64 {
    let ids: usize = events.iter().map(|event| event.ids.len()).sum();
    HEAD_BYTES + (ATTR_BYTES as u64 + 16) * events.len() as u64 + 8 * ids as u64
}

/// Sections by the number of their bit, in its order.
fn sections(features: &Features, events: &[Event], pieces: &[(u64, u64)]) -> Vec<(u32, Vec<u8>)> {
    let text = |value: &str| {
        let mut bytes = Vec::new();
        counted_text(&mut bytes, value);
        bytes
    };
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut command = Vec::from((features.command.len() as u32).to_ne_bytes());
    features.command.iter().for_each(|word| counted_text(&mut command, word));
    let processors = features.processors.to_ne_bytes();
    let mut sections = Vec::new();
    if events.iter().any(|event| event.ids.contains(&event_id::WAKINGS)) {
        sections.push((1, tracepoints("sched", &[WAKING_FORMAT])));
    }
    sections.extend([
        (2, build_ids(&features.build_ids)),
        (3, text(&features.host)),
        (4, text(&features.kernel)),
        (5, text(concat!("spanwise ", env!("CARGO_PKG_VERSION")))),
        (6, text(&features.machine)),
        (7, [processors, processors].concat()),
        (11, command),
        (12, event_names(events)),
    ]);
    if !pieces.is_empty() {
        let places = pieces.iter().flat_map(|&(at, size)| [at, size]);
        let index: Vec<u64> = [pieces.len() as u64].into_iter().chain(places).collect();
        sections.push((18, words(&index)));
    }
    if let Some((first, last)) = features.times {
        sections.push((21, words(&[first, last])));
    }
    let Some((real, of_records)) = features.clocks else { return sections };
    // The resolution of the clock, and what it said at a known time.
    sections.push((23, words(&[1])));
    let mut clocks = Vec::from(1_u32.to_ne_bytes());
    clocks.extend((libc::CLOCK_MONOTONIC as u32).to_ne_bytes());
    clocks.extend(real.to_ne_bytes());
    clocks.extend(of_records.to_ne_bytes());
    sections.push((29, clocks));
    sections
}

/// The fields of wake-ups, under [`crate::perf::records::WAKING_NUMBER`]: those of the
/// kernel's own.
const WAKING_FORMAT: &str = "\
name: sched_waking
ID: 1
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;

print fmt: \"pid=%d\", REC->pid
";

/// perf wants to be given this.
const PAGE_FORMAT: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
";

/// What is known of the tracepoints of a system, in the form that perf copies from the kernel.
fn tracepoints(system: &str, formats: &[&str]) -> Vec<u8> {
    const VERSION: &[u8] = b"\x17\x08\x44tracing0.5\0";
    let is_big_endian = u8::from(cfg!(target_endian = "big"));
    let mut bytes = Vec::from(VERSION);
    bytes.extend([is_big_endian, size_of::<libc::c_long>() as u8]);
    bytes.extend(4096_u32.to_ne_bytes());
    // How pages and events of the kernel's own ring begin, which is not in use.
    for (head, text) in [("header_page\0", PAGE_FORMAT), ("header_event\0", "")] {
        bytes.extend(head.as_bytes());
        bytes.extend((text.len() as u64).to_ne_bytes());
        bytes.extend(text.as_bytes());
    }
    // None of the kernel's function tracer; one system.
    bytes.extend([0_u32, 1].iter().flat_map(|number| number.to_ne_bytes()));
    bytes.extend(system.as_bytes());
    bytes.push(0);
    bytes.extend((formats.len() as u32).to_ne_bytes());
    for format in formats {
        bytes.extend((format.len() as u64).to_ne_bytes());
        bytes.extend(format.as_bytes());
    }
    // No symbols, and no texts of the kernel.
    bytes.extend([0_u32; 2].iter().flat_map(|number| number.to_ne_bytes()));
    bytes
}

fn counted_text(bytes: &mut Vec<u8>, text: &str) {
    let len = (text.len() + 1).next_multiple_of(NAME_ALIGN);
    bytes.extend((len as u32).to_ne_bytes());
    let end = bytes.len() + len;
    bytes.extend(text.as_bytes());
    bytes.resize(end, 0);
}

fn event_names(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::from((events.len() as u32).to_ne_bytes());
    bytes.extend((ATTR_BYTES as u32).to_ne_bytes());
    for event in events {
        bytes.extend(event.attr.to_bytes());
        bytes.extend((event.ids.len() as u32).to_ne_bytes());
        counted_text(&mut bytes, &event.name);
        bytes.extend(event.ids.iter().flat_map(|id| id.to_ne_bytes()));
    }
    bytes
}

fn build_ids(ids: &[(Vec<u8>, Vec<u8>, bool)]) -> Vec<u8> {
    const HAS_SIZE: u16 = 1 << 15;
    let mut bytes = Vec::new();
    for (path, id, is_kernel) in ids.iter().filter(|row| row.1.len() <= 20) {
        let path_len = (path.len() + 1).next_multiple_of(NAME_ALIGN);
        let size = 8 + 4 + 24 + path_len;
        let misc = HAS_SIZE | if *is_kernel { misc::KERNEL } else { misc::USER };
        let Ok(size) = u16::try_from(size) else { continue };
        bytes.extend(record_kind::BUILD_ID.to_ne_bytes());
        bytes.extend(misc.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend((-1_i32).to_ne_bytes());
        let mut padded = id.clone();
        padded.resize(20, 0);
        padded.extend([id.len() as u8, 0, 0, 0]);
        bytes.extend(padded);
        let end = bytes.len() + path_len;
        bytes.extend(path);
        bytes.resize(end, 0);
    }
    bytes
}
