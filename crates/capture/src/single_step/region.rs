//! One call of the function, instruction by instruction.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use libc::pid_t;

use super::branch::{Branch, LOOK_BYTES, branch};
use super::ptrace::Registers;
use super::{Limits, message};
use crate::system::sys;

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Returned = 0,
    Instructions = 1,
    Time = 2,
    ThreadEnded = 3,
    Stopped = 4,
}

/// A branch that was taken, as the file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Call = 1,
    Return = 2,
    Jump = 3,
    /// A signal is handled.
    Signal = 4,
    /// To the kernel and back, to another place than behind it.
    Syscall = 5,
}

/// So many are told at a time.
const TOLD_AT_ONCE: usize = 1024;

#[derive(Debug)]
pub(super) struct Region {
    number: u32,
    thread: (pid_t, pid_t),
    began: (u64, u64),
    /// Where the stack is when it has not returned.
    stack: u64,
    pub(super) until: Instant,
    instructions: u64,
    memory: File,
    /// What is known of instructions.
    code: HashMap<u64, Option<Branch>>,
    at: u64,
    is_interrupted: bool,
    /// Branches that were not told yet: time, from, to, which.
    taken: Vec<[u64; 4]>,
}

impl Region {
    pub(super) fn begin(
        number: u32,
        thread: (pid_t, pid_t),
        registers: Registers,
        limits: &Limits,
    ) -> io::Result<Region> {
        let until = Instant::now() + limits.time;
        Ok(Region {
            number,
            thread,
            began: (sys::clock_ns(libc::CLOCK_MONOTONIC), registers.ip),
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
    pub(super) fn step(&mut self, registers: Registers, limits: &Limits) -> Option<End> {
        self.instructions += 1;
        let from = std::mem::replace(&mut self.at, registers.ip);
        let to = registers.ip;
        let taken = match self.branch_at(from) {
            _ if std::mem::take(&mut self.is_interrupted) => Some(Taken::Signal),
            None => None,
            Some(Branch::Call) => Some(Taken::Call),
            Some(Branch::Return) => Some(Taken::Return),
            Some(Branch::Jump) => Some(Taken::Jump),
            Some(Branch::Conditional(len)) => (to != from + len).then_some(Taken::Jump),
            // One that the kernel begins again once more stays where it is.
            Some(Branch::Syscall(len)) => {
                (to != from + len && to != from).then_some(Taken::Syscall)
            }
        };
        if let Some(taken) = taken {
            let time = sys::clock_ns(libc::CLOCK_MONOTONIC);
            self.taken.push([time, from, to, taken as u64]);
        }
        // Its return address was taken from the stack, or more than that thrown away.
        if registers.stack > self.stack {
            return Some(End::Returned);
        }
        if self.instructions >= limits.instructions {
            return Some(End::Instructions);
        }
        (self.instructions.is_multiple_of(1024) && self.until <= Instant::now())
            .then_some(End::Time)
    }

    /// The next step begins with a signal that the program gets.
    pub(super) fn interrupted(&mut self) {
        self.is_interrupted = true;
    }

    fn branch_at(&mut self, address: u64) -> Option<Branch> {
        if let Some(known) = self.code.get(&address) {
            return *known;
        }
        let mut bytes = [0; LOOK_BYTES];
        // Fewer, where the memory ends.
        let len = self.memory.read_at(&mut bytes, address).unwrap_or(0);
        let found = branch(&bytes[..len]);
        self.code.insert(address, found);
        found
    }

    pub(super) fn told_beginning(&self) -> Vec<u8> {
        message::began(self.number, self.thread, self.began)
    }

    /// Branches to be told now, where there are enough of them.
    pub(super) fn take_told(&mut self) -> Option<Vec<u8>> {
        (self.taken.len() >= TOLD_AT_ONCE).then(|| self.told())
    }

    fn told(&mut self) -> Vec<u8> {
        message::taken(self.number, &std::mem::take(&mut self.taken))
    }

    /// What was not told yet, and the end.
    pub(super) fn told_end(mut self, why: End) -> Vec<Vec<u8>> {
        let rest = (!self.taken.is_empty()).then(|| self.told());
        let time = sys::clock_ns(libc::CLOCK_MONOTONIC);
        let end = message::ended(self.number, time, why as u32, self.instructions);
        rest.into_iter().chain([end]).collect()
    }
}
