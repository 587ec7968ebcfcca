//! Intel Processor Trace: what the processor wrote about the branches it took becomes the
//! branches again.
//!
//! The processor writes one bit for a conditional branch and an address for an indirect one,
//! and nothing for what can be read from the program. [`Packets`] takes the bytes apart. The
//! crate does no I/O and does not know where the bytes came from.
//!
//! [`Writer`] is the other direction: it writes packets as a processor would, so that
//! everything here can be tested on machines without this hardware.

mod ip;
mod packet;
mod read;
mod write;

pub use ip::{Ip, IpForm, LastIp};
pub use packet::{ExecMode, Packet, PowerExit, Tnt};
pub use read::{BadPacket, PSB, Packets, find_psb};
pub use write::Writer;
