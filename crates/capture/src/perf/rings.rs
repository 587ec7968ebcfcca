//! The events of threads on all processors, or of these, and the rings that they write into.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::event::{Attr, Event};
use super::records::{records, without_plain_memory};
use super::ring::{AuxRing, Ring};
use crate::pt::{TraceClock, TraceRings};
use crate::session::program::family::Family;
use crate::system::processes;
use crate::system::sys;
use crate::{Ability, CaptureError, examine_one};

/// The rings of all processors together are at most so large, and each at most this.
const RINGS_BYTES_MAX: usize = 256 << 20;
const RING_BYTES_MAX: usize = 16 << 20;
/// What one may have without privileges on a machine that nobody has set up.
const RING_BYTES_MIN: usize = 64 << 10;
/// The hardware's own trace fills its ring within a hundredth of a second.
const AUX_BYTES_MAX: usize = 64 << 20;

/// In the place of a thread.
pub(crate) const ANYBODY: i32 = -1;

/// Events that are open, with a ring for each processor.
#[derive(Debug)]
pub(crate) struct Rings {
    /// A ring, the event that it belongs to, and events that write into it as well.
    processors: Vec<Processor>,
    pub(crate) event: Event,
    filter: Option<CString>,
    buffer: Vec<u8>,
    /// Where everybody is reported.
    family: Option<Family>,
}

/// What the rings of hardware that writes a trace by itself are to be like.
#[derive(Debug, Clone)]
pub(crate) struct TraceMemory {
    /// Of all rings together.
    pub(crate) bytes: usize,
    /// The oldest is overwritten.
    pub(crate) keeps_last: bool,
    /// Which code is traced, in the kernel's words.
    pub(crate) filter: Option<CString>,
}

#[derive(Debug)]
struct Processor {
    number: i32,
    ring: Ring,
    trace: Option<AuxRing>,
    leader: OwnedFd,
    /// Whose events these are, the leader's first.
    tids: Vec<i32>,
    others: Vec<OwnedFd>,
}

impl Processor {
    fn events(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.leader).chain(&self.others)
    }
}

impl Rings {
    /// Opens the event for these threads. The kernel's part is left out where one may not
    /// see it.
    pub(crate) fn open(name: &str, attr: Attr, tids: &[i32]) -> io::Result<Rings> {
        match Rings::open_as(name, attr, tids, None) {
            Err(error) if is_refusal(&error) && attr.has_kernel() => {
                Rings::open_as(name, attr.without_kernel(), tids, None)
            }
            result => result,
        }
    }

    /// Opens the event for all processors, and lets `choose` say whose samples are taken before it
    /// begins: those of these processes and of what they start.
    pub(crate) fn open_for_processors(
        name: &str,
        attr: Attr,
        pids: &[i32],
        choose: impl Fn(&OwnedFd) -> io::Result<()>,
    ) -> io::Result<Rings> {
        let mut rings = Rings::open_as(name, attr.of_processor(), &[ANYBODY], None)?;
        rings.family = Some(Family::new(pids));
        rings.events().try_for_each(choose)?;
        rings.enable()?;
        Ok(rings)
    }

    /// A process is recorded of which no record says that one of ours has begun it.
    pub(crate) fn adopt(&mut self, pid: i32) {
        if let Some(family) = &mut self.family {
            family.adopt(pid);
        }
    }

    /// Opens the event of hardware that writes a trace by itself.
    pub(crate) fn open_trace(
        name: &str,
        attr: Attr,
        tids: &[i32],
        memory: &TraceMemory,
    ) -> io::Result<Rings> {
        Rings::open_as(name, attr, tids, Some(memory))
    }

    fn open_as(
        name: &str,
        attr: Attr,
        tids: &[i32],
        trace: Option<&TraceMemory>,
    ) -> io::Result<Rings> {
        let numbers = processes::processors();
        let mut ring_bytes = largest_ring(numbers.len());
        let mut trace_bytes = trace.map_or(0, |memory| trace_ring(memory.bytes, numbers.len()));
        if trace.is_some() {
            // Few records come beside it, and memory may be scarce.
            ring_bytes = (trace_bytes / 4).clamp(RING_BYTES_MIN, 1 << 20).min(ring_bytes);
        }
        let filter = trace.and_then(|memory| memory.filter.clone());
        let mut processors = loop {
            let memory = trace.map(|memory| (trace_bytes, memory.keeps_last));
            match open_rings(attr, tids, &numbers, ring_bytes, memory) {
                Err(error) if is_memory_refusal(&error) && trace_bytes > RING_BYTES_MIN => {
                    trace_bytes /= 2;
                    ring_bytes = (trace_bytes / 4).clamp(RING_BYTES_MIN, ring_bytes);
                }
                Err(error) if is_memory_refusal(&error) && ring_bytes > RING_BYTES_MIN => {
                    ring_bytes /= 2;
                }
                result => break result?,
            }
        };
        let mut ids = Vec::new();
        for processor in &mut processors {
            for event in processor.events() {
                ids.push(sys::event_id(event)?);
                filter.as_ref().map_or(Ok(()), |filter| sys::set_filter(event, filter))?;
            }
        }
        let event = Event { name: name.to_owned(), attr, ids };
        Ok(Rings { processors, event, filter, buffer: Vec::new(), family: None })
    }

    /// Adds threads that were not there before; those that are gone already are passed over.
    pub(crate) fn add_threads(&mut self, tids: &[i32]) -> io::Result<()> {
        for processor in &mut self.processors {
            for &tid in tids {
                match sys::open_event(&self.event.attr, tid, processor.number) {
                    Ok(event) => {
                        sys::set_output(&event, &processor.leader)?;
                        self.event.ids.push(sys::event_id(&event)?);
                        let filter = self.filter.as_ref();
                        filter.map_or(Ok(()), |filter| sys::set_filter(&event, filter))?;
                        processor.others.push(event);
                        processor.tids.push(tid);
                    }
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Opens another event for these threads on each processor, and lets it write into the
    /// same rings. Gives its descriptors, and the ids that its records carry.
    pub(crate) fn open_beside(
        &self,
        tids: &[i32],
        open: impl Fn(i32, i32) -> io::Result<OwnedFd>,
    ) -> io::Result<(Vec<OwnedFd>, Vec<u64>)> {
        let (mut events, mut ids) = (Vec::new(), Vec::new());
        for processor in &self.processors {
            for &tid in tids {
                match open(tid, processor.number) {
                    Ok(event) => {
                        sys::set_output(&event, &processor.leader)?;
                        ids.push(sys::event_id(&event)?);
                        events.push(event);
                    }
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((events, ids))
    }

    pub(crate) fn enable(&self) -> io::Result<()> {
        self.events().try_for_each(sys::enable)
    }

    pub(crate) fn disable(&self) {
        // One that is gone records nothing any more.
        self.events().for_each(|event| drop(sys::disable(event)));
    }

    fn events(&self) -> impl Iterator<Item = &OwnedFd> {
        self.processors.iter().flat_map(Processor::events)
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processors.iter().map(|processor| processor.leader.as_fd())
    }

    /// True where hardware writes a trace by itself.
    pub(crate) fn has_trace(&self) -> bool {
        self.processors.iter().any(|processor| processor.trace.is_some())
    }

    /// The event of a thread's trace on a processor, for others to be in one group with.
    pub(crate) fn trace_of(&self, tid: i32, cpu: i32) -> Option<&OwnedFd> {
        let mut processors = self.processors.iter();
        let processor =
            processors.find(|processor| processor.number == cpu && processor.trace.is_some())?;
        let at = processor.tids.iter().position(|&one| one == tid)?;
        processor.events().nth(at)
    }

    /// The time on the clock of the records; later than all where that is not known.
    pub(crate) fn now(&self) -> u64 {
        match self.event.attr.has_monotonic() {
            true => sys::clock_ns(libc::CLOCK_MONOTONIC),
            false => self.clock().nanos(sys::ticks()).unwrap_or(u64::MAX),
        }
    }

    /// The id that records made by ourselves carry.
    pub(crate) fn first_id(&self) -> u64 {
        self.event.ids.first().copied().unwrap_or(0)
    }

    /// Empties all rings, and hands over what was in each of them.
    pub(crate) fn drain<E>(
        &mut self,
        mut take: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for processor in &mut self.processors {
            self.buffer.clear();
            processor.ring.drain(&mut self.buffer);
            let whole = records(&self.buffer).map(|record| record.bytes.len()).sum::<usize>();
            let bytes = without_plain_memory(&mut self.buffer[..whole]);
            take(match &mut self.family {
                Some(family) => family.sift(bytes),
                None => bytes,
            })?;
        }
        self.family.as_mut().map_or(Ok(()), |family| take(&mut family.own()))
    }
}

impl Rings {
    /// The room of each ring.
    pub(crate) fn data_bytes(&self) -> usize {
        self.processors.first().map_or(0, |processor| processor.ring.data_bytes)
    }
}

impl TraceRings for Rings {
    fn processors(&self) -> Vec<i32> {
        self.processors.iter().map(|processor| processor.number).collect()
    }

    fn ring_bytes(&self) -> usize {
        let mut rings = self.processors.iter().filter_map(|processor| processor.trace.as_ref());
        rings.next().map_or(1, |ring| ring.bytes)
    }

    fn head(&self, ring: usize) -> u64 {
        self.processors[ring].ring.aux_head()
    }

    fn copy(&self, ring: usize, from: u64, len: usize, into: &mut Vec<u8>) {
        if let Some(trace) = &self.processors[ring].trace {
            trace.copy(from, len, into);
        }
    }

    fn free_until(&self, ring: usize, place: u64) {
        self.processors[ring].ring.free_aux_until(place);
    }

    fn stop(&self) {
        self.disable();
    }

    fn start(&self, ring: usize) {
        // One that is gone has nothing more to trace.
        self.processors[ring].events().for_each(|event| drop(sys::enable(event)));
    }

    fn clock(&self) -> TraceClock {
        self.processors.first().map(|processor| processor.ring.clock()).unwrap_or_default()
    }

    fn ticks(&self) -> u64 {
        sys::ticks()
    }
}

/// Each has the same part of all memory.
fn trace_ring(bytes: usize, processors: usize) -> usize {
    let share = bytes / processors.max(1);
    let power = 1_usize << share.max(1).ilog2();
    power.clamp(RING_BYTES_MIN, AUX_BYTES_MAX)
}

fn largest_ring(processors: usize) -> usize {
    let share = RINGS_BYTES_MAX / processors.max(1);
    let power = 1_usize << share.max(1).ilog2();
    power.clamp(RING_BYTES_MIN, RING_BYTES_MAX)
}

fn open_rings(
    attr: Attr,
    tids: &[i32],
    numbers: &[i32],
    ring_bytes: usize,
    memory: Option<(usize, bool)>,
) -> io::Result<Vec<Processor>> {
    let attr = attr.waking_at(u32::try_from(ring_bytes / 4).unwrap_or(u32::MAX));
    let mut processors: Vec<Processor> = Vec::new();
    for &number in numbers {
        let mut processor: Option<Processor> = None;
        for &tid in tids {
            let event = match sys::open_event(&attr, tid, number) {
                Ok(event) => event,
                // A thread that has ended since, among others.
                Err(error) if is_gone(&error) && tids.len() > 1 => continue,
                // A processor that was switched off.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => break,
                Err(error) => return Err(error),
            };
            match &mut processor {
                None => {
                    let ring = Ring::map(&event, ring_bytes)?;
                    let map = |(bytes, keeps_last)| ring.map_aux(&event, bytes, keeps_last);
                    let trace = memory.map(map).transpose()?;
                    let (leader, others, tids) = (event, Vec::new(), vec![tid]);
                    processor = Some(Processor { number, ring, trace, leader, tids, others });
                }
                Some(processor) => {
                    sys::set_output(&event, &processor.leader)?;
                    processor.others.push(event);
                    processor.tids.push(tid);
                }
            }
        }
        processors.extend(processor);
    }
    match processors.is_empty() {
        true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        false => Ok(processors),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

pub(crate) fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The kernel says both where rings are larger than one may have.
fn is_memory_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}

/// Says what the refusal of an event means: nothing can be sampled, or only others' programs
/// cannot.
pub(crate) fn refusal(what: &str, error: io::Error) -> CaptureError {
    let is_refusal = is_refusal(&error);
    let error = CaptureError::io(format!("{what}: cannot be recorded"), error);
    match is_refusal {
        true if examine_one(Ability::Sampling).is_there => error.lacks(Ability::OtherUsers),
        true => error.lacks(Ability::Sampling),
        false => error,
    }
}

/// Whether a process that runs another program now is out of our reach: the kernel ends the events
/// of one that has got more rights than we have, without a word.
pub(crate) fn lost_at_exec(pid: i32) -> Option<String> {
    const ANY_PROCESSOR: i32 = -1;
    if sys::is_root() {
        return None;
    }
    let attr = Attr::nothing().without_kernel();
    let error = sys::open_event(&attr, pid, ANY_PROCESSOR).err().filter(is_refusal)?;
    let program = processes::name(pid, pid).unwrap_or_default();
    let program = String::from_utf8_lossy(&program).into_owned();
    Some(format!(
        "process {pid} runs {program} now, which has other rights, and is recorded no longer: \
         {error}; what it did before is in the recording (root may record all of it)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_powers_of_two_within_bounds() {
        let check = |processors, bytes| assert_eq!(largest_ring(processors), bytes);
        check(0, RING_BYTES_MAX);
        check(2, RING_BYTES_MAX);
        check(48, 4 << 20);
        check(1 << 20, RING_BYTES_MIN);
        let check = |bytes, processors, each| assert_eq!(trace_ring(bytes, processors), each);
        check(64 << 20, 2, 32 << 20);
        check(64 << 20, 48, 1 << 20);
        check(1, 2, RING_BYTES_MIN);
        check(usize::MAX, 0, AUX_BYTES_MAX);
    }

    /// Events without a clock of their own have one that the processor's counter can give: what
    /// it says lies between the records before and after.
    #[test]
    fn the_counter_gives_the_time_of_records() {
        let attr = Attr::side_records().on_clock_of(&Attr::hardware_trace(0, 0));
        let Ok(mut rings) = Rings::open("side", attr, &[0]) else { return };
        if !rings.clock().is_known {
            return;
        }
        let mut last_and_now = || {
            std::thread::spawn(|| {}).join().expect("a thread that does nothing");
            let mut times = Vec::new();
            let take = |bytes: &mut [u8]| -> io::Result<()> {
                times.extend(records(bytes).filter_map(|record| record.time()));
                Ok(())
            };
            rings.drain(take).expect("readable");
            (times.into_iter().max(), rings.now())
        };
        let (before, now) = last_and_now();
        let (after, later) = last_and_now();
        assert!(before.is_some() && before < Some(now), "{before:?} {now}");
        assert!(Some(now) < after && after < Some(later), "{now} {after:?} {later}");
    }
}
