//! Intel Processor Trace: what the processor wrote about the branches it took becomes the
//! branches again.
//!
//! The processor writes one bit for a conditional branch and an address for an indirect one,
//! and nothing for what can be read from the program. [`Packets`] takes the bytes apart;
//! [`decode`] follows the program with them and tells calls, returns and whatever else changes
//! the stack, or every instruction. The crate does no I/O and does not know where the bytes
//! came from.
//!
//! [`Writer`] is the other direction: it writes packets as a processor would, so that
//! everything here can be tested on machines without this hardware.

mod code;
mod decode;
#[doc(hidden)]
pub mod fuzzing;
mod packets;

pub use code::function::{
    CodePart, Exit, FunctionPlaces, JumpBase, JumpMemory, LeaveKind, function_places,
    instruction_at, jump_targets,
};
pub use code::image::{Functions, Image, Program, Stretch};
pub use code::insn::{Insn, Kind, decode as decode_instruction};
pub use decode::clock::{ClockRates, TickScale};
pub use decode::decoder::{DecodeCounts, DecodeOptions};
pub use decode::event::{At, BranchKind, Event, Lost, Ran, Sink};
pub use decode::parallel::{decode, decode_parallel};
pub use packets::ip::{Ip, IpForm, LastIp};
pub use packets::packet::{ExecMode, Packet, PowerExit, Tnt};
pub use packets::read::{BadPacket, PSB, Packets, find_psb};
pub use packets::write::Writer;
