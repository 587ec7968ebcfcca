//! Which instructions lead elsewhere, told from their first bytes.
//!
//! Only those are looked at whose length follows from what they are, so no table of all
//! instructions is needed: whatever is no branch here goes on behind itself.

/// What an instruction does to the flow of a thread, where it does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branch {
    Call,
    Return,
    /// Always taken.
    Jump,
    /// Taken, or not: then the next instruction is so many bytes on.
    Conditional(u64),
    /// A call of the kernel, which comes back behind it, but for a few.
    Syscall(u64),
}

/// Bytes that are enough to see it: the longest instruction has fifteen.
pub(crate) const LOOK_BYTES: usize = 15;

/// The branch that the bytes begin with.
pub(crate) fn branch(bytes: &[u8]) -> Option<Branch> {
    let is_prefix =
        |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let legacy = bytes.iter().take_while(|byte| is_prefix(byte)).count();
    let rex = usize::from(bytes.get(legacy).is_some_and(|byte| byte & 0xf0 == 0x40));
    let before = legacy + rex;
    let after = bytes.get(before..)?;
    let long = |opcode_and_target: u64| before as u64 + opcode_and_target;
    // The middle bits of the byte behind the opcode choose what it does.
    let choice = after.get(1).map(|byte| byte >> 3 & 7);
    match (*after.first()?, choice) {
        (0xe8, _) | (0xff, Some(2 | 3)) => Some(Branch::Call),
        (0xc2 | 0xc3 | 0xca | 0xcb | 0xcf, _) => Some(Branch::Return),
        (0xe9 | 0xeb, _) | (0xff, Some(4 | 5)) => Some(Branch::Jump),
        (0x70..=0x7f | 0xe0..=0xe3, _) => Some(Branch::Conditional(long(2))),
        (0x0f, _) => match after.get(1)? {
            0x80..=0x8f => Some(Branch::Conditional(long(6))),
            0x05 | 0x34 => Some(Branch::Syscall(long(2))),
            _ => None,
        },
        (0xcd, _) => Some(Branch::Syscall(long(2))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_told_from_other_instructions() {
        let check = |bytes: &[u8], expected| assert_eq!(branch(bytes), expected, "{bytes:x?}");
        check(&[0xe8, 1, 0, 0, 0], Some(Branch::Call));
        // Through a register, through memory, with a prefix that means nothing there.
        check(&[0xff, 0xd0], Some(Branch::Call));
        check(&[0x41, 0xff, 0x54, 0x24, 8], Some(Branch::Call));
        check(&[0xf2, 0xff, 0x15, 0, 0, 0, 0], Some(Branch::Call));
        check(&[0xc3], Some(Branch::Return));
        check(&[0xf3, 0xc3], Some(Branch::Return));
        check(&[0xc2, 8, 0], Some(Branch::Return));
        check(&[0xeb, 0xfe], Some(Branch::Jump));
        check(&[0x3e, 0xff, 0xe0], Some(Branch::Jump));
        check(&[0x74, 5], Some(Branch::Conditional(2)));
        check(&[0x2e, 0x74, 5], Some(Branch::Conditional(3)));
        check(&[0x0f, 0x84, 0, 0, 0, 0], Some(Branch::Conditional(6)));
        check(&[0xe2, 0xfe], Some(Branch::Conditional(2)));
        check(&[0x0f, 0x05], Some(Branch::Syscall(2)));
        // inc, push, lea, endbr64, nop, and nothing at all.
        check(&[0xff, 0xc0], None);
        check(&[0xff, 0x35, 0, 0, 0, 0], None);
        check(&[0x48, 0x8d, 0x05, 0, 0, 0, 0], None);
        check(&[0xf3, 0x0f, 0x1e, 0xfa], None);
        check(&[0x0f, 0x1f, 0x44, 0, 0], None);
        check(&[], None);
        check(&[0x66; 15], None);
    }
}
