//! The programs that note calls and returns: one where functions begin, and one for each way of
//! leaving them.
//!
//! At a conditional jump the flags decide whether the function is left, and at an indirect one the
//! target, which is compared with the parts of the function. Where the kernel lets a program do so,
//! it performs `ret` itself; otherwise the kernel executes the instruction as a single step, which
//! costs several times more.

use std::os::fd::RawFd;

use spanwise_symbols::{JumpBase, LeaveKind};

use super::exchange::{ExchangeMaps, end_if_exchanging, unless_noted};
use super::program::{
    FRAME, HIT_BYTES, Instruction, NO_WAKEUP, Text, add, call, code, copy, function, instruction,
    map, set, skip_if_zero, store,
};
use crate::calls::place::{CONDITION_BITS, FIRST_SIGNED, INSIDE_MAX, REGISTER_AT};

/// Maps that the programs use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotingMaps {
    pub(crate) ring: RawFd,
    pub(crate) lost: RawFd,
    /// What indirect jumps are compared with, by the upper half of the cookie.
    pub(crate) targets: RawFd,
    /// The threads that are recorded.
    pub(crate) threads: RawFd,
    /// What is done with the calls of a function, by its number.
    pub(crate) modes: RawFd,
    pub(crate) sums: super::sums::SumMaps,
    pub(crate) exchange: ExchangeMaps,
}

/// What a program is for; programs of different places differ in nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Noting {
    pub(crate) at: NotedAt,
    /// Whose call it is, is in the register that Go keeps the goroutine in.
    pub(crate) is_go: bool,
    /// The places are watched in all processes, of which few are recorded.
    pub(crate) is_for_everyone: bool,
    /// The function also begins at this exit: a call is noted before.
    pub(crate) has_entry: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NotedAt {
    Entry,
    /// Left in any case.
    Exit,
    /// A `ret` that the program itself performs; the cookie says how much it takes off the stack.
    PerformedReturn,
    Conditional(u8),
    ThroughRegister(u8),
    ThroughMemory(JumpBase, Option<(u8, u8)>),
}

impl NotedAt {
    pub(crate) fn exit(kind: LeaveKind, performs_returns: bool) -> NotedAt {
        match kind {
            LeaveKind::Return { .. } if performs_returns => NotedAt::PerformedReturn,
            LeaveKind::Return { .. } | LeaveKind::Jump => NotedAt::Exit,
            LeaveKind::Conditional(condition) => NotedAt::Conditional(condition & 15),
            LeaveKind::ThroughRegister(register) => NotedAt::ThroughRegister(register & 15),
            LeaveKind::ThroughMemory(memory) => NotedAt::ThroughMemory(memory.base, memory.index),
        }
    }
}

/// What an indirect jump is compared with, as the programs read it: the displacement of its
/// operand, and from where to where the function is.
pub(crate) const TARGET_BYTES: u32 = 8 + 16 * INSIDE_MAX as u32;

/// Where the kernel keeps these registers.
const IP: i16 = 128;
const FLAGS: i16 = 144;
const SP: i16 = 152;
const GOROUTINE: i16 = REGISTER_AT[14];

/// Places on the stack.
const HIT: i16 = -HIT_BYTES;
const KEY: i16 = HIT - 8;
const WORD: i16 = KEY - 8;

/// Registers that calls leave alone: what the program was given, and the cookie.
const CONTEXT: u8 = 6;
pub(crate) const COOKIE: u8 = 7;
const TARGETS: u8 = 8;
const TARGET: u8 = 9;

pub(crate) fn noting(what: Noting, maps: NotingMaps) -> Vec<Instruction> {
    let mut text = Text::default();
    text.add([copy(CONTEXT, 1)]);
    if what.is_for_everyone {
        only_recorded(&mut text, maps);
    }
    if what.has_entry {
        note(&mut text, Noting { at: NotedAt::Entry, ..what }, maps);
    }
    match what.at {
        NotedAt::Conditional(condition) => only_if(&mut text, condition),
        NotedAt::ThroughRegister(register) => {
            find_targets(&mut text, maps);
            text.add([register_of(TARGET, REGISTER_AT[usize::from(register)])]);
            only_outside(&mut text);
        }
        NotedAt::ThroughMemory(base, index) => {
            find_targets(&mut text, maps);
            read_target(&mut text, base, index);
            only_outside(&mut text);
        }
        NotedAt::Entry | NotedAt::Exit | NotedAt::PerformedReturn => {}
    }
    note(&mut text, what, maps);
    if what.at == NotedAt::PerformedReturn {
        perform_return(&mut text, maps);
    }
    text.finish()
}

/// A register of the program that is watched.
fn register_of(to: u8, at: i16) -> Instruction {
    instruction(code::LOAD_64, to, CONTEXT, at, 0)
}

/// Ends unless the thread is recorded, and has begun to be.
fn only_recorded(text: &mut Text, maps: NotingMaps) {
    text.add([call(function::PID_TGID), instruction(code::STORE_32, FRAME, 0, KEY, 0)]);
    text.add(map(1, maps.threads));
    text.add([copy(2, FRAME), add(2, KEY.into()), call(function::LOOK_UP)]);
    text.end_if(code::JUMP_EQUAL, 0, 0, 0);
    text.add([instruction(code::LOAD_64, 1, 0, 0, 0)]);
    text.end_if(code::JUMP_NEGATIVE, 1, 0, 0);
}

/// Ends unless a condition holds.
fn only_if(text: &mut Text, condition: u8) {
    let half = condition >> 1;
    let bits = CONDITION_BITS[usize::from(half)] as i32;
    text.add([register_of(1, FLAGS), copy(2, 1), instruction(code::AND, 2, 0, 0, bits)]);
    if half >= FIRST_SIGNED {
        // The overflow, moved to where the sign is.
        text.add([copy(3, 1), instruction(code::SHIFT_RIGHT, 3, 0, 0, 4)]);
        text.add([instruction(code::XOR_REGISTER, 3, 1, 0, 0)]);
        text.add([instruction(code::AND, 3, 0, 0, 0x80)]);
        text.add([instruction(code::OR_REGISTER, 2, 3, 0, 0)]);
    }
    let ends = if condition & 1 == 1 { code::JUMP_NOT_EQUAL } else { code::JUMP_EQUAL };
    text.end_if(ends, 2, 0, 0);
}

/// What an indirect jump is compared with.
fn find_targets(text: &mut Text, maps: NotingMaps) {
    text.add([copy(1, CONTEXT), call(function::COOKIE)]);
    text.add([instruction(code::SHIFT_RIGHT, 0, 0, 0, 32)]);
    text.add([instruction(code::STORE_32, FRAME, 0, KEY, 0)]);
    text.add(map(1, maps.targets));
    text.add([copy(2, FRAME), add(2, KEY.into()), call(function::LOOK_UP)]);
    text.end_if(code::JUMP_EQUAL, 0, 0, 0);
    text.add([copy(TARGETS, 0)]);
}

/// Reads the target of a jump through memory; ends where that cannot be read.
fn read_target(text: &mut Text, base: JumpBase, index: Option<(u8, u8)>) {
    text.add([match base {
        JumpBase::Zero => set(TARGET, 0),
        JumpBase::Register(register) => {
            register_of(TARGET, REGISTER_AT[usize::from(register & 15)])
        }
        // The length of the instruction is in the displacement.
        JumpBase::NextInstruction => register_of(TARGET, IP),
    }]);
    if let Some((register, shift)) = index {
        text.add([register_of(2, REGISTER_AT[usize::from(register & 15)])]);
        text.add([instruction(code::SHIFT_LEFT, 2, 0, 0, shift.into())]);
        text.add([instruction(code::ADD_REGISTER, TARGET, 2, 0, 0)]);
    }
    text.add([instruction(code::LOAD_64, 2, TARGETS, 0, 0)]);
    text.add([instruction(code::ADD_REGISTER, TARGET, 2, 0, 0)]);
    text.add([copy(1, FRAME), add(1, WORD.into()), set(2, 8), copy(3, TARGET)]);
    text.add([call(function::READ_USER)]);
    text.end_if(code::JUMP_NOT_EQUAL, 0, 0, 0);
    text.add([instruction(code::LOAD_64, TARGET, FRAME, WORD, 0)]);
}

/// Ends where the target is inside of the function.
fn only_outside(text: &mut Text) {
    text.add([register_of(1, IP), instruction(code::SUBTRACT_REGISTER, TARGET, 1, 0, 0)]);
    for at in 0..INSIDE_MAX as i16 {
        text.add([instruction(code::LOAD_64, 1, TARGETS, 8 + 16 * at, 0)]);
        text.add([instruction(code::LOAD_64, 2, TARGETS, 16 + 16 * at, 0)]);
        // Before it begins.
        text.add([instruction(code::JUMP_LESS_REGISTER, TARGET, 1, 1, 0)]);
        text.end_if(code::JUMP_LESS_REGISTER, TARGET, 2, 0);
    }
}

/// Writes a hit into the ring, or adds it to the sums, as the function's mode says.
fn note(text: &mut Text, what: Noting, maps: NotingMaps) {
    text.add([copy(1, CONTEXT), call(function::COOKIE), copy(COOKIE, 0)]);
    let is_return = what.at != NotedAt::Entry;
    let whose = register_of(1, if what.is_go { GOROUTINE } else { SP });
    let by_mode = note_by_mode(what, whose, maps);
    text.add(unless_noted(COOKIE, is_return, whose, maps.exchange, by_mode));
}

fn note_by_mode(what: Noting, whose: Instruction, maps: NotingMaps) -> Vec<Instruction> {
    let mut text = vec![instruction(code::STORE_32, FRAME, COOKIE, KEY, 0)];
    text.extend(map(1, maps.modes));
    text.extend([copy(2, FRAME), add(2, KEY.into()), call(function::LOOK_UP)]);
    let record = record_hit(what, maps);
    let sum = super::sums::adding(what.at != NotedAt::Entry, whose, maps.sums);
    // Without a mode it is recorded.
    text.extend([skip_if_zero(2), instruction(code::LOAD_64, 0, 0, 0, 0)]);
    text.push(instruction(code::JUMP_NOT_EQUAL, 0, 0, record.len() as i16 + 1, 0));
    text.extend(record);
    text.push(instruction(code::JUMP, 0, 0, sum.len() as i16, 0));
    text.extend(sum);
    text
}

/// Writes a hit into the ring; counts what does not fit.
fn record_hit(what: Noting, maps: NotingMaps) -> Vec<Instruction> {
    let is_return = what.at != NotedAt::Entry;
    let mut text = vec![call(function::TIME), store(HIT, 0)];
    text.extend([call(function::PID_TGID), store(HIT + 8, 0)]);
    // The function's number; the lowest bit says whether it is a return.
    text.extend([instruction(code::COPY_32, 0, COOKIE, 0, 0)]);
    text.extend([instruction(code::SHIFT_LEFT, 0, 0, 0, 1)]);
    text.extend([instruction(code::OR, 0, 0, 0, is_return.into()), store(HIT + 16, 0)]);
    text.extend([register_of(1, if what.is_go { GOROUTINE } else { SP }), store(HIT + 24, 1)]);
    text.extend(map(1, maps.ring));
    text.extend([copy(2, FRAME), add(2, HIT.into()), set(3, HIT_BYTES.into())]);
    text.extend([set(4, NO_WAKEUP), call(function::RING_OUTPUT)]);
    let count = count_lost(maps);
    text.push(skip_if_zero(count.len() as i16));
    text.extend(count);
    text
}

fn count_lost(maps: NotingMaps) -> Vec<Instruction> {
    // The number of the only counter, on the stack.
    let mut text = vec![instruction(code::STORE_NUMBER_32, FRAME, 0, KEY, 0)];
    text.extend(map(1, maps.lost));
    text.extend([copy(2, FRAME), add(2, KEY.into()), call(function::LOOK_UP)]);
    // One more, as one step: other processors count as well.
    let add_one = [set(1, 1), instruction(code::ADD_AT_ONCE, 0, 1, 0, 0)];
    text.push(skip_if_zero(add_one.len() as i16));
    text.extend(add_one);
    text
}

/// Goes on where the stack says, which is all that `ret` does. Where it cannot be read, the kernel
/// executes the instruction, and also while another program may do the same.
fn perform_return(text: &mut Text, maps: NotingMaps) {
    end_if_exchanging(text, maps.exchange);
    text.add([copy(1, FRAME), add(1, WORD.into()), set(2, 8), register_of(3, SP)]);
    text.add([call(function::READ_USER)]);
    text.end_if(code::JUMP_NOT_EQUAL, 0, 0, 0);
    text.add([register_of(1, SP), instruction(code::SHIFT_RIGHT, COOKIE, 0, 0, 32)]);
    text.add([instruction(code::ADD_REGISTER, 1, COOKIE, 0, 0), add(1, 8)]);
    text.add([instruction(code::STORE_64, CONTEXT, 1, SP, 0)]);
    text.add([instruction(code::LOAD_64, 1, FRAME, WORD, 0)]);
    text.add([instruction(code::STORE_64, CONTEXT, 1, IP, 0)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_stays_inside() {
        let sums = crate::calls::bpf::sums::SumMaps { sums: 8, starts: 9 };
        let exchange = ExchangeMaps { current: 10, seen: 11 };
        let maps =
            NotingMaps { ring: 3, lost: 4, targets: 5, threads: 6, modes: 7, sums, exchange };
        let conditions = (0..16).map(NotedAt::Conditional);
        let memory = NotedAt::ThroughMemory(JumpBase::Register(3), Some((2, 3)));
        let others = [NotedAt::Entry, NotedAt::Exit, NotedAt::PerformedReturn, memory];
        let others = others.into_iter().chain([NotedAt::ThroughRegister(15)]);
        for at in others.chain(conditions) {
            for [is_for_everyone, has_entry] in [[false, false], [true, false], [true, true]] {
                let what = Noting { at, is_go: false, is_for_everyone, has_entry };
                let text = noting(what, maps);
                let jumps =
                    text.iter().enumerate().filter_map(|(at, one)| Some((at, one.jumps()?)));
                for (from, over) in jumps {
                    let to = from as isize + 1 + over;
                    assert!(
                        (0..text.len() as isize).contains(&to),
                        "{at:?}: from {from} over {over}"
                    );
                }
            }
        }
    }
}
