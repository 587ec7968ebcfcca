//! The folder of a recording: what its files are called, and the form of those that are ours.
//!
//! Recorders write through this crate and readers read through it, so each form is in one place,
//! with a test that writes and reads it. `perf.data` holds the kernel's own records; [`perf`] has
//! the numbers that both sides need. Whatever a file holds, reading it gives what is whole and
//! says whether something was cut.

mod about;
pub mod calls;
mod folder;
pub mod perf;
pub mod python;
mod side_file;
pub mod single_steps;

pub use about::{About, AboutClock, ClockReading};
pub use folder::{
    FOLDER_ENDING, KERNEL_FOLDER, RECORDS_FILE, is_recording, is_torch_trace, records_file,
    torch_traces,
};
pub use side_file::{SideFile, SideRecord, record, whole_records};
