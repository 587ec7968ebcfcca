//! What a recording gives, once it has ended.

use std::path::PathBuf;
use std::process::ExitStatus;

use super::program::launch::Child;
use crate::calls::{BrakedFunction, CallCounts, FunctionCounts, NotedBy, RefusedFunction};
use crate::pt::TraceRecorded;
use crate::single_step::StepsRecorded;
use crate::torch::{Torch, TorchRecorded};

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The program, or all processes, came to their end.
    Exited,
    /// The time was over.
    Duration,
    /// Somebody asked for it.
    Stopped,
    /// The snapshot was taken.
    Triggered,
    /// What was recorded could not be written any more; the troubles say why.
    Failed,
}

/// A finished recording.
#[derive(Debug)]
pub struct Recorded {
    /// One, unless snapshots were saved several times.
    pub snapshots: Vec<Snapshot>,
    pub ended: Ended,
    /// Records that there was no room for.
    pub lost: u64,
    /// False where a function was to be watched that no file has.
    pub has_found_function: bool,
    /// Of calls that were to be recorded one by one.
    pub calls: Option<CallsRecorded>,
    /// False where a function was to be stepped through that no file has.
    pub has_found_step: bool,
    /// Of a function that was to be stepped through.
    pub steps: Option<StepsRecorded>,
    /// Of the processor's own trace, where it was to be recorded.
    pub trace: Option<TraceRecorded>,
    /// Of PyTorch's profiler, where it was to run.
    pub torch: Option<TorchRecorded>,
    /// False where Python was to be read, and no interpreter was found.
    pub has_found_python: bool,
    /// What went wrong without being a reason to end.
    pub troubles: Vec<String>,
    /// The program that was started.
    pub program: Option<Program>,
}

/// What came of recording calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallsRecorded {
    /// Functions that were watched.
    pub functions: u64,
    /// Functions that could not be watched without harm.
    pub refused: Vec<RefusedFunction>,
    /// Functions that are more than can be watched.
    pub too_many: u64,
    /// Patterns that no function of any mapped file fits.
    pub unmatched: Vec<String>,
    /// The files that were mapped.
    pub files: Vec<PathBuf>,
    /// Processes that were forked and whose first calls of functions in shared libraries may be
    /// missing.
    pub late_processes: u64,
    /// Functions whose calls cost too much to be recorded one by one all the time.
    pub braked: Vec<BrakedFunction>,
    /// Calls that were counted instead.
    pub counted: u64,
    /// How it was done.
    pub by: NotedBy,
    /// Beginnings and ends of calls.
    pub records: u64,
    /// Those that there was no room for.
    pub lost: u64,
}

impl CallsRecorded {
    pub(crate) fn new(found: FunctionCounts, records: CallCounts) -> CallsRecorded {
        CallsRecorded {
            functions: found.watched,
            refused: found.refused,
            too_many: found.too_many,
            unmatched: found.unmatched,
            files: found.files,
            late_processes: found.late_processes,
            braked: found.braked,
            counted: found.counted,
            by: found.by,
            records: records.hits,
            lost: records.lost,
        }
    }
}

/// What was saved at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub folder: PathBuf,
    /// What it was saved for.
    pub why: String,
    pub samples: u64,
}

/// A program that was started for a recording, and may run longer than that.
#[derive(Debug)]
pub struct Program {
    pub(crate) child: Child,
    /// Python's start-up file stays where it is as long as the program may start others.
    pub(crate) _torch: Option<Torch>,
}

impl Program {
    /// How it ended; `None` where it still runs.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.has_ended()
    }

    /// Waits until it ends.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        self.child.wait()
    }
}
