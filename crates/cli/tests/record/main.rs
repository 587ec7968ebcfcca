//! Recordings of real programs: stacks, threads, switches, children, and programs that are
//! left alone whatever happens to the recorder.
//!
//! Where the kernel does not let us record, or there is no C compiler, each test says so.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

mod attach;
mod attribution;
mod bench;
mod brake;
mod calls;
mod companion;
mod first_calls;
mod first_findings;
mod flight;
mod harmless;
mod languages;
mod lines;
mod native;
mod outputs;
mod perf_reads;
mod private;
mod purposes;
mod python;
mod robust;
mod run;
mod step;
mod terminal;
mod torch;
mod truth;
mod waits;
