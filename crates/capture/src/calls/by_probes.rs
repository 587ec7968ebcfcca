//! Hits by probes of the kernel's tracing, which there are without BPF as well: each is an event
//! of its own that writes into rings like those of samples. The kernel takes a tenth of a second
//! to take one away, so there cannot be many.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;

use spanwise_recording::calls::CallHit;
use spanwise_symbols::ExitPlace;

use super::by_bpf::{Numbered, is_odd_place};
use super::place::{fetched, is_left};
use crate::perf::event::Attr;
use crate::perf::probe::Probe;
use crate::perf::records::{self, Record};
use crate::perf::rings::Rings;
use crate::session::program::guard::Guard;
use crate::system::processes;
use crate::system::sys;

/// So many functions are watched at most, of all files together.
pub(super) const FUNCTIONS_MAX: usize = 32;

/// The same of the places where they begin and are left.
const PLACES_MAX: usize = 320;

pub(super) struct ByProbes {
    watched: Vec<Watched>,
    /// By the id that its records carry.
    by_id: BTreeMap<u64, ProbeMeaning>,
    rings: Rings,
    /// Outlives the probes, and takes them away where we cannot.
    _guard: Option<Guard>,
}

/// What a hit of a probe means.
#[derive(Debug, Clone)]
struct ProbeMeaning {
    function: u32,
    is_entry: bool,
    /// Where the function is left, or may be.
    exit: Option<ExitPlace>,
}

impl ProbeMeaning {
    /// The call and the return as they are recorded.
    fn hits(&self, record: Record<'_>) -> impl Iterator<Item = CallHit> {
        let found = record.fetched();
        let is_left = found.as_ref().is_some_and(|found| {
            let exit = self.exit.as_ref();
            exit.is_some_and(|exit| is_left(exit, found.ip, found.words[1]))
        });
        let hit = found.and_then(|found| {
            let (function, is_return) = (self.function, false);
            let slot = Some(found.words[0]?);
            Some(CallHit {
                time: found.time,
                pid: found.pid,
                tid: found.tid,
                function,
                is_return,
                slot,
            })
        });
        let call = hit.filter(|_| self.is_entry);
        let left = hit.filter(|_| is_left).map(|hit| CallHit { is_return: true, ..hit });
        call.into_iter().chain(left)
    }
}

struct Watched {
    function: u32,
    /// Closing them ends the watch, and only then can the probe be taken away.
    _open: Vec<OwnedFd>,
    _probe: Probe,
}

impl ByProbes {
    /// To be called before threads are made: the guard is a copy of this process.
    pub(super) fn begin() -> io::Result<ByProbes> {
        let guard = Guard::start().ok();
        // Rings belong to an event; this one counts nothing.
        let rings = Rings::open("calls", Attr::nothing(), &[0])?;
        Ok(ByProbes { watched: Vec::new(), by_id: BTreeMap::new(), rings, _guard: guard })
    }

    /// Why a function cannot be watched by probes, if so.
    pub(super) fn refusal(&self, function: &Numbered<'_>) -> Option<String> {
        let unfit = function.places.exits.iter().find_map(|exit| fetched(exit).err());
        let count = 1 + function.places.exits.len();
        let is_full = self.watched.len() + count > PLACES_MAX;
        let full = || format!("it has {count} places, and uprobes can watch {PLACES_MAX} in all");
        unfit.map(str::to_owned).or_else(|| is_full.then(full))
    }

    /// Gives the numbers of those that the kernel did not take. Processes that are forked inherit
    /// the events.
    pub(super) fn attach(
        &mut self,
        pid: i32,
        path: &[u8],
        functions: &[Numbered<'_>],
    ) -> io::Result<Vec<u32>> {
        let path = str::from_utf8(path).map_err(io::Error::other)?;
        let tids = processes::threads(pid);
        let mut refused = Vec::new();
        for function in functions {
            match self.watch_function(path, function, &tids) {
                Ok(all) => {
                    for (watched, ids, place) in all {
                        self.by_id.extend(ids.into_iter().map(|id| (id, place.clone())));
                        self.watched.push(watched);
                    }
                }
                Err(error) if is_odd_place(&error) => refused.push(function.number),
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    fn watch_function(
        &self,
        path: &str,
        function: &Numbered<'_>,
        tids: &[i32],
    ) -> io::Result<Vec<(Watched, Vec<u64>, ProbeMeaning)>> {
        let whose = if function.is_go { "%r14" } else { "%sp" };
        // Exits first: of a call that is seen, the return is seen as well.
        let (entry, at_entry) = (function.places.entry, function.places.exit_at_entry());
        let exits = function.places.exits.iter().filter(|exit| exit.offset != entry).map(Some);
        exits
            .map(|exit| (false, exit))
            .chain([(true, at_entry)])
            .map(|(is_entry, exit)| {
                let offset = exit.map_or(entry, |exit| exit.offset);
                let decides = exit.and_then(|exit| fetched(exit).ok().flatten());
                let fetches: Vec<&str> = std::iter::once(whose).chain(decides.as_deref()).collect();
                let probe = Probe::define(path, offset, &fetches)?;
                let attr = Attr::tracepoint(probe.number).with_fetched();
                let open = |tid, cpu| sys::open_event(&attr, tid, cpu);
                let (open, ids) = self.rings.open_beside(tids, open)?;
                let exit = exit.cloned();
                let place = ProbeMeaning { function: function.number, is_entry, exit };
                let function = function.number;
                Ok((Watched { function, _open: open, _probe: probe }, ids, place))
            })
            .collect()
    }

    /// What was noted since the last time, and how much there was no room for.
    pub(super) fn drain(&mut self) -> (Vec<u8>, u64) {
        let (mut hits, mut lost) = (Vec::new(), 0);
        let ByProbes { rings, by_id, .. } = self;
        let drained: Result<(), Infallible> = rings.drain(|bytes| {
            for record in records::records(bytes) {
                lost += record.lost();
                let place = record.event_id().and_then(|id| by_id.get(&id));
                let found = place.into_iter().flat_map(|place| place.hits(record));
                let words = found.flat_map(CallHit::to_words);
                hits.extend(words.flat_map(u64::to_le_bytes));
            }
            Ok(())
        });
        let Ok(()) = drained;
        (hits, lost)
    }

    /// A function is not watched any more.
    pub(super) fn detach(&mut self, function: u32) {
        self.watched.retain(|watched| watched.function != function);
    }

    /// No more is noted from now on.
    pub(super) fn stop(&mut self) {
        self.watched.clear();
    }
}
