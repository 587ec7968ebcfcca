//! What the kernel says about its own structures, variables and functions: where a member is, and
//! which number something has.
//!
//! The kernel describes all its types in one file, one behind the other: a name, a kind, and what
//! the kind needs. Types are numbered in that order, from 1.

use std::fs;

const FILE: &str = "/sys/kernel/btf/vmlinux";

/// Where something is in what the kernel keeps of a thread, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadLayout {
    pub(super) tid: i32,
    /// How long it has run in all.
    pub(super) ran: i32,
}

pub(super) fn thread_layout() -> Option<ThreadLayout> {
    let file = fs::read(FILE).ok()?;
    let at = |structure: &[u8], member: &[u8]| member_at(&file, structure, member);
    let ran = at(b"task_struct", b"se")? + at(b"sched_entity", b"sum_exec_runtime")?;
    Some(ThreadLayout { tid: at(b"task_struct", b"pid")?, ran })
}

/// Where the kernel's stack of a thread is said to be, and in the registers at its upper end
/// which call of the system they are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StackLayout {
    pub(super) stack: i16,
    pub(super) call: i16,
}

pub(super) fn stack_layout() -> Option<StackLayout> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let file = fs::read(FILE).ok()?;
    let at =
        |structure: &[u8], member: &[u8]| i16::try_from(member_at(&file, structure, member)?).ok();
    Some(StackLayout { stack: at(b"task_struct", b"stack")?, call: at(b"pt_regs", b"orig_ax")? })
}

/// The number of a function of the kernel.
pub(super) fn function(name: &str) -> Option<u32> {
    let file = fs::read(FILE).ok()?;
    Types::of(&file)?.number_of(kind::FUNCTION, name.as_bytes())
}

mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FUNCTION: u32 = 12;
    pub(super) const FUNCTION_TYPE: u32 = 13;
    pub(super) const VARIABLE: u32 = 14;
    pub(super) const SECTION: u32 = 15;
    pub(super) const TAG: u32 = 17;
    pub(super) const ENUM_64: u32 = 19;
}

const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;

/// The types, and the texts that they name by offset.
struct Types<'a> {
    types: &'a [u8],
    texts: &'a [u8],
}

fn member_at(file: &[u8], structure: &[u8], member: &[u8]) -> Option<i32> {
    Types::of(file)?.find(structure, member)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

impl<'a> Types<'a> {
    fn of(file: &'a [u8]) -> Option<Types<'a>> {
        const MAGIC: [u8; 2] = 0xeb9f_u16.to_ne_bytes();
        if file.get(..2)? != MAGIC {
            return None;
        }
        let part = |at: usize, len: usize| {
            let start = number(file, 4)? as usize + number(file, at)? as usize;
            file.get(start..start.checked_add(number(file, len)? as usize)?)
        };
        Some(Types { types: part(8, 12)?, texts: part(16, 20)? })
    }

    /// The number of the first type of this kind and name.
    fn number_of(&self, wanted: u32, expected: &[u8]) -> Option<u32> {
        let (mut rest, mut id) = (self.types, 1);
        while let (Some(name), Some(info)) = (number(rest, 0), number(rest, 4)) {
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            if kind == wanted && self.is(name, expected) {
                return Some(id);
            }
            rest = rest.get(TYPE_BYTES + bytes_behind(kind, count)..)?;
            id += 1;
        }
        None
    }

    fn find(&self, structure: &[u8], member: &[u8]) -> Option<i32> {
        let mut rest = self.types;
        while let (Some(name), Some(info)) = (number(rest, 0), number(rest, 4)) {
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let behind = rest.get(TYPE_BYTES..)?;
            if kind == kind::STRUCT && self.is(name, structure) {
                let members = behind.get(..count * MEMBER_BYTES)?.chunks_exact(MEMBER_BYTES);
                let mut named =
                    members.filter(|row| number(row, 0).is_some_and(|name| self.is(name, member)));
                // The upper bits are the width of a bit field, where there is one.
                let bits = number(named.next()?, 8)? & 0x00ff_ffff;
                return i32::try_from(bits / 8).ok();
            }
            rest = behind.get(bytes_behind(kind, count)..)?;
        }
        None
    }

    fn is(&self, name: u32, expected: &[u8]) -> bool {
        let text = self.texts.get(name as usize..).and_then(|text| text.strip_prefix(expected));
        text.is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// How much a type needs behind what all of them have.
fn bytes_behind(kind: u32, count: usize) -> usize {
    match kind {
        kind::INT | kind::VARIABLE | kind::TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::SECTION | kind::ENUM_64 => count * 12,
        kind::ENUM | kind::FUNCTION_TYPE => count * 8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An integer, an enumeration of two, and a structure `s` with `a` and `b` after it.
    fn small() -> Vec<u8> {
        let texts = b"\0int\0s\0a\0b\0ab\0";
        let mut types = Vec::new();
        let mut add =
            |words: &[u32]| types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        add(&[1, kind::INT << 24, 4, 32]);
        add(&[0, kind::ENUM << 24 | 2, 4, 7, 0, 9, 1]);
        add(&[5, kind::STRUCT << 24 | 3, 24, 11, 1, 0, 7, 1, 64, 9, 1, 1 << 24 | 96]);
        let header = [24, 0, types.len() as u32, types.len() as u32, texts.len() as u32];
        let mut file = Vec::from(0xeb9f_u16.to_ne_bytes());
        file.extend([1, 0]);
        file.extend(header.iter().flat_map(|word| word.to_ne_bytes()));
        [file, types, texts.to_vec()].concat()
    }

    #[test]
    fn members_are_found_behind_other_types() {
        let check = |structure: &str, member: &str, expected| {
            let found = member_at(&small(), structure.as_bytes(), member.as_bytes());
            assert_eq!(found, expected, "{structure}.{member}");
        };
        check("s", "a", Some(8));
        check("s", "b", Some(12));
        check("s", "ab", Some(0));
        check("s", "int", None);
        check("int", "a", None);
    }

    #[test]
    fn types_are_numbered_from_one() {
        let file = small();
        let types = Types::of(&file).expect("whole");
        let check = |kind, name: &str, expected| {
            assert_eq!(types.number_of(kind, name.as_bytes()), expected, "{name}");
        };
        check(kind::INT, "int", Some(1));
        check(kind::STRUCT, "s", Some(3));
        check(kind::STRUCT, "int", None);
        check(kind::FUNCTION, "s", None);
    }

    #[test]
    fn any_bytes_are_passed_over() {
        let whole = small();
        for end in 0..whole.len() {
            let _ = member_at(&whole[..end], b"s", b"b");
            let _ = Types::of(&whole[..end]).map(|types| types.number_of(kind::FUNCTION, b"s"));
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            let _ = member_at(&damaged, b"s", b"b");
        }
    }
}
