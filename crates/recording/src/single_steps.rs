//! `steps.branches`: branches of functions that were executed one instruction at a time.

use crate::SideFile;
use crate::side_file::{each_record, number, record, word, words};

pub const SINGLE_STEPS_FILE: SideFile =
    SideFile { name: "steps.branches", head: b"spanwise--steps\n" };

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const START: u32 = 2;
    pub(super) const BRANCHES: u32 = 3;
    pub(super) const END: u32 = 4;
}

const BRANCH_BYTES: usize = 32;

/// One record of the file. A region is one call of the function, by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepRecord<'a> {
    /// The name of the function.
    Function(&'a str),
    Start(StepStart),
    Branches {
        region: u32,
        branches: StepBranches<'a>,
    },
    End(StepEnd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepStart {
    pub region: u32,
    pub pid: u32,
    pub tid: u32,
    pub time: u64,
    pub address: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepEnd {
    pub region: u32,
    pub time: u64,
    pub cause: EndCause,
    pub instructions: u64,
}

/// Why single-stepping of a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    Return,
    InstructionLimit,
    TimeLimit,
    ThreadEnd,
    Stop,
}

/// A branch that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepBranch {
    pub time: u64,
    pub from: u64,
    pub to: u64,
    pub kind: StepBranchKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepBranchKind {
    Call = 1,
    Return = 2,
    Jump = 3,
    /// A signal is handled.
    Signal = 4,
    /// To the kernel and back, to another place than behind it.
    SystemCall = 5,
}

/// Branches of one region, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepBranches<'a>(&'a [u8]);

impl EndCause {
    const ALL: [EndCause; 5] = [
        EndCause::Return,
        EndCause::InstructionLimit,
        EndCause::TimeLimit,
        EndCause::ThreadEnd,
        EndCause::Stop,
    ];
}

impl StepBranchKind {
    fn of_number(number: u64) -> StepBranchKind {
        match number {
            1 => StepBranchKind::Call,
            2 => StepBranchKind::Return,
            4 => StepBranchKind::Signal,
            5 => StepBranchKind::SystemCall,
            _ => StepBranchKind::Jump,
        }
    }
}

impl<'a> StepBranches<'a> {
    pub fn iter(self) -> impl Iterator<Item = StepBranch> + use<'a> {
        self.0.chunks_exact(BRANCH_BYTES).filter_map(|bytes| {
            let kind = StepBranchKind::of_number(word(bytes, 24)?);
            let (from, to) = (word(bytes, 8)?, word(bytes, 16)?);
            Some(StepBranch { time: word(bytes, 0)?, from, to, kind })
        })
    }
}

/// The record of the function's name.
pub fn function_record(name: &str) -> Vec<u8> {
    record(kind::FUNCTION, &[name.as_bytes()])
}

impl StepStart {
    pub fn to_bytes(self) -> Vec<u8> {
        let numbers = [self.region, self.pid, self.tid, 0].map(u32::to_le_bytes).concat();
        record(kind::START, &[&self.time.to_le_bytes(), &numbers, &self.address.to_le_bytes()])
    }
}

/// The record of some branches of a region.
pub fn branches_record(region: u32, branches: &[StepBranch]) -> Vec<u8> {
    let time = branches.last().map_or(0, |branch| branch.time);
    let rows = branches.iter().map(|branch| {
        let StepBranch { time, from, to, kind } = *branch;
        words(&[time, from, to, kind as u64])
    });
    let rows = rows.collect::<Vec<_>>().concat();
    record(kind::BRANCHES, &[&words(&[time, region.into()]), &rows])
}

impl StepEnd {
    pub fn to_bytes(self) -> Vec<u8> {
        let numbers = [self.region, self.cause as u32].map(u32::to_le_bytes).concat();
        record(kind::END, &[&self.time.to_le_bytes(), &numbers, &self.instructions.to_le_bytes()])
    }
}

impl StepRecord<'_> {
    /// One record by its kind and its content; nothing where it is none of these.
    pub fn read(kind: u32, body: &[u8]) -> Option<StepRecord<'_>> {
        if kind == kind::FUNCTION {
            return str::from_utf8(body).ok().map(StepRecord::Function);
        }
        let (time, region) = (word(body, 0)?, number(body, 8)?);
        match kind {
            kind::START => {
                let (pid, tid) = (number(body, 12)?, number(body, 16)?);
                let address = word(body, 24)?;
                Some(StepRecord::Start(StepStart { region, pid, tid, time, address }))
            }
            kind::BRANCHES => {
                Some(StepRecord::Branches { region, branches: StepBranches(body.get(16..)?) })
            }
            kind::END => {
                let cause = number(body, 12).and_then(|cause| EndCause::ALL.get(cause as usize));
                let cause = cause.copied().unwrap_or(EndCause::Return);
                let instructions = word(body, 16).unwrap_or(0);
                Some(StepRecord::End(StepEnd { region, time, cause, instructions }))
            }
            _ => None,
        }
    }

    /// By which records are put in order; nothing for the function's name.
    pub fn time(&self) -> Option<u64> {
        match self {
            StepRecord::Function(_) => None,
            StepRecord::Start(start) => Some(start.time),
            StepRecord::Branches { branches, .. } => branches.iter().last().map(|last| last.time),
            StepRecord::End(end) => Some(end.time),
        }
    }
}

/// Hands over each record; true where something of the file is missing, or it is another one.
pub fn read(bytes: &[u8], mut take: impl FnMut(StepRecord<'_>)) -> bool {
    each_record(bytes, SINGLE_STEPS_FILE.head, |kind, body| {
        StepRecord::read(kind, body).into_iter().for_each(&mut take);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: StepStart = StepStart { region: 1, pid: 7, tid: 8, time: 10, address: 0x1000 };

    fn branches() -> Vec<StepBranch> {
        use StepBranchKind::{Call, Jump, Return, Signal, SystemCall};
        let kinds = [Call, Return, Jump, Signal, SystemCall].into_iter().zip(20..);
        kinds.map(|(kind, time)| StepBranch { time, from: 2, to: u64::MAX, kind }).collect()
    }

    fn end(cause: EndCause) -> StepEnd {
        StepEnd { region: 1, time: 30, cause, instructions: 99 }
    }

    fn file() -> Vec<u8> {
        let mut bytes = SINGLE_STEPS_FILE.head.to_vec();
        bytes.extend(function_record("f"));
        bytes.extend(START.to_bytes());
        bytes.extend(branches_record(1, &branches()));
        EndCause::ALL.into_iter().for_each(|cause| bytes.extend(end(cause).to_bytes()));
        bytes
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let (mut ends, mut times) = (Vec::new(), Vec::new());
        let is_cut = read(&file(), |record| {
            times.extend(record.time());
            match record {
                StepRecord::Function(name) => assert_eq!(name, "f"),
                StepRecord::Start(start) => assert_eq!(start, START),
                StepRecord::Branches { region, branches: found } => {
                    assert_eq!((region, found.iter().collect::<Vec<_>>()), (1, branches()));
                }
                StepRecord::End(end) => ends.push(end),
            }
        });
        assert_eq!(ends, EndCause::ALL.map(end));
        assert_eq!((times, is_cut), (vec![10, 24, 30, 30, 30, 30, 30], false));
    }

    #[test]
    fn a_file_that_is_cut_off_gives_what_is_whole() {
        let whole = file();
        for len in 0..whole.len() {
            let mut count = 0;
            let is_cut = read(&whole[..len], |_| count += 1);
            assert!(count < 8 && (is_cut || count > 0 || len == 0 || len == 16), "{len}");
        }
        assert!(read(&[0xff; 100], |record| panic!("{record:?}")));
    }
}
