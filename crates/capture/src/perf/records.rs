//! Records: those of the kernel are read and kept as they are; those about what was
//! there before the recording began are made here, in the same form.

use std::collections::BTreeSet;

use spanwise_recording::perf::{misc, record_kind as kind};

use crate::triggers::conditions::Meaning;

/// Every record of ours but samples ends with thread, time, processor and event.
const TRAILER_BYTES: usize = 32;

/// What stands before the path in a record of a mapping.
const BEFORE_PATH_BYTES: usize = 64;

/// One record, as the kernel wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    kind: u32,
    /// With its header.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Record<'a> {
    fn body(&self) -> &'a [u8] {
        &self.bytes[8..]
    }

    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.body().get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }

    pub(crate) fn is_sample(&self) -> bool {
        self.kind == kind::SAMPLE
    }

    /// How many records the kernel had no room for.
    pub(crate) fn lost(&self) -> u64 {
        let lost = match self.kind {
            kind::LOST => self.word(8),
            kind::LOST_SAMPLES => self.word(0),
            _ => None,
        };
        lost.unwrap_or(0)
    }

    /// When it was written. Where the time stands follows from what [`crate::perf::event::Attr`]
    /// asks for.
    pub(crate) fn time(&self) -> Option<u64> {
        match self.kind {
            kind::SAMPLE => self.word(24),
            kind::FINISHED_ROUND => None,
            _ => self.word(self.body().len().checked_sub(TRAILER_BYTES - 8)?),
        }
    }

    /// The event that a sample is of.
    pub(crate) fn event_id(&self) -> Option<u64> {
        if self.is_sample() { self.word(0) } else { None }
    }

    /// The same sample, as one of another event.
    pub(crate) fn set_event_id(bytes: &mut [u8], id: u64) {
        if let Some(place) = bytes.get_mut(8..16) {
            place.copy_from_slice(&id.to_ne_bytes());
        }
    }

    /// The thread that a sample is of.
    pub(crate) fn thread(&self) -> Option<i32> {
        if self.is_sample() { self.number(20) } else { None }
    }

    /// What a probe fetched where it was hit.
    pub(crate) fn fetched(&self) -> Option<Fetched> {
        // Behind what every sample of ours has: a length, and what every tracepoint has.
        const RAW_AT: usize = 48;
        const IP_AT: usize = RAW_AT + 4 + 8;
        if !self.is_sample() {
            return None;
        }
        let [pid, tid] = [self.number(16)?, self.number(20)?].map(|number| number as u32);
        let word = |at: usize| {
            let bytes = self.body().get(IP_AT + 8 * at..)?.first_chunk();
            bytes.map(|bytes| u64::from_ne_bytes(*bytes))
        };
        let len = usize::try_from(self.number(RAW_AT)?).ok()?;
        let has = |at: usize| len >= 8 + 8 * (at + 1);
        Some(Fetched {
            time: self.time()?,
            pid,
            tid,
            ip: word(0)?,
            words: [1, 2].map(|at| if has(at) { word(at) } else { None }),
        })
    }

    pub(crate) fn is_switch(&self) -> bool {
        self.kind == kind::SWITCH
    }

    /// A thread that leaves its processor to wait, or comes to one.
    pub(crate) fn switched(&self) -> Option<(i32, Meaning)> {
        if self.kind != kind::SWITCH {
            return None;
        }
        let thread = self.number(self.body().len().checked_sub(TRAILER_BYTES - 4)?)?;
        let misc = u16::from_ne_bytes([self.bytes[4], self.bytes[5]]);
        match (misc & misc::SWITCH_OUT != 0, misc & misc::SWITCH_PREEMPTED != 0) {
            (true, true) => None,
            (true, false) => Some((thread, Meaning::Out)),
            (false, _) => Some((thread, Meaning::In)),
        }
    }

    /// What the kernel says of a piece of the hardware's own trace.
    pub(crate) fn trace_flags(&self) -> Option<u64> {
        if self.kind == kind::AUX { self.word(16) } else { None }
    }

    /// The processor on which a thread comes or goes.
    pub(crate) fn switched_on(&self) -> Option<i32> {
        let at = self.body().len().checked_sub(TRAILER_BYTES - 16)?;
        if self.is_switch() { self.number(at) } else { None }
    }

    /// The first two arguments of a call, in a sample that was asked for them.
    pub(crate) fn arguments(&self) -> Option<[u64; 2]> {
        // Behind what every sample of ours has, and a word about the registers.
        let (one, other) = (self.word(56)?, self.word(64)?);
        Some(if cfg!(target_arch = "x86_64") { [other, one] } else { [one, other] })
    }

    fn number(&self, at: usize) -> Option<i32> {
        let bytes = self.body().get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(i32::from_ne_bytes)
    }

    /// Names, mappings and new threads are true until something else is said.
    pub(crate) fn outlives_its_time(&self) -> bool {
        matches!(self.kind, kind::MMAP | kind::COMM | kind::FORK | kind::MMAP2)
    }

    /// The process or thread that it is about, where it outlives its time.
    pub(crate) fn about(&self) -> Option<i32> {
        match self.kind {
            kind::MMAP | kind::MMAP2 => self.number(0),
            kind::COMM => self.number(4),
            kind::FORK => self.number(8),
            _ => None,
        }
    }

    /// The process that something is reported of, or that began the one that is new.
    pub(crate) fn belongs_to(&self) -> Option<i32> {
        match self.kind {
            kind::MMAP | kind::MMAP2 | kind::COMM | kind::EXIT => self.number(0),
            kind::FORK => self.number(4),
            _ => None,
        }
    }

    /// The process that runs another program from now on.
    pub(crate) fn executed(&self) -> Option<i32> {
        let misc = u16::from_ne_bytes([self.bytes[4], self.bytes[5]]);
        if self.kind == kind::COMM && misc & misc::EXEC != 0 { self.number(0) } else { None }
    }

    /// A process, and another that was copied from it.
    pub(crate) fn copied(&self) -> Option<(i32, i32)> {
        let (pid, parent) = (self.number(0)?, self.number(4)?);
        (self.kind == kind::FORK && pid != parent).then_some((parent, pid))
    }

    /// The thread that has ended.
    pub(crate) fn ended(&self) -> Option<i32> {
        if self.kind == kind::EXIT { self.number(8) } else { None }
    }

    /// The same, as if it had been so before the recording began.
    pub(crate) fn before_everything(&self) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        let time = bytes.len().checked_sub(TRAILER_BYTES - 8);
        if let Some(time) = time.and_then(|at| bytes.get_mut(at..at + 8)) {
            time.fill(0);
        }
        bytes
    }

    /// The process and the file that it mapped.
    pub(crate) fn mapped(&self) -> Option<(i32, Vec<u8>)> {
        Some((self.number(0)?, self.mapped_path()?.to_vec()))
    }

    /// The process that has mapped memory of no file, to run it.
    pub(crate) fn mapped_anonymous(&self) -> Option<i32> {
        let is_anonymous = self.mapped_path().is_some_and(is_anonymous);
        if is_anonymous { self.number(0) } else { None }
    }

    /// A mapping that no code is executed in.
    fn is_data(&self) -> bool {
        let misc = u16::from_ne_bytes([self.bytes[4], self.bytes[5]]);
        matches!(self.kind, kind::MMAP | kind::MMAP2) && misc & misc::MAPPED_DATA != 0
    }

    /// Memory that is neither executed nor of a file, which no stack leads through.
    fn is_plain_memory(&self) -> bool {
        self.is_data() && !self.path().is_some_and(is_file)
    }

    /// The file that was mapped, to be executed.
    fn mapped_path(&self) -> Option<&'a [u8]> {
        self.path().filter(|path| path.starts_with(b"/") && !self.is_data())
    }

    fn path(&self) -> Option<&'a [u8]> {
        if self.kind != kind::MMAP2 {
            return None;
        }
        let path = self.body().get(BEFORE_PATH_BYTES..)?;
        let end = path.iter().position(|&byte| byte == 0)?;
        Some(&path[..end])
    }
}

/// True for memory of no file, as the kernel calls it, and for files that have no name.
pub(crate) fn is_anonymous(path: &[u8]) -> bool {
    path.starts_with(b"//") || path.starts_with(b"/memfd:")
}

/// True for a file that has a name.
pub(crate) fn is_file(path: &[u8]) -> bool {
    path.starts_with(b"/") && !is_anonymous(path)
}

/// Moves records together that are to stay; gives these.
pub(crate) fn keep_those(bytes: &mut [u8], mut stays: impl FnMut(Record<'_>) -> bool) -> &mut [u8] {
    let (mut at, mut kept) = (0, 0);
    loop {
        let Some(record) = records(&bytes[at..]).next() else { break };
        let (len, stays) = (record.bytes.len(), stays(record));
        if stays && kept < at {
            bytes.copy_within(at..at + len, kept);
        }
        kept += if stays { len } else { 0 };
        at += len;
    }
    &mut bytes[..kept]
}

/// Leaves out memory that nobody asks for.
pub(crate) fn without_plain_memory(bytes: &mut [u8]) -> &mut [u8] {
    keep_those(bytes, |record| !record.is_plain_memory())
}

/// The records in some bytes; what is cut off at the end is left out.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let header: [u8; 8] = bytes.get(..8)?.try_into().ok()?;
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let (record, rest) = bytes.split_at_checked(size).filter(|_| size >= 8)?;
        bytes = rest;
        Some(Record { kind, bytes: record })
    })
}

/// A hit of a probe, with what it fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) time: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Where it was hit.
    pub(crate) ip: u64,
    pub(crate) words: [Option<u64>; 2],
}

/// One record that may be changed, except for its header.
pub(crate) struct RecordMut<'a> {
    kind: u32,
    body: &'a mut [u8],
}

impl<'a> RecordMut<'a> {
    pub(crate) fn is_sample(&self) -> bool {
        self.kind == kind::SAMPLE
    }

    pub(crate) fn into_body(self) -> &'a mut [u8] {
        self.body
    }
}

/// The same records as [`records`] gives.
pub(crate) fn records_mut(mut bytes: &mut [u8]) -> impl Iterator<Item = RecordMut<'_>> {
    std::iter::from_fn(move || {
        let (kind, size) = records(bytes).next().map(|first| (first.kind, first.bytes.len()))?;
        let (record, rest) = std::mem::take(&mut bytes).split_at_mut(size);
        bytes = rest;
        Some(RecordMut { kind, body: &mut record[8..] })
    })
}

/// What has been recorded, in short.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) samples: u64,
    pub(crate) lost: u64,
    /// The first and the last time.
    pub(crate) times: Option<(u64, u64)>,
    /// Files that were mapped.
    pub(crate) paths: BTreeSet<Vec<u8>>,
}

impl Tally {
    /// Of samples, those of the clock count.
    pub(crate) fn add(&mut self, record: Record<'_>, is_of_clock: bool) {
        self.samples += u64::from(is_of_clock);
        self.lost += record.lost();
        if let Some(path) = record.mapped_path()
            && !self.paths.contains(path)
        {
            self.paths.insert(path.to_vec());
        }
        if let Some(time) = record.time().filter(|&time| time != 0) {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
    }
}

/// A record with its header, and a trailer that says: before everything else.
fn record(kind: u32, misc: u16, body: &[u8], id: u64) -> Vec<u8> {
    let size = 8 + body.len() + TRAILER_BYTES;
    let mut bytes = Vec::with_capacity(size);
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(misc.to_ne_bytes());
    bytes.extend(u16::try_from(size).unwrap_or(u16::MAX).to_ne_bytes());
    bytes.extend(body);
    bytes.extend([0; TRAILER_BYTES - 8]);
    bytes.extend(id.to_ne_bytes());
    bytes
}

/// Marks that all rings have been emptied once more.
pub(crate) fn finished_round() -> Vec<u8> {
    let mut bytes = Vec::from(kind::FINISHED_ROUND.to_ne_bytes());
    bytes.extend(0_u16.to_ne_bytes());
    bytes.extend(8_u16.to_ne_bytes());
    bytes
}

/// A text with zeros behind it, to whole words; longer ones than the system has are cut.
fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    const LONGEST: usize = 4096;
    bytes.extend(&text[..text.len().min(LONGEST)]);
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// From now on an event is not recorded, or is again: as the kernel says it where an event
/// comes too often.
pub(crate) fn throttled(is_off: bool, time: u64, id: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend([time, id, id].iter().flat_map(|word| word.to_ne_bytes()));
    let kind = if is_off { kind::THROTTLE } else { kind::UNTHROTTLE };
    timed(record(kind, 0, &body, id), time)
}

fn timed(mut bytes: Vec<u8>, time: u64) -> Vec<u8> {
    let at = bytes.len() - (TRAILER_BYTES - 8);
    bytes[at..at + 8].copy_from_slice(&time.to_ne_bytes());
    bytes
}

/// A thread that leaves its processor or comes to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) time: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) cpu: u32,
    pub(crate) is_out: bool,
    /// It would have gone on if it could.
    pub(crate) is_preempted: bool,
}

/// As the kernel says it of an event.
pub(crate) fn switched(switch: Switch, id: u64) -> Vec<u8> {
    let out = if switch.is_out { misc::SWITCH_OUT } else { 0 };
    let preempted = if switch.is_out && switch.is_preempted { misc::SWITCH_PREEMPTED } else { 0 };
    let mut bytes = record(kind::SWITCH, out | preempted | misc::USER, &[], id);
    bytes[8..12].copy_from_slice(&switch.pid.to_ne_bytes());
    bytes[12..16].copy_from_slice(&switch.tid.to_ne_bytes());
    bytes[24..28].copy_from_slice(&switch.cpu.to_ne_bytes());
    timed(bytes, switch.time)
}

/// A thread wakes another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waking {
    pub(crate) time: u64,
    /// Of the one that wakes.
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) cpu: u32,
    pub(crate) woken: u32,
    /// An interrupt did it, whoever ran then.
    pub(crate) is_interrupt: bool,
}

/// The number of the tracepoint in our recordings.
pub(crate) const WAKING_NUMBER: u16 = 1;

/// As a sample of the kernel's tracepoint says it; what is not known is 0.
pub(crate) fn waking(waking: Waking, id: u64) -> Vec<u8> {
    const IN_INTERRUPT: u8 = 8;
    const RAW_BYTES: u32 = 36;
    let mut bytes = Vec::from(kind::SAMPLE.to_ne_bytes());
    bytes.extend(misc::KERNEL.to_ne_bytes());
    bytes.extend(96_u16.to_ne_bytes());
    bytes.extend([id, 0].iter().flat_map(|word| word.to_ne_bytes()));
    bytes.extend([waking.pid, waking.tid].iter().flat_map(|number| number.to_ne_bytes()));
    bytes.extend(waking.time.to_ne_bytes());
    bytes.extend(u64::from(waking.cpu).to_ne_bytes());
    bytes.extend(1_u64.to_ne_bytes());
    bytes.extend(RAW_BYTES.to_ne_bytes());
    bytes.extend(WAKING_NUMBER.to_ne_bytes());
    bytes.extend([if waking.is_interrupt { IN_INTERRUPT } else { 0 }, 0]);
    bytes.extend(waking.tid.to_ne_bytes());
    bytes.extend([0; 16]);
    bytes.extend(waking.woken.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// So many records there was no room for.
pub(crate) fn lost(count: u64, time: u64, id: u64) -> Vec<u8> {
    let body: Vec<u8> = [id, count].iter().flat_map(|word| word.to_ne_bytes()).collect();
    timed(record(kind::LOST, 0, &body, id), time)
}

/// What a thread is called.
pub(crate) fn named(pid: i32, tid: i32, name: &[u8], id: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(pid.to_ne_bytes());
    body.extend(tid.to_ne_bytes());
    text(&mut body, name);
    record(kind::COMM, 0, &body, id)
}

/// A part of a file in the memory of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) file_offset: u64,
    /// `PROT_…`.
    pub(crate) rights: libc::c_int,
    pub(crate) path: Vec<u8>,
}

impl Mapping {
    pub(crate) fn may_be_run(&self) -> bool {
        self.rights & libc::PROT_EXEC != 0
    }
}

pub(crate) fn mapped(pid: i32, mapping: &Mapping, id: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(pid.to_ne_bytes());
    body.extend(pid.to_ne_bytes());
    body.extend(mapping.start.to_ne_bytes());
    body.extend(mapping.end.saturating_sub(mapping.start).to_ne_bytes());
    body.extend(mapping.file_offset.to_ne_bytes());
    // Device and inode, which nobody asks for.
    body.extend([0; 24]);
    body.extend((mapping.rights as u32).to_ne_bytes());
    body.extend((libc::MAP_PRIVATE as u32).to_ne_bytes());
    text(&mut body, &mapping.path);
    let data = if mapping.may_be_run() { 0 } else { misc::MAPPED_DATA };
    record(kind::MMAP2, misc::USER | data, &body, id)
}

/// Where the kernel itself is.
pub(crate) fn kernel_mapped(text_address: u64, id: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend((-1_i32).to_ne_bytes());
    body.extend(0_i32.to_ne_bytes());
    body.extend(text_address.to_ne_bytes());
    body.extend((u64::MAX - text_address).to_ne_bytes());
    body.extend(text_address.to_ne_bytes());
    text(&mut body, b"[kernel.kallsyms]_text");
    record(kind::MMAP, misc::KERNEL, &body, id)
}

/// A sample with nothing but a time.
#[cfg(test)]
pub(crate) fn test_sample(time: u64) -> Vec<u8> {
    let mut bytes = Vec::from(kind::SAMPLE.to_ne_bytes());
    bytes.extend([0, 0, 64, 0]);
    for word in [1_u64, 0, 7, time, 0, 0, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// A process that another has begun.
#[cfg(test)]
pub(crate) fn test_fork(time: u64, parent: i32, pid: i32) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend([pid, parent, pid, parent].iter().flat_map(|number| number.to_ne_bytes()));
    body.extend(time.to_ne_bytes());
    timed(record(kind::FORK, 0, &body, 1), time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_reads_as_what_comes() {
        let mapping = Mapping {
            start: 1,
            end: 5,
            file_offset: 0,
            rights: libc::PROT_EXEC,
            path: b"/bin/true".to_vec(),
        };
        let mut bytes = named(7, 8, b"worker", 3);
        bytes.extend(mapped(7, &mapping, 3));
        bytes.extend(kernel_mapped(1 << 63, 3));
        bytes.extend(finished_round());
        let found: Vec<u32> = records(&bytes).map(|record| record.kind).collect();
        assert_eq!(found, [kind::COMM, kind::MMAP2, kind::MMAP, kind::FINISHED_ROUND]);
        let mut tally = Tally::default();
        records(&bytes).for_each(|record| tally.add(record, false));
        assert_eq!(tally.paths.into_iter().collect::<Vec<_>>(), [b"/bin/true".to_vec()]);
        assert_eq!((tally.samples, tally.times), (0, None));
    }

    #[test]
    fn what_is_cut_off_is_left_out() {
        let bytes = named(7, 8, b"worker", 3);
        assert_eq!(records(&bytes[..bytes.len() - 1]).count(), 0);
        assert_eq!(records(&[0; 64]).count(), 0);
        let twice = [bytes.as_slice(), &bytes[..12]].concat();
        assert_eq!(records(&twice).count(), 1);
    }

    #[test]
    fn losses_and_times_are_reported() {
        let mut lost = Vec::from(kind::LOST.to_ne_bytes());
        lost.extend([0, 0, 56, 0]);
        for word in [1_u64, 42, 0, 99, 0, 1] {
            lost.extend(word.to_ne_bytes());
        }
        let mut tally = Tally::default();
        records(&lost).for_each(|record| tally.add(record, false));
        assert_eq!((tally.lost, tally.times), (42, Some((99, 99))));
    }
}
