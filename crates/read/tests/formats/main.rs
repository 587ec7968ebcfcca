//! Traces in other formats: what is written is read back as it was.

#[path = "../traces/mod.rs"]
mod traces;

mod chrome;
mod common;
mod random;

/// Every format that whole traces are written in.
const WRITERS: [common::Write; 1] = [spanwise_write::write_chrome];
