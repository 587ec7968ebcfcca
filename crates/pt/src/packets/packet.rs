//! The packets, as Intel's manual lists them.

use crate::Ip;

/// Conditional branches: a bit each, set if it was taken, the oldest at `count - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tnt {
    /// The bits; those from `count` on are zero.
    pub bits: u64,
    /// Number of branches, at most 47.
    pub count: u8,
}

/// The width of addresses and operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExecMode {
    /// 64-bit mode.
    #[default]
    Bits64,
    /// 32-bit code.
    Bits32,
    /// 16-bit code.
    Bits16,
}

/// Why a processor left an idle state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PowerExit {
    /// The deepest idle state (C-state) of the core.
    pub deepest_state: u8,
    /// The idle state that it left.
    pub last_state: u8,
    /// Bits: 0 an interrupt, 2 a store to the monitored address, 3 the hardware itself.
    pub reasons: u8,
}

/// One packet, with the name of Intel's manual (volume 3, "Intel Processor Trace").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// Padding.
    Pad,
    /// A point where decoding can start: the state follows, up to `PsbEnd`.
    Psb,
    /// The end of the state that follows a `Psb`.
    PsbEnd,
    /// Conditional branches that were taken or not.
    Tnt(Tnt),
    /// The target of an indirect or far branch, or of an event.
    Tip(Ip),
    /// Tracing starts at this address.
    TipPge(Ip),
    /// Tracing ended on the way to this address.
    TipPgd(Ip),
    /// The address at which an asynchronous event happened.
    Fup(Ip),
    /// Another address space.
    Pip {
        /// The register CR3.
        cr3: u64,
        /// Whether it is that of a virtual machine's guest.
        is_guest: bool,
    },
    /// Base address of a virtual machine's control structure.
    Vmcs(u64),
    /// The ratio of the core's frequency to that of its bus.
    Cbr(u8),
    /// The lower 56 bits of the time stamp counter.
    Tsc(u64),
    /// The crystal clock at the preceding `Tsc`.
    Tma {
        /// Lower bits of the crystal clock's counter.
        ctc: u16,
        /// Ticks of the time stamp counter since the crystal clock's last tick.
        fast: u16,
    },
    /// Eight bits of the crystal clock's counter.
    Mtc(u8),
    /// Cycles of the core since the last such packet.
    Cyc(u64),
    /// Packets were lost before this one.
    Ovf,
    /// The width of the code that follows.
    ModeExec {
        /// The new mode.
        mode: ExecMode,
        /// Whether interrupts are enabled.
        has_interrupts: bool,
    },
    /// A transaction starts or ends.
    ModeTsx {
        /// Whether what follows is in a transaction.
        is_in_transaction: bool,
        /// Whether the transaction was rolled back.
        is_aborted: bool,
    },
    /// Tracing stopped.
    Stop,
    /// A value that the program wrote (`ptwrite`).
    Ptw {
        /// The value.
        payload: u64,
        /// Whether it has eight bytes instead of four.
        is_wide: bool,
        /// Whether a `Fup` with its address follows.
        has_ip: bool,
    },
    /// Execution stopped, to change the frequency or to be idle.
    Exstop {
        /// Whether a `Fup` with its address follows.
        has_ip: bool,
    },
    /// `mwait` was executed.
    Mwait {
        /// Its hints, the register EAX.
        hints: u32,
        /// Its extensions, the register ECX.
        extensions: u32,
    },
    /// The core enters an idle state.
    Pwre {
        /// The idle state (C-state).
        state: u8,
        /// Its sub-state.
        sub_state: u8,
        /// Whether the hardware decided so.
        is_by_hardware: bool,
    },
    /// The core leaves an idle state.
    Pwrx(PowerExit),
    /// A block of values starts.
    Bbp {
        /// Type of the block.
        kind: u8,
        /// Whether values have four bytes instead of eight.
        is_narrow: bool,
    },
    /// One value of a block.
    Bip {
        /// Number of the value in the block.
        id: u8,
        /// The value.
        value: u64,
    },
    /// The end of a block of values.
    Bep {
        /// Whether a `Fup` with its address follows.
        has_ip: bool,
    },
    /// A control-flow event, such as an interrupt.
    Cfe {
        /// Type of the event.
        kind: u8,
        /// Its interrupt vector.
        vector: u8,
        /// Whether a `Fup` with its address follows.
        has_ip: bool,
    },
    /// More about the event that follows.
    Evd {
        /// Type of the value.
        kind: u8,
        /// The value.
        payload: u64,
    },
    /// A maintenance packet, specific to the processor model.
    Mnt(u64),
    /// A trigger fired, possibly some instructions ago.
    Trig {
        /// The triggers, a bit each.
        triggers: u8,
        /// Whether it stands for several events.
        is_multiple: bool,
        /// Whether a `Fup` with its address follows.
        has_ip: bool,
        /// Instructions since then, if known.
        instructions: Option<u16>,
    },
}
