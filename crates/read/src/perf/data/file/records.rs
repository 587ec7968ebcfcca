//! The records of a recording, in order of time.
//!
//! perf writes what each processor recorded piece after piece, and a mark when all of
//! them have been emptied once: what is older than the round before is complete then.

use spanwise_recording::perf::{misc, record_kind as kind};

use super::bytes::Bytes;
use super::header::{Event, Header};
use super::sample::{Common, Sample, sample_id};

/// A flag of `AUX`.
const AUX_TRUNCATED: u64 = 1;
/// Others had the hardware, or two wrote at once.
const AUX_PARTIAL: u64 = 4 | 8;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    pub(crate) common: Common,
    pub(crate) what: Body<'a>,
}

/// What follows the head of a record, by its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    Sample {
        sample: Sample<'a>,
        event: &'a Event,
    },
    Mapped {
        pid: i32,
        start: u64,
        len: u64,
        file_offset: u64,
        path: String,
        is_kernel: bool,
        /// No code is executed there.
        is_data: bool,
    },
    Named {
        pid: i32,
        tid: i32,
        name: String,
        is_exec: bool,
    },
    Ended {
        pid: i32,
        tid: i32,
    },
    Forked {
        pid: i32,
        parent: i32,
        tid: i32,
        /// The thread that made it.
        maker: i32,
    },
    Switch {
        is_out: bool,
        is_preempted: bool,
    },
    /// An event is not recorded from now on, or is again.
    Throttled {
        event: Option<&'a Event>,
        is_off: bool,
    },
    Lost(u64),
    /// The hardware's own trace begins, with the thread that runs.
    TraceStarted {
        pid: i32,
        tid: i32,
    },
    /// There was no room for a part of the hardware's own trace: nothing was kept from this
    /// place of its ring on, until there was room again.
    TraceCut {
        at: u64,
    },
    /// Parts of the hardware's own trace are missing in between.
    TracePartial,
    /// Something that says nothing about a timeline.
    Other(u32),
    /// Shorter than its event says.
    Damaged,
}

/// Hands over all records in order of time; gives how many bytes made no sense at the end.
pub(crate) fn each_record<'a>(header: &'a Header<'a>, mut take: impl FnMut(Record<'a>)) -> usize {
    let mut waiting = Waiting::default();
    let mut bytes = Bytes::new(&header.data, header.is_big_endian);
    loop {
        let at = header.data.len() - bytes.len();
        let Some(raw) = RawRecord::read(&mut bytes) else {
            waiting.flush(header, u64::MAX, take);
            return bytes.len();
        };
        match raw.kind {
            kind::FINISHED_ROUND => waiting.finish_round(header, &mut take),
            // It has no time.
            kind::AUXTRACE_INFO => {}
            kind::AUXTRACE | kind::TRACING_DATA => {
                if bytes.skip(raw.len_behind()).is_none() {
                    bytes.take(bytes.len());
                }
            }
            _ => waiting.add(raw.time(header).unwrap_or(0), at),
        }
    }
}

/// About how many words all samples have, estimated from the first of them. Of those with a
/// copy of their stack, as many as its functions may be.
pub(crate) fn about_words(header: &Header<'_>) -> u64 {
    const ESTIMATE_BYTES: usize = 1 << 20;
    const SAMPLE_WORDS_MAX: u64 = 64;
    let mut bytes = Bytes::new(&header.data, header.is_big_endian);
    let mut words: u64 = 0;
    while header.data.len() - bytes.len() < ESTIMATE_BYTES {
        let before = bytes.len();
        let Some(raw) = RawRecord::read(&mut bytes) else { break };
        if raw.kind == kind::SAMPLE {
            words += ((before - bytes.len()) as u64 / 8).min(SAMPLE_WORDS_MAX);
        }
    }
    let seen = (header.data.len() - bytes.len()) as u64;
    let all = u128::from(words) * header.data.len() as u128 / u128::from(seen.max(1));
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Records that earlier ones may still come for.
#[derive(Default)]
struct Waiting {
    /// Time, and place in the data.
    records: Vec<(u64, usize)>,
    /// The latest time so far, and at the end of the last round.
    latest: u64,
    before: u64,
}

impl Waiting {
    fn add(&mut self, time: u64, at: usize) {
        self.latest = self.latest.max(time);
        self.records.push((time, at));
    }

    /// What is older than the round before is complete.
    fn finish_round<'a>(&mut self, header: &'a Header<'a>, take: impl FnMut(Record<'a>)) {
        let until = std::mem::replace(&mut self.before, self.latest);
        self.flush(header, until, take);
    }

    fn flush<'a>(&mut self, header: &'a Header<'a>, until: u64, mut take: impl FnMut(Record<'a>)) {
        // Of one time, in the order of the file.
        self.records.sort_unstable();
        let ready = self.records.partition_point(|&(time, _)| time <= until);
        for (_, at) in self.records.drain(..ready) {
            let mut bytes = Bytes::new(&header.data[at..], header.is_big_endian);
            if let Some(raw) = RawRecord::read(&mut bytes) {
                take(raw.parse(header, header.data_offset.saturating_add(at as u64)));
            }
        }
    }
}

/// A record whose content was not parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawRecord<'a> {
    pub(crate) kind: u32,
    misc: u16,
    pub(crate) body: &'a [u8],
    is_big_endian: bool,
}

impl<'a> RawRecord<'a> {
    pub(crate) fn read(bytes: &mut Bytes<'a>) -> Option<RawRecord<'a>> {
        let mut ahead = *bytes;
        let (kind, misc, size) = (ahead.u32()?, ahead.u16()?, ahead.u16()?);
        let body = ahead.take(usize::from(size).checked_sub(8)?)?;
        let is_big_endian = ahead.is_big_endian();
        *bytes = ahead;
        Some(RawRecord { kind, misc, body, is_big_endian })
    }

    /// How much lies behind the record that belongs to it: the trace of the hardware itself,
    /// and what the kernel says of its tracepoints.
    pub(crate) fn len_behind(&self) -> usize {
        let len = match self.kind {
            kind::AUXTRACE => self.body().u64().unwrap_or(0),
            kind::TRACING_DATA => self.body().u32().map_or(0, u64::from).next_multiple_of(8),
            _ => 0,
        };
        usize::try_from(len).unwrap_or(usize::MAX)
    }

    pub(crate) fn body(&self) -> Bytes<'a> {
        Bytes::new(self.body, self.is_big_endian)
    }

    fn event(&self, header: &'a Header<'a>) -> Option<&'a Event> {
        let events = &header.events;
        if let [event] = events.as_slice() {
            return Some(event);
        }
        let id = match self.kind {
            kind::SAMPLE => sample_id(self.body(), events),
            _ => Common::behind(self.body, self.is_big_endian, events.first()?).id,
        };
        header.event_of(id).or(events.first())
    }

    fn common(&self, header: &'a Header<'a>) -> Common {
        let event = self.event(header);
        event.map_or_else(Common::default, |event| {
            Common::behind(self.body, self.is_big_endian, event)
        })
    }

    fn time(&self, header: &'a Header<'a>) -> Option<u64> {
        match self.kind {
            kind::SAMPLE => Sample::read(self.body(), self.event(header)?)?.common.time,
            _ => self.common(header).time,
        }
    }

    fn parse(self, header: &'a Header<'a>, offset: u64) -> Record<'a> {
        if self.kind == kind::SAMPLE {
            let event = self.event(header);
            let read = |event: &'a Event| Some((Sample::read(self.body(), event)?, event));
            return match event.and_then(read) {
                Some((sample, event)) => {
                    let common = sample.common;
                    Record { offset, common, what: Body::Sample { sample, event } }
                }
                None => Record { offset, common: Common::default(), what: Body::Damaged },
            };
        }
        let what = match self.kind {
            kind::THROTTLE | kind::UNTHROTTLE => {
                Body::Throttled { event: self.event(header), is_off: self.kind == kind::THROTTLE }
            }
            _ => self.other().unwrap_or(Body::Damaged),
        };
        Record { offset, common: self.common(header), what }
    }

    fn other(&self) -> Option<Body<'a>> {
        let mut body = self.body();
        Some(match self.kind {
            kind::MMAP | kind::MMAP2 => self.mapped()?,
            kind::COMM => {
                let (pid, tid) = (body.i32()?, body.i32()?);
                let is_exec = self.misc & misc::EXEC != 0;
                Body::Named { pid, tid, name: body.text(), is_exec }
            }
            kind::FORK => {
                let (pid, parent, tid) = (body.i32()?, body.i32()?, body.i32()?);
                Body::Forked { pid, parent, tid, maker: body.i32()? }
            }
            kind::LOST => {
                body.u64()?;
                Body::Lost(body.u64()?)
            }
            kind::LOST_SAMPLES => Body::Lost(body.u64()?),
            kind::SWITCH | kind::SWITCH_CPU_WIDE => Body::Switch {
                is_out: self.misc & misc::SWITCH_OUT != 0,
                is_preempted: self.misc & misc::SWITCH_PREEMPTED != 0,
            },
            kind::ITRACE_START => Body::TraceStarted { pid: body.i32()?, tid: body.i32()? },
            kind::AUX => {
                let (start, size, flags) = (body.u64()?, body.u64()?, body.u64()?);
                match (flags & AUX_TRUNCATED, flags & AUX_PARTIAL) {
                    (0, 0) => Body::Other(self.kind),
                    (0, _) => Body::TracePartial,
                    _ => Body::TraceCut { at: start.wrapping_add(size) },
                }
            }
            kind::EXIT => {
                let (pid, _parent, tid) = (body.i32()?, body.i32()?, body.i32()?);
                Body::Ended { pid, tid }
            }
            other => Body::Other(other),
        })
    }

    fn mapped(&self) -> Option<Body<'a>> {
        let mut body = self.body();
        let (pid, _) = (body.i32()?, body.i32()?);
        let (start, len, file_offset) = (body.u64()?, body.u64()?, body.u64()?);
        if self.kind == kind::MMAP2 {
            // Device, inode or build id; protection and flags.
            body.skip(24 + 8)?;
        }
        let is_kernel = self.misc & misc::CPU_MODE == misc::KERNEL;
        let (path, is_data) = (body.text(), !is_kernel && self.misc & misc::MAPPED_DATA != 0);
        Some(Body::Mapped { pid, start, len, file_offset, path, is_kernel, is_data })
    }
}
