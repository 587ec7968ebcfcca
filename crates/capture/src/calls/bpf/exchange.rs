//! Exchanges programs at a place without a gap: the new ones are attached while the old ones still
//! are, and a hit that both see counts once.
//!
//! Two things must not happen meanwhile. Two programs must not both perform one `ret`, so none
//! does: the kernel executes it. And no hit may be noted twice: the kernel runs what was attached
//! last first, so the new program leaves a note (which thread, where on the stack, what) that the
//! old one takes away instead of noting the hit itself. A switch by one number alone, from the old
//! programs to the new ones, would miss the hits between the two that see it change.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::program::{
    FRAME, Instruction, Text, add, call, code, copy, function, instruction, map, set, store,
};
use crate::calls::bpf;

/// Threads and places on their stacks that are noted; the oldest are forgotten.
const SEEN_MAX: u32 = 1 << 14;

/// The bit of a cookie that says which of two programs of a place it is, above the function's
/// number.
pub(crate) const SIDE_BIT: u32 = 31;

/// Places on the stack, which others use afterwards.
const KEY: i16 = -40;
const SEEN_KEY: i16 = -64;
const HIT: i16 = -88;
const SIDE: i16 = -96;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ExchangeMaps {
    /// 0, or the number of the exchange that goes on and, in the lowest bit, the new side.
    pub(crate) current: RawFd,
    pub(crate) seen: RawFd,
}

#[derive(Debug)]
pub(crate) struct Exchange {
    current: OwnedFd,
    seen: OwnedFd,
    count: u64,
}

impl Exchange {
    pub(crate) fn new() -> io::Result<Exchange> {
        let seen = bpf::forgetting_table(SEEN_MAX)?;
        Ok(Exchange { current: bpf::numbers(1)?, seen, count: 0 })
    }

    pub(crate) fn maps(&self) -> ExchangeMaps {
        ExchangeMaps { current: self.current.as_raw_fd(), seen: self.seen.as_raw_fd() }
    }

    /// From now on programs of the new side replace others, and none performs `ret`, except those
    /// that run already.
    pub(crate) fn begin(&mut self, new_side: bool) -> io::Result<()> {
        self.count += 1;
        bpf::put(&self.current, 0, self.count << 1 | u64::from(new_side))
    }

    pub(crate) fn end(&self) -> io::Result<()> {
        bpf::put(&self.current, 0, 0)
    }
}

/// Takes the side off a cookie, and goes past `body` where the hit is noted already. `whose` puts
/// what distinguishes calls into register 1.
pub(crate) fn unless_noted(
    cookie: u8,
    is_return: bool,
    whose: Instruction,
    maps: ExchangeMaps,
    body: Vec<Instruction>,
) -> Vec<Instruction> {
    let (new, old) = (leave_note(maps), take_note(maps));
    let mut during = vec![instruction(code::LOAD_64, 1, 0, 0, 0)];
    // Usually nothing is exchanged.
    let mut rest = note_of_hit(cookie, is_return, whose);
    rest.push(instruction(code::JUMP_NOT_EQUAL, 1, 0, new.len() as i16 + 1, 0));
    rest.extend(new);
    // Leads to the body: the last of `old` passes over that.
    rest.push(instruction(code::JUMP, 0, 0, old.len() as i16 + 1, 0));
    rest.extend(old);
    rest.push(instruction(code::JUMP, 0, 0, body.len() as i16, 0));
    during.push(instruction(code::JUMP_EQUAL, 1, 0, rest.len() as i16, 0));
    during.extend(rest);

    let mut text = vec![copy(2, cookie), instruction(code::SHIFT_RIGHT, 2, 0, 0, SIDE_BIT as i32)];
    text.extend([instruction(code::AND, 2, 0, 0, 1), store(SIDE, 2)]);
    text.push(instruction(code::SHIFT_LEFT, 2, 0, 0, SIDE_BIT as i32));
    text.push(instruction(code::XOR_REGISTER, cookie, 2, 0, 0));
    text.extend(current(maps));
    text.push(instruction(code::JUMP_EQUAL, 0, 0, during.len() as i16, 0));
    text.extend(during);
    text.extend(body);
    text
}

/// Ends the program while something is exchanged.
pub(crate) fn end_if_exchanging(text: &mut Text, maps: ExchangeMaps) {
    text.add(current(maps));
    text.end_if(code::JUMP_EQUAL, 0, 0, 0);
    text.add([instruction(code::LOAD_64, 1, 0, 0, 0)]);
    text.end_if(code::JUMP_NOT_EQUAL, 1, 0, 0);
}

/// Register 0 leads to what is exchanged.
fn current(maps: ExchangeMaps) -> Vec<Instruction> {
    let mut text = vec![instruction(code::STORE_NUMBER_32, FRAME, 0, KEY, 0)];
    text.extend(map(1, maps.current));
    text.extend([copy(2, FRAME), add(2, KEY.into()), call(function::LOOK_UP)]);
    text
}

/// Puts the hit and its key on the stack; register 1 is 0 on the new side. Expects the number of
/// the exchange there.
fn note_of_hit(cookie: u8, is_return: bool, whose: Instruction) -> Vec<Instruction> {
    vec![
        instruction(code::LOAD_64, 2, FRAME, SIDE, 0),
        instruction(code::XOR_REGISTER, 2, 1, 0, 0),
        instruction(code::AND, 2, 0, 0, 1),
        store(SIDE, 2),
        // The number of the exchange, the function, and whether it returned.
        instruction(code::SHIFT_RIGHT, 1, 0, 0, 1),
        instruction(code::SHIFT_LEFT, 1, 0, 0, 33),
        instruction(code::COPY_32, 2, cookie, 0, 0),
        instruction(code::SHIFT_LEFT, 2, 0, 0, 1),
        instruction(code::OR_REGISTER, 1, 2, 0, 0),
        instruction(code::OR, 1, 0, 0, is_return.into()),
        store(HIT, 1),
        call(function::PID_TGID),
        store(SEEN_KEY, 0),
        whose,
        store(SEEN_KEY + 8, 1),
        instruction(code::LOAD_64, 1, FRAME, SIDE, 0),
    ]
}

fn leave_note(maps: ExchangeMaps) -> Vec<Instruction> {
    let mut text = Vec::from(map(1, maps.seen));
    text.extend([copy(2, FRAME), add(2, SEEN_KEY.into()), copy(3, FRAME), add(3, HIT.into())]);
    text.extend([set(4, 0), call(function::UPDATE)]);
    text
}

/// Goes to the second instruction behind it where there is no such note, otherwise to the first.
fn take_note(maps: ExchangeMaps) -> Vec<Instruction> {
    let mut take = Vec::from(map(1, maps.seen));
    take.extend([copy(2, FRAME), add(2, SEEN_KEY.into()), call(function::DELETE)]);
    let mut compare = vec![instruction(code::LOAD_64, 1, 0, 0, 0)];
    compare.push(instruction(code::LOAD_64, 2, FRAME, HIT, 0));
    compare.push(instruction(code::JUMP_NOT_EQUAL_REGISTER, 1, 2, take.len() as i16 + 1, 0));
    compare.extend(take);
    let mut text = Vec::from(map(1, maps.seen));
    text.extend([copy(2, FRAME), add(2, SEEN_KEY.into()), call(function::LOOK_UP)]);
    text.push(instruction(code::JUMP_EQUAL, 0, 0, compare.len() as i16 + 1, 0));
    text.extend(compare);
    text
}
