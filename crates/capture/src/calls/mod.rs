//! Calls of chosen functions, each with its beginning and its end.
//!
//! A small program of ours runs in the kernel where such a function begins and where it
//! returns, and notes the time in a ring. When the descriptors are closed, also by the end of
//! a killed recorder, the kernel takes it all away.

pub(crate) mod bpf;
pub(crate) mod program;
pub(crate) mod ring;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use crate::records::Record;
use crate::rings::is_refusal;
use crate::side_log::{SideFile, SideRecords};
use crate::{Ability, CaptureError, processes};
use bpf::Places;
use program::HIT_BYTES;
use ring::HitRing;

/// Which functions are recorded.
#[derive(Clone, Copy)]
pub struct CallsOptions<'a> {
    /// Functions of a file that are wanted: where in it they begin, and their names.
    pub functions_in: &'a dyn Fn(&Path) -> Vec<(u64, String)>,
}

/// The file in the folder of a recording, and what it begins with.
pub(crate) const CALLS_FILE: SideFile = SideFile { name: "calls.hits", head: b"spanwise--calls\n" };

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const HITS: u32 = 2;
    pub(super) const LOST: u32 = 3;
}

/// Room for a million calls between two looks at the ring.
const RING_BYTES: u32 = 64 << 20;

/// More functions of one file than this are too many.
const FUNCTIONS_MAX: usize = 50_000;

/// The functions that are watched, and the ring.
pub(crate) struct Calls<'a> {
    options: CallsOptions<'a>,
    /// Closing them ends the watch; first, so that nothing is written into a ring that is gone.
    links: Vec<OwnedFd>,
    programs: [OwnedFd; 2],
    lost: OwnedFd,
    ring: HitRing,
    _ring: OwnedFd,
    /// Places in each file, with the numbers of their functions.
    files: BTreeMap<Vec<u8>, Vec<(u64, u64)>>,
    count: u32,
    /// Files of each process that are watched.
    watched: BTreeMap<i32, BTreeSet<Vec<u8>>>,
    new: SideRecords,
    lost_before: u64,
    /// Functions that the kernel refuses to watch.
    refused: u64,
}

impl<'a> Calls<'a> {
    pub(crate) fn begin(options: CallsOptions<'a>) -> Result<Calls<'a>, CaptureError> {
        Calls::try_begin(options).map_err(|error| {
            CaptureError::io("calls of functions cannot be recorded", error).lacks(Ability::Calls)
        })
    }

    fn try_begin(options: CallsOptions<'a>) -> io::Result<Calls<'a>> {
        let (ring, lost) = (bpf::ring(RING_BYTES)?, bpf::counter()?);
        let load = |is_return| {
            bpf::program(&program::noting(ring.as_raw_fd(), lost.as_raw_fd(), is_return))
        };
        Ok(Calls {
            options,
            links: Vec::new(),
            programs: [load(false)?, load(true)?],
            lost,
            ring: HitRing::map(&ring, RING_BYTES as usize)?,
            _ring: ring,
            files: BTreeMap::new(),
            count: 0,
            watched: BTreeMap::new(),
            new: SideRecords::default(),
            lost_before: 0,
            refused: 0,
        })
    }

    /// A process has this file in its memory, or will have: watches its functions.
    pub(crate) fn file_mapped(&mut self, pid: i32, path: &[u8]) -> Result<(), CaptureError> {
        if !self.watched.entry(pid).or_default().insert(path.to_vec()) {
            return Ok(());
        }
        let places = match self.files.get(path) {
            Some(known) => known.clone(),
            None => self.look_into(path),
        };
        if places.is_empty() {
            return Ok(());
        }
        self.attach(pid, path, &places).map_err(|error| {
            let is_refusal = is_refusal(&error);
            let path = processes::path_of(path).display();
            let error = CaptureError::io(format!("{path}: its calls cannot be recorded"), error);
            if is_refusal { error.lacks(Ability::Calls) } else { error }
        })
    }

    fn look_into(&mut self, path: &[u8]) -> Vec<(u64, u64)> {
        let mut functions = (self.options.functions_in)(processes::path_of(path));
        if functions.len() > FUNCTIONS_MAX {
            self.refused += (functions.len() - FUNCTIONS_MAX) as u64;
            functions.truncate(FUNCTIONS_MAX);
        }
        let mut places = Vec::with_capacity(functions.len());
        for (offset, name) in functions {
            self.new.facts.extend(function(self.count, &name, path));
            places.push((offset, self.count.into()));
            self.count += 1;
        }
        self.files.insert(path.to_vec(), places.clone());
        places
    }

    /// All at once; where the kernel does not take one of them, the others without it.
    fn attach(&mut self, pid: i32, path: &[u8], places: &[(u64, u64)]) -> io::Result<()> {
        match (self.try_attach(pid, path, places), places.len()) {
            (Ok(links), _) => self.links.extend(links),
            (Err(error), _) if error.raw_os_error() == Some(libc::ESRCH) => {}
            (Err(error), 1) if is_odd_place(&error) => self.refused += 1,
            (Err(error), count) if is_odd_place(&error) => {
                let (first, last) = places.split_at(count / 2);
                self.attach(pid, path, first)?;
                self.attach(pid, path, last)?;
            }
            (Err(error), _) => return Err(error),
        }
        Ok(())
    }

    fn try_attach(&self, pid: i32, path: &[u8], places: &[(u64, u64)]) -> io::Result<[OwnedFd; 2]> {
        let (offsets, cookies): (Vec<u64>, Vec<u64>) = places.iter().copied().unzip();
        let [entry, back] = &self.programs;
        let at = |program, is_return| {
            let (offsets, cookies) = (&offsets, &cookies);
            bpf::attach(program, &Places { path, pid, offsets, cookies, is_return })
        };
        // Returns first: of a call that is seen, the return is seen as well.
        let back = at(back, true)?;
        Ok([at(entry, false)?, back])
    }

    /// A process that was copied from another has its files, and needs probes of its own.
    pub(crate) fn note(&mut self, record: Record<'_>) -> Result<(), CaptureError> {
        // Probes are of a process, whatever program it runs, and end with it.
        if let Some(ended) = record.ended() {
            self.watched.remove(&ended);
        }
        let Some((parent, pid)) = record.copied() else { return Ok(()) };
        for path in self.watched.get(&parent).cloned().unwrap_or_default() {
            self.file_mapped(pid, &path)?;
        }
        Ok(())
    }

    /// What was noted since the last time, and how much of it there is.
    pub(crate) fn take(&mut self) -> (SideRecords, CallCounts) {
        let mut hits = Vec::new();
        self.ring.drain(|hit| hits.extend(hit.get(..HIT_BYTES as usize).unwrap_or_default()));
        let mut records = std::mem::take(&mut self.new);
        let mut counts = CallCounts { hits: hits.len() as u64 / HIT_BYTES as u64, lost: 0 };
        let latest = hits.chunks_exact(HIT_BYTES as usize).filter_map(time_of).max();
        if let Some(latest) = latest {
            records.timed.push((latest, record(kind::HITS, &hits)));
        }
        let lost = bpf::counted(&self.lost).unwrap_or(self.lost_before);
        if lost > self.lost_before {
            counts.lost = lost - self.lost_before;
            self.lost_before = lost;
            let time = latest.unwrap_or(u64::MAX);
            records.timed.push((time, record(kind::LOST, &counts.lost.to_le_bytes())));
        }
        (records, counts)
    }

    /// No more is noted from now on.
    pub(crate) fn stop(&mut self) {
        self.links.clear();
    }

    /// How many functions are watched, and how many the kernel refuses to.
    pub(crate) fn functions(&self) -> (u64, u64) {
        (u64::from(self.count) - self.refused.min(self.count.into()), self.refused)
    }
}

/// Beginnings and ends of calls that were noted, and those that there was no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CallCounts {
    pub(crate) hits: u64,
    pub(crate) lost: u64,
}

fn time_of(hit: &[u8]) -> Option<u64> {
    hit.first_chunk().map(|time| u64::from_ne_bytes(*time))
}

/// The kernel finds an instruction there that it cannot watch.
fn is_odd_place(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::EILSEQ | libc::EIO | ENOTSUPP)
    )
}

/// As the kernel calls it inside, and sometimes outside.
const ENOTSUPP: i32 = 524;

/// A function that hits name by its number.
fn function(number: u32, name: &str, path: &[u8]) -> Vec<u8> {
    let mut body = Vec::from(number.to_le_bytes());
    body.extend((name.len() as u32).to_le_bytes());
    body.extend(name.as_bytes());
    body.extend(path);
    record(kind::FUNCTION, &body)
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(kind.to_le_bytes());
    bytes.extend((8 + body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Tries all of it on a function of this very program, and lets nothing be called.
pub(crate) fn try_on_ourselves(path: &[u8], offset: u64) -> io::Result<()> {
    let none: &dyn Fn(&Path) -> Vec<(u64, String)> = &|_| Vec::new();
    let calls = Calls::try_begin(CallsOptions { functions_in: none })?;
    calls.try_attach(std::process::id() as i32, path, &[(offset, 0)]).map(drop)
}
