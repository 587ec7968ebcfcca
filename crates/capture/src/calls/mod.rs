//! Calls of chosen functions, each with its beginning and its end.
//!
//! Something in the kernel notes the time where such a function begins and where it returns, in a
//! ring: a small program of ours, or a probe. When the descriptors are closed, also by the end of
//! a killed recorder, the kernel takes it away.

pub(crate) mod bpf;
mod by_bpf;
mod by_probes;
pub(crate) mod program;
pub(crate) mod ring;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::records::Record;
use crate::rings::is_refusal;
use crate::side_log::{SideFile, SideRecords};
use crate::{Ability, CaptureError, doctor, processes};
use by_bpf::ByBpf;
use by_probes::ByProbes;
use program::HIT_BYTES;

/// Which functions are recorded.
#[derive(Clone, Copy)]
pub struct CallsOptions<'a> {
    /// Functions of a file that are wanted: where in it they begin, and their names.
    pub functions_in: &'a dyn Fn(&Path) -> Vec<(u64, String)>,
    pub by: CallsBy,
}

/// The file in the folder of a recording, and what it begins with.
pub(crate) const CALLS_FILE: SideFile = SideFile { name: "calls.hits", head: b"spanwise--calls\n" };

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const HITS: u32 = 2;
    pub(super) const LOST: u32 = 3;
}

/// More functions of one file than this are too many.
const FUNCTIONS_MAX: usize = 50_000;

/// How calls are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallsBy {
    /// BPF where it can be had, probes otherwise.
    Auto,
    Bpf,
    Probes,
}

enum Backend {
    Bpf(ByBpf),
    Probes(Box<ByProbes>),
}

/// The functions that are watched, and what notes their calls.
pub(crate) struct Calls<'a> {
    options: CallsOptions<'a>,
    backend: Backend,
    /// Places in each file, with the numbers of their functions.
    files: BTreeMap<Vec<u8>, Vec<(u64, u64)>>,
    count: u32,
    /// Files of each process that are watched.
    watched: BTreeMap<i32, BTreeSet<Vec<u8>>>,
    /// Processes that were copied from another, by that one: files of it that are told of later
    /// are theirs as well.
    copies: BTreeMap<i32, Vec<i32>>,
    new: SideRecords,
    /// Functions that the kernel refuses to watch.
    refused: u64,
    /// Functions that are more than can be watched.
    too_many: u64,
}

impl<'a> Calls<'a> {
    /// To be called before threads are made.
    pub(crate) fn begin(options: CallsOptions<'a>) -> Result<Calls<'a>, CaptureError> {
        let backend = match options.by {
            CallsBy::Bpf => ByBpf::begin().map(Backend::Bpf),
            CallsBy::Probes => ByProbes::begin().map(Box::new).map(Backend::Probes),
            CallsBy::Auto if doctor::has_calls_by_bpf() => ByBpf::begin().map(Backend::Bpf),
            CallsBy::Auto => ByProbes::begin().map(Box::new).map(Backend::Probes),
        };
        let backend = backend.map_err(|error| {
            let error = CaptureError::io("calls of functions cannot be recorded", error);
            error.lacks(ability(options.by))
        })?;
        Ok(Calls {
            options,
            backend,
            files: BTreeMap::new(),
            count: 0,
            watched: BTreeMap::new(),
            copies: BTreeMap::new(),
            new: SideRecords::default(),
            refused: 0,
            too_many: 0,
        })
    }

    /// A process has this file in its memory, or will have: watches its functions.
    pub(crate) fn file_mapped(&mut self, pid: i32, path: &[u8]) -> Result<(), CaptureError> {
        if !self.watched.entry(pid).or_default().insert(path.to_vec()) {
            return Ok(());
        }
        self.watch(pid, path)?;
        for copy in self.copies.get(&pid).cloned().unwrap_or_default() {
            self.file_mapped(copy, path)?;
        }
        Ok(())
    }

    fn watch(&mut self, pid: i32, path: &[u8]) -> Result<(), CaptureError> {
        let places = match self.files.get(path) {
            Some(known) => known.clone(),
            None => self.look_into(path),
        };
        if places.is_empty() {
            return Ok(());
        }
        let attached = match &mut self.backend {
            Backend::Bpf(bpf) => bpf.attach(pid, path, &places),
            Backend::Probes(probes) => probes.attach(pid, path, &places),
        };
        self.refused += attached.map_err(|error| {
            let is_refusal = is_refusal(&error);
            let path = processes::path_of(path).display();
            let error = CaptureError::io(format!("{path}: its calls cannot be recorded"), error);
            if is_refusal { error.lacks(ability(self.options.by)) } else { error }
        })?;
        Ok(())
    }

    fn look_into(&mut self, path: &[u8]) -> Vec<(u64, u64)> {
        let mut functions = (self.options.functions_in)(processes::path_of(path));
        let most = match self.backend {
            Backend::Bpf(_) => FUNCTIONS_MAX,
            Backend::Probes(_) => by_probes::FUNCTIONS_MAX.saturating_sub(self.count as usize),
        };
        self.too_many += functions.len().saturating_sub(most) as u64;
        functions.truncate(most);
        let mut places = Vec::with_capacity(functions.len());
        for (offset, name) in functions {
            self.new.facts.extend(function(self.count, &name, path));
            places.push((offset, self.count.into()));
            self.count += 1;
        }
        self.files.insert(path.to_vec(), places.clone());
        places
    }

    /// A process that was copied from another has its files, and needs probes of its own.
    pub(crate) fn note(&mut self, record: Record<'_>) -> Result<(), CaptureError> {
        // Probes are of a process, whatever program it runs, and end with it.
        if let Some(ended) = record.ended() {
            self.watched.remove(&ended);
            self.copies.remove(&ended);
            self.copies.values_mut().for_each(|copies| copies.retain(|&copy| copy != ended));
        }
        let Some((parent, pid)) = record.copied() else { return Ok(()) };
        if let Backend::Probes(_) = self.backend {
            // Events are inherited.
            let files = self.watched.get(&parent).cloned().unwrap_or_default();
            self.watched.entry(pid).or_default().extend(files);
            return Ok(());
        }
        self.copies.entry(parent).or_default().push(pid);
        for path in self.watched.get(&parent).cloned().unwrap_or_default() {
            self.file_mapped(pid, &path)?;
        }
        Ok(())
    }

    /// What was noted since the last time, and how much of it there is.
    pub(crate) fn take(&mut self) -> (SideRecords, CallCounts) {
        let (hits, lost) = match &mut self.backend {
            Backend::Bpf(bpf) => bpf.drain(),
            Backend::Probes(probes) => probes.drain(),
        };
        let mut records = std::mem::take(&mut self.new);
        let counts = CallCounts { hits: hits.len() as u64 / HIT_BYTES as u64, lost };
        let latest = hits.chunks_exact(HIT_BYTES as usize).filter_map(time_of).max();
        if let Some(latest) = latest {
            records.timed.push((latest, record(kind::HITS, &hits)));
        }
        if lost > 0 {
            let time = latest.unwrap_or(u64::MAX);
            records.timed.push((time, record(kind::LOST, &lost.to_le_bytes())));
        }
        (records, counts)
    }

    /// No more is noted from now on.
    pub(crate) fn stop(&mut self) {
        match &mut self.backend {
            Backend::Bpf(bpf) => bpf.stop(),
            Backend::Probes(probes) => probes.stop(),
        }
    }

    pub(crate) fn functions(&self) -> FunctionCounts {
        FunctionCounts {
            watched: u64::from(self.count).saturating_sub(self.refused),
            refused: self.refused,
            too_many: self.too_many,
            by_probes: matches!(self.backend, Backend::Probes(_)),
        }
    }
}

/// What became of the functions that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionCounts {
    pub(crate) watched: u64,
    /// The kernel refuses to watch them.
    pub(crate) refused: u64,
    pub(crate) too_many: u64,
    pub(crate) by_probes: bool,
}

fn ability(by: CallsBy) -> Ability {
    match by {
        CallsBy::Probes => Ability::CallsByProbes,
        CallsBy::Auto | CallsBy::Bpf => Ability::Calls,
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
pub(crate) fn try_on_ourselves(by: CallsBy, path: &[u8], offset: u64) -> io::Result<()> {
    let (own, places) = (std::process::id() as i32, [(offset, 0)]);
    match by {
        CallsBy::Probes => match ByProbes::begin()?.attach(own, path, &places)? {
            0 => Ok(()),
            _ => Err(io::Error::other("no probe can be set there")),
        },
        CallsBy::Auto | CallsBy::Bpf => ByBpf::begin()?.try_attach(own, path, &places).map(drop),
    }
}
