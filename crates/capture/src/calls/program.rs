//! The programs that the kernel runs where a function begins or returns: two dozen
//! instructions each, written here, so that no compiler is needed.

use std::os::fd::RawFd;

/// One instruction, as the kernel takes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u8,
    /// The register it writes, and in the upper half the one it reads.
    registers: u8,
    offset: i16,
    number: i32,
}

#[cfg(test)]
impl Instruction {
    /// How many instructions it passes over, where it is a jump.
    pub(crate) fn jumps(self) -> Option<usize> {
        const JUMPS: u8 = 5;
        const CALL: u8 = 0x85;
        const EXIT: u8 = 0x95;
        let is_jump = self.code & 7 == JUMPS && !matches!(self.code, CALL | EXIT);
        is_jump.then_some(self.offset as usize)
    }
}

/// What a hit leaves behind: time, process and thread, function and whether it returned.
pub(super) const HIT_BYTES: i16 = 24;

/// Numbers of the kernel's functions.
pub(crate) mod function {
    pub(crate) const LOOK_UP: i32 = 1;
    pub(crate) const UPDATE: i32 = 2;
    pub(crate) const DELETE: i32 = 3;
    pub(crate) const TIME: i32 = 5;
    pub(crate) const PROCESSOR: i32 = 8;
    pub(crate) const PID_TGID: i32 = 14;
    pub(crate) const READ_KERNEL: i32 = 113;
    pub(crate) const RING_OUTPUT: i32 = 130;
    pub(crate) const COOKIE: i32 = 174;
}

/// Nobody is woken: rings are looked at often enough, and waking costs each call 20 µs.
pub(crate) const NO_WAKEUP: i32 = 1;

pub(crate) const FRAME: u8 = 10;

pub(crate) fn copy(to: u8, from: u8) -> Instruction {
    instruction(0xbf, to, from, 0, 0)
}

pub(crate) fn set(to: u8, number: i32) -> Instruction {
    instruction(0xb7, to, 0, 0, number)
}

pub(crate) fn add(to: u8, number: i32) -> Instruction {
    instruction(0x07, to, 0, 0, number)
}

pub(crate) fn call(function: i32) -> Instruction {
    instruction(0x85, 0, 0, 0, function)
}

/// Puts a register on the stack.
pub(crate) fn store(at: i16, from: u8) -> Instruction {
    instruction(0x7b, FRAME, from, at, 0)
}

/// Passes over instructions where the result of a call is zero.
pub(crate) fn skip_if_zero(count: i16) -> Instruction {
    instruction(0x15, 0, 0, count, 0)
}

/// The descriptor of a map; takes the place of two.
pub(crate) fn map(to: u8, map: RawFd) -> [Instruction; 2] {
    const IS_MAP: u8 = 1;
    [instruction(0x18, to, IS_MAP, 0, map), instruction(0, 0, 0, 0, 0)]
}

pub(crate) fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, number }
}

/// Notes when which thread passed which place, in the ring; counts what does not fit.
pub(super) fn noting(ring: RawFd, lost: RawFd, is_return: bool) -> Vec<Instruction> {
    let mut text = vec![copy(6, 1), call(function::TIME), store(-HIT_BYTES, 0)];
    text.extend([call(function::PID_TGID), store(-HIT_BYTES + 8, 0)]);
    text.extend([copy(1, 6), call(function::COOKIE)]);
    // The lowest bit says whether it is a return.
    text.push(instruction(0x67, 0, 0, 0, 1));
    text.push(instruction(0x47, 0, 0, 0, is_return.into()));
    text.push(store(-HIT_BYTES + 16, 0));
    text.extend(map(1, ring));
    text.extend([copy(2, FRAME), add(2, (-HIT_BYTES).into()), set(3, HIT_BYTES.into())]);
    text.extend([set(4, NO_WAKEUP), call(function::RING_OUTPUT)]);
    let mut count_it = vec![
        // The number of the only counter, on the stack.
        instruction(0x62, FRAME, 0, -HIT_BYTES - 8, 0),
    ];
    count_it.extend(map(1, lost));
    count_it.extend([copy(2, FRAME), add(2, (-HIT_BYTES - 8).into()), call(function::LOOK_UP)]);
    // One more, as one step: other processors count as well.
    let add_one = [set(1, 1), instruction(0xdb, 0, 1, 0, 0)];
    count_it.push(skip_if_zero(add_one.len() as i16));
    count_it.extend(add_one);
    text.push(skip_if_zero(count_it.len() as i16));
    text.extend(count_it);
    text.extend([set(0, 0), instruction(0x95, 0, 0, 0, 0)]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_eight_bytes() {
        assert_eq!(size_of::<Instruction>(), 8);
        assert_eq!(copy(6, 1), Instruction { code: 0xbf, registers: 0x16, offset: 0, number: 0 });
    }

    #[test]
    fn every_jump_stays_inside() {
        let text = noting(3, 4, true);
        for (at, instruction) in text.iter().enumerate().filter(|(_, one)| one.code == 0x15) {
            let target = at + 1 + instruction.offset as usize;
            assert!(target < text.len(), "from {at} to {target} of {}", text.len());
        }
        assert_eq!(text.last().map(|last| last.code), Some(0x95));
    }
}
