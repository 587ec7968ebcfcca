//! Whether bytes are certainly an instruction that compilers write for 64-bit programs.
//!
//! [`crate::decode_instruction`] gives a length to anything that a processor may have executed.
//! A breakpoint must never be set by such a guess: code that holds data, or instructions that are
//! newer than this table, is refused as a whole.

use crate::code::insn::Insn;

/// What stands before the opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    pub(crate) rex: u8,
    pub(crate) opcode_at: usize,
    pub(crate) has_operand_size: bool,
    pub(crate) has_address_size: bool,
    pub(crate) has_lock: bool,
    /// `3e`, which on an indirect jump says that it is one of a table inside of the function.
    pub(crate) has_notrack: bool,
    pub(crate) has_thread_segment: bool,
    pub(crate) has_other_segment: bool,
    pub(crate) repeat: u8,
}

impl Shape {
    pub(crate) fn of(bytes: &[u8]) -> Shape {
        let mut shape = Shape::default();
        for (at, &byte) in bytes.iter().enumerate() {
            shape.opcode_at = at;
            match byte {
                0x26 | 0x2e | 0x36 => shape.has_other_segment = true,
                0x3e => shape.has_notrack = true,
                0x64 | 0x65 => shape.has_thread_segment = true,
                0x66 => shape.has_operand_size = true,
                0x67 => shape.has_address_size = true,
                0xf0 => shape.has_lock = true,
                0xf2 | 0xf3 => shape.repeat = byte,
                0x40..=0x4f => {
                    // Nothing but the opcode may follow it.
                    shape.rex = byte;
                    shape.opcode_at = at + 1;
                    break;
                }
                _ => break,
            }
        }
        shape
    }
}

/// Whether these bytes, of the length that they decode to, can be nothing else.
pub(crate) fn is_certain(bytes: &[u8], insn: Insn) -> bool {
    let Some(bytes) = bytes.get(..usize::from(insn.len)) else { return false };
    let shape = Shape::of(bytes);
    let Some((&opcode, rest)) = bytes.get(shape.opcode_at..).and_then(<[u8]>::split_first) else {
        return false;
    };
    match opcode {
        0x0f => is_certain_two_bytes(rest, shape),
        0xc4 | 0xc5 => is_certain_vex(opcode, rest, shape),
        0x62 => is_certain_evex(rest, shape),
        0x8f => rest.first().is_some_and(|next| next & 0x38 == 0 || next & 0x1f >= 8),
        _ => is_certain_one_byte(opcode, rest, shape),
    }
}

fn extension(rest: &[u8]) -> Option<u8> {
    rest.first().map(|modrm| modrm >> 3 & 7)
}

fn is_certain_one_byte(opcode: u8, rest: &[u8], shape: Shape) -> bool {
    match opcode {
        // None in 64-bit mode; `d5` begins newer instructions that this table lacks.
        0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f => false,
        0x40..=0x4f | 0x60 | 0x61 | 0x82 | 0x9a | 0xce | 0xd4..=0xd6 | 0xea => false,
        // Of the kernel alone.
        0x6c..=0x6f | 0xe4..=0xe7 | 0xec..=0xef | 0xf1 | 0xfa | 0xfb => false,
        // Far returns: nobody knows where to.
        0xca | 0xcb | 0xcf => false,
        // Zeros, which are rather data.
        0x00 => rest.first() != Some(&0),
        // Makers of processors do not agree on the length.
        0xe8 | 0xe9 if shape.has_operand_size && shape.rex & 8 == 0 => false,
        0xc6 | 0xc7 => extension(rest) == Some(0) || rest.first() == Some(&0xf8),
        0xfe => extension(rest).is_some_and(|extension| extension < 2),
        0xff => extension(rest).is_some_and(|extension| matches!(extension, 0..=2 | 4 | 6)),
        _ => true,
    }
}

fn is_certain_two_bytes(rest: &[u8], shape: Shape) -> bool {
    let Some((&opcode, rest)) = rest.split_first() else { return false };
    match opcode {
        0x00 | 0x04 | 0x06..=0x0a | 0x0c | 0x0e | 0x0f | 0x20..=0x27 | 0x30 | 0x32 => false,
        0x34..=0x37 | 0x39 | 0x3b..=0x3f | 0x7a | 0x7b | 0xa6 | 0xa7 | 0xaa => false,
        0x78 | 0x79 => shape.has_operand_size || shape.repeat == 0xf2,
        0xb8 => shape.repeat == 0xf3,
        0xba => extension(rest).is_some_and(|extension| extension >= 4),
        0x80..=0x8f => !shape.has_operand_size,
        _ => true,
    }
}

/// No other prefix may stand before it.
fn has_only_address_prefixes(shape: Shape) -> bool {
    shape.rex == 0 && !shape.has_operand_size && shape.repeat == 0 && !shape.has_lock
}

fn is_certain_vex(opcode: u8, rest: &[u8], shape: Shape) -> bool {
    let map = if opcode == 0xc5 { 1 } else { rest.first().map_or(0, |byte| byte & 0x1f) };
    has_only_address_prefixes(shape) && (1..=3).contains(&map)
}

fn is_certain_evex(rest: &[u8], shape: Shape) -> bool {
    let [first, second, ..] = rest else { return false };
    let map = first & 7;
    has_only_address_prefixes(shape)
        && matches!(map, 1..=3 | 5 | 6)
        && first & 8 == 0
        && second & 4 != 0
}

/// Whether the kernel sets a breakpoint on such an instruction, and then executes it rightly. It
/// checks only once the file is mapped, and then says nothing: a place that it does not take has to
/// be known before.
pub(crate) fn is_taken_by_kernel(bytes: &[u8]) -> bool {
    let shape = Shape::of(bytes);
    if shape.has_lock || shape.has_notrack || shape.has_other_segment {
        return false;
    }
    let code = bytes.get(shape.opcode_at..).unwrap_or_default();
    match code {
        // `xchg %r8,%rax`: the kernel takes it for `nop`, and the program would go on with wrong
        // values. Go's write barriers begin so.
        [0x90, ..] if shape.rex & 1 == 1 => false,
        // Repeated instructions are executed one round at a time, each with a hit.
        [0xa4..=0xa7 | 0xaa..=0xaf, ..] if shape.repeat != 0 => false,
        // Flags would be stored with that of single steps, and restoring them ends the program.
        [0x9c, ..] => false,
        // No step ends behind what sets the stack's segment.
        [0x8e, modrm, ..] if modrm >> 3 & 7 == 2 => false,
        // `xbegin`: where a transaction is aborted, it goes on relative to the kernel's copy.
        [0xc7, 0xf8, ..] => false,
        [0x0f, 0x00..=0x0c | 0x0e | 0x0f | 0x20..=0x27 | 0x30..=0x37, ..] => false,
        [0x62 | 0x6c..=0x6f | 0xcc..=0xcf | 0xf1 | 0xf4 | 0xfa | 0xfb, ..] => false,
        [_, ..] => true,
        [] => false,
    }
}
