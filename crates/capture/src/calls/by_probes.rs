//! Hits by probes of the kernel's tracing, which there are without BPF as well: each is an event
//! of its own that writes into rings like those of samples. The kernel takes a tenth of a second
//! to take one away, so there cannot be many.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;

use super::by_bpf::is_odd_place;
use crate::event::Attr;
use crate::guard::Guard;
use crate::probe::Probe;
use crate::records;
use crate::rings::Rings;
use crate::{processes, sys};

/// So many functions are watched at most, of all files together.
pub(super) const FUNCTIONS_MAX: usize = 32;

pub(super) struct ByProbes {
    watched: Vec<Watched>,
    /// By the id that its records carry: the number of a function, doubled, and 1 more where it
    /// returned.
    by_id: BTreeMap<u64, u64>,
    rings: Rings,
    /// Outlives the probes, and takes them away where we cannot.
    _guard: Option<Guard>,
}

struct Watched {
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

    /// Gives how many the kernel did not take. Processes that are forked inherit the events.
    pub(super) fn attach(
        &mut self,
        pid: i32,
        path: &[u8],
        places: &[(u64, u64)],
    ) -> io::Result<u64> {
        let path = str::from_utf8(path).map_err(io::Error::other)?;
        let tids = processes::threads(pid);
        let mut refused = 0;
        for &(offset, number) in places {
            // The return first: of a call that is seen, the return is seen as well.
            let back = self.watch((path, offset), true, &tids);
            match back.and_then(|back| Ok([back, self.watch((path, offset), false, &tids)?])) {
                Ok([back, begin]) => {
                    self.add(back, number << 1 | 1);
                    self.add(begin, number << 1);
                }
                Err(error) if is_odd_place(&error) => refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    fn watch(
        &self,
        (path, offset): (&str, u64),
        is_return: bool,
        tids: &[i32],
    ) -> io::Result<(Watched, Vec<u64>)> {
        let probe = Probe::define(path, offset, is_return)?;
        let attr = Attr::tracepoint(probe.number);
        let open = |tid, cpu| sys::open_event(&attr, tid, cpu);
        let (open, ids) = self.rings.open_beside(tids, open)?;
        Ok((Watched { _open: open, _probe: probe }, ids))
    }

    fn add(&mut self, (watched, ids): (Watched, Vec<u64>), place: u64) {
        self.by_id.extend(ids.into_iter().map(|id| (id, place)));
        self.watched.push(watched);
    }

    /// What was noted since the last time, and how much there was no room for.
    pub(super) fn drain(&mut self) -> (Vec<u8>, u64) {
        let (mut hits, mut lost) = (Vec::new(), 0);
        let ByProbes { rings, by_id, .. } = self;
        let drained: Result<(), Infallible> = rings.drain(|bytes| {
            for record in records::records(bytes) {
                lost += record.lost();
                hits.extend(record.hit(by_id).into_iter().flatten().flat_map(u64::to_ne_bytes));
            }
            Ok(())
        });
        let Ok(()) = drained;
        (hits, lost)
    }

    /// No more is noted from now on.
    pub(super) fn stop(&mut self) {
        self.watched.clear();
    }
}
