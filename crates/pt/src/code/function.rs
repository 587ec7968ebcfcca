//! The entry and the exits of a function, found by decoding its instructions.
//!
//! Probes there record calls and returns without changing the stack. A breakpoint within an
//! instruction would corrupt the program, so a function with any byte that cannot be decoded with
//! certainty is refused, with the reason.

use std::collections::BTreeSet;

use crate::ExecMode;
use crate::code::certain::{Shape, is_certain, is_taken_by_kernel};
use crate::code::insn::{Insn, Kind, decode};

/// Contiguous code of a function: its main part, or one that the compiler moved elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodePart<'a> {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes.
    pub code: &'a [u8],
}

impl CodePart<'_> {
    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|at| at < self.code.len() as u64)
    }
}

/// The addresses for the probes of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionPlaces {
    /// For the probe of calls: the stack pointer is still that of the first instruction. It may be
    /// one of the exits as well, as in a function that is nothing but a jump.
    pub entry: u64,
    /// For the probes of returns, by address.
    pub exits: Vec<Exit>,
}

/// An instruction that leaves a function, or may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Address of the instruction.
    pub address: u64,
    /// Its length.
    pub len: u8,
    /// How it leaves.
    pub kind: LeaveKind,
}

/// How an instruction leaves its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveKind {
    /// A return.
    Return {
        /// Bytes that it removes from the stack besides the return address.
        popped: u16,
    },
    /// A jump to another function.
    Jump,
    /// A conditional jump to another function; the condition's number in the opcode.
    Conditional(u8),
    /// A jump to the address in the register of this number, unless that is in the function.
    ThroughRegister(u8),
    /// A jump to an address in memory, unless that is in the function.
    ThroughMemory(JumpMemory),
}

/// The operand in memory that contains the target of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JumpMemory {
    /// What the other two are added to.
    pub base: JumpBase,
    /// Number of a register, and by how much it is shifted to the left.
    pub index: Option<(u8, u8)>,
    /// A constant.
    pub displacement: i32,
}

/// The base of an operand in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JumpBase {
    /// None.
    Zero,
    /// A register, by its number.
    Register(u8),
    /// The address of the next instruction.
    NextInstruction,
}

const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];

/// The entry and the exits of a function whose first part starts with its first instruction.
///
/// Go functions start with a check of the stack's size, and restart after growing the stack:
/// their entry is after that check. Fails, with the reason, if the code is not understood.
///
/// ```
/// use spanwise_pt::{CodePart, LeaveKind, function_places};
///
/// // push rbp; nop; pop rbp; ret
/// let part = CodePart { address: 0x1000, code: &[0x55, 0x90, 0x5d, 0xc3] };
/// let places = function_places(&[part], false)?;
/// assert_eq!(places.entry, 0x1000);
/// assert_eq!(places.exits[0].address, 0x1003);
/// assert_eq!(places.exits[0].kind, LeaveKind::Return { popped: 0 });
/// # Ok::<(), String>(())
/// ```
pub fn function_places(parts: &[CodePart<'_>], is_go: bool) -> Result<FunctionPlaces, String> {
    let code = Instructions::of(parts)?;
    code.check_targets()?;
    let mut exits = Vec::new();
    for place in &code.all {
        exits.extend(code.exit(place)?);
    }
    let entry = code.entry(is_go, &exits)?;
    Ok(FunctionPlaces { entry, exits })
}

/// Where a probe notes that the instruction at an address is executed: there, or behind a mark for
/// indirect jumps, which would make the probe slow.
///
/// Fails, with the reason, if no instruction begins there, if the kernel would not execute it
/// correctly under a probe, or if the function is not understood: what can be decoded as an
/// instruction may be data.
pub fn probe_place(parts: &[CodePart<'_>], address: u64) -> Result<u64, String> {
    let code = Instructions::of(parts)?;
    code.check_targets()?;
    let mut around = code.all.iter().skip_while(|one| !one.contains(address));
    let Some(one) = around.next() else {
        return Err(format!("{address:#x} is not in its code"));
    };
    if one.address != address {
        let begins = one.address;
        return Err(format!("it is in the middle of an instruction, which begins at {begins:#x}"));
    }
    let is_fit = |next: &&CodeInsn<'_>| {
        let follows = one.bytes == ENDBR64 && next.address == one.next();
        follows && is_taken_by_kernel(next.bytes) && !code.is_branched_to(next.address)
    };
    match around.next().filter(is_fit) {
        Some(next) => Ok(next.address),
        None if is_taken_by_kernel(one.bytes) => Ok(address),
        None => {
            let (bytes, what) = (one.bytes, "the kernel would not execute it correctly");
            Err(format!("{what} under a probe ({bytes:02x?} at {address:#x})"))
        }
    }
}

/// Whether the kernel executes the first instruction of this code correctly under a probe.
pub fn may_be_probed(code: &[u8]) -> bool {
    let insn = decode(code, ExecMode::Bits64).filter(|&insn| is_certain(code, insn));
    insn.is_some_and(|insn| is_taken_by_kernel(&code[..usize::from(insn.len)]))
}

/// The targets of the jumps in code; `None` if it is not understood.
pub fn jump_targets(part: CodePart<'_>) -> Option<Vec<u64>> {
    let parts = [part];
    let code = Instructions::of(&parts).ok()?;
    let jumps = code.all.iter().filter(|one| one.insn.kind != Kind::Call);
    Some(jumps.filter_map(CodeInsn::target).collect())
}

/// One instruction in its place.
struct CodeInsn<'a> {
    address: u64,
    insn: Insn,
    bytes: &'a [u8],
}

impl CodeInsn<'_> {
    fn next(&self) -> u64 {
        self.address + u64::from(self.insn.len)
    }

    fn contains(&self, address: u64) -> bool {
        (self.address..self.next()).contains(&address)
    }

    /// Where a branch leads to whose target is in the instruction.
    fn target(&self) -> Option<u64> {
        let is_direct = matches!(self.insn.kind, Kind::Conditional | Kind::Jump | Kind::Call);
        is_direct.then(|| self.next().wrapping_add_signed(self.insn.relative))
    }
}

struct Instructions<'a> {
    parts: &'a [CodePart<'a>],
    all: Vec<CodeInsn<'a>>,
    starts: BTreeSet<u64>,
}

impl<'a> Instructions<'a> {
    fn of(parts: &'a [CodePart<'a>]) -> Result<Instructions<'a>, String> {
        let mut all = Vec::new();
        for part in parts {
            let mut at = 0;
            while at < part.code.len() {
                let (address, rest) = (part.address + at as u64, &part.code[at..]);
                let insn = decode(rest, ExecMode::Bits64);
                let Some(insn) = insn.filter(|&insn| is_certain(rest, insn)) else {
                    let head = &rest[..rest.len().min(8)];
                    return Err(format!("no known instruction at {address:#x} ({head:02x?})"));
                };
                all.push(CodeInsn { address, insn, bytes: &rest[..usize::from(insn.len)] });
                at += usize::from(insn.len);
            }
        }
        let starts = all.iter().map(|one| one.address).collect();
        Ok(Instructions { parts, all, starts })
    }

    fn contains(&self, address: u64) -> bool {
        self.parts.iter().any(|part| part.contains(address))
    }

    /// Every branch leads to the beginning of an instruction, or out of the function.
    fn check_targets(&self) -> Result<(), String> {
        for one in &self.all {
            let Some(target) = one.target().filter(|&target| self.contains(target)) else {
                continue;
            };
            if !self.starts.contains(&target) && !self.is_behind_lock(target) {
                let from = one.address;
                return Err(format!("a branch at {from:#x} into the middle of {target:#x}"));
            }
        }
        Ok(())
    }

    /// Where there is one thread only, libraries jump over the prefix `lock`.
    fn is_behind_lock(&self, target: u64) -> bool {
        let before = self.all.binary_search_by_key(&(target - 1), |one| one.address);
        before.is_ok_and(|at| self.all[at].bytes[0] == 0xf0)
    }

    fn is_branched_to(&self, address: u64) -> bool {
        let mut branches = self.all.iter().filter(|one| one.insn.kind != Kind::Call);
        branches.any(|one| one.target() == Some(address))
    }

    fn entry(&self, is_go: bool, exits: &[Exit]) -> Result<u64, String> {
        let Some(first) = self.all.first() else { return Err("it has no code".to_owned()) };
        let mut places = Vec::new();
        if is_go {
            places.extend(self.behind_stack_check());
        }
        if first.bytes == ENDBR64 {
            places.push(first.next());
        }
        if places.is_empty() || first.bytes == ENDBR64 {
            places.push(first.address);
        }
        // A probe cannot distinguish a call from the next round.
        places.retain(|&place| !self.is_branched_to(place));
        let is_exit = |place: &&u64| exits.iter().any(|exit| exit.address == **place);
        let apart = places.iter().find(|place| !is_exit(place));
        let Some(&entry) = apart.or(places.first()) else {
            return Err("its first instruction is the head of a loop".to_owned());
        };
        match self.all.iter().find(|one| one.address == entry) {
            Some(one) if is_taken_by_kernel(one.bytes) => Ok(entry),
            _ => Err(format!("the kernel sets no probe on its first instruction, at {entry:#x}")),
        }
    }

    /// Behind the comparison of the stack pointer with the goroutine's limit, where there is one.
    fn behind_stack_check(&self) -> Option<u64> {
        const COMPARES: [&[u8]; 2] = [&[0x49, 0x3b, 0x66, 0x10], &[0x4d, 0x3b, 0x66, 0x10]];
        // Large frames have the limit worked out first.
        let compare = self.all.iter().take(6).position(|one| COMPARES.contains(&one.bytes))?;
        let is_preparation = |one: &CodeInsn<'_>| {
            let is_carry = one.insn.kind == Kind::Conditional;
            is_carry || matches!(one.bytes, [0x4c, 0x8d, ..] | [0x49, 0x89 | 0x81, ..])
        };
        let branch = self.all.get(compare + 1)?;
        let is_below = matches!(branch.bytes, [0x76, _] | [0x0f, 0x86, ..]);
        let is_check = is_below && self.all[..compare].iter().all(is_preparation);
        is_check.then(|| branch.next())
    }

    fn exit(&self, one: &CodeInsn<'_>) -> Result<Option<Exit>, String> {
        let shape = Shape::of(one.bytes);
        let opcode = &one.bytes[shape.opcode_at..];
        let leaves = one.target().is_some_and(|target| !self.contains(target));
        let kind = match (one.insn.kind, opcode) {
            (Kind::Return, [0xc2, low, high]) => {
                LeaveKind::Return { popped: u16::from_le_bytes([*low, *high]) }
            }
            (Kind::Return, _) => LeaveKind::Return { popped: 0 },
            (Kind::Jump, _) if leaves => LeaveKind::Jump,
            (Kind::Conditional, [0x70..=0x7f, ..]) if leaves => {
                LeaveKind::Conditional(opcode[0] & 15)
            }
            (Kind::Conditional, [0x0f, code, ..]) if leaves => LeaveKind::Conditional(code & 15),
            (Kind::Conditional, _) if leaves => {
                return Err(format!("a loop instruction at {:#x} leaves it", one.address));
            }
            // A table inside of the function.
            (Kind::IndirectJump, _) if shape.has_notrack => return Ok(None),
            (Kind::IndirectJump, _) => indirect(opcode, shape)
                .ok_or_else(|| format!("an unusual indirect jump at {:#x}", one.address))?,
            _ => return Ok(None),
        };
        if !is_taken_by_kernel(one.bytes) {
            return Err(format!("the kernel sets no probe on its exit at {:#x}", one.address));
        }
        Ok(Some(Exit { address: one.address, len: one.insn.len, kind }))
    }
}

/// What an indirect jump goes through.
fn indirect(opcode: &[u8], shape: Shape) -> Option<LeaveKind> {
    let [0xff, modrm, rest @ ..] = opcode else { return None };
    let (form, low) = (modrm >> 6, modrm & 7);
    let extended = |number: u8, bit: u8| number | (shape.rex >> bit & 1) << 3;
    if form == 3 {
        let is_plain = !shape.has_operand_size;
        return is_plain.then_some(LeaveKind::ThroughRegister(extended(low, 0)));
    }
    if shape.has_thread_segment || shape.has_address_size || shape.has_operand_size {
        return None;
    }
    let displacement = |bytes: &[u8], form: u8| match form {
        1 => bytes.first().map(|&byte| i32::from(byte as i8)),
        2 => bytes.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)),
        _ => Some(0),
    };
    let memory = match (low, form) {
        (4, _) => {
            let (&sib, rest) = rest.split_first()?;
            let index = extended(sib >> 3 & 7, 1);
            let (base, form) = match (sib & 7, form) {
                (5, 0) => (JumpBase::Zero, 2),
                (base, form) => (JumpBase::Register(extended(base, 0)), form),
            };
            // The stack pointer is no index.
            let index = (index != 4).then_some((index, sib >> 6));
            JumpMemory { base, index, displacement: displacement(rest, form)? }
        }
        (5, 0) => {
            let (base, displacement) = (JumpBase::NextInstruction, displacement(rest, 2)?);
            JumpMemory { base, index: None, displacement }
        }
        _ => {
            let (base, displacement) =
                (JumpBase::Register(extended(low, 0)), displacement(rest, form)?);
            JumpMemory { base, index: None, displacement }
        }
    };
    Some(LeaveKind::ThroughMemory(memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let hex = hex.split_whitespace();
        hex.map(|byte| u8::from_str_radix(byte, 16).expect("a test's own bytes")).collect()
    }

    /// The code of one part at 0x1000, or of several, with bars in between, 0x1000 apart.
    fn places(hex: &str, is_go: bool) -> Result<FunctionPlaces, String> {
        let parts: Vec<Vec<u8>> = hex.split('|').map(bytes).collect();
        let parts = parts.iter().zip(1_u64..);
        let parts: Vec<CodePart<'_>> =
            parts.map(|(code, at)| CodePart { address: at << 12, code }).collect();
        function_places(&parts, is_go)
    }

    #[track_caller]
    fn check(hex: &str, entry: u64, exits: &[(u64, LeaveKind)]) {
        let found = places(hex, false).expect("it can be watched");
        let kinds: Vec<(u64, LeaveKind)> =
            found.exits.iter().map(|exit| (exit.address, exit.kind)).collect();
        assert_eq!((found.entry, &*kinds), (entry, exits), "{hex}");
    }

    #[track_caller]
    fn check_refused(hex: &str, why: &str) {
        let found = places(hex, false);
        assert!(matches!(&found, Err(said) if said.contains(why)), "{hex}: {found:?}");
    }

    const RETURN: LeaveKind = LeaveKind::Return { popped: 0 };

    #[test]
    fn returns_are_exits() {
        check("55 5d c3", 0x1000, &[(0x1002, RETURN)]);
        check("55 f3 c3 90 f2 c3", 0x1000, &[(0x1001, RETURN), (0x1004, RETURN)]);
        check("55 c2 08 00", 0x1000, &[(0x1001, LeaveKind::Return { popped: 8 })]);
    }

    #[test]
    fn jumps_are_exits_where_they_leave_all_parts() {
        check("55 eb 00 e9 00 10 00 00", 0x1000, &[(0x1003, LeaveKind::Jump)]);
        check("55 74 7f c3", 0x1000, &[(0x1001, LeaveKind::Conditional(4)), (0x1003, RETURN)]);
        check(
            "55 0f 8f 00 10 00 00 c3",
            0x1000,
            &[(0x1001, LeaveKind::Conditional(15)), (0x1007, RETURN)],
        );
        // Into the part that was moved, and back.
        check("55 0f 84 f9 0f 00 00 c3 | 90 e9 01 f0 ff ff", 0x1000, &[(0x1007, RETURN)]);
    }

    #[test]
    fn indirect_jumps_are_known_by_what_they_go_through() {
        let memory = |base, index, displacement| {
            LeaveKind::ThroughMemory(JumpMemory { base, index, displacement })
        };
        let check = |hex: &str, kind| check(&format!("55 {hex}"), 0x1000, &[(0x1001, kind)]);
        check("ff e0", LeaveKind::ThroughRegister(0));
        check("41 ff e3", LeaveKind::ThroughRegister(11));
        check("ff 60 18", memory(JumpBase::Register(0), None, 0x18));
        check("41 ff a4 24 00 01 00 00", memory(JumpBase::Register(12), None, 0x100));
        check("ff 24 c5 78 56 34 12", memory(JumpBase::Zero, Some((0, 3)), 0x1234_5678));
        check("42 ff 24 e8", memory(JumpBase::Register(0), Some((13, 3)), 0));
        check("ff 25 10 00 00 00", memory(JumpBase::NextInstruction, None, 16));
        // A table of the function itself.
        super::tests::check("55 3e ff e0 c3", 0x1000, &[(0x1004, RETURN)]);
    }

    #[test]
    fn calls_are_noted_behind_marks_and_never_at_loops() {
        check("f3 0f 1e fa 55 c3", 0x1004, &[(0x1005, RETURN)]);
        check("f3 0f 1e fa 55 74 fd c3", 0x1000, &[(0x1007, RETURN)]);
        check_refused("55 74 fd c3", "the head of a loop");
        check("f3 0f 1e fa c3", 0x1000, &[(0x1004, RETURN)]);
        // One that calls itself is no loop.
        check("55 e8 fa ff ff ff c3", 0x1000, &[(0x1006, RETURN)]);
    }

    #[test]
    fn one_instruction_may_be_the_entry_and_an_exit() {
        check("c3", 0x1000, &[(0x1000, RETURN)]);
        check("e9 00 10 00 00", 0x1000, &[(0x1000, LeaveKind::Jump)]);
        check("74 7f c3", 0x1000, &[(0x1000, LeaveKind::Conditional(4)), (0x1002, RETURN)]);
        check("ff e0", 0x1000, &[(0x1000, LeaveKind::ThroughRegister(0))]);
        check_refused("f0 48 0f b1 17 c3", "the kernel sets no probe on its first");
        check_refused("c3 74 fd c3", "the head of a loop");
    }

    #[test]
    fn go_is_noted_behind_the_check_of_its_stack() {
        let check = |hex: &str, entry| {
            assert_eq!(places(hex, true).expect("it can be watched").entry, entry, "{hex}");
        };
        check("49 3b 66 10 76 02 55 c3 e8 00 10 00 00 eb f1", 0x1006);
        check("4c 8d 64 24 80 4d 3b 66 10 76 02 55 c3 e8 00 10 00 00 eb ec", 0x100b);
        check("55 c3", 0x1000);
        // Grown stacks begin anew, which is no loop, but without the check it would be.
        check_refused("49 3b 66 11 76 02 55 c3 eb f6", "the head of a loop");
    }

    #[track_caller]
    fn check_place(hex: &str, address: u64, expected: Result<u64, &str>) {
        let found = probe_place(&[CodePart { address: 0x1000, code: &bytes(hex) }], address);
        let is_expected = match (&found, expected) {
            (Ok(found), Ok(expected)) => *found == expected,
            (Err(found), Err(expected)) => found.contains(expected),
            _ => false,
        };
        assert!(is_expected, "{hex}: {found:?}");
    }

    #[test]
    fn probes_are_where_instructions_begin() {
        check_place("55 b8 00 00 00 00 c3", 0x1000, Ok(0x1000));
        check_place("55 b8 00 00 00 00 c3", 0x1001, Ok(0x1001));
        check_place("55 b8 00 00 00 00 c3", 0x1005, Err("begins at 0x1001"));
        check_place("55 c3", 0x1002, Err("not in its code"));
        check_place("55 06 c3", 0x1000, Err("no known instruction"));
        check_place("55 eb 01 b8 00 00 00 00 c3", 0x1000, Err("into the middle"));
    }

    #[test]
    fn probes_pass_over_marks_where_nothing_leads_behind_them() {
        check_place("f3 0f 1e fa 55 c3", 0x1000, Ok(0x1004));
        check_place("f3 0f 1e fa 55 74 fd c3", 0x1000, Ok(0x1000));
        check_place("f3 0f 1e fa 49 90 c3", 0x1000, Ok(0x1000));
        check_place("f3 0f 1e fa", 0x1000, Ok(0x1000));
    }

    #[test]
    fn probes_are_not_where_the_kernel_executes_something_else() {
        for hex in ["49 90 c3", "f0 0f b1 17 c3", "f3 48 ab c3", "0f 05 c3", "cc c3"] {
            check_place(hex, 0x1000, Err("would not execute it correctly under a probe"));
            assert!(!may_be_probed(&bytes(hex)), "{hex}");
        }
        // The flag of single steps would go to memory with the others.
        check_place("9c 58 c3", 0x1000, Err("under a probe ([9c] at 0x1000)"));
        check_place("66 9c 58 c3", 0x1000, Err("under a probe"));
        // The next instruction belongs to it.
        check_place("8e d0 c3", 0x1000, Err("under a probe"));
        check_place("8e d8 c3", 0x1000, Ok(0x1000));
        assert!(may_be_probed(&bytes("31 ed")) && !may_be_probed(&[]));
        // It would end in the kernel's copy.
        check_place("c7 f8 00 00 00 00 c3", 0x1000, Err("under a probe"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        check_refused("55 06 c3", "no known instruction at 0x1001");
        check_refused("55 00 00 c3", "no known instruction");
        check_refused("55 d5 00 c3", "no known instruction");
        check_refused("55 e8 00 00", "no known instruction at 0x1001");
        check_refused("55 eb 01 b8 00 00 00 00 c3", "into the middle of 0x1004");
        check_refused("", "no code");
        check_refused("55 e2 7f c3", "loop instruction");
        check_refused("f0 48 0f b1 17 c3", "the kernel sets no probe on its first");
        check_refused("49 90 c3", "the kernel sets no probe on its first");
        check_refused("f3 48 ab c3", "the kernel sets no probe on its first");
        check("90 c3", 0x1000, &[(0x1001, RETURN)]);
        // Over the prefix `lock`.
        check("55 74 01 f0 0f b1 17 c3", 0x1000, &[(0x1007, RETURN)]);
    }
}
