//! What a recorder says about one step of a thread.

use spanwise_model::StrId;

use crate::FunctionId;

/// A process and a thread of it, by their numbers. 0 stands for "not said".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadKey {
    pub pid: i64,
    pub tid: i64,
}

/// An instruction and the function it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    pub ip: u64,
    pub function: FunctionId,
    /// The function's first instruction.
    pub is_entry: bool,
    /// In a stack: compiled into the frame around it.
    pub is_inlined: bool,
    /// The file of the source, among the texts of [`crate::Names`]; empty where it is not known.
    pub source: StrId,
    /// The line in it; 0 where it is not known.
    pub line: u32,
}

impl Location {
    pub const NOWHERE: Location = Location {
        ip: 0,
        function: FunctionId::UNKNOWN,
        is_entry: false,
        is_inlined: false,
        source: StrId::EMPTY,
        line: 0,
    };

    /// Kernel addresses are the upper half, as everywhere on 64-bit Linux.
    pub fn is_kernel(&self) -> bool {
        self.ip >> 63 == 1
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BranchKind {
    Call,
    Return,
    Jump,
    /// A software interrupt.
    Interrupt,
    /// One that the hardware raised, such as a page fault.
    HardwareInterrupt,
    Syscall,
    /// Back from a system call.
    SyscallReturn,
    InterruptReturn,
    TransactionAbort,
    Asynchronous,
    /// None was said: tracing began or ended.
    #[default]
    None,
    /// Recorded without saying what it is; inferred from where it leads.
    Unsaid,
}

/// Whether tracing began or ended with the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TraceEdge {
    #[default]
    Within,
    Start,
    End,
    /// Both at once: it gives no information.
    Blink,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    pub kind: BranchKind,
    pub edge: TraceEdge,
    /// Inside a hardware transaction: it has not happened until that is through.
    pub is_in_transaction: bool,
    pub from: Location,
    pub to: Location,
}
