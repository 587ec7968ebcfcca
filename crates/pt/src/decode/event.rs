//! The events that decoding gives, and who takes them.

use crate::BadPacket;
use crate::code::insn::Kind;

/// How the processor got from one instruction to another that does not follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchKind {
    /// A call, near or far.
    Call,
    /// A return, near or far.
    Return,
    /// A jump that may have left its function.
    Jump,
    /// A system call.
    Syscall,
    /// The return from a system call.
    SyscallReturn,
    /// An interrupt that the program requested (`int`).
    SoftwareInterrupt,
    /// Any other: an interrupt, a fault, the delivery of a signal.
    Interrupt,
    /// The return from an interrupt.
    InterruptReturn,
    /// A transaction was rolled back.
    TransactionAbort,
}

impl BranchKind {
    pub(crate) fn of(kind: Kind) -> BranchKind {
        match kind {
            Kind::Plain | Kind::Conditional | Kind::Jump => BranchKind::Jump,
            Kind::IndirectJump | Kind::FarJump => BranchKind::Jump,
            Kind::Call | Kind::IndirectCall | Kind::FarCall => BranchKind::Call,
            Kind::Return | Kind::FarReturn => BranchKind::Return,
            Kind::Syscall => BranchKind::Syscall,
            Kind::SyscallReturn => BranchKind::SyscallReturn,
            Kind::Interrupt => BranchKind::SoftwareInterrupt,
            Kind::InterruptReturn => BranchKind::InterruptReturn,
        }
    }
}

/// Why part of the execution is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The processor had no room for its packets.
    Overflow,
    /// The recorder discarded packets. Decoding cannot know this; it is for callers that do.
    Gap,
    /// Bytes that are not a packet.
    Packet(BadPacket),
    /// No code is known at this address.
    NoCode(u64),
    /// The code at this address does not do what the packets say.
    Mismatch(u64),
    /// A return from a call that was not seen, without an address.
    NoReturnAddress(u64),
    /// A loop in the code at this address that never ends, and takes no packet.
    EndlessLoop(u64),
}

/// Something that happened to the traced program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A branch was taken.
    Branch {
        /// The type of the branch.
        kind: BranchKind,
        /// Address of the branch instruction.
        from: u64,
        /// Address of the next instruction.
        to: u64,
        /// Whether it happened in a transaction, which may still be rolled back.
        is_in_transaction: bool,
    },
    /// Tracing starts, or resumes after a loss.
    Start {
        /// Address of the first instruction.
        to: u64,
    },
    /// Tracing ends.
    End {
        /// The branch at which it ends; `None` between two other instructions.
        kind: Option<BranchKind>,
        /// Address of the last instruction.
        from: u64,
        /// Where the branch led, if the packet says so.
        to: Option<u64>,
    },
    /// The execution from here to the next start is unknown.
    Loss(Loss),
    /// The ratio of the core's frequency to that of its bus, from now on.
    CoreRatio(u8),
    /// A value that the program wrote into the trace (`ptwrite`).
    Written(u64),
}

/// When an event happened, and which code was mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventTime {
    /// Time stamp counter; 0 before the first time packet.
    pub ticks: u64,
    /// Number of the [`ImageSwitch`](crate::ImageSwitch) in effect.
    pub switch: u32,
}

/// Consecutive instructions that were executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionRun {
    /// Address of the first instruction.
    pub first: u64,
    /// Number of instructions.
    pub instructions: u32,
}

/// Receives decoded events, in order.
pub trait Sink {
    /// Whether [`instructions`](Sink::instructions) is called; events alone are cheaper.
    const HAS_RUNS: bool = false;

    /// Something happened that changes the call stack, or affects what is known of it.
    fn event(&mut self, at: EventTime, event: Event);

    /// Instructions were executed; together the calls give every instruction.
    fn instructions(&mut self, _run: InstructionRun) {}
}
