//! A `perf.data` as `perf record -e intel_pt//u` writes it, of steps instead of hardware.

use super::record::{CRYSTAL, CRYSTAL_SHIFT, FIRST_TICK, Recorder, RecorderOptions};
use super::step::{Code, Step};

/// The number of the hardware's source; any will do.
const SOURCE: u32 = 8;
const NO_SHORT_RETURNS: u64 = 1 << 11;
const CRYSTAL_BITS: u64 = 0xf << 14;
/// Ticks are nanoseconds, from this on.
pub const ZERO: u64 = 1_000_000;
const EVENT_ID: u64 = 7;

/// A thread that was traced.
pub struct TracedThread<'a> {
    pub tid: i32,
    pub steps: &'a [Step],
}

#[derive(Default)]
pub struct File {
    data: Vec<u8>,
    /// Where pieces of the trace are: the file offset and size of their records.
    pieces: Vec<(u64, u64)>,
}

/// A piece of the trace: of which ring, whose (negative: of whatever ran there), and where in
/// the ring it began.
#[derive(Clone, Copy)]
pub struct PiecePlace {
    pub queue: u32,
    pub tid: i32,
    pub cpu: i32,
    pub offset: u64,
}

/// How pieces were kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AuxSource {
    OfThreads,
    OfProcessors,
    CopiesOfProcessors,
}

const HEADER_LEN: u64 = 104;
const ATTR_LEN: u64 = 128;
const DATA_AT: u64 = HEADER_LEN + ATTR_LEN + 16 + 8;

/// One file with the trace of each thread.
pub fn write(
    pid: i32,
    threads: &[TracedThread<'_>],
    code: &[Code],
    options: RecorderOptions,
) -> Vec<u8> {
    let mut file = File::default();
    file.info(AuxSource::OfThreads);
    for thread in threads {
        file.named(pid, thread.tid, "stepped");
    }
    for code in code.iter().filter(|code| is_recorded(code)) {
        file.mapped(pid, code);
    }
    for (queue, thread) in threads.iter().enumerate() {
        let recorded = Recorder::record(thread.steps, code, options);
        file.started(pid, thread.tid);
        let place = PiecePlace { queue: queue as u32, tid: thread.tid, cpu: -1, offset: 0 };
        file.piece(pid, place, &recorded.bytes, 0);
    }
    file.finish(&options)
}

/// Memory of a program's own is not recorded.
pub fn is_recorded(code: &Code) -> bool {
    code.file.starts_with('/') || code.file == "[vdso]"
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pair(low: i32, high: i32) -> u64 {
    u64::from(low as u32) | u64::from(high as u32) << 32
}

impl File {
    fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        self.data.extend(kind.to_le_bytes());
        self.data.extend(misc.to_le_bytes());
        self.data.extend((body.len() as u16 + 8).to_le_bytes());
        self.data.extend(body);
    }

    /// Whose a record is, when, and of which event.
    fn behind(pid: i32, tid: i32, time: u64) -> Vec<u8> {
        Self::behind_on(pid, tid, time, 0)
    }

    fn behind_on(pid: i32, tid: i32, time: u64, cpu: u32) -> Vec<u8> {
        words(&[pair(pid, tid), time, cpu.into(), EVENT_ID])
    }

    fn text(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
        bytes
    }

    pub fn info(&mut self, kept: AuxSource) {
        let ratio = 24;
        let is = |what: bool| u64::from(what);
        // 2: records of switches are there, of the threads that were traced.
        let switches = 2 * is(kept != AuxSource::OfThreads);
        let about = [
            1,
            SOURCE.into(),
            0,
            1,
            ZERO,
            1,
            1 << 10,
            NO_SHORT_RETURNS,
            switches,
            is(kept == AuxSource::CopiesOfProcessors),
            is(kept != AuxSource::OfThreads),
            1 << 9,
            CRYSTAL_BITS,
            CRYSTAL,
            1,
            1 << 1,
            ratio,
            0,
        ];
        self.record(70, 0, &words(&about));
    }

    pub fn named(&mut self, pid: i32, tid: i32, name: &str) {
        let body = [words(&[pair(pid, tid)]), Self::text(name), Self::behind(pid, tid, 0)].concat();
        self.record(3, 0, &body);
    }

    pub fn mapped(&mut self, pid: i32, code: &Code) {
        let place = [pair(pid, pid), code.start, code.bytes.len() as u64, code.file_offset];
        // Readable, executable; private.
        let rights = pair(5, 2);
        let body = [
            words(&place),
            // No device, inode and generation.
            words(&[0; 3]),
            words(&[rights]),
            Self::text(&code.file),
            Self::behind(pid, pid, 0),
        ];
        // Of user space.
        self.record(10, 2, &body.concat());
    }

    pub fn started(&mut self, pid: i32, tid: i32) {
        let body = [words(&[pair(pid, tid)]), Self::behind(pid, tid, ZERO + 1)].concat();
        self.record(12, 0, &body);
    }

    pub fn switched(&mut self, thread: (i32, i32), time: u64, cpu: u32, is_out: bool) {
        let (pid, tid) = thread;
        self.record(14, u16::from(is_out) << 13, &Self::behind_on(pid, tid, time, cpu));
    }

    /// The records alone, without a file around them.
    pub fn into_records(self) -> Vec<u8> {
        self.data
    }

    pub fn forked(&mut self, parent: i32, pid: i32, tid: i32, time: u64) {
        let body = [pair(pid, parent), pair(tid, parent), time];
        self.record(7, 0, &[words(&body), Self::behind(parent, parent, time)].concat());
    }

    /// A piece of the trace, with what the kernel says of it. `flags` has 1 where there was no
    /// room behind it.
    pub fn piece(&mut self, pid: i32, place: PiecePlace, bytes: &[u8], flags: u64) {
        self.aux_piece(pid, place, bytes.len(), flags);
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let size = bytes.len() as u64;
        self.pieces.push((DATA_AT + self.data.len() as u64, 48));
        let queue = pair(place.queue as i32, place.tid);
        let place = [size, place.offset, FIRST_TICK, queue, pair(place.cpu, 0)];
        self.record(71, 0, &words(&place));
        self.data.extend(bytes);
    }

    /// What the kernel says of a piece.
    pub fn aux_piece(&mut self, pid: i32, place: PiecePlace, len: usize, flags: u64) {
        let aux = words(&[place.offset, len as u64, flags]);
        let (end, cpu) = (FIRST_TICK + ZERO, place.cpu.max(0) as u32);
        let tid = if place.tid < 0 { pid } else { place.tid };
        self.record(11, 0, &[aux, Self::behind_on(pid, tid, end, cpu)].concat());
    }

    /// How many records there was no room for.
    pub fn lost(&mut self, pid: i32, count: u64) {
        let body = [words(&[EVENT_ID, count]), Self::behind(pid, pid, FIRST_TICK + ZERO)];
        self.record(2, 0, &body.concat());
    }

    pub fn finish(self, options: &RecorderOptions) -> Vec<u8> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        self.finish_on(release.trim_end(), options)
    }

    /// As on a machine with this kernel.
    pub fn finish_on(self, release: &str, options: &RecorderOptions) -> Vec<u8> {
        let mut config = 1 << 1 | 1 << 9 | 1 << 10 | 1 << 13 | u64::from(CRYSTAL_SHIFT) << 14;
        if !options.shortens_returns {
            config |= NO_SHORT_RETURNS;
        }
        // The instruction, the thread, the time, the processor, and an identifier first.
        let sample = 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 16;
        // Not the kernel; all records say whose they are; mappings, names and switches are there.
        let flags = 1 << 5 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 18 | 1 << 23 | 1 << 26;
        let mut attr = words(&[pair(SOURCE as i32, ATTR_LEN as i32), config, 1, sample, 4, flags]);
        attr.resize(ATTR_LEN as usize, 0);
        let ids_at = HEADER_LEN + ATTR_LEN + 16;
        // The kernel's release, and where pieces of the trace are.
        let features = 1_u64 << 4 | 1 << 18;
        let mut release = release.as_bytes().to_vec();
        release.resize((release.len() + 1).next_multiple_of(64), 0);
        let release = [&(release.len() as u32).to_le_bytes()[..], &release].concat();
        let head = [
            words(&[u64::from_le_bytes(*b"PERFILE2"), HEADER_LEN, ATTR_LEN + 16]),
            words(&[HEADER_LEN, ATTR_LEN + 16, DATA_AT, self.data.len() as u64, 0, 0]),
            words(&[features, 0, 0, 0]),
        ];
        let index: Vec<u64> = [self.pieces.len() as u64]
            .into_iter()
            .chain(self.pieces.iter().flat_map(|p| [p.0, p.1]))
            .collect();
        let section_at = DATA_AT + self.data.len() as u64 + 32;
        [
            head.concat(),
            attr,
            words(&[ids_at, 8]),
            words(&[EVENT_ID]),
            self.data,
            words(&[section_at, release.len() as u64]),
            words(&[section_at + release.len() as u64, index.len() as u64 * 8]),
            release,
            words(&index),
        ]
        .concat()
    }
}
