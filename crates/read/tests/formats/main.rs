//! Traces in other formats: what is written is read back as it was.

#[path = "../traces/mod.rs"]
mod traces;

mod chrome;
mod fxt;
mod kept;
mod merged;
mod perf;
mod perfetto;
mod random;

/// Every format that whole traces are written in.
const WRITERS: [kept::Write; 2] = [spanwise_write::write_chrome, spanwise_write::write_perfetto];
