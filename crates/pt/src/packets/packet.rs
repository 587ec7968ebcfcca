//! The packets, as Intel's manual lists them.

use crate::Ip;

/// Branches that were taken or not: one bit each, the oldest at `count - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tnt {
    pub bits: u64,
    pub count: u8,
}

/// The width of addresses and operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExecMode {
    #[default]
    Bits64,
    Bits32,
    Bits16,
}

/// Why a processor woke up, as far as it said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PowerExit {
    pub deepest_state: u8,
    pub last_state: u8,
    /// Bits: 0 an interrupt, 2 a store to what was watched, 3 the hardware itself.
    pub reasons: u8,
}

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet {
    Pad,
    /// A place where decoding may begin: what is needed for that follows, up to `PsbEnd`.
    Psb,
    PsbEnd,
    Tnt(Tnt),
    /// Where an indirect branch, a far one or an event led to.
    Tip(Ip),
    /// Tracing begins here.
    TipPge(Ip),
    /// Tracing ended on the way to here.
    TipPgd(Ip),
    /// Where something happened that the program does not show.
    Fup(Ip),
    /// Another address space; of a guest, where it is one.
    Pip {
        cr3: u64,
        is_guest: bool,
    },
    Vmcs(u64),
    /// How many times faster than its bus the core runs.
    Cbr(u8),
    /// The lower 56 bits of the time stamp counter.
    Tsc(u64),
    /// The crystal's counter at the `Tsc` before, and how long ago that had ticked.
    Tma {
        ctc: u16,
        fast: u16,
    },
    /// Eight bits of the crystal's counter.
    Mtc(u8),
    /// Cycles of the core since the last such packet.
    Cyc(u64),
    /// Packets were lost before this one.
    Ovf,
    ModeExec {
        mode: ExecMode,
        has_interrupts: bool,
    },
    ModeTsx {
        is_in_transaction: bool,
        is_aborted: bool,
    },
    Stop,
    /// What the program wrote itself, with four or eight bytes.
    Ptw {
        payload: u64,
        is_wide: bool,
        has_ip: bool,
    },
    Exstop {
        has_ip: bool,
    },
    Mwait {
        hints: u32,
        extensions: u32,
    },
    Pwre {
        state: u8,
        sub_state: u8,
        is_by_hardware: bool,
    },
    Pwrx(PowerExit),
    /// A block of values begins; each has four bytes where it is narrow, otherwise eight.
    Bbp {
        kind: u8,
        is_narrow: bool,
    },
    Bip {
        id: u8,
        value: u64,
    },
    Bep {
        has_ip: bool,
    },
    /// An event of control flow, such as an interrupt.
    Cfe {
        kind: u8,
        vector: u8,
        has_ip: bool,
    },
    /// More about the event that follows.
    Evd {
        kind: u8,
        payload: u64,
    },
    Mnt(u64),
    /// A trigger fired, perhaps some instructions ago.
    Trig {
        triggers: u8,
        is_multiple: bool,
        has_ip: bool,
        instructions: Option<u16>,
    },
}
