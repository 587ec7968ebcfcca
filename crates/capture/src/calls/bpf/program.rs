//! Instructions of the programs that the kernel runs for us, written here, so that no compiler is
//! needed.

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

impl Instruction {
    /// Makes a jump pass over so many instructions.
    pub(crate) fn lead(&mut self, over: i16) {
        self.offset = over;
    }
}

#[cfg(test)]
impl Instruction {
    /// How many instructions it passes over, where it is a jump.
    pub(crate) fn jumps(self) -> Option<isize> {
        const JUMPS: u8 = 5;
        const CALL: u8 = 0x85;
        const EXIT: u8 = 0x95;
        let is_jump = self.code & 7 == JUMPS && !matches!(self.code, CALL | EXIT);
        is_jump.then_some(self.offset.into())
    }
}

/// What a hit leaves behind: time; process and thread; function and whether it returned; where on
/// the stack the return address is, or of Go the goroutine.
pub(crate) const HIT_BYTES: i16 = spanwise_recording::calls::HIT_BYTES as i16;

/// Numbers of the kernel's functions.
pub(crate) mod function {
    pub(crate) const LOOK_UP: i32 = 1;
    pub(crate) const UPDATE: i32 = 2;
    pub(crate) const DELETE: i32 = 3;
    pub(crate) const TIME: i32 = 5;
    pub(crate) const PROCESSOR: i32 = 8;
    pub(crate) const PID_TGID: i32 = 14;
    pub(crate) const SEND_SIGNAL: i32 = 109;
    pub(crate) const EVENT_OUTPUT: i32 = 25;
    pub(crate) const READ_USER: i32 = 112;
    pub(crate) const READ_KERNEL: i32 = 113;
    pub(crate) const RING_OUTPUT: i32 = 130;
    pub(crate) const CURRENT_TASK: i32 = 158;
    pub(crate) const COOKIE: i32 = 174;
    pub(crate) const TASK_REGISTERS: i32 = 175;
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

/// A program that is being written: jumps to its end are filled in when that is known.
#[derive(Debug, Default)]
pub(crate) struct Text {
    all: Vec<Instruction>,
    /// Where jumps to the end stand.
    ends: Vec<usize>,
}

impl Text {
    pub(crate) fn add(&mut self, more: impl IntoIterator<Item = Instruction>) {
        self.all.extend(more);
    }

    /// Ends the program here, if a jump is taken: its code, and what it compares.
    pub(crate) fn end_if(&mut self, code: u8, to: u8, from: u8, number: i32) {
        self.ends.push(self.all.len());
        self.all.push(instruction(code, to, from, 0, number));
    }

    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        let end = self.all.len();
        for at in self.ends {
            self.all[at].offset = (end - at - 1) as i16;
        }
        self.all.extend([set(0, 0), instruction(code::EXIT, 0, 0, 0, 0)]);
        self.all
    }
}

pub(crate) mod code {
    pub(crate) const LOAD_64: u8 = 0x79;
    pub(crate) const STORE_32: u8 = 0x63;
    pub(crate) const STORE_64: u8 = 0x7b;
    pub(crate) const STORE_NUMBER_32: u8 = 0x62;
    pub(crate) const SHIFT_LEFT: u8 = 0x67;
    pub(crate) const SHIFT_RIGHT: u8 = 0x77;
    pub(crate) const AND: u8 = 0x57;
    pub(crate) const OR: u8 = 0x47;
    pub(crate) const ADD_REGISTER: u8 = 0x0f;
    pub(crate) const SUBTRACT_REGISTER: u8 = 0x1f;
    pub(crate) const OR_REGISTER: u8 = 0x4f;
    pub(crate) const XOR_REGISTER: u8 = 0xaf;
    /// The lower half alone, which clears the upper.
    pub(crate) const COPY_32: u8 = 0xbc;
    pub(crate) const ADD_AT_ONCE: u8 = 0xdb;
    pub(crate) const COPY_NUMBER_32: u8 = 0xb4;
    pub(crate) const JUMP: u8 = 0x05;
    pub(crate) const JUMP_BELOW: u8 = 0xa5;
    pub(crate) const JUMP_EQUAL: u8 = 0x15;
    pub(crate) const JUMP_NOT_EQUAL: u8 = 0x55;
    pub(crate) const JUMP_NOT_EQUAL_REGISTER: u8 = 0x5d;
    pub(crate) const JUMP_NEGATIVE: u8 = 0xc5;
    pub(crate) const JUMP_LESS_REGISTER: u8 = 0xcd;
    pub(crate) const EXIT: u8 = 0x95;
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
    fn jumps_to_the_end_lead_there() {
        let mut text = Text::default();
        text.add([set(1, 1)]);
        text.end_if(code::JUMP_EQUAL, 1, 0, 1);
        text.add([set(2, 2), set(3, 3)]);
        let text = text.finish();
        assert_eq!(text.len(), 6);
        assert_eq!(text[1].jumps(), Some(2));
        assert_eq!(text[4], set(0, 0));
    }
}
