//! What decoding tells.

use crate::BadPacket;
use crate::code::insn::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchKind {
    Call,
    Return,
    /// One that may have left its function.
    Jump,
    Syscall,
    SyscallReturn,
    /// An interrupt that the program asked for.
    SoftwareInterrupt,
    /// Any other: an interrupt, a fault, a signal on its way.
    Interrupt,
    InterruptReturn,
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

/// Why a part of what ran is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The processor had no room for its packets.
    Overflow,
    /// Nothing was kept of what it wrote. Only those who kept it know: decoding never tells this.
    Gap,
    Packet(BadPacket),
    /// No code is known at this address.
    NoCode(u64),
    /// The code at this address does not do what the packets say.
    Mismatch(u64),
    /// A return from a call that was not seen, without an address.
    NoReturnAddress(u64),
    /// Code that goes around here for ever, without a packet.
    EndlessLoop(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Branch {
        kind: BranchKind,
        from: u64,
        to: u64,
        is_in_transaction: bool,
    },
    /// Tracing begins, or goes on after a loss.
    Start {
        to: u64,
    },
    /// Tracing ends at a branch, or between two instructions where there is none.
    End {
        kind: Option<BranchKind>,
        from: u64,
        to: Option<u64>,
    },
    /// What ran from here to the next start is not known.
    Lost(Lost),
    /// How many times faster than its bus the core runs now.
    CoreRatio(u8),
    /// What the program wrote into the trace itself.
    Written(u64),
}

/// When and in which stretch of the program something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct At {
    /// Of the time stamp counter; 0 where no time was told yet.
    pub ticks: u64,
    pub stretch: u32,
}

/// Instructions that ran one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    pub first: u64,
    pub instructions: u32,
}

/// Takes what is decoded.
pub trait Sink {
    /// Every instruction is wanted, not only what changes the stack of calls.
    const HAS_RUNS: bool = false;

    fn event(&mut self, at: At, event: Event);

    /// Called only where all are wanted.
    fn ran(&mut self, _ran: Ran) {}
}
