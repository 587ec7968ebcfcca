//! Packets: from bytes, and to bytes.

pub(crate) mod ip;
pub(crate) mod packet;
pub(crate) mod read;
pub(crate) mod write;
