//! The processor's own trace of branches, Intel PT: asked for, taken out of the rings that it is
//! written into, and kept as perf keeps it.
//!
//! Rings are full ones, which are emptied as they fill, or hold the newest part of the trace and
//! are copied when it is wanted. All that is done with them goes through [`TraceRings`], so that it
//! can be tried where no processor has such a trace, on rings that a test fills.
//!
//! Its times are those of the processor's counter, which the kernel relates to the clock that
//! records have by default, and to no other: so all events of such a recording are on that one.

mod source;

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use spanwise_recording::perf::record_kind::{AUXTRACE, AUXTRACE_INFO};

use crate::perf::event::{Attr, Event};
use crate::perf::records::{self, Record, Tally};
use crate::perf::rings::Rings;
use crate::session::outcome::Snapshot;
use crate::session::output::sink::{Facts, RecordingSink, SaveReason};
use crate::system::sys;
use crate::{Ability, CaptureError, RecordOptions};

pub(crate) use source::INTEL_PT;
pub use source::TraceSource;

/// How the processor's own trace is recorded.
#[derive(Debug, Clone, Copy)]
pub struct PtOptions<'a> {
    /// Settings of the hardware, by the names that the kernel has for them.
    pub settings: &'a [(String, u64)],
    pub scope: TraceScope,
    /// What alone is traced: a file, a place in it, and how many bytes from there.
    pub only: &'a [CodeRange],
    /// Code at which tracing ends.
    pub until: &'a [CodeRange],
}

/// Which code is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceScope {
    Program,
    Kernel,
    Both,
}

impl TraceScope {
    /// What options call each.
    pub const NAMES: [(&'static str, TraceScope); 3] =
        [("user", TraceScope::Program), ("kernel", TraceScope::Kernel), ("all", TraceScope::Both)];
}

/// A range of a file's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRange {
    pub file: std::path::PathBuf,
    pub offset: u64,
    pub bytes: u64,
}

/// What came of recording the processor's own trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceRecorded {
    /// Of the trace, in all snapshots together.
    pub bytes: u64,
    /// Rings, one a processor, and how much each can hold.
    pub rings: u64,
    pub ring_bytes: u64,
    /// How often a ring had no room, so that a part of the trace is missing.
    pub cuts: u64,
    /// How often a part is missing because somebody else had the hardware.
    pub gaps: u64,
    /// Rings that had held more than the newest part, which was kept.
    pub overwritten: u64,
}

/// How the counter of the processor becomes the time of records: shifted after it was multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceClock {
    pub shift: u16,
    pub factor: u32,
    pub zero: u64,
    /// The kernel does say so.
    pub is_known: bool,
}

impl TraceClock {
    /// The time of records when the counter stood so.
    pub(crate) fn nanos(&self, ticks: u64) -> Option<u64> {
        let since = (u128::from(ticks) * u128::from(self.factor)) >> self.shift.min(127);
        self.is_known.then(|| self.zero.wrapping_add(since as u64))
    }
}

/// Rings that hardware writes into: the kernel's, or those of a test.
pub trait TraceRings {
    /// The processor of each ring.
    fn processors(&self) -> Vec<i32>;
    /// How much each holds: a power of two.
    fn ring_bytes(&self) -> usize;
    /// How far the hardware has written: in all, or where in the ring, if it is overwritten.
    fn head(&self, ring: usize) -> u64;
    /// Appends what is in the ring from a place on, and goes on at its beginning.
    fn copy(&self, ring: usize, from: u64, len: usize, into: &mut Vec<u8>);
    /// Says that there is room again up to here.
    fn free_until(&self, ring: usize, place: u64);
    /// Tracing ends everywhere, so that nothing is overwritten.
    fn stop(&self);
    /// Tracing goes on, also where the kernel has ended it for want of room.
    fn start(&self, ring: usize);
    fn clock(&self) -> TraceClock;
    /// The processor's counter now.
    fn ticks(&self) -> u64;
}

/// A piece of the trace.
#[derive(Debug)]
pub(crate) struct TracePiece {
    /// The record in front of it.
    pub(crate) record: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
}

/// The number of Intel PT among the sorts of traces.
const SORT: u64 = 1;
/// Pieces are filled up to this with zeros, which are packets without a meaning.
const ALIGNMENT: usize = 8;

/// What the kernel says of a piece.
mod flag {
    pub(super) const CUT: u64 = 1;
    /// Something is missing in between; or two wrote at once.
    pub(super) const GAP: u64 = 4 | 8;
}

/// Takes the trace out of its rings.
#[derive(Debug)]
pub(crate) struct Tracer {
    source: TraceSource,
    /// Rings hold the newest part of the trace.
    keeps_last: bool,
    /// How far each ring was read.
    read: Vec<u64>,
    pub(crate) counts: TraceRecorded,
    /// What says who ran, and what was mapped; closing it ends that.
    side: Option<(Event, Vec<OwnedFd>)>,
}

/// What is asked of the kernel.
#[derive(Debug)]
pub(crate) struct TraceRequest {
    pub(crate) source: TraceSource,
    pub(crate) attr: Attr,
    pub(crate) filter: Option<CString>,
}

impl TraceRequest {
    /// By what the kernel says about the hardware.
    pub(crate) fn of(options: &PtOptions<'_>) -> Result<TraceRequest, CaptureError> {
        let source = TraceSource::read(Path::new(INTEL_PT)).map_err(|_| {
            CaptureError::new("Intel PT cannot be recorded here").lacks(Ability::IntelPt)
        })?;
        TraceRequest::from(source, options)
    }

    fn from(source: TraceSource, options: &PtOptions<'_>) -> Result<TraceRequest, CaptureError> {
        let config = source.config(options.settings).map_err(CaptureError::new)?;
        let attr = Attr::hardware_trace(source.kind, config);
        let attr = match options.scope {
            TraceScope::Program => attr.without_kernel(),
            TraceScope::Kernel => attr.without_program(),
            TraceScope::Both => attr,
        };
        let filter = filter(options, source.filters_max)?;
        Ok(TraceRequest { source, attr, filter })
    }
}

/// The kernel's words for what alone is traced.
fn filter(options: &PtOptions<'_>, most: usize) -> Result<Option<CString>, CaptureError> {
    let ranges = options.only.iter().map(|range| ("filter", range));
    let ranges: Vec<_> = ranges.chain(options.until.iter().map(|range| ("stop", range))).collect();
    if ranges.is_empty() {
        return Ok(None);
    }
    if ranges.len() > most {
        let what = format!(
            "tracing is to be kept to {} stretches of code, and this processor can tell {most}",
            ranges.len()
        );
        return Err(CaptureError::new(what));
    }
    let mut texts = Vec::new();
    for (word, CodeRange { file, offset, bytes }) in ranges {
        let path = file.display().to_string();
        if path.contains([' ', ',', '\n']) {
            let what = format!("{path}: the kernel takes no filter on files with such a name");
            return Err(CaptureError::new(what));
        }
        texts.push(format!("{word} {offset:#x}/{bytes:#x}@{path}"));
    }
    CString::new(texts.join(",")).map(Some).map_err(|_| CaptureError::new("a path with a zero"))
}

impl Tracer {
    pub(crate) fn new(source: TraceSource, keeps_last: bool, rings: &impl TraceRings) -> Tracer {
        let read = vec![0; rings.processors().len()];
        let counts = TraceRecorded {
            rings: read.len() as u64,
            ring_bytes: rings.ring_bytes() as u64,
            ..TraceRecorded::default()
        };
        Tracer { source, keeps_last, read, counts, side: None }
    }

    /// Names, mappings and new threads come by an event of their own, which is not stopped
    /// while the hardware is.
    pub(crate) fn open_side(
        &mut self,
        rings: &Rings,
        tids: &[i32],
        is_from_exec: bool,
    ) -> std::io::Result<()> {
        let attr = Attr::side_records().on_clock_of(&rings.event.attr);
        let attr = if is_from_exec { attr.beginning_at_exec() } else { attr };
        let (open, ids) = rings.open_beside(tids, |tid, cpu| sys::open_event(&attr, tid, cpu))?;
        self.side = Some((Event { name: "dummy:u".to_owned(), attr, ids }, open));
        Ok(())
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.side.iter().map(|side| &side.0)
    }

    /// The record that says how to read the pieces.
    pub(crate) fn about(&self, rings: &impl TraceRings) -> Vec<u8> {
        let TraceSource { kind, counter_ratio, ticks_per_crystal, .. } = self.source;
        let clock = rings.clock();
        let of_processors_with_switches = 2;
        let words = [
            SORT,
            u64::from(kind),
            u64::from(clock.shift),
            u64::from(clock.factor),
            clock.zero,
            u64::from(clock.is_known),
            self.source.bits_of("tsc"),
            self.source.bits_of("noretcomp"),
            of_processors_with_switches,
            u64::from(self.keeps_last),
            1,
            self.source.bits_of("mtc"),
            self.source.bits_of("mtc_period"),
            ticks_per_crystal.0,
            ticks_per_crystal.1,
            self.source.bits_of("cyc"),
            counter_ratio,
            0,
        ];
        record(AUXTRACE_INFO, &words)
    }

    /// Takes in what the kernel says about pieces.
    pub(crate) fn note(&mut self, record: Record<'_>) {
        let Some(flags) = record.trace_flags() else { return };
        self.counts.cuts += u64::from(flags & flag::CUT != 0);
        self.counts.gaps += u64::from(flags & flag::GAP != 0);
    }

    /// What came since the last time, of rings that are emptied; makes room for more.
    pub(crate) fn drain<E>(
        &mut self,
        rings: &impl TraceRings,
        mut take: impl FnMut(TracePiece) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.keeps_last {
            return Ok(());
        }
        for (ring, cpu) in rings.processors().into_iter().enumerate() {
            let (from, head) = (self.read[ring], rings.head(ring));
            let len = usize::try_from(head.wrapping_sub(from)).unwrap_or(0);
            if len == 0 || len > rings.ring_bytes() {
                continue;
            }
            let mut bytes = Vec::with_capacity(len + ALIGNMENT);
            rings.copy(ring, from, len, &mut bytes);
            rings.free_until(ring, head);
            rings.start(ring);
            self.read[ring] = head;
            take(self.piece(ring, cpu, from, bytes, rings.ticks()))?;
        }
        Ok(())
    }

    /// The newest part of the trace of all rings, which were stopped.
    pub(crate) fn last_pieces(&mut self, rings: &impl TraceRings) -> Vec<TracePiece> {
        let mut pieces = Vec::new();
        let ring_bytes = rings.ring_bytes();
        let processors = rings.processors().into_iter().enumerate().filter(|_| self.keeps_last);
        for (ring, cpu) in processors.collect::<Vec<_>>() {
            let head = rings.head(ring) & (ring_bytes as u64 - 1);
            let mut bytes = Vec::with_capacity(ring_bytes);
            rings.copy(ring, head, ring_bytes, &mut bytes);
            // Where nothing was ever written are zeros, and nowhere else so many.
            let before = ring_bytes - head as usize;
            let had_more = bytes[..before].iter().any(|&byte| byte != 0);
            self.counts.overwritten += u64::from(had_more);
            let offset = if had_more { head } else { 0 };
            if !had_more {
                bytes.drain(..before);
            }
            if !bytes.is_empty() {
                pieces.push(self.piece(ring, cpu, offset, bytes, rings.ticks()));
            }
        }
        pieces
    }

    fn piece(
        &mut self,
        ring: usize,
        cpu: i32,
        offset: u64,
        mut bytes: Vec<u8>,
        ticks: u64,
    ) -> TracePiece {
        self.counts.bytes += bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let of_no_thread = u32::MAX;
        let queue = pair(ring as u32, of_no_thread);
        let words = [bytes.len() as u64, offset, ticks.max(1), queue, pair(cpu as u32, 0)];
        TracePiece { record: record(AUXTRACE, &words), bytes }
    }
}

fn record(kind: u32, words: &[u64]) -> Vec<u8> {
    let size = 8 + 8 * words.len() as u16;
    let mut bytes = Vec::from(kind.to_ne_bytes());
    bytes.extend(0_u16.to_ne_bytes());
    bytes.extend(size.to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// Records from rings that are not the kernel's, as from those that are: for tests. `run` lets
/// the hardware go on and gives records that the kernel has written meanwhile; none for the end.
#[doc(hidden)]
pub fn record_rings<R: TraceRings>(
    rings: &mut R,
    source: &TraceSource,
    options: &RecordOptions<'_>,
    mut run: impl FnMut(&mut R) -> Option<Vec<u8>>,
) -> Result<(Snapshot, TraceRecorded), CaptureError> {
    let pt = options.pt.ok_or_else(|| CaptureError::new("how to trace is not said"))?;
    let asked = TraceRequest::from(source.clone(), &pt)?;
    let facts = Facts::new(vec!["test".to_owned()], &[], options);
    let events = vec![Event { name: "intel_pt".to_owned(), attr: asked.attr, ids: vec![7] }];
    let mut sink = RecordingSink::begin(&facts, events.clone())?;
    let mut tracer = Tracer::new(asked.source, options.flight.is_some(), rings);
    let mut tally = Tally::default();
    sink.keep_about_trace(tracer.about(rings))?;
    let mut is_on = true;
    while is_on {
        let came = run(rings);
        is_on = came.is_some();
        let came = came.unwrap_or_default();
        for record in records::records(&came) {
            tally.add(record, false);
            tracer.note(record);
        }
        sink.keep(&came)?;
        tracer.drain(rings, |piece| sink.keep_piece(&piece))?;
        sink.finish_round()?;
    }
    rings.stop();
    let pieces = tracer.last_pieces(rings);
    let reason = SaveReason { text: "the end of the test", hit: None, status: None };
    let saved = sink.save(&facts, &events, &tally, reason, &pieces)?;
    Ok((saved.snapshot, tracer.counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_in_the_kernels_words() {
        let range = |file: &str| CodeRange { file: file.into(), offset: 0x1130, bytes: 0x20 };
        let check = |only: &[&str], until: &[&str], expected: Result<Option<&str>, &str>| {
            let ranges = |files: &[&str]| files.iter().map(|file| range(file)).collect::<Vec<_>>();
            let (only, until) = (ranges(only), ranges(until));
            let scope = TraceScope::Program;
            let options = PtOptions { settings: &[], scope, only: &only, until: &until };
            let found = filter(&options, 2).map_err(|error| error.to_string());
            let found = found.map(|text| text.map(|text| text.into_string().unwrap_or_default()));
            let found = found.as_ref().map(|text| text.as_deref()).map_err(String::as_str);
            assert_eq!(found, expected);
        };
        check(&[], &[], Ok(None));
        check(&["/a"], &[], Ok(Some("filter 0x1130/0x20@/a")));
        check(&["/a"], &["/b"], Ok(Some("filter 0x1130/0x20@/a,stop 0x1130/0x20@/b")));
        let many = "tracing is to be kept to 3 stretches of code, and this processor can tell 2";
        check(&["/a", "/b", "/c"], &[], Err(many));
        let named = "/a b: the kernel takes no filter on files with such a name";
        check(&["/a b"], &[], Err(named));
    }

    #[test]
    fn the_counter_becomes_time() {
        let check = |clock: TraceClock, ticks, expected| assert_eq!(clock.nanos(ticks), expected);
        let clock = TraceClock { shift: 1, factor: 3, zero: 10, is_known: true };
        check(clock, 100, Some(160));
        check(TraceClock { is_known: false, ..clock }, 100, None);
        let large = TraceClock { shift: 32, factor: u32::MAX, zero: 0, is_known: true };
        check(large, u64::MAX, Some(u64::MAX - (1 << 32)));
    }
}
