//! The events of all threads on all processors, and the rings that they write into.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::event::{Attr, Event};
use crate::records::records;
use crate::ring::Ring;
use crate::{Ability, CaptureError, examine_one, processes, sys};

/// The rings of all processors together are at most so large, and each at most this.
const RINGS_BYTES_MAX: usize = 256 << 20;
const RING_BYTES_MAX: usize = 8 << 20;
/// What one may have without privileges on a machine that nobody has set up.
const RING_BYTES_MIN: usize = 64 << 10;

/// Events that are open, with a ring for each processor.
#[derive(Debug)]
pub(crate) struct Rings {
    /// A ring, the event that it belongs to, and events that write into it as well.
    processors: Vec<Processor>,
    pub(crate) event: Event,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Processor {
    number: i32,
    ring: Ring,
    leader: OwnedFd,
    others: Vec<OwnedFd>,
}

impl Rings {
    /// Opens the event for these threads. The kernel's part is left out where one may not
    /// see it.
    pub(crate) fn open(name: &str, attr: Attr, tids: &[i32]) -> io::Result<Rings> {
        match Rings::open_as(name, attr, tids) {
            Err(error) if is_refusal(&error) && attr.has_kernel() => {
                Rings::open_as(name, attr.without_kernel(), tids)
            }
            result => result,
        }
    }

    fn open_as(name: &str, attr: Attr, tids: &[i32]) -> io::Result<Rings> {
        let numbers = processes::processors();
        let mut ring_bytes = largest_ring(numbers.len());
        let mut processors = loop {
            match open_rings(attr, tids, &numbers, ring_bytes) {
                Err(error) if is_memory_refusal(&error) && ring_bytes > RING_BYTES_MIN => {
                    ring_bytes /= 2;
                }
                result => break result?,
            }
        };
        let mut ids = Vec::new();
        for processor in &mut processors {
            ids.push(sys::event_id(&processor.leader)?);
            for other in &processor.others {
                ids.push(sys::event_id(other)?);
            }
        }
        let event = Event { name: name.to_owned(), attr, ids };
        Ok(Rings { processors, event, buffer: Vec::new() })
    }

    /// Adds threads that were not there before; those that are gone already are passed over.
    pub(crate) fn add_threads(&mut self, tids: &[i32]) -> io::Result<()> {
        for processor in &mut self.processors {
            for &tid in tids {
                match sys::open_event(&self.event.attr, tid, processor.number) {
                    Ok(event) => {
                        sys::set_output(&event, &processor.leader)?;
                        self.event.ids.push(sys::event_id(&event)?);
                        processor.others.push(event);
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
        self.processors
            .iter()
            .flat_map(|processor| std::iter::once(&processor.leader).chain(&processor.others))
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.processors.iter().map(|processor| processor.leader.as_fd())
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
            take(&mut self.buffer[..whole])?;
        }
        Ok(())
    }
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
                    let others = Vec::new();
                    processor = Some(Processor { number, ring, leader: event, others });
                }
                Some(processor) => {
                    sys::set_output(&event, &processor.leader)?;
                    processor.others.push(event);
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
    let attr = Attr::switch_records().without_kernel();
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
    }
}
