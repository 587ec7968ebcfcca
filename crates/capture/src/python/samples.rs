//! The bytes of `python.samples`: what was read of interpreters, as the recording keeps it.
//!
//! Numbers are little-endian. A record begins with its kind and its length in bytes, both of
//! 32 bits, so that readers can pass over what they do not know.

use super::code::Function;

/// What the file begins with.
pub(crate) const HEAD: &[u8; 16] = b"spanwise-python\n";

mod kind {
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
}

/// Set in the number of a function where a call of the C function that interprets begins.
const ENTRY: u32 = 1 << 31;

/// Flags of a sample.
const HAS_GIL: u32 = 1;
const NOT_STILL: u32 = 2;
const OF_SAMPLE: u32 = 4;
const OF_WAIT: u32 = 8;
const IS_CUT: u32 = 16;

/// A function that samples name by its number.
pub(crate) fn function(number: u32, function: &Function) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(number.to_le_bytes());
    body.extend(function.first_line.to_le_bytes());
    body.extend((function.name.len() as u32).to_le_bytes());
    body.extend(function.name.as_bytes());
    body.extend(function.file.as_bytes());
    record(kind::FUNCTION, &body)
}

/// A process that runs Python of a version, and how often it is looked at.
pub(crate) fn process(pid: i32, minor: u32, period_ns: u64) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(pid.to_le_bytes());
    body.extend(minor.to_le_bytes());
    body.extend(period_ns.to_le_bytes());
    record(kind::PROCESS, &body)
}

/// When which thread was looked at, and whether it had the lock of the interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleOf {
    pub(crate) time: u64,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) has_gil: bool,
    pub(crate) how: HowRead,
    /// Frames further out are left out.
    pub(crate) is_cut: bool,
}

/// How a stack was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HowRead {
    /// From outside, while its thread may have run on.
    Beside,
    /// At a sample of the kernel, right before it.
    OfSample,
    /// When a wait was over, at the time at which the thread came back.
    OfWait,
}

/// One stack: of each frame, outermost first, the number of its function, whether a call of
/// the C function begins with it, and its line. `None` where it did not hold still.
pub(crate) fn sample(of: SampleOf, frames: Option<&[(u32, bool, i32)]>) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(of.time.to_le_bytes());
    body.extend(of.pid.to_le_bytes());
    body.extend(of.tid.to_le_bytes());
    let gil = if of.has_gil { HAS_GIL } else { 0 };
    let still = if frames.is_some() { 0 } else { NOT_STILL };
    let how = match of.how {
        HowRead::Beside => 0,
        HowRead::OfSample => OF_SAMPLE,
        HowRead::OfWait => OF_WAIT,
    };
    let cut = if of.is_cut { IS_CUT } else { 0 };
    body.extend((gil | still | how | cut).to_le_bytes());
    for &(function, is_entry, line) in frames.unwrap_or_default() {
        body.extend((function | if is_entry { ENTRY } else { 0 }).to_le_bytes());
        body.extend(line.to_le_bytes());
    }
    record(kind::SAMPLE, &body)
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(kind.to_le_bytes());
    bytes.extend((8 + body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}
