//! Branches of a function that was stepped through, beside the kernel's records.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use spanwise_callstack::{Branch, BranchKind, Location, ThreadKey, TraceEdge};
use spanwise_model::Nanos;
use spanwise_recording::single_steps::{self, StepBranch, StepBranchKind, StepRecord};

use crate::perf::data::file::header::Header;
use crate::perf::data::file::records;
use crate::perf::data::{Reader, RecordContent, State};

/// One step that led elsewhere, or the first, or the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) time: Nanos,
    pub(crate) thread: ThreadKey,
    pub(crate) edge: TraceEdge,
    pub(crate) kind: BranchKind,
    pub(crate) from: u64,
    pub(crate) to: u64,
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
    pub(crate) is_cut: bool,
}

impl Steps {
    /// What was recorded beside these records; nothing where there is no such file.
    pub(crate) fn beside(records: &Path) -> Steps {
        let bytes = single_steps::SINGLE_STEPS_FILE.beside(records);
        bytes.map_or_else(Steps::default, |bytes| Steps::read(&bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> Steps {
        let mut all = Steps::default();
        let mut open: BTreeMap<u32, ThreadKey> = BTreeMap::new();
        all.is_cut = single_steps::read(bytes, |record| {
            let _ = all.record(record, &mut open);
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

    /// Nothing where a time is none of a trace, or the start of a region is missing.
    fn record(
        &mut self,
        record: StepRecord<'_>,
        open: &mut BTreeMap<u32, ThreadKey>,
    ) -> Option<()> {
        match record {
            StepRecord::Function(_) => {}
            StepRecord::Start(start) => {
                let time = Nanos::try_from(start.time).ok()?;
                let thread = ThreadKey { pid: start.pid.into(), tid: start.tid.into() };
                open.insert(start.region, thread);
                self.regions.entry(thread.tid).or_default().push((time, time));
                let (edge, kind) = (TraceEdge::Start, BranchKind::None);
                self.steps.push(Step { time, thread, edge, kind, from: 0, to: start.address });
            }
            StepRecord::Branches { region, branches } => {
                let thread = *open.get(&region)?;
                self.steps.extend(branches.iter().filter_map(|branch| step(branch, thread)));
            }
            StepRecord::End(end) => {
                let time = Nanos::try_from(end.time).ok()?;
                let thread = open.remove(&end.region)?;
                if let Some(last) = self.regions.get_mut(&thread.tid).and_then(|all| all.last_mut())
                {
                    last.1 = time.max(last.0);
                }
                let (edge, kind) = (TraceEdge::End, BranchKind::None);
                self.steps.push(Step { time, thread, edge, kind, from: 0, to: 0 });
            }
        }
        Some(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A thread leaves its processor, or comes back. Call this for all switches before the first
    /// step is taken. A thread that reaches the function is stopped shortly before the recorder
    /// learns of it: the call begins where it left its processor, and waits for nobody before that.
    pub(crate) fn switched(&mut self, tid: i64, time: Nanos, is_out: bool) {
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

    /// Call this after the last switch.
    pub(crate) fn settle(&mut self) {
        self.steps.sort_by_key(|step| step.time);
    }

    /// The next, if it is not after a time.
    pub(crate) fn next_until(&mut self, time: Nanos) -> Option<Step> {
        let step = self.steps.get(self.next).copied().filter(|step| step.time <= time)?;
        self.next += 1;
        Some(step)
    }

    /// True where a thread was being stepped through: that it stops after each instruction says
    /// nothing about the program.
    pub(crate) fn holds(&self, tid: i64, time: Nanos) -> bool {
        let Some(regions) = self.regions.get(&tid) else { return false };
        let before = regions.partition_point(|region| region.0 <= time);
        before > 0 && time <= regions[before - 1].1
    }
}

impl Reader {
    pub(crate) fn pass_switches_to_steps(&mut self, header: &Header<'_>) {
        if self.steps.is_empty() {
            return;
        }
        records::each_record(header, |record| {
            if let (records::Body::Switch { is_out, .. }, Some(time)) =
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
    pub(crate) fn is_of_stepping(&mut self, record: &records::Record<'_>) -> bool {
        let is_caused_by_thread =
            matches!(record.what, records::Body::Sample { .. } | records::Body::Switch { .. });
        let tid = record.common.tid;
        let holds = |time| self.steps.holds(tid.into(), time);
        let is_left_out = is_caused_by_thread && time_of(record).is_some_and(holds);
        if is_left_out {
            self.leaving.remove(&tid);
            self.seen.insert(tid);
        }
        is_left_out
    }

    pub(crate) fn step(&mut self, step: Step) {
        if step.edge == TraceEdge::End {
            return self.timeline.branches_over(step.thread, step.time);
        }
        let pid = i32::try_from(step.thread.pid).unwrap_or(0);
        let [from, to] = [step.from, step.to].map(|ip| self.place(pid, ip));
        let branch =
            Branch { kind: step.kind, edge: step.edge, is_in_transaction: false, from, to };
        self.push_made(step.thread, Some(step.time), RecordContent::Branch(branch));
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

fn step(branch: StepBranch, thread: ThreadKey) -> Option<Step> {
    let kind = match branch.kind {
        StepBranchKind::Call | StepBranchKind::Signal => BranchKind::Call,
        StepBranchKind::Return => BranchKind::Return,
        StepBranchKind::Jump | StepBranchKind::SystemCall => BranchKind::Jump,
    };
    let (time, edge) = (Nanos::try_from(branch.time).ok()?, TraceEdge::Within);
    Some(Step { time, thread, edge, kind, from: branch.from, to: branch.to })
}

#[cfg(test)]
mod tests {
    use spanwise_recording::single_steps::{
        EndCause, SINGLE_STEPS_FILE, StepEnd, StepStart, branches_record,
    };

    use super::*;

    fn file() -> Vec<u8> {
        let start = |region, time| StepStart { region, pid: 7, tid: 8, time, address: 0x1000 };
        let branch = |time, from, to, kind| StepBranch { time, from, to, kind };
        let branches = [
            branch(15, 0x1004, 0x2000, StepBranchKind::Call),
            branch(20, 0x2008, 0x1009, StepBranchKind::Return),
        ];
        let end = StepEnd { region: 0, time: 30, cause: EndCause::Return, instructions: 2 };
        [
            SINGLE_STEPS_FILE.head,
            &*start(0, 10).to_bytes(),
            &branches_record(0, &branches),
            &end.to_bytes(),
            &start(1, 40).to_bytes(),
        ]
        .concat()
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
