//! Records programs while they run.
//!
//! What comes out of the kernel is kept as it came, in a folder that `spanwise-read` reads:
//! nothing is decoded here, and whoever reads a recording needs no rights. Programs are not
//! touched: the kernel watches them, and stops when its descriptors are closed, also when
//! the recorder is killed.

#![cfg(target_os = "linux")]

mod doctor;
mod error;
mod event;
mod launch;
mod perf_file;
mod processes;
mod recording;
mod records;
mod ring;
mod rings;
mod session;
mod signals;
mod sys;

pub use doctor::{Ability, Finding, examine, examine_one};
pub use error::CaptureError;
pub use event::{RATE_MAX_HZ, STACK_BYTES_MAX, Stacks};
pub use recording::FOLDER_ENDING;
pub use session::{Ended, Program, RecordOptions, Recorded, record_processes, record_program};
