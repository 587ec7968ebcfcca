//! The parts of the decoder's tests that the benchmark uses: a program that is stepped, and
//! what a processor would have written.
#![allow(dead_code, reason = "the tests use more of it")]

#[path = "../../../crates/pt/tests/stepping/perf_data.rs"]
pub mod perf_data;
#[path = "../../../crates/pt/tests/stepping/record.rs"]
pub mod record;
#[path = "../../../crates/pt/tests/stepping/step.rs"]
pub mod step;
