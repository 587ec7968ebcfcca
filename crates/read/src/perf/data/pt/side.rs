//! What else the recording says: which thread ran on which processor, and what it had mapped.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use spanwise_symbols::{Mapping, is_jit_dump};

use super::jitdump::JitFunction;
use super::streams::RingCut;
use crate::perf::data::file::records::{Body, Record};

/// What a process had mapped from a time on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) since: u64,
    pub(super) maps: Vec<Mapping>,
}

/// A thread, and since when it ran on a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) since: u64,
    pub(super) pid: i32,
    pub(super) tid: i32,
}

#[derive(Debug, Default)]
pub(super) struct Side {
    processes: HashMap<i32, Vec<Version>>,
    pids: HashMap<i32, i32>,
    turns: BTreeMap<u32, Vec<Turn>>,
    paths: HashMap<String, Rc<str>>,
    pub(super) cuts: Vec<RingCut>,
    /// Code that runtimes made, the latest first.
    to_be_made: Vec<JitFunction>,
}

/// A process that makes its code anew all the time has no more versions than this; then the
/// latest code counts.
const VERSIONS_MAX: usize = 1000;

impl Side {
    pub(super) fn new(mut made: Vec<JitFunction>) -> Side {
        made.sort_by_key(|made| std::cmp::Reverse(made.since));
        Side { to_be_made: made, ..Side::default() }
    }

    /// What runtimes made up to a time is there.
    pub(super) fn make_until(&mut self, time: u64) {
        while let Some(made) = self.to_be_made.pop_if(|made| made.since <= time) {
            self.map(made.pid, made.since, made.mapping);
        }
    }

    pub(super) fn take(&mut self, record: Record<'_>) {
        let Record { common, what, .. } = record;
        let since = common.time.unwrap_or(0);
        self.make_until(since);
        match what {
            Body::Mapped {
                pid,
                start,
                len,
                file_offset,
                path,
                is_kernel: false,
                is_data: false,
            } if is_file(&path) && !is_jit_dump(&path) => {
                let shared = self.paths.entry(path);
                let path = Rc::clone(shared.or_insert_with_key(|path| path.as_str().into()));
                let end = start.saturating_add(len);
                self.map(pid, since, Mapping { start, end, file_offset, path });
            }
            Body::Named { pid, tid, is_exec, .. } => {
                self.pids.insert(tid, pid);
                if is_exec {
                    let versions = self.processes.entry(pid).or_default();
                    versions.push(Version { since, maps: Vec::new() });
                }
            }
            Body::Forked { pid, parent, tid, .. } => {
                self.pids.insert(tid, pid);
                if pid != parent {
                    let maps = self.processes.get(&parent).and_then(|versions| versions.last());
                    let maps = maps.map(|version| version.maps.clone()).unwrap_or_default();
                    self.processes.entry(pid).or_default().push(Version { since, maps });
                }
            }
            Body::Switch { is_out: true, .. } => self.leaves(common.cpu, since),
            Body::Switch { is_out: false, .. } => {
                self.comes(common.cpu, Turn { since, pid: common.pid, tid: common.tid });
            }
            Body::TraceStarted { pid, tid } => {
                self.pids.insert(tid, pid);
                self.comes(common.cpu, Turn { since, pid, tid });
            }
            Body::TraceCut { at } => {
                self.cuts.push(RingCut { tid: common.tid, cpu: common.cpu, at });
            }
            _ => {}
        }
    }

    /// What lies where nothing was before does not make another version: nobody can have run
    /// it earlier.
    fn map(&mut self, pid: i32, since: u64, new: Mapping) {
        let versions = self.processes.entry(pid).or_default();
        if versions.is_empty() {
            versions.push(Version::default());
        }
        let versions_len = versions.len();
        let Some(last) = versions.last_mut() else { return };
        let covers = |old: &Mapping| old.start < new.end && new.start < old.end;
        if versions_len >= VERSIONS_MAX || !last.maps.iter().any(covers) {
            last.maps.push(new);
        } else if !last.maps.contains(&new) {
            // What is mapped last counts, where both are.
            let maps = last.maps.iter().cloned().chain([new]).collect();
            versions.push(Version { since, maps });
        }
    }

    fn leaves(&mut self, cpu: Option<u32>, since: u64) {
        if let Some(cpu) = cpu {
            self.turns.entry(cpu).or_default().push(Turn { since, pid: 0, tid: 0 });
        }
    }

    /// The hardware starts before the kernel says who runs now, and a time that it reports may be
    /// older still: so a thread has the processor since the one before it left.
    fn comes(&mut self, cpu: Option<u32>, turn: Turn) {
        let Some(cpu) = cpu else { return };
        let turns = self.turns.entry(cpu).or_default();
        match turns.last_mut() {
            Some(last) if last.tid == 0 => (last.pid, last.tid) = (turn.pid, turn.tid),
            Some(last) if (last.pid, last.tid) == (turn.pid, turn.tid) => {}
            _ => turns.push(turn),
        }
    }

    pub(super) fn version(&self, pid: i32, number: usize) -> Option<&Version> {
        self.processes.get(&pid)?.get(number)
    }

    pub(super) fn pid_of(&self, tid: i32) -> i32 {
        self.pids.get(&tid).copied().unwrap_or(tid)
    }

    /// Who ran, and which version of what it had mapped held, in order of time: on a processor,
    /// or of one thread where its trace is apart.
    pub(super) fn turns(&self, tid: i32, cpu: i32) -> Vec<(Turn, usize)> {
        let of_thread = [Turn { since: 0, pid: self.pid_of(tid), tid }];
        let on_processor = u32::try_from(cpu).ok().and_then(|cpu| self.turns.get(&cpu));
        let turns = match (tid >= 0, on_processor) {
            (false, Some(turns)) => turns.as_slice(),
            _ => &of_thread,
        };
        let mut found = Vec::new();
        for (at, &turn) in turns.iter().enumerate() {
            let until = turns.get(at + 1).map_or(u64::MAX, |next| next.since);
            let versions = self.processes.get(&turn.pid).map_or(&[][..], Vec::as_slice);
            let next = versions.partition_point(|version| version.since <= turn.since);
            found.push((turn, next.saturating_sub(1)));
            let later = versions.iter().enumerate().skip(next.max(1));
            for (number, version) in later.take_while(|(_, version)| version.since < until) {
                found.push((Turn { since: version.since, ..turn }, number));
            }
        }
        found
    }
}

/// Memory of a program's own has no bytes anywhere.
fn is_file(path: &str) -> bool {
    path == "[vdso]" || path.starts_with('/') && !path.starts_with("//")
}
