//! Control flow becomes call stacks.
//!
//! Branches (calls, returns, jumps, interrupts), stack samples and decode errors of a
//! thread go in, in order of time; calls with a start, an end and a caller come out. The
//! crate does no I/O and does not know who recorded the events.
//!
//! [`Flow`] is the machine that spanwise uses. [`compat::Machine`] follows the rules of
//! magic-trace to the letter, so that its recordings can be checked line by line.

mod branch;
mod calls;
pub mod compat;
mod exact;
mod flow;
mod names;
mod ocaml;
mod samples;
mod sched;
mod stack;
mod step;

pub use branch::{Branch, BranchKind, Location, ThreadKey, TraceEdge};
pub use calls::{Call, ThreadCalls};
pub use flow::{Anomalies, Flow, FlowOptions};
pub use names::{FunctionId, NameTranslation, Names, NamesLen, NewNames};
pub use ocaml::Traps;
pub use samples::SampleReach;
pub use sched::{
    EventStack, EventTime, LeftAs, LockWait, Sched, SchedEvent, StackMove, StackRef, StateInterval,
    ThreadSched, Waker, Wakeup, is_probe_of_wait,
};
