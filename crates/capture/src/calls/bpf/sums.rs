//! Calls that are counted in the kernel instead of being recorded one by one: how many, how long
//! all together, and how many of each length, by function and thread.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use spanwise_recording::calls::CallSum;

use super::noting::COOKIE;
use super::program::{
    FRAME, Instruction, add, call, code, copy, function, instruction, map, set, store,
};
use crate::calls::bpf;

/// Lengths are counted by their highest bit; the last holds all that are longer.
pub const LENGTH_BUCKETS: usize = 32;

/// Functions and threads that are counted.
const SUMS_MAX: u32 = 1 << 14;

/// Calls that run at one time; where there are more, the oldest are forgotten.
const STARTS_MAX: u32 = 1 << 16;

const CALLS_AT: i16 = 0;
const RETURNS_AT: i16 = 8;
const TOTAL_AT: i16 = 16;
const BUCKETS_AT: i16 = 24;
const SUM_WORDS: usize = 3 + LENGTH_BUCKETS;

#[derive(Debug, Clone, Copy)]
pub(crate) struct SumMaps {
    pub(crate) sums: RawFd,
    pub(crate) starts: RawFd,
}

/// The tables.
pub(crate) struct Sums {
    sums: OwnedFd,
    starts: OwnedFd,
}

impl Sums {
    pub(crate) fn new() -> io::Result<Sums> {
        let sums = bpf::wide_table(8 * SUM_WORDS as u32, SUMS_MAX)?;
        Ok(Sums { sums, starts: bpf::forgetting_table(STARTS_MAX)? })
    }

    pub(crate) fn maps(&self) -> SumMaps {
        SumMaps { sums: self.sums.as_raw_fd(), starts: self.starts.as_raw_fd() }
    }

    pub(crate) fn read(&self) -> Vec<CallSum> {
        let entries = bpf::entries(&self.sums, SUM_WORDS).into_iter();
        let sum = |([function, thread], words): ([u64; 2], Vec<u64>)| CallSum {
            function: function as u32,
            pid: (thread >> 32) as u32,
            tid: thread as u32,
            calls: words[0],
            returns: words[1],
            total_ns: words[2],
            by_length: words[3..].to_vec(),
        };
        entries.map(sum).collect()
    }
}

/// Places on the stack, below those of a hit.
const SUM_KEY: i16 = -64;
const START_KEY: i16 = -80;
const TIME: i16 = -88;
const EMPTY: i16 = TIME - 8 * SUM_WORDS as i16;

/// Registers that calls leave alone.
const SUM: u8 = 8;
const LENGTH: u8 = 9;

/// Adds a call or a return to the sums. `whose` puts what distinguishes calls into register 1.
pub(crate) fn adding(is_return: bool, whose: Instruction, maps: SumMaps) -> Vec<Instruction> {
    let mut text = vec![whose, store(START_KEY + 8, 1)];
    text.extend([instruction(code::COPY_32, 1, COOKIE, 0, 0), store(SUM_KEY, 1)]);
    text.extend([call(function::PID_TGID), store(SUM_KEY + 8, 0)]);
    // Of the process and not of the thread: coroutines may go on in another.
    text.extend([instruction(code::SHIFT_RIGHT, 0, 0, 0, 32)]);
    text.extend([instruction(code::SHIFT_LEFT, 0, 0, 0, 32)]);
    text.extend([instruction(code::COPY_32, 1, COOKIE, 0, 0)]);
    text.extend([instruction(code::OR_REGISTER, 0, 1, 0, 0), store(START_KEY, 0)]);
    let add_it = match is_return {
        true => add_return(maps),
        false => add_call(maps),
    };
    text.extend(look_up(maps.sums, SUM_KEY));
    let make = make_sum(maps);
    text.push(instruction(code::JUMP_NOT_EQUAL, 0, 0, make.len() as i16, 0));
    text.extend(make);
    text.push(instruction(code::JUMP_EQUAL, 0, 0, add_it.len() as i16, 0));
    text.extend(add_it);
    text
}

fn look_up(table: RawFd, key: i16) -> Vec<Instruction> {
    let mut text = Vec::from(map(1, table));
    text.extend([copy(2, FRAME), add(2, key.into()), call(function::LOOK_UP)]);
    text
}

/// A sum of nothing, where there is none yet; register 0 leads to it afterwards.
fn make_sum(maps: SumMaps) -> Vec<Instruction> {
    const IF_NEW: i32 = 1;
    let mut text = vec![set(1, 0)];
    text.extend((0..SUM_WORDS as i16).map(|word| store(EMPTY + 8 * word, 1)));
    text.extend(map(1, maps.sums));
    text.extend([copy(2, FRAME), add(2, SUM_KEY.into()), copy(3, FRAME), add(3, EMPTY.into())]);
    text.extend([set(4, IF_NEW), call(function::UPDATE)]);
    text.extend(look_up(maps.sums, SUM_KEY));
    text
}

/// One more; register 0 leads to the sum.
fn add_call(maps: SumMaps) -> Vec<Instruction> {
    let mut text = vec![set(1, 1), instruction(code::ADD_AT_ONCE, 0, 1, CALLS_AT, 0)];
    text.extend([call(function::TIME), store(TIME, 0)]);
    text.extend(map(1, maps.starts));
    text.extend([copy(2, FRAME), add(2, START_KEY.into()), copy(3, FRAME), add(3, TIME.into())]);
    text.extend([set(4, 0), call(function::UPDATE)]);
    text
}

/// One more return, and the length of the call where its start is known.
fn add_return(maps: SumMaps) -> Vec<Instruction> {
    let mut known = vec![instruction(code::LOAD_64, LENGTH, 0, 0, 0)];
    known.extend(map(1, maps.starts));
    known.extend([copy(2, FRAME), add(2, START_KEY.into()), call(function::DELETE)]);
    known.push(call(function::TIME));
    known.extend([instruction(code::SUBTRACT_REGISTER, 0, LENGTH, 0, 0), copy(LENGTH, 0)]);
    known.push(instruction(code::ADD_AT_ONCE, SUM, LENGTH, TOTAL_AT, 0));
    known.extend(highest_bit());
    // At most 31, whatever the verifier knows.
    known.push(instruction(code::AND, 1, 0, 0, LENGTH_BUCKETS as i32 - 1));
    known.push(instruction(code::SHIFT_LEFT, 1, 0, 0, 3));
    known.push(instruction(code::ADD_REGISTER, SUM, 1, 0, 0));
    known.extend([set(1, 1), instruction(code::ADD_AT_ONCE, SUM, 1, BUCKETS_AT, 0)]);
    let mut text = vec![copy(SUM, 0), set(1, 1)];
    text.push(instruction(code::ADD_AT_ONCE, SUM, 1, RETURNS_AT, 0));
    text.extend(look_up(maps.starts, START_KEY));
    text.push(instruction(code::JUMP_EQUAL, 0, 0, known.len() as i16, 0));
    text.extend(known);
    text
}

/// The number of the highest bit of the length, into register 1; of what has more than 32 bits,
/// the last.
fn highest_bit() -> Vec<Instruction> {
    let mut text = vec![copy(2, LENGTH), copy(3, LENGTH), set(1, 0)];
    text.push(instruction(code::SHIFT_RIGHT, 3, 0, 0, 32));
    text.push(instruction(code::JUMP_EQUAL, 3, 0, 1, 0));
    text.push(instruction(code::COPY_NUMBER_32, 2, 0, 0, -1));
    for bits in [16, 8, 4, 2, 1] {
        text.push(instruction(code::JUMP_BELOW, 2, 0, 2, 1 << bits));
        text.push(instruction(code::SHIFT_RIGHT, 2, 0, 0, bits));
        text.push(add(1, bits));
    }
    text
}
