//! What a line says, once read.

use spanwise_callstack::{Branch, Location, SchedEvent, ThreadKey};
use spanwise_model::{Nanos, StrId};

/// One event of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Where its line begins.
    pub(crate) offset: u64,
    pub(crate) thread: ThreadKey,
    /// The thread's name, empty where the line has none.
    pub(crate) comm: StrId,
    pub(crate) time: Option<Nanos>,
    /// The processor, where it was recorded.
    pub(crate) cpu: Option<u32>,
    pub(crate) what: RecordContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordContent {
    Branch(Branch),
    /// A sample of an event, with the stack from the outermost frame on.
    Sample(Box<Sample>),
    /// The processor's frequency, in MHz.
    Frequency(u64),
    /// The recorder lost the thread.
    Error {
        message: StrId,
        ip: u64,
    },
    Switch {
        is_out: bool,
        /// It left although it could have gone on.
        is_preempted: bool,
    },
    /// A tracepoint of the scheduler or of a lock.
    Sched(Box<SchedRecord>),
    /// The stack stood like this all the time, from the outermost frame on.
    Stood {
        frames: Vec<Location>,
        until: Nanos,
    },
    /// The thread ran, and nothing else is known.
    Seen,
    /// Something that happened, such as a tracepoint.
    Instant(StrId),
    /// A thread and its name.
    Named(ThreadKey, StrId),
    /// A thread of a process.
    Forked(ThreadKey),
    /// A thread that ends.
    Ended(ThreadKey),
    /// Events that perf could not keep.
    Lost(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) event: StrId,
    pub(crate) period: u64,
    pub(crate) frames: Vec<Location>,
    /// The frames are a stack, not the one instruction alone.
    pub(crate) is_stack: bool,
}

/// A tracepoint of the scheduler or of a lock, with the stack from the outermost frame on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchedRecord {
    pub(crate) event: SchedEvent,
    pub(crate) frames: Vec<Location>,
}
