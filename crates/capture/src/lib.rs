//! Records programs while they run.
//!
//! What comes out of the kernel is kept as it came, in a folder that `spanwise-read` reads:
//! nothing is decoded here, and whoever reads a recording needs no rights. Programs are not
//! touched: the kernel watches them, and stops when its descriptors are closed, also when
//! the recorder is killed.

#![cfg(target_os = "linux")]

mod calls;
mod follow;
mod perf;
mod pt;
mod python;
mod session;
mod single_step;
mod system;
mod torch;
mod triggers;
mod waits;

pub use crate::session::outcome::{CallsRecorded, Ended, Program, Recorded, Snapshot};
pub use calls::{
    BrakedFunction, CallsBy, CallsOptions, LENGTH_BUCKETS, NotedBy, RefusedFunction, ReturnsBy,
};
pub use perf::event::{RATE_MAX_HZ, STACK_BYTES_MAX, Stacks};
pub use pt::{CodeRange, PtOptions, TraceRecorded, TraceScope};
#[doc(hidden)]
pub use pt::{TraceClock, TraceRings, TraceSource, record_rings};
pub use python::{PYTHON_RATE_MAX_HZ, PythonOptions};
pub use session::budget::RecordPolicy;
pub use session::open_events::ClockOf;
pub use session::options::{FlightOptions, RecordOptions};
pub use session::recorder::{record_processes, record_program};
pub use single_step::{StepOptions, StepsRecorded};
pub use spanwise_recording::FOLDER_ENDING;
pub use spanwise_recording::calls::CallLevel;
pub use system::doctor::{Ability, Finding, examine, examine_one};
pub use system::error::CaptureError;
pub use system::processes::{
    ChildProcess, child_processes, mapped_files, program_path, running_processes,
};
pub use torch::TorchRecorded;
pub use triggers::conditions::{COMPANION, FunctionTrigger, SignalTrigger, Triggers, When};
pub use triggers::signals::{HeldSignals, work_until_stopped};
pub use waits::stacks::{WAIT_THRESHOLD, WaitCounts};
pub use waits::switches::{SWITCHES_MAX, WAIT_STACKS_MAX};
