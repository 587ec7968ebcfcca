//! What the tests of decoding share: real programs, stepped; the packets that a processor
//! would have written for those steps; and what is expected of decoding them.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test uses its part")]

pub mod build;
pub mod cpus;
pub mod decoded;
pub mod perf_data;
pub mod record;
pub mod small;
pub mod step;

pub use build::{Built, build};
pub use record::{Recorder, RecorderOptions, Timing, TraceRecord};
pub use step::{Code, Step, SteppedProgram, step};
