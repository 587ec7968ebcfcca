//! Decodes Intel Processor Trace: from the packets of a processor to the branches that it took.
//!
//! The processor writes one bit for a conditional branch and an address for an indirect one, and
//! nothing for what the program's code determines. [`Packets`] reads packets:
//!
//! ```
//! use spanwise_pt::{Packet, Packets, Writer};
//!
//! let mut writer = Writer::default();
//! writer.packet(Packet::Psb);
//! writer.packet(Packet::Tsc(1000));
//! writer.packet(Packet::PsbEnd);
//!
//! let bytes = writer.into_bytes();
//! let mut packets = Packets::new(&bytes, 0);
//! while let Some(packet) = packets.next_packet().expect("a packet") {
//!     println!("{}: {packet:?}", packets.offset());
//! }
//! ```
//!
//! [`decode`] follows the program's code with them. It gives a [`Sink`] every branch that affects
//! the call stack, or every instruction; [`decode_parallel`] does so on several threads.
//!
//! ```
//! use spanwise_pt::*;
//!
//! /// Collects all branches.
//! struct Branches(Vec<(BranchKind, u64, u64)>);
//!
//! impl Sink for Branches {
//!     fn event(&mut self, _at: EventTime, event: Event) {
//!         if let Event::Branch { kind, from, to, .. } = event {
//!             self.0.push((kind, from, to));
//!         }
//!     }
//! }
//!
//! // 0x1000: call 0x1006; nop. 0x1006: ret.
//! let mut image = Image::default();
//! image.map(0x1000, &[0xe8, 0x01, 0x00, 0x00, 0x00, 0x90, 0xc3]);
//! let program = Program::single(image);
//!
//! // Tracing starts at 0x1000. The return is compressed to a bit: it goes to its call.
//! let mut writer = Writer::default();
//! writer.packet(Packet::Psb);
//! writer.packet(Packet::PsbEnd);
//! let start = writer.ip(0x1000);
//! writer.packet(Packet::TipPge(start));
//! writer.packet(Packet::Tnt(Tnt { bits: 1, count: 1 }));
//!
//! let options = DecodeOptions::default();
//! let (branches, counts) = decode(&program, options, writer.bytes(), Branches(Vec::new()));
//! assert_eq!(branches.0[0], (BranchKind::Call, 0x1000, 0x1006));
//! assert_eq!(branches.0[1], (BranchKind::Return, 0x1006, 0x1005));
//! assert_eq!(counts.skipped_bytes, 0);
//! ```
//!
//! The crate does no I/O, and does not depend on where the bytes come from. A trace of several
//! processes is a [`Program`] of several [`Image`]s. [`TickScale`] converts times to nanoseconds.
//! [`Writer`] writes packets as a processor does, so everything here can be tested on machines
//! without this hardware.
//!
//! [`function_places`] finds the entry and the exits of a function in its code, for probes.

#![warn(missing_docs)]

mod code;
mod decode;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod packets;

pub use code::function::{
    CodePart, Exit, FunctionPlaces, JumpBase, JumpMemory, LeaveKind, function_places, jump_targets,
    may_be_probed, probe_place,
};
pub use code::image::{Functions, Image, ImageSwitch, Program};
pub use code::insn::{Insn, Kind, decode as decode_instruction};
pub use decode::clock::{ClockRates, TickScale};
pub use decode::decoder::{DecodeCounts, DecodeOptions};
pub use decode::event::{BranchKind, Event, EventTime, InstructionRun, Loss, Sink};
pub use decode::parallel::{decode, decode_parallel};
pub use packets::ip::{Ip, IpForm, LastIp};
pub use packets::packet::{ExecMode, Packet, PowerExit, Tnt};
pub use packets::read::{BadPacket, PSB, Packets, find_psb};
pub use packets::write::Writer;
