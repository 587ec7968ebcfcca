//! The programs that the kernel runs when threads switch, are made, end or run another program.
//!
//! A table holds the threads that are recorded, each with the number of its process; three of
//! the programs keep it, so that also a process that lives for a millisecond is known from its
//! beginning on. The others find threads in it, and write what is wanted.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use super::btf::{StackLayout, ThreadLayout};
use super::frames::{CopiedAt, FrameMaps, copy_frames};
use crate::calls::bpf;
use crate::calls::bpf::program::{
    FRAME, Instruction, NO_WAKEUP, add, call, copy, function, instruction, map, set, skip_if_zero,
    store,
};

/// What a switch leaves behind: time; process and thread; processor and flags; and how long the
/// thread has run in all. A wake-up leaves the same, with the thread that wakes
/// and, in the place of the last, the one that is woken.
pub(super) const SWITCH_BYTES: i16 = 32;

/// Flags of a switch.
pub(super) const IS_OUT: i32 = 1;
pub(crate) const IS_PREEMPTED: i32 = 2;
/// It leaves for good.
pub(super) const IS_LAST: i32 = 4;
/// No switch: a thread wakes another.
pub(super) const IS_WAKING: i32 = 8;
/// An interrupt was served: whoever ran has nothing to do with it.
pub(super) const IS_INTERRUPT: i32 = 16;

/// Set in the table for a process that is recorded from its next program on.
pub(super) const FROM_EXEC: u64 = 1 << 63;

/// In the state of a thread that never comes back.
const DEAD: i32 = 0x80;

/// Where in the shared numbers which one is.
pub(super) const SWITCHES_LEFT_AT: usize = 0;
pub(super) const STACKS_LEFT_AT: usize = 8;
pub(super) const LOST_AT: usize = 16;
/// Since when the table says when threads left; 0 while it does not.
pub(super) const SINCE_AT: usize = 24;
/// Waits of at least this long have their stack taken.
pub(super) const THRESHOLD_AT: usize = 32;
/// For how much waiting the stacks that were not taken would have stood.
pub(super) const SKIPPED_AT: usize = 40;
pub(super) const SHARED_BYTES: u32 = 48;

/// What the table holds of a thread: its process; when it left its processor, and came to one;
/// how much it has waited in short waits that no stack stands for yet; how it left; and room for
/// an address.
pub(super) const THREAD_WORDS: usize = 6;
const LEFT: i16 = 8;
const CAME: i16 = 16;
const SHORT: i16 = 24;
const HOW: i16 = 32;
const SCRATCH: i16 = 40;

/// What a stack of a wait carries: for how much waiting it stands, when the thread came back,
/// and flags: that it could have gone on, or this one.
pub(super) const WAIT_BYTES: i16 = 24;
/// It stands for other waits as well, all of them shorter than the threshold.
pub(crate) const IS_SHARE: i32 = 1;
/// It is of the thread that ended the wait.
pub(crate) const IS_WAKER: i32 = 4;

/// The maps that the programs use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Maps {
    pub(super) ring: RawFd,
    pub(super) threads: RawFd,
    pub(super) shared: RawFd,
    /// The events that stacks of waits go to, by processor.
    pub(super) stacks: RawFd,
    /// What the kernel keeps of a thread.
    pub(super) thread: ThreadLayout,
    /// How to know whether an interrupt is served, if that is known.
    pub(super) interrupts: Option<StackLayout>,
    /// Where frames of Python are copied.
    pub(super) frames: Option<FrameMaps>,
    /// Whether stacks are taken of threads that end waits.
    pub(super) has_waker_stacks: bool,
}

/// Where on the stack a key is, and a value.
const KEY: i16 = -4;
const VALUE: i16 = -8 - 8 * THREAD_WORDS as i16;
const SWITCH: i16 = VALUE - SWITCH_BYTES;
const RAN: i16 = SWITCH + 24;
const WAIT: i16 = SWITCH - WAIT_BYTES;
/// Registers, for a while.
const SAVED: i16 = WAIT - 8;

mod code {
    pub(super) const LOAD_32: u8 = 0x61;
    pub(super) const LOAD_64: u8 = 0x79;
    pub(super) const STORE_32: u8 = 0x63;
    pub(super) const STORE_64: u8 = 0x7b;
    pub(super) const STORE_NUMBER: u8 = 0x7a;
    pub(super) const SUBTRACT_REGISTER: u8 = 0x1f;
    pub(super) const ADD_REGISTER: u8 = 0x0f;
    pub(super) const JUMP: u8 = 0x05;
    pub(super) const JUMP_NOT_BELOW: u8 = 0x3d;
    pub(super) const AND: u8 = 0x57;
    pub(super) const OR: u8 = 0x47;
    pub(super) const OR_REGISTER: u8 = 0x4f;
    pub(super) const COPY_NUMBER_32: u8 = 0xb4;
    pub(super) const SHIFT_LEFT: u8 = 0x67;
    pub(super) const ADD_AT_ONCE: u8 = 0xdb;
    pub(super) const JUMP_ZERO: u8 = 0x15;
    pub(super) const JUMP_EQUAL: u8 = 0x1d;
    pub(super) const JUMP_NOT_ZERO: u8 = 0x55;
    pub(super) const JUMP_BITS: u8 = 0x45;
    pub(super) const JUMP_NEGATIVE: u8 = 0xc5;
    pub(super) const JUMP_BELOW: u8 = 0xa5;
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
    let mut text = vec![set(2, number)];
    text.extend(count_register(maps, at));
    text
}

/// The same, of what register 2 has.
fn count_register(maps: Maps, at: usize) -> Vec<Instruction> {
    let mut text = Vec::from(shared(1, maps.shared, at));
    text.push(instruction(code::ADD_AT_ONCE, 1, 2, 0, 0));
    text
}

/// A shared number.
fn load_shared(to: u8, maps: Maps, at: usize) -> [Instruction; 3] {
    let address = shared(to, maps.shared, at);
    [address[0], address[1], instruction(code::LOAD_64, to, to, 0, 0)]
}

/// Finds the key on the stack; then does something with what is found, in register 0.
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

/// Gets a word from the stack.
fn load(to: u8, at: i16) -> Instruction {
    instruction(code::LOAD_64, to, FRAME, at, 0)
}

/// Writes a switch, as long as there may be more; register 8 has process and thread, register 7
/// the flags, and how long the thread has run is there already. Registers 6 to 9 stay.
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
    if_left(maps, SWITCHES_LEFT_AT, &text)
}

/// Notes the time in what the table holds of a thread, which register 9 leads to.
fn note_time(at: i16) -> [Instruction; 2] {
    [call(function::TIME), instruction(code::STORE_64, 9, 0, at, 0)]
}

/// Does something unless a register has zero.
fn unless_zero(register: u8, then: &[Instruction]) -> Vec<Instruction> {
    let mut text = vec![instruction(code::JUMP_ZERO, register, 0, then.len() as i16, 0)];
    text.extend(then);
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
/// The table knows when they did also where there are too many to be written.
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
    let mut out = vec![copy(9, 0), set(7, IS_OUT | IS_PREEMPTED), argument(1, 0)];
    out.push(instruction(code::AND, 1, 0, 0, 0xff));
    out.push(instruction(code::JUMP_NOT_ZERO, 1, 0, reason.len() as i16, 0));
    out.extend(reason);
    out.extend(note_time(LEFT));
    out.push(instruction(code::STORE_NUMBER, 9, 0, CAME, 0));
    out.push(instruction(code::STORE_64, 9, 7, HOW, 0));
    out.extend(read_of(1, maps.thread.ran, RAN, 8));
    out.extend(write_switch(maps));
    let gone = take_out(maps);
    out.extend([copy(1, 7), instruction(code::AND, 1, 0, 0, IS_LAST)]);
    out.extend(unless_zero(1, &gone));
    let mut came = vec![copy(9, 0), set(7, 0)];
    came.push(instruction(code::SHIFT_LEFT, 1, 0, 0, 32));
    came.push(instruction(code::OR_REGISTER, 8, 1, 0, 0));
    came.extend(note_time(CAME));
    came.extend(read_of(2, maps.thread.ran, RAN, 8));
    came.extend(write_switch(maps));
    let mut text = vec![copy(6, 1)];
    text.extend(key_of_current());
    text.extend(look_up(maps, &if_begun(&out)));
    text.extend(key_of_thread(maps, 2));
    text.extend(look_up(maps, &if_begun(&came)));
    text.extend(end());
    text
}

/// A thread has come back, and is about to go on where it waited: takes its stack if it waited
/// for long, and now and then if it did not. Which of the short waits that is follows from how
/// much the thread has waited in them since the last time, so that each stack stands for the same
/// amount of waiting.
pub(super) fn coming(maps: Maps) -> Vec<Instruction> {
    // Some machines do not report that it came.
    let mut unseen = Vec::from(note_time(CAME));
    unseen.extend([set(7, 0), store(RAN, 7)]);
    unseen.extend(write_switch(maps));
    let mut took = vec![instruction(code::LOAD_64, 1, 9, CAME, 0)];
    took.push(instruction(code::JUMP_NOT_ZERO, 1, 0, unseen.len() as i16, 0));
    took.extend(unseen);
    // Register 7 has when it left, then how long that is ago.
    took.extend([instruction(code::LOAD_64, 1, 9, CAME, 0), store(WAIT + 8, 1)]);
    took.extend([instruction(code::LOAD_64, 2, 9, LEFT, 0), copy(7, 1)]);
    took.push(instruction(code::SUBTRACT_REGISTER, 7, 2, 0, 0));
    took.push(instruction(code::STORE_NUMBER, 9, 0, LEFT, 0));
    took.extend(take_or_add(maps));
    // Nobody knows what it did where it left before the table was kept.
    let mut left = Vec::from(load_shared(2, maps, SINCE_AT));
    left.extend(unless_zero(2, &unless_below(7, 2, &took)));
    let mut found = vec![copy(9, 0), instruction(code::LOAD_64, 7, 9, LEFT, 0)];
    found.extend(unless_zero(7, &left));
    let mut text = vec![copy(6, 1)];
    text.extend(key_of_current());
    text.extend(look_up(maps, &if_begun(&found)));
    text.extend(end());
    text
}

/// Does something unless a register has less than another one.
fn unless_below(register: u8, other: u8, then: &[Instruction]) -> Vec<Instruction> {
    let mut text = vec![instruction(code::JUMP_NOT_BELOW, register, other, 1, 0)];
    text.push(instruction(code::JUMP, 0, 0, then.len() as i16, 0));
    text.extend(then);
    text
}

/// Register 7 has how long a thread has waited, register 9 leads to what is known of it.
fn take_or_add(maps: Maps) -> Vec<Instruction> {
    let taking = take_stack(maps);
    // Register 3 has how much it has waited in short waits, register 2 the threshold.
    let mut due = vec![instruction(code::SUBTRACT_REGISTER, 3, 2, 0, 0)];
    due.push(instruction(code::STORE_64, 9, 3, SHORT, 0));
    due.extend([copy(7, 2), set(1, IS_SHARE), store(WAIT + 16, 1)]);
    let mut short = vec![instruction(code::LOAD_64, 3, 9, SHORT, 0)];
    short.push(instruction(code::ADD_REGISTER, 3, 7, 0, 0));
    let add = [
        instruction(code::STORE_64, 9, 3, SHORT, 0),
        instruction(code::JUMP, 0, 0, (due.len() + taking.len()) as i16, 0),
    ];
    short.push(instruction(code::JUMP_NOT_BELOW, 3, 2, add.len() as i16, 0));
    short.extend(add);
    short.extend(due);
    let mut text = vec![set(1, 0), store(WAIT + 16, 1)];
    text.extend(load_shared(2, maps, THRESHOLD_AT));
    text.push(instruction(code::JUMP_NOT_BELOW, 7, 2, short.len() as i16, 0));
    text.extend(short);
    text.extend(taking);
    text
}

/// Takes the stack of the thread that runs; it stands for as much waiting as register 7 says.
fn take_stack(maps: Maps) -> Vec<Instruction> {
    let mut taken = Vec::new();
    if let Some(frames) = maps.frames {
        // That loses the registers.
        let registers = [6, 7, 9].into_iter().zip([SAVED, SAVED - 8, SAVED - 16]);
        taken.extend(registers.clone().map(|(register, at)| store(at, register)));
        taken.extend(copy_frames(frames, CopiedAt::Wait, Some(WAIT + 8)));
        taken.extend(registers.map(|(register, at)| load(register, at)));
    }
    taken.push(store(WAIT, 7));
    taken.extend([instruction(code::LOAD_64, 1, 9, HOW, 0), load(2, WAIT + 16)]);
    taken.push(instruction(code::AND, 1, 0, 0, IS_PREEMPTED));
    taken.extend([instruction(code::OR_REGISTER, 1, 2, 0, 0), store(WAIT + 16, 1)]);
    taken.extend(output_stack(maps));
    let mut skipped = vec![copy(2, 7)];
    skipped.extend(count_register(maps, SKIPPED_AT));
    taken.push(instruction(code::JUMP, 0, 0, skipped.len() as i16, 0));
    let mut text = if_left(maps, STACKS_LEFT_AT, &taken);
    text.extend(skipped);
    text
}

/// Has the kernel write the stack of the thread that runs, with what is said of a wait.
fn output_stack(maps: Maps) -> Vec<Instruction> {
    const CURRENT_PROCESSOR: i32 = -1;
    let mut text = count(maps, STACKS_LEFT_AT, -1);
    text.push(copy(1, 6));
    text.extend(map(2, maps.stacks));
    // Without the sign.
    text.push(instruction(code::COPY_NUMBER_32, 3, 0, 0, CURRENT_PROCESSOR));
    text.extend([copy(4, FRAME), add(4, WAIT.into()), set(5, WAIT_BYTES.into())]);
    text.push(call(function::EVENT_OUTPUT));
    let lost = count(maps, LOST_AT, 1);
    text.push(skip_if_zero(lost.len() as i16));
    text.extend(lost);
    text
}

/// Waits are long for this where they took so many times the threshold, as a power of two: who
/// wakes others does so often, and a stack takes its time from whoever waits for it next.
const WAKER_SHIFT: i32 = 3;

/// Takes the stack of a thread that ends a long wait of another, if it is recorded itself.
/// Register 9 leads to what is known of the other, register 8 has process and thread of this one;
/// both stay, and so does register 7, which the table keeps meanwhile.
fn take_waker(maps: Maps) -> Vec<Instruction> {
    let mut taken = vec![store(WAIT, 7), set(1, IS_WAKER), store(WAIT + 16, 1)];
    taken.extend(output_stack(maps));
    let mut known = vec![instruction(code::STORE_32, FRAME, 8, KEY, 0)];
    known.extend(look_up(maps, &if_left(maps, STACKS_LEFT_AT, &taken)));
    // Register 7 has how long the other has waited.
    let mut left = vec![instruction(code::STORE_64, 9, 7, SCRATCH, 0), call(function::TIME)];
    left.extend([store(WAIT + 8, 0), copy(7, 0)]);
    left.push(instruction(code::LOAD_64, 1, 9, LEFT, 0));
    left.push(instruction(code::SUBTRACT_REGISTER, 7, 1, 0, 0));
    left.extend(load_shared(2, maps, THRESHOLD_AT));
    left.push(instruction(code::SHIFT_LEFT, 2, 0, 0, WAKER_SHIFT));
    left.extend(unless_below(7, 2, &known));
    left.push(instruction(code::LOAD_64, 7, 9, SCRATCH, 0));
    let mut text = vec![instruction(code::LOAD_64, 1, 9, LEFT, 0)];
    text.extend(unless_zero(1, &left));
    // Who serves an interrupt ends waits that are none of its business.
    let mut thread = vec![instruction(code::JUMP_BITS, 7, 0, text.len() as i16, IS_INTERRUPT)];
    thread.extend(text);
    thread
}

/// A thread wakes another (the one that is woken).
pub(super) fn waking(maps: Maps) -> Vec<Instruction> {
    let mut found = vec![copy(9, 0), store(RAN, 8), set(7, IS_WAKING)];
    found.extend(interrupt_flag(maps.interrupts));
    found.extend([call(function::PID_TGID), copy(8, 0)]);
    if maps.has_waker_stacks {
        found.extend(take_waker(maps));
    }
    found.extend(write_switch(maps));
    let mut woken = key_of_thread(maps, 0);
    woken.extend(look_up(maps, &if_begun(&found)));
    let mut text = vec![copy(6, 1)];
    text.extend(if_left(maps, SWITCHES_LEFT_AT, &woken));
    text.extend(end());
    text
}

/// Sets the flag in register 7 where an interrupt is served, and where that is not known.
/// Interrupts have a stack of their own, or that of a thread which has made no call of the system.
/// What the tracepoint was given is on the stack, wherever that is; kept in the table for a short
/// time, its address may be calculated with.
fn interrupt_flag(known: Option<StackLayout>) -> Vec<Instruction> {
    const STACK_BYTES: i32 = 16384;
    let flag = instruction(code::OR, 7, 0, 0, IS_INTERRUPT);
    let Some(StackLayout { stack, call: system_call }) = known else { return vec![flag] };
    vec![
        instruction(code::STORE_64, 9, 6, SCRATCH, 0),
        call(function::CURRENT_TASK),
        copy(1, 0),
        call(function::TASK_REGISTERS),
        instruction(code::LOAD_64, 8, 0, system_call, 0),
        call(function::CURRENT_TASK),
        instruction(code::LOAD_64, 1, 0, stack, 0),
        instruction(code::LOAD_64, 2, 9, SCRATCH, 0),
        instruction(code::SUBTRACT_REGISTER, 2, 1, 0, 0),
        instruction(code::JUMP_NEGATIVE, 8, 0, 1, 0),
        instruction(code::JUMP_BELOW, 2, 0, 1, STACK_BYTES),
        flag,
    ]
}

/// Puts a thread into the table: the key on the stack, and the process in register 7.
fn put(maps: Maps) -> Vec<Instruction> {
    let mut text = vec![store(VALUE, 7), set(1, 0)];
    text.extend((1..THREAD_WORDS as i16).map(|word| store(VALUE + 8 * word, 1)));
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
    text.extend(load_shared(1, maps, SINCE_AT));
    text.extend(unless_zero(1, &end()));
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

/// Takes the samples of threads that are recorded, with their frames of Python.
pub(super) fn sampling(maps: Maps) -> Vec<Instruction> {
    let copying = maps.frames.map(|frames| copy_frames(frames, CopiedAt::Sample, None));
    let mut begun = copying.unwrap_or_default();
    begun.extend(end_with(1));
    let mut text = Vec::from(key_of_current());
    text.extend(look_up(maps, &if_begun(&begun)));
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
        let (thread, interrupts) = (ThreadLayout { tid: 1000, ran: 80 }, None);
        let maps = Maps {
            ring: 3,
            threads: 4,
            shared: 5,
            stacks: 6,
            thread,
            interrupts,
            frames: None,
            has_waker_stacks: false,
        };
        let known = Maps {
            interrupts: Some(StackLayout { stack: 32, call: 120 }),
            has_waker_stacks: true,
            ..maps
        };
        let kept = [making(maps), ending(maps), executing(maps)];
        let used = [switching(maps), sampling(maps), choosing(maps), coming(maps)];
        for text in kept.into_iter().chain(used).chain([waking(maps), waking(known)]) {
            let jumps = text.iter().enumerate().filter_map(|(at, one)| Some((at, one.jumps()?)));
            for (at, over) in jumps {
                let to = at as isize + 1 + over;
                assert!((0..text.len() as isize).contains(&to), "from {at} over {over}");
            }
        }
    }
}
