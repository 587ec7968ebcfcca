//! Branches of a function that was stepped through, beside the kernel's records.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use spanwise_callstack::{Branch, BranchKind, Location, ThreadKey, TraceEdge};
use spanwise_model::Nanos;

use super::header::Header;
use super::side_file::{self, number, word};
use super::{Reader, State, What, records};

/// The file beside the records.
const FILE: &str = "steps.branches";

const HEAD: &[u8] = b"spanwise--steps\n";

mod kind {
    pub(super) const BEGAN: u32 = 2;
    pub(super) const TAKEN: u32 = 3;
    pub(super) const ENDED: u32 = 4;
}

const BRANCH_BYTES: usize = 32;

/// One step that led elsewhere, or the first, or the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) time: Nanos,
    pub(super) thread: ThreadKey,
    pub(super) edge: TraceEdge,
    pub(super) kind: BranchKind,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// All that was recorded, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    next: usize,
    /// Of each thread: from when to when it was stepped through, in order.
    regions: HashMap<i64, Vec<(Nanos, Nanos)>>,
    /// When threads left their processor that have not come back.
    left: HashMap<i64, Nanos>,
    /// It ends in the middle of a record.
    pub(super) is_cut: bool,
}

impl Steps {
    /// What was recorded beside these records; nothing where there is no such file.
    pub(crate) fn beside(records: &Path) -> Steps {
        let bytes = side_file::beside(records, FILE);
        bytes.map_or_else(Steps::default, |bytes| Steps::read(&bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> Steps {
        let mut all = Steps::default();
        let mut open: BTreeMap<u32, ThreadKey> = BTreeMap::new();
        all.is_cut = side_file::each_record(bytes, HEAD, |kind, body| {
            let _ = all.record(kind, body, &mut open);
        });
        all.settle();
        // Those whose end was not written were stepped through up to the end.
        for thread in open.into_values() {
            if let Some(last) = all.regions.get_mut(&thread.tid).and_then(|all| all.last_mut()) {
                last.1 = Nanos::MAX;
            }
        }
        all
    }

    fn record(
        &mut self,
        kind: u32,
        body: &[u8],
        open: &mut BTreeMap<u32, ThreadKey>,
    ) -> Option<()> {
        let (time, region) = (time(body, 0)?, number(body, 8)?);
        match kind {
            kind::BEGAN => {
                let (pid, tid) = (number(body, 12)?.into(), number(body, 16)?.into());
                let (thread, to) = (ThreadKey { pid, tid }, word(body, 24)?);
                open.insert(region, thread);
                self.regions.entry(tid).or_default().push((time, time));
                let (edge, kind) = (TraceEdge::Start, BranchKind::None);
                self.steps.push(Step { time, thread, edge, kind, from: 0, to });
            }
            kind::TAKEN => {
                let thread = *open.get(&region)?;
                let branches = body.get(16..)?.chunks_exact(BRANCH_BYTES);
                self.steps.extend(branches.filter_map(|bytes| branch(bytes, thread)));
            }
            kind::ENDED => {
                let thread = open.remove(&region)?;
                if let Some(last) = self.regions.get_mut(&thread.tid).and_then(|all| all.last_mut())
                {
                    last.1 = time.max(last.0);
                }
                let (edge, kind) = (TraceEdge::End, BranchKind::None);
                self.steps.push(Step { time, thread, edge, kind, from: 0, to: 0 });
            }
            _ => {}
        }
        Some(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A thread leaves its processor, or comes back; to be told of all before the first is asked
    /// for. A thread that comes to the function is stopped a moment before the recorder hears of
    /// it: the call begins where it left its processor, and waits for nobody before that.
    pub(super) fn switched(&mut self, tid: i64, time: Nanos, is_out: bool) {
        let Some(regions) = self.regions.get_mut(&tid) else { return };
        if is_out {
            self.left.insert(tid, time);
            return;
        }
        let Some(left) = self.left.remove(&tid) else { return };
        let Some(region) = regions.iter_mut().find(|region| left < region.0 && region.0 <= time)
        else {
            return;
        };
        let began = std::mem::replace(&mut region.0, left);
        let is_first = |step: &&mut Step| {
            step.edge == TraceEdge::Start && step.thread.tid == tid && step.time == began
        };
        if let Some(first) = self.steps.iter_mut().find(is_first) {
            first.time = left;
        }
    }

    /// All switches were told.
    pub(super) fn settle(&mut self) {
        self.steps.sort_by_key(|step| step.time);
    }

    /// The next, if it is not after a time.
    pub(super) fn next_until(&mut self, time: Nanos) -> Option<Step> {
        let step = self.steps.get(self.next).copied().filter(|step| step.time <= time)?;
        self.next += 1;
        Some(step)
    }

    /// True where a thread was being stepped through: that it stops after each instruction says
    /// nothing about the program.
    pub(super) fn holds(&self, tid: i64, time: Nanos) -> bool {
        let Some(regions) = self.regions.get(&tid) else { return false };
        let before = regions.partition_point(|region| region.0 <= time);
        before > 0 && time <= regions[before - 1].1
    }
}

impl Reader {
    pub(super) fn tell_steps_of_switches(&mut self, header: &Header<'_>) {
        if self.steps.is_empty() {
            return;
        }
        records::each_record(header, |record| {
            if let (records::What::Switch { is_out, .. }, Some(time)) =
                (&record.what, time_of(&record))
            {
                self.steps.switched(record.common.tid.into(), time, *is_out);
            }
        });
        self.steps.settle();
    }
}

impl State<'_> {
    /// True for samples and switches of a thread that was stepped through: that it stops after
    /// each instruction is nothing that the program does.
    pub(super) fn is_of_stepping(&mut self, record: &records::Record<'_>) -> bool {
        let is_told =
            matches!(record.what, records::What::Sample { .. } | records::What::Switch { .. });
        let tid = record.common.tid;
        let holds = |time| self.steps.holds(tid.into(), time);
        let is_left_out = is_told && time_of(record).is_some_and(holds);
        if is_left_out {
            self.leaving.remove(&tid);
            self.seen.insert(tid);
        }
        is_left_out
    }

    pub(super) fn step(&mut self, step: Step) {
        if step.edge == TraceEdge::End {
            return self.timeline.branches_over(step.thread, step.time);
        }
        let pid = i32::try_from(step.thread.pid).unwrap_or(0);
        let [from, to] = [step.from, step.to].map(|ip| self.place(pid, ip));
        let branch =
            Branch { kind: step.kind, edge: step.edge, is_in_transaction: false, from, to };
        self.push_made(step.thread, Some(step.time), What::Branch(branch));
    }

    /// The function at an address.
    fn place(&mut self, pid: i32, ip: u64) -> Location {
        if ip == 0 {
            return Location::NOWHERE;
        }
        let mut places = Vec::new();
        self.push_places(pid, ip, false, &mut places);
        places.into_iter().find(|place| !place.is_inlined).unwrap_or(Location::NOWHERE)
    }
}

fn time_of(record: &records::Record<'_>) -> Option<Nanos> {
    record.common.time.and_then(|time| Nanos::try_from(time).ok())
}

fn time(bytes: &[u8], at: usize) -> Option<Nanos> {
    Nanos::try_from(word(bytes, at)?).ok()
}

fn branch(bytes: &[u8], thread: ThreadKey) -> Option<Step> {
    let kind = match word(bytes, 24)? {
        1 | 4 => BranchKind::Call,
        2 => BranchKind::Return,
        _ => BranchKind::Jump,
    };
    let (time, edge) = (time(bytes, 0)?, TraceEdge::Within);
    Some(Step { time, thread, edge, kind, from: word(bytes, 8)?, to: word(bytes, 16)? })
}

#[cfg(test)]
mod tests {
    use super::side_file::record;
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn file() -> Vec<u8> {
        let began = words(&[10, 7 << 32, 8, 0x1000]);
        let taken = words(&[20, 0, 15, 0x1004, 0x2000, 1, 20, 0x2008, 0x1009, 2]);
        let ended = words(&[30, 0, 2]);
        let next = words(&[40, 1 | 7 << 32, 8, 0x1000]);
        let records = [(kind::BEGAN, began), (kind::TAKEN, taken), (kind::ENDED, ended)];
        let mut bytes = Vec::from(HEAD);
        for (kind, body) in records.into_iter().chain([(kind::BEGAN, next)]) {
            bytes.extend(record(kind, &body));
        }
        bytes
    }

    #[test]
    fn steps_come_in_order_with_their_thread() {
        let mut steps = Steps::read(&file());
        assert!(!steps.is_cut);
        let mut found = Vec::new();
        while let Some(step) = steps.next_until(35) {
            assert_eq!(step.thread, ThreadKey { pid: 7, tid: 8 });
            found.push((step.time, step.edge, step.kind, step.to));
        }
        let expected = [
            (10, TraceEdge::Start, BranchKind::None, 0x1000),
            (15, TraceEdge::Within, BranchKind::Call, 0x2000),
            (20, TraceEdge::Within, BranchKind::Return, 0x1009),
            (30, TraceEdge::End, BranchKind::None, 0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn it_is_known_when_a_thread_was_stepped_through() {
        let steps = Steps::read(&file());
        let check = |tid, time, expected| assert_eq!(steps.holds(tid, time), expected, "{time}");
        check(8, 9, false);
        check(8, 10, true);
        check(8, 30, true);
        check(8, 31, false);
        check(9, 20, false);
        // The end of the second was never written.
        check(8, 1_000_000, true);
    }

    #[test]
    fn a_call_begins_where_its_thread_was_stopped() {
        let check = |switches: &[(i64, Nanos, bool)], expected: [Nanos; 2]| {
            let mut steps = Steps::read(&file());
            for &(tid, time, is_out) in switches {
                steps.switched(tid, time, is_out);
            }
            steps.settle();
            let starts = steps.steps.iter().filter(|step| step.edge == TraceEdge::Start);
            assert_eq!(starts.map(|step| step.time).collect::<Vec<_>>(), expected, "{switches:?}");
            assert_eq!(
                steps.regions[&8].iter().map(|region| region.0).collect::<Vec<_>>(),
                expected
            );
        };
        check(&[], [10, 40]);
        check(&[(8, 7, true), (8, 12, false)], [7, 40]);
        check(&[(8, 3, true), (8, 5, false), (8, 35, true), (8, 41, false)], [10, 35]);
        // Of another thread, and one that never comes back.
        check(&[(9, 7, true), (9, 12, false), (8, 39, true)], [10, 40]);
    }

    #[test]
    fn what_is_cut_off_or_no_such_file_is_no_harm() {
        let whole = file();
        for len in 0..whole.len() {
            let _ = Steps::read(&whole[..len]);
        }
        assert!(Steps::read(&whole[..whole.len() - 1]).is_cut);
        assert!(Steps::read(&[0xff; 100]).is_cut);
    }
}
