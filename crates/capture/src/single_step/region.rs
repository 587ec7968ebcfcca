//! One call of the function, instruction by instruction.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use libc::pid_t;
use spanwise_pt::{ExecMode, Kind, decode_instruction};
use spanwise_recording::single_steps::{
    EndCause, StepBranch, StepBranchKind, StepEnd, StepStart, branches_record,
};

use super::Limits;
use super::ptrace::Registers;
use crate::system::sys;

/// So many are named at a time.
const SENT_AT_ONCE: usize = 1024;

/// Bytes that are enough for any instruction.
const INSTRUCTION_BYTES: usize = 15;

/// What an instruction does to the flow of a thread, where it does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Branch {
    Call,
    Return,
    /// Always taken.
    Jump,
    /// Taken, or not: then the next instruction is so many bytes on.
    Conditional(u64),
    /// A call of the kernel, which comes back behind it, with a few exceptions.
    Syscall(u64),
}

/// The branch that the bytes begin with.
fn branch(bytes: &[u8]) -> Option<Branch> {
    let instruction = decode_instruction(bytes, ExecMode::Bits64)?;
    let len = u64::from(instruction.len);
    match instruction.kind {
        Kind::Call | Kind::IndirectCall | Kind::FarCall => Some(Branch::Call),
        Kind::Return | Kind::FarReturn | Kind::InterruptReturn => Some(Branch::Return),
        Kind::Jump | Kind::IndirectJump | Kind::FarJump => Some(Branch::Jump),
        Kind::Conditional => Some(Branch::Conditional(len)),
        Kind::Syscall => Some(Branch::Syscall(len)),
        // One of a single byte is a breakpoint, such as that of a probe: the kernel executes
        // another instruction in its place.
        Kind::Interrupt if len > 1 => Some(Branch::Syscall(len)),
        Kind::Plain | Kind::Interrupt | Kind::SyscallReturn => None,
    }
}

#[derive(Debug)]
pub(super) struct Region {
    start: StepStart,
    /// Where the stack is when it has not returned.
    stack: u64,
    pub(super) until: Instant,
    instructions: u64,
    memory: File,
    /// What is known of instructions.
    code: HashMap<u64, Option<Branch>>,
    at: u64,
    is_interrupted: bool,
    /// Branches that were not sent yet.
    taken: Vec<StepBranch>,
}

impl Region {
    pub(super) fn begin(
        number: u32,
        thread: (pid_t, pid_t),
        registers: Registers,
        limits: &Limits,
    ) -> io::Result<Region> {
        let until = Instant::now() + limits.time;
        let (pid, tid) = (thread.0.cast_unsigned(), thread.1.cast_unsigned());
        let time = sys::clock_ns(libc::CLOCK_MONOTONIC);
        Ok(Region {
            start: StepStart { region: number, pid, tid, time, address: registers.ip },
            stack: registers.stack,
            until,
            instructions: 0,
            memory: File::open(format!("/proc/{}/mem", thread.1))?,
            code: HashMap::new(),
            at: registers.ip,
            is_interrupted: false,
            taken: Vec::new(),
        })
    }

    /// An instruction was executed.
    pub(super) fn step(&mut self, registers: Registers, limits: &Limits) -> Option<EndCause> {
        self.instructions += 1;
        let from = std::mem::replace(&mut self.at, registers.ip);
        let to = registers.ip;
        let taken = match self.branch_at(from) {
            _ if std::mem::take(&mut self.is_interrupted) => Some(StepBranchKind::Signal),
            None => None,
            Some(Branch::Call) => Some(StepBranchKind::Call),
            Some(Branch::Return) => Some(StepBranchKind::Return),
            Some(Branch::Jump) => Some(StepBranchKind::Jump),
            Some(Branch::Conditional(len)) => (to != from + len).then_some(StepBranchKind::Jump),
            // One that the kernel begins again once more stays where it is.
            Some(Branch::Syscall(len)) => {
                (to != from + len && to != from).then_some(StepBranchKind::SystemCall)
            }
        };
        if let Some(kind) = taken {
            let time = sys::clock_ns(libc::CLOCK_MONOTONIC);
            self.taken.push(StepBranch { time, from, to, kind });
        }
        // Its return address was taken from the stack, or more than that thrown away.
        if registers.stack > self.stack {
            return Some(EndCause::Return);
        }
        if self.instructions >= limits.instructions {
            return Some(EndCause::InstructionLimit);
        }
        (self.instructions.is_multiple_of(1024) && self.until <= Instant::now())
            .then_some(EndCause::TimeLimit)
    }

    /// The next step begins with a signal that the program gets.
    pub(super) fn interrupted(&mut self) {
        self.is_interrupted = true;
    }

    fn branch_at(&mut self, address: u64) -> Option<Branch> {
        if let Some(known) = self.code.get(&address) {
            return *known;
        }
        let mut bytes = [0; INSTRUCTION_BYTES];
        // Fewer, where the memory ends.
        let len = self.memory.read_at(&mut bytes, address).unwrap_or(0);
        let found = branch(&bytes[..len]);
        self.code.insert(address, found);
        found
    }

    pub(super) fn beginning_message(&self) -> Vec<u8> {
        self.start.to_bytes()
    }

    /// Branches to send now, where there are enough of them.
    pub(super) fn take_message(&mut self) -> Option<Vec<u8>> {
        (self.taken.len() >= SENT_AT_ONCE).then(|| self.branches_message())
    }

    fn branches_message(&mut self) -> Vec<u8> {
        branches_record(self.start.region, &std::mem::take(&mut self.taken))
    }

    /// What was not sent yet, and the end.
    pub(super) fn end_messages(mut self, cause: EndCause) -> Vec<Vec<u8>> {
        let rest = (!self.taken.is_empty()).then(|| self.branches_message());
        let time = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let (region, instructions) = (self.start.region, self.instructions);
        let end = StepEnd { region, time, cause, instructions };
        rest.into_iter().chain([end.to_bytes()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_distinguished_from_other_instructions() {
        let check = |bytes: &[u8], expected| assert_eq!(branch(bytes), expected, "{bytes:x?}");
        check(&[0xe8, 1, 0, 0, 0], Some(Branch::Call));
        // Through a register, through memory, with a prefix that means nothing there.
        check(&[0xff, 0xd0], Some(Branch::Call));
        check(&[0x41, 0xff, 0x54, 0x24, 8], Some(Branch::Call));
        check(&[0xf2, 0xff, 0x15, 0, 0, 0, 0], Some(Branch::Call));
        check(&[0xc3], Some(Branch::Return));
        check(&[0xf3, 0xc3], Some(Branch::Return));
        check(&[0xc2, 8, 0], Some(Branch::Return));
        check(&[0xeb, 0xfe], Some(Branch::Jump));
        check(&[0x3e, 0xff, 0xe0], Some(Branch::Jump));
        check(&[0xcd, 0x80], Some(Branch::Syscall(2)));
        // A breakpoint, as that of a probe.
        check(&[0xcc], None);
        check(&[0x74, 5], Some(Branch::Conditional(2)));
        check(&[0x2e, 0x74, 5], Some(Branch::Conditional(3)));
        check(&[0x0f, 0x84, 0, 0, 0, 0], Some(Branch::Conditional(6)));
        check(&[0xe2, 0xfe], Some(Branch::Conditional(2)));
        check(&[0x0f, 0x05], Some(Branch::Syscall(2)));
        // inc, push, lea, endbr64, nop, and nothing at all.
        check(&[0xff, 0xc0], None);
        check(&[0xff, 0x35, 0, 0, 0, 0], None);
        check(&[0x48, 0x8d, 0x05, 0, 0, 0, 0], None);
        check(&[0xf3, 0x0f, 0x1e, 0xfa], None);
        check(&[0x0f, 0x1f, 0x44, 0, 0], None);
        check(&[], None);
        check(&[0x66; 15], None);
    }
}
