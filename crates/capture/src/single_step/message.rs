//! What the tracer says to the recorder: records of the file of single-steps, and three kinds
//! that are for the recorder alone.

use libc::pid_t;
use spanwise_recording::record;

/// Numbers of records that are not in the file.
pub(super) mod kind {
    pub(crate) const EXECUTED: u32 = 100;
    pub(crate) const TROUBLE: u32 = 101;
    pub(crate) const TRACED: u32 = 102;
}

pub(super) fn executed(pid: pid_t) -> Vec<u8> {
    record(kind::EXECUTED, &[&pid.to_le_bytes()])
}

pub(super) fn traced(pid: pid_t) -> Vec<u8> {
    record(kind::TRACED, &[&pid.to_le_bytes()])
}

pub(super) fn trouble(text: &str) -> Vec<u8> {
    record(kind::TROUBLE, &[text.as_bytes()])
}
