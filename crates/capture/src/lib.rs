//! Records programs while they run.
//!
//! What comes out of the kernel is kept as it came, in a folder that `spanwise-read` reads:
//! nothing is decoded here, and whoever reads a recording needs no rights. Programs are not
//! touched: the kernel watches them, and stops when its descriptors are closed, also when
//! the recorder is killed.

#![cfg(target_os = "linux")]

mod budget;
mod calls;
mod doctor;
mod error;
mod event;
mod family;
mod flight;
mod follow;
mod guard;
mod keep;
mod launch;
mod opened;
mod options;
mod perf_file;
mod private_stack;
mod probe;
mod processes;
mod pt;
mod python;
mod recorded;
mod recording;
mod records;
mod ring;
mod rings;
mod runtime_maps;
mod session;
mod side_log;
mod signals;
mod step;
mod sys;
mod timer;
mod torch;
mod trigger;
mod urgency;
mod wait_stacks;
mod waits;
mod watch;

pub use budget::Wanted;
pub use calls::{
    BrakedFunction, CallLevel, CallsBy, CallsOptions, ExitKind, ExitPlace, FunctionPlaces,
    LENGTH_BUCKETS, NotedBy, RefusedFunction, ReturnsBy, StartPlaces, TargetBase, TargetMemory,
    WatchedFunction,
};
pub use doctor::{Ability, Finding, examine, examine_one};
pub use error::CaptureError;
pub use event::{RATE_MAX_HZ, STACK_BYTES_MAX, Stacks};
pub use opened::ClockOf;
pub use options::{FlightOptions, RecordOptions};
pub use processes::{ChildProcess, child_processes, mapped_files, program_path, running_processes};
pub use pt::{CodeRange, PtOptions, TraceRecorded, TraceScope};
#[doc(hidden)]
pub use pt::{TraceClock, TraceRings, TraceSource, record_rings};
pub use python::{PYTHON_RATE_MAX_HZ, PythonOptions, SymbolPlaces};
pub use recorded::{CallsRecorded, Ended, Program, Recorded, Snapshot};
pub use recording::FOLDER_ENDING;
pub use session::{record_processes, record_program};
pub use signals::{HeldSignals, work_until_stopped};
pub use step::{StepOptions, StepsRecorded};
pub use torch::TorchRecorded;
pub use trigger::{COMPANION, FunctionTrigger, SignalTrigger, Triggers, When};
pub use wait_stacks::{WAIT_THRESHOLD, WaitCounts};
pub use waits::{SWITCHES_MAX, WAIT_STACKS_MAX};
