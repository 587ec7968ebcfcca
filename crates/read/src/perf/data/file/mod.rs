//! The file: its head, its records, and samples with their fields.

pub(crate) mod bytes;
pub(crate) mod header;
pub(crate) mod pipe;
pub(crate) mod records;
pub(crate) mod sample;
pub(crate) mod tracepoint_formats;
pub(crate) mod unpack;
