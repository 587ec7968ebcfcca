//! The programs that the kernel runs when threads switch, are made, end or run another program.
//!
//! A table holds the threads that are recorded, each with the number of its process; three of
//! the programs keep it, so that also a process that lives for a millisecond is known from its
//! beginning on. The others look threads up in it, and write what is wanted.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use super::btf::ThreadLayout;
use crate::calls::bpf;
use crate::calls::program::{
    FRAME, Instruction, NO_WAKEUP, add, call, copy, function, instruction, map, set, skip_if_zero,
    store,
};

/// What a switch leaves behind: time; process and thread; processor and flags; and of a thread
/// that leaves how long it has run in all.
pub(super) const SWITCH_BYTES: i16 = 32;

/// Flags of a switch.
pub(super) const IS_OUT: i32 = 1;
pub(super) const IS_PREEMPTED: i32 = 2;
/// It leaves for good.
pub(super) const IS_LAST: i32 = 4;

/// Set in the table for a process that is recorded from its next program on.
pub(super) const FROM_EXEC: u64 = 1 << 63;

/// In the state of a thread that never comes back.
const DEAD: i32 = 0x80;

/// Where in the shared numbers which one is.
pub(super) const SWITCHES_LEFT_AT: usize = 0;
pub(super) const STACKS_LEFT_AT: usize = 8;
pub(super) const LOST_AT: usize = 16;
pub(super) const SHARED_BYTES: u32 = 24;

/// The maps that the programs use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Maps {
    pub(super) ring: RawFd,
    pub(super) threads: RawFd,
    pub(super) shared: RawFd,
    /// What the kernel keeps of a thread.
    pub(super) thread: ThreadLayout,
}

/// Where on the stack a key is, and a value.
const KEY: i16 = -4;
const VALUE: i16 = -16;
const SWITCH: i16 = -16 - SWITCH_BYTES;
const RAN: i16 = SWITCH + 24;

mod code {
    pub(super) const LOAD_32: u8 = 0x61;
    pub(super) const LOAD_64: u8 = 0x79;
    pub(super) const STORE_32: u8 = 0x63;
    pub(super) const AND: u8 = 0x57;
    pub(super) const OR_REGISTER: u8 = 0x4f;
    pub(super) const SHIFT_LEFT: u8 = 0x67;
    pub(super) const ADD_AT_ONCE: u8 = 0xdb;
    pub(super) const JUMP_ZERO: u8 = 0x15;
    pub(super) const JUMP_EQUAL: u8 = 0x1d;
    pub(super) const JUMP_NOT_ZERO: u8 = 0x55;
    pub(super) const JUMP_BITS: u8 = 0x45;
    pub(super) const JUMP_NEGATIVE: u8 = 0xc5;
    pub(super) const JUMP_NOT_POSITIVE: u8 = 0xd5;
    pub(super) const EXIT: u8 = 0x95;
}

/// Ends the program with a number.
fn end_with(number: i32) -> [Instruction; 2] {
    [set(0, number), instruction(code::EXIT, 0, 0, 0, 0)]
}

fn end() -> [Instruction; 2] {
    end_with(0)
}

/// The address of a shared number.
fn shared(to: u8, map: RawFd, at: usize) -> [Instruction; 2] {
    const IS_VALUE: u8 = 2;
    [instruction(0x18, to, IS_VALUE, 0, map), instruction(0, 0, 0, 0, at as i32)]
}

/// Does something while a shared number is above zero.
fn if_left(maps: Maps, at: usize, then: &[Instruction]) -> Vec<Instruction> {
    let mut text = Vec::from(shared(1, maps.shared, at));
    text.push(instruction(code::LOAD_64, 1, 1, 0, 0));
    text.push(instruction(code::JUMP_NOT_POSITIVE, 1, 0, then.len() as i16, 0));
    text.extend(then);
    text
}

/// Adds to a shared number, while others may, too.
fn count(maps: Maps, at: usize, number: i32) -> Vec<Instruction> {
    let mut text = Vec::from(shared(1, maps.shared, at));
    text.extend([set(2, number), instruction(code::ADD_AT_ONCE, 1, 2, 0, 0)]);
    text
}

/// Looks the key on the stack up; then does something with what is found, in register 0.
fn look_up(maps: Maps, then: &[Instruction]) -> Vec<Instruction> {
    let mut text = Vec::from(map(1, maps.threads));
    text.extend([copy(2, FRAME), add(2, KEY.into()), call(function::LOOK_UP)]);
    text.push(skip_if_zero(then.len() as i16));
    text.extend(then);
    text
}

/// The key is the thread that runs; register 8 has it and its process.
fn key_of_current() -> [Instruction; 3] {
    let store_key = instruction(code::STORE_32, FRAME, 8, KEY, 0);
    [call(function::PID_TGID), copy(8, 0), store_key]
}

/// What the tracepoint has been given, in this place; register 6 leads to it.
fn argument(to: u8, number: i16) -> Instruction {
    instruction(code::LOAD_64, to, 6, number * 8, 0)
}

/// Copies what the kernel keeps of a thread, which the tracepoint was given, to the stack.
fn read_of(number: i16, at: i32, to: i16, bytes: i32) -> [Instruction; 6] {
    let to = [copy(1, FRAME), add(1, to.into())];
    let from = [argument(3, number), add(3, at)];
    [to[0], to[1], from[0], from[1], set(2, bytes), call(function::READ_KERNEL)]
}

/// The key is the number of the thread that the tracepoint was given; register 8 has it.
fn key_of_thread(maps: Maps, number: i16) -> Vec<Instruction> {
    let mut text = Vec::from(read_of(number, maps.thread.tid, KEY, 4));
    text.push(instruction(code::LOAD_32, 8, FRAME, KEY, 0));
    text
}

/// Writes a switch; register 8 has process and thread, register 7 the flags, and how long the
/// thread has run is there already.
fn write_switch(maps: Maps) -> Vec<Instruction> {
    let mut text = count(maps, SWITCHES_LEFT_AT, -1);
    text.extend([store(SWITCH + 8, 8), call(function::TIME), store(SWITCH, 0)]);
    text.push(call(function::PROCESSOR));
    text.push(instruction(code::SHIFT_LEFT, 0, 0, 0, 32));
    text.extend([instruction(code::OR_REGISTER, 0, 7, 0, 0), store(SWITCH + 16, 0)]);
    text.extend(map(1, maps.ring));
    text.extend([copy(2, FRAME), add(2, SWITCH.into()), set(3, SWITCH_BYTES.into())]);
    text.extend([set(4, NO_WAKEUP), call(function::RING_OUTPUT)]);
    let lost = count(maps, LOST_AT, 1);
    text.push(skip_if_zero(lost.len() as i16));
    text.extend(lost);
    text
}

/// Does something with a thread that was found, unless it is to be recorded later.
fn if_begun(then: &[Instruction]) -> Vec<Instruction> {
    let mut text = vec![instruction(code::LOAD_64, 1, 0, 0, 0)];
    text.push(instruction(code::JUMP_NEGATIVE, 1, 0, then.len() as i16, 0));
    text.extend(then);
    text
}

/// At each switch (whether by force, who leaves, who comes, state): who leaves, and who comes.
pub(super) fn switching(maps: Maps) -> Vec<Instruction> {
    let mut reason = vec![argument(1, 3)];
    // The state is a number of 32 bits.
    reason.push(instruction(code::SHIFT_LEFT, 1, 0, 0, 32));
    reason.push(instruction(code::JUMP_ZERO, 1, 0, 1, 0));
    reason.extend([set(7, IS_OUT), argument(1, 3)]);
    reason.push(instruction(code::AND, 1, 0, 0, DEAD));
    reason.push(instruction(code::JUMP_ZERO, 1, 0, 1, 0));
    reason.push(set(7, IS_OUT | IS_LAST));
    // Who was forced to, or has no reason to wait, could go on.
    let mut out = vec![set(7, IS_OUT | IS_PREEMPTED), argument(1, 0)];
    out.push(instruction(code::AND, 1, 0, 0, 0xff));
    out.push(instruction(code::JUMP_NOT_ZERO, 1, 0, reason.len() as i16, 0));
    out.extend(reason);
    out.extend(read_of(1, maps.thread.ran, RAN, 8));
    out.extend(write_switch(maps));
    let gone = take_out(maps);
    out.extend([copy(1, 7), instruction(code::AND, 1, 0, 0, IS_LAST)]);
    out.push(instruction(code::JUMP_ZERO, 1, 0, gone.len() as i16, 0));
    out.extend(gone);
    let mut came = vec![set(7, 0), store(RAN, 7), instruction(code::SHIFT_LEFT, 1, 0, 0, 32)];
    came.push(instruction(code::OR_REGISTER, 8, 1, 0, 0));
    came.extend(write_switch(maps));
    let mut both = Vec::from(key_of_current());
    both.extend(look_up(maps, &if_begun(&out)));
    both.extend(key_of_thread(maps, 2));
    both.extend(look_up(maps, &if_begun(&came)));
    let mut text = vec![copy(6, 1)];
    text.extend(if_left(maps, SWITCHES_LEFT_AT, &both));
    text.extend(end());
    text
}

/// Puts a thread into the table: the key on the stack, and the process in register 7.
fn put(maps: Maps) -> Vec<Instruction> {
    let mut text = vec![store(VALUE, 7)];
    text.extend(map(1, maps.threads));
    text.extend([copy(2, FRAME), add(2, KEY.into()), copy(3, FRAME), add(3, VALUE.into())]);
    text.extend([set(4, 0), call(function::UPDATE)]);
    let lost = count(maps, LOST_AT, 1);
    text.push(skip_if_zero(lost.len() as i16));
    text.extend(lost);
    text
}

/// Takes the thread whose key is on the stack out of the table.
fn take_out(maps: Maps) -> Vec<Instruction> {
    let mut text = Vec::from(map(1, maps.threads));
    text.extend([copy(2, FRAME), add(2, KEY.into()), call(function::DELETE)]);
    text
}

/// A thread of ours makes a thread, or a process (the new one, flags).
pub(super) fn making(maps: Maps) -> Vec<Instruction> {
    const IS_THREAD: i32 = 0x10000;
    let mut found = vec![instruction(code::LOAD_64, 7, 0, 0, 0)];
    found.extend(key_of_thread(maps, 0));
    found.push(argument(1, 1));
    found.push(instruction(code::JUMP_BITS, 1, 0, 1, IS_THREAD));
    // A process has the number of its first thread.
    found.push(copy(7, 8));
    found.extend(put(maps));
    let mut text = vec![copy(6, 1)];
    text.extend(key_of_current());
    text.extend(look_up(maps, &found));
    text.extend(end());
    text
}

/// A thread ends. While switches are written, it is taken out when it leaves for good.
pub(super) fn ending(maps: Maps) -> Vec<Instruction> {
    let mut text = Vec::from(key_of_current());
    text.extend(if_left(maps, SWITCHES_LEFT_AT, &end()));
    text.extend(take_out(maps));
    text.extend(end());
    text
}

/// A process runs another program (who, its number before): the thread that asked for it has the
/// number of the process from then on, and is recorded from then on if that was wanted.
pub(super) fn executing(maps: Maps) -> Vec<Instruction> {
    let key_of_old = [argument(1, 1), instruction(code::STORE_32, FRAME, 1, KEY, 0)];
    let out = take_out(maps);
    let mut found = vec![instruction(code::LOAD_32, 9, FRAME, KEY, 0)];
    found.extend(key_of_current());
    found.push(instruction(code::LOAD_32, 7, FRAME, KEY, 0));
    found.extend(put(maps));
    found.push(instruction(code::JUMP_EQUAL, 7, 9, key_of_old.len() as i16 + out.len() as i16, 0));
    found.extend(key_of_old);
    found.extend(out);
    let mut text = vec![copy(6, 1)];
    text.extend(key_of_old);
    text.extend(look_up(maps, &found));
    text.extend(end());
    text
}

/// Lets the kernel run the programs that keep the table, until these are closed.
pub(super) fn following(maps: Maps) -> io::Result<Vec<OwnedFd>> {
    let programs = [
        (c"task_newtask", making(maps)),
        (c"sched_process_exit", ending(maps)),
        (c"sched_process_exec", executing(maps)),
    ];
    let programs = programs.map(|(name, text)| {
        let program = bpf::tracepoint_program(&text)?;
        bpf::attach_to_tracepoint(&program, name)
    });
    programs.into_iter().collect()
}

/// Takes the samples of threads that are recorded.
pub(super) fn sampling(maps: Maps) -> Vec<Instruction> {
    let mut text = Vec::from(key_of_current());
    text.extend(look_up(maps, &if_begun(&end_with(1))));
    text.extend(end());
    text
}

/// Takes the stacks of threads that are recorded, as long as there may be more.
pub(super) fn choosing(maps: Maps) -> Vec<Instruction> {
    let mut begun = count(maps, STACKS_LEFT_AT, -1);
    begun.extend(end_with(1));
    let mut text = Vec::from(key_of_current());
    text.extend(look_up(maps, &if_begun(&begun)));
    let mut all = if_left(maps, STACKS_LEFT_AT, &text);
    all.extend(end());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_stays_inside() {
        let maps =
            Maps { ring: 3, threads: 4, shared: 5, thread: ThreadLayout { tid: 1000, ran: 80 } };
        let kept = [making(maps), ending(maps), executing(maps)];
        let used = [switching(maps), sampling(maps), choosing(maps)];
        for text in kept.into_iter().chain(used) {
            let jumps = text.iter().enumerate().filter_map(|(at, one)| Some((at, one.jumps()?)));
            for (at, over) in jumps {
                assert!(at + 1 + over < text.len(), "from {at} over {over} of {}", text.len());
            }
        }
    }
}
