//! The length of an instruction, and its effect on the control flow.
//!
//! Nothing else of an instruction matters here, so this is a table of lengths and not a
//! disassembler. It follows Intel's opcode maps; bytes that are not an instruction may get a
//! length nevertheless, since the processor never executed them.

use crate::ExecMode;

/// Which instruction is next after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The one that follows in memory.
    Plain,
    /// The target, or the one that follows in memory.
    Conditional,
    /// The target.
    Jump,
    /// The target; a return leads to the one that follows in memory.
    Call,
    /// A jump to an address in a register or in memory.
    IndirectJump,
    /// A call of an address in a register or in memory.
    IndirectCall,
    /// A near return.
    Return,
    /// A system call, into code of another privilege level.
    Syscall,
    /// The return from a system call.
    SyscallReturn,
    /// A software interrupt.
    Interrupt,
    /// The return from an interrupt.
    InterruptReturn,
    /// A far call.
    FarCall,
    /// A far jump.
    FarJump,
    /// A far return.
    FarReturn,
}

impl Kind {
    /// Its target is known only from a packet.
    pub(crate) fn needs_target(self) -> bool {
        !matches!(self, Kind::Plain | Kind::Conditional | Kind::Jump | Kind::Call)
    }
}

/// A decoded instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insn {
    /// Its length in bytes.
    pub len: u8,
    /// Its effect on the control flow.
    pub kind: Kind,
    /// Distance from the next instruction to the target, if the instruction contains it.
    pub relative: i64,
}

/// The maximum length of an instruction.
pub(crate) const LEN_MAX: usize = 15;

/// The instruction at the start of the bytes; `None` if they are too short, or not one.
pub fn decode(bytes: &[u8], mode: ExecMode) -> Option<Insn> {
    let bytes = &bytes[..bytes.len().min(LEN_MAX)];
    let mut state = State { bytes, at: 0, mode, prefixes: Prefixes::default() };
    let opcode = state.prefixes()?;
    let (kind, relative) = match opcode {
        0x0f => state.two_bytes()?,
        0xc4 | 0xc5 | 0x62 if state.is_vector() => state.vector(opcode)?,
        0x8f if state.is_extended() => state.extended()?,
        _ => state.one_byte(opcode)?,
    };
    Some(Insn { len: state.at as u8, kind, relative })
}

#[derive(Debug, Clone, Copy, Default)]
struct Prefixes {
    has_operand_size: bool,
    has_address_size: bool,
    has_f3: bool,
    has_f2: bool,
    is_wide: bool,
}

struct State<'a> {
    bytes: &'a [u8],
    at: usize,
    mode: ExecMode,
    prefixes: Prefixes,
}

type KindAndTarget = Option<(Kind, i64)>;

const PLAIN: (Kind, i64) = (Kind::Plain, 0);

impl State<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.at += len;
        (self.at <= self.bytes.len()).then_some(())
    }

    fn is_64(&self) -> bool {
        self.mode == ExecMode::Bits64
    }

    /// The first byte that is no prefix.
    fn prefixes(&mut self) -> Option<u8> {
        loop {
            let byte = self.next()?;
            match byte {
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 => self.prefixes.is_wide = false,
                0x66 => {
                    self.prefixes.has_operand_size = true;
                    self.prefixes.is_wide = false;
                }
                0x67 => {
                    self.prefixes.has_address_size = true;
                    self.prefixes.is_wide = false;
                }
                0xf2 | 0xf3 => {
                    (self.prefixes.has_f2, self.prefixes.has_f3) = (byte == 0xf2, byte == 0xf3);
                    self.prefixes.is_wide = false;
                }
                // Counts only as the last of them.
                0x40..=0x4f if self.is_64() => self.prefixes.is_wide = byte & 8 != 0,
                _ => return Some(byte),
            }
        }
    }

    /// Bytes of a number that is as wide as operands, but never wider than four.
    fn operand_len(&self) -> usize {
        let is_short = self.prefixes.has_operand_size != (self.mode == ExecMode::Bits16);
        if is_short && !self.prefixes.is_wide { 2 } else { 4 }
    }

    /// In 64-bit mode the distance of a branch has four bytes, whatever the prefixes say.
    fn distance_len(&self) -> usize {
        if self.is_64() { 4 } else { self.operand_len() }
    }

    fn address_len(&self) -> usize {
        match (self.mode, self.prefixes.has_address_size) {
            (ExecMode::Bits64, false) => 8,
            (ExecMode::Bits64, true) | (ExecMode::Bits32, false) | (ExecMode::Bits16, true) => 4,
            (ExecMode::Bits32, true) | (ExecMode::Bits16, false) => 2,
        }
    }

    fn number(&mut self, len: usize) -> Option<i64> {
        let from = self.at;
        self.skip(len)?;
        let bytes = &self.bytes[from..self.at];
        Some(match *bytes {
            [one] => i64::from(one as i8),
            [one, two] => i64::from(i16::from_le_bytes([one, two])),
            [one, two, three, four] => i64::from(i32::from_le_bytes([one, two, three, four])),
            _ => 0,
        })
    }

    /// The byte that names operands, and what of an address follows it.
    fn operands(&mut self) -> Option<u8> {
        let modrm = self.next()?;
        let (form, base) = (modrm >> 6, modrm & 7);
        if form == 3 {
            return Some(modrm);
        }
        if self.address_len() == 2 {
            let len = match (form, base) {
                (0, 6) | (2, _) => 2,
                (1, _) => 1,
                _ => 0,
            };
            return self.skip(len).map(|()| modrm);
        }
        let base = if base == 4 { self.next()? & 7 } else { base };
        let len = match (form, base) {
            (0, 5) | (2, _) => 4,
            (1, _) => 1,
            _ => 0,
        };
        self.skip(len).map(|()| modrm)
    }

    fn operands_and(&mut self, len: usize) -> KindAndTarget {
        self.operands()?;
        self.skip(len).map(|()| PLAIN)
    }

    fn plain(&mut self, len: usize) -> KindAndTarget {
        self.skip(len).map(|()| PLAIN)
    }

    fn direct(&mut self, kind: Kind, len: usize) -> KindAndTarget {
        Some((kind, self.number(len)?))
    }

    fn one_byte(&mut self, opcode: u8) -> KindAndTarget {
        let operand = self.operand_len();
        match opcode {
            0x00..=0x3f => match opcode & 7 {
                0..=3 => self.operands_and(0),
                4 => self.plain(1),
                5 => self.plain(operand),
                _ => Some(PLAIN),
            },
            0x63 | 0x84..=0x8f | 0xc4 | 0xc5 | 0x62 | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe => {
                self.operands_and(0)
            }
            0x68 | 0xa9 => self.plain(operand),
            0x69 | 0x81 => self.operands_and(operand),
            0x6b | 0x80 | 0x82 | 0x83 | 0xc0 | 0xc1 | 0xc6 => self.operands_and(1),
            0xc7 => self.operands_and(operand),
            0x6a | 0xa8 | 0xb0..=0xb7 | 0xd4 | 0xd5 | 0xe4..=0xe7 => self.plain(1),
            0x70..=0x7f | 0xe0..=0xe3 => self.direct(Kind::Conditional, 1),
            0xa0..=0xa3 => self.plain(self.address_len()),
            0xb8..=0xbf => self.plain(if self.prefixes.is_wide { 8 } else { operand }),
            0xc8 => self.plain(3),
            0xf6 => {
                let modrm = self.operands()?;
                self.plain(usize::from(modrm >> 3 & 7 < 2))
            }
            0xf7 => {
                let modrm = self.operands()?;
                self.plain(if modrm >> 3 & 7 < 2 { operand } else { 0 })
            }
            _ => self.branch(opcode),
        }
    }

    /// One byte, and not plain; or plain and alone.
    fn branch(&mut self, opcode: u8) -> KindAndTarget {
        let far = |kind| Some((kind, 0));
        match opcode {
            0xe8 => self.direct(Kind::Call, self.distance_len()),
            0xe9 => self.direct(Kind::Jump, self.distance_len()),
            0xeb => self.direct(Kind::Jump, 1),
            0xc2 => self.skip(2).map(|()| (Kind::Return, 0)),
            0xc3 => far(Kind::Return),
            0xca => self.skip(2).map(|()| (Kind::FarReturn, 0)),
            0xcb => far(Kind::FarReturn),
            0xcc | 0xce | 0xf1 => far(Kind::Interrupt),
            0xcd => self.skip(1).map(|()| (Kind::Interrupt, 0)),
            0xcf => far(Kind::InterruptReturn),
            0x9a => self.skip(2 + self.operand_len()).map(|()| (Kind::FarCall, 0)),
            0xea => self.skip(2 + self.operand_len()).map(|()| (Kind::FarJump, 0)),
            0xff => {
                let kind = match self.operands()? >> 3 & 7 {
                    2 => Kind::IndirectCall,
                    3 => Kind::FarCall,
                    4 => Kind::IndirectJump,
                    5 => Kind::FarJump,
                    _ => Kind::Plain,
                };
                far(kind)
            }
            _ => Some(PLAIN),
        }
    }

    fn two_bytes(&mut self) -> KindAndTarget {
        let opcode = self.next()?;
        match opcode {
            0x05 | 0x34 => Some((Kind::Syscall, 0)),
            0x07 | 0x35 => Some((Kind::SyscallReturn, 0)),
            0xaa => Some((Kind::FarReturn, 0)),
            0x01 => self.system(),
            0x80..=0x8f => self.direct(Kind::Conditional, self.distance_len()),
            0x38 => {
                self.next()?;
                self.operands_and(0)
            }
            0x3a => {
                self.next()?;
                self.operands_and(1)
            }
            // Registers, whatever the form says.
            0x20..=0x23 => self.plain(1),
            // AMD's `extrq` and `insertq` have two numbers.
            0x78 if self.prefixes.has_operand_size || self.prefixes.has_f2 => self.operands_and(2),
            0x06 | 0x08 | 0x09 | 0x0b | 0x0e | 0x30..=0x33 | 0x36 | 0x37 => Some(PLAIN),
            0x77 | 0xa0..=0xa2 | 0xa8 | 0xa9 | 0xc8..=0xcf => Some(PLAIN),
            0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => self.operands_and(1),
            _ => self.operands_and(0),
        }
    }

    /// `0f 01`, which holds a few that leave the program.
    fn system(&mut self) -> KindAndTarget {
        let kind = match (self.operands()?, self.prefixes.has_f3, self.prefixes.has_f2) {
            // Into a guest.
            (0xc2 | 0xc3, false, false) => Kind::FarJump,
            // Out of it.
            (0xc1, false, false) => Kind::FarCall,
            // Back from an event, under the newer rules for them; back from a user's interrupt.
            (0xca, true, _) | (0xca, _, true) | (0xec, true, _) => Kind::InterruptReturn,
            _ => Kind::Plain,
        };
        Some((kind, 0))
    }

    /// Outside of 64-bit mode these bytes are older instructions, which never name two
    /// registers.
    fn is_vector(&self) -> bool {
        self.is_64() || self.bytes.get(self.at).is_some_and(|byte| byte >> 6 == 3)
    }

    /// AMD's XOP: otherwise this byte is `pop`, which names no such map.
    fn is_extended(&self) -> bool {
        self.bytes.get(self.at).is_some_and(|byte| byte & 0x1f >= 8)
    }

    fn extended(&mut self) -> KindAndTarget {
        let map = self.next()? & 0x1f;
        self.skip(2)?;
        match map {
            8 => self.operands_and(1),
            9 => self.operands_and(0),
            10 => self.operands_and(4),
            _ => None,
        }
    }

    fn vector(&mut self, opcode: u8) -> KindAndTarget {
        let map = match opcode {
            0xc5 => {
                self.skip(1)?;
                1
            }
            0xc4 => {
                let map = self.next()? & 0x1f;
                self.skip(1)?;
                map
            }
            _ => {
                let map = self.next()? & 7;
                self.skip(2)?;
                map
            }
        };
        let opcode = self.next()?;
        match (map, opcode) {
            (1, 0x77) => Some(PLAIN),
            (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => self.operands_and(1),
            _ => self.operands_and(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_in(mode: ExecMode, hex: &str, kind: Kind, relative: i64) {
        let bytes: Vec<u8> = hex
            .split(' ')
            .map(|byte| u8::from_str_radix(byte, 16).expect("a test's own bytes"))
            .collect();
        let len = bytes.len() as u8;
        let more = [&bytes[..], &[0x90; 15]].concat();
        assert_eq!(decode(&more, mode), Some(Insn { len, kind, relative }), "{hex}");
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut], mode), None, "{cut} bytes of {hex}");
        }
    }

    #[track_caller]
    fn check(hex: &str, kind: Kind) {
        check_in(ExecMode::Bits64, hex, kind, 0);
    }

    #[test]
    fn branches_are_classified() {
        check_in(ExecMode::Bits64, "e8 01 00 00 00", Kind::Call, 1);
        check_in(ExecMode::Bits64, "66 e9 fb ff ff ff", Kind::Jump, -5);
        check_in(ExecMode::Bits64, "f2 eb fe", Kind::Jump, -2);
        check_in(ExecMode::Bits64, "75 80", Kind::Conditional, -128);
        check_in(ExecMode::Bits64, "e2 f0", Kind::Conditional, -16);
        check_in(ExecMode::Bits64, "0f 84 00 01 00 00", Kind::Conditional, 256);
        check("c3", Kind::Return);
        check("f3 c3", Kind::Return);
        check("c2 08 00", Kind::Return);
        check("ff e0", Kind::IndirectJump);
        check("3e ff e0", Kind::IndirectJump);
        check("ff 25 00 00 00 00", Kind::IndirectJump);
        check("41 ff 54 24 08", Kind::IndirectCall);
        check("ff 1c 24", Kind::FarCall);
        check("48 ff 2c 24", Kind::FarJump);
        check("0f 05", Kind::Syscall);
        check("48 0f 07", Kind::SyscallReturn);
        check("48 cf", Kind::InterruptReturn);
        check("cd 80", Kind::Interrupt);
        check("cc", Kind::Interrupt);
        check("48 cb", Kind::FarReturn);
        check("f3 0f 01 ca", Kind::InterruptReturn);
        check("0f 01 ca", Kind::Plain);
        check("ff 30", Kind::Plain);
    }

    #[test]
    fn lengths_follow_prefixes_and_operands() {
        check("48 b8 01 02 03 04 05 06 07 08", Kind::Plain);
        check("b8 01 02 03 04", Kind::Plain);
        check("66 b8 01 02", Kind::Plain);
        check("66 48 b8 01 02 03 04 05 06 07 08", Kind::Plain);
        check("48 a1 01 02 03 04 05 06 07 08", Kind::Plain);
        check("67 a1 01 02 03 04", Kind::Plain);
        check("f6 c0 01", Kind::Plain);
        check("f6 d0", Kind::Plain);
        check("66 f7 c0 01 02", Kind::Plain);
        check("48 8b 05 01 02 03 04", Kind::Plain);
        check("48 8b 04 25 01 02 03 04", Kind::Plain);
        check("66 2e 0f 1f 84 00 00 00 00 00", Kind::Plain);
        check("c8 01 02 03", Kind::Plain);
        check("0f 20 d8", Kind::Plain);
        check("66 0f 3a 0f c1 08", Kind::Plain);
        check("c5 f8 77", Kind::Plain);
        check("c5 f9 70 c0 1b", Kind::Plain);
        check("c4 e3 7d 39 c1 01", Kind::Plain);
        check("c4 e2 7d 58 05 01 02 03 04", Kind::Plain);
        check("62 f1 7c 48 28 44 24 01", Kind::Plain);
        check("62 f3 7d 48 3f c1 06", Kind::Plain);
        check("62 f5 7c 48 58 c1", Kind::Plain);
        check("8f e8 78 c2 c1 08", Kind::Plain);
        check("8f e9 f8 9b c0", Kind::Plain);
        check("8f ea 78 10 c1 01 02 03 04", Kind::Plain);
        check("8f 40 08", Kind::Plain);
        check("66 0f 78 c0 01 02", Kind::Plain);
    }

    #[test]
    fn older_modes_have_their_own_lengths() {
        check_in(ExecMode::Bits32, "40", Kind::Plain, 0);
        check_in(ExecMode::Bits32, "66 e8 01 00", Kind::Call, 1);
        check_in(ExecMode::Bits32, "c5 03", Kind::Plain, 0);
        check_in(ExecMode::Bits32, "c5 f8 77", Kind::Plain, 0);
        check_in(ExecMode::Bits32, "67 8b 06 01 02", Kind::Plain, 0);
        check_in(ExecMode::Bits32, "ea 01 02 03 04 05 06", Kind::FarJump, 0);
        check_in(ExecMode::Bits16, "e9 01 00", Kind::Jump, 1);
        check_in(ExecMode::Bits16, "8b 46 01", Kind::Plain, 0);
        check_in(ExecMode::Bits16, "66 b8 01 02 03 04", Kind::Plain, 0);
    }

    #[test]
    fn nothing_is_longer_than_fifteen_bytes() {
        assert_eq!(decode(&[0x66; 20], ExecMode::Bits64), None);
        assert_eq!(decode(&[], ExecMode::Bits64), None);
    }
}
