//! Whether a function was left at one of its exits, and what a probe has to fetch to decide that.

use spanwise_symbols::{ExitPlace, JumpBase, JumpMemory, LeaveKind};

/// Parts of a function that an indirect jump is compared with, at most.
pub(super) const INSIDE_MAX: usize = 4;

/// Where the kernel keeps registers of x86-64, by their numbers.
pub(super) const REGISTER_AT: [i16; 16] =
    [80, 88, 96, 40, 152, 32, 104, 112, 72, 64, 56, 48, 24, 16, 8, 0];

/// What the kernel's tracing calls them.
const REGISTER_NAMES: [&str; 16] = [
    "ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

/// What of an exit a probe has to fetch besides whose call it is: in the words of the kernel's
/// tracing; `Err` where it cannot.
pub(crate) fn fetched(exit: &ExitPlace) -> Result<Option<String>, &'static str> {
    let name = |register: u8| REGISTER_NAMES[usize::from(register & 15)];
    Ok(match exit.kind {
        LeaveKind::Return { .. } | LeaveKind::Jump => None,
        LeaveKind::Conditional(_) => Some("%flags".to_owned()),
        LeaveKind::ThroughRegister(register) => Some(format!("%{}", name(register))),
        LeaveKind::ThroughMemory(JumpMemory { index: Some(_), .. }) => {
            return Err("uprobes cannot follow its jump through a table");
        }
        LeaveKind::ThroughMemory(JumpMemory { base, displacement, .. }) => Some(match base {
            JumpBase::Zero => format!("@{displacement:#x}"),
            JumpBase::Register(register) => format!("{displacement:+}(%{})", name(register)),
            JumpBase::NextInstruction => format!("{:+}(%ip)", displacement + i32::from(exit.len)),
        }),
    })
}

/// Whether the function was left at this place, by what was fetched there.
pub(crate) fn is_left(exit: &ExitPlace, ip: u64, fetched: Option<u64>) -> bool {
    match exit.kind {
        LeaveKind::Return { .. } | LeaveKind::Jump => true,
        LeaveKind::Conditional(condition) => fetched.is_some_and(|flags| holds(condition, flags)),
        LeaveKind::ThroughRegister(_) | LeaveKind::ThroughMemory(_) => {
            let Some(target) = fetched else { return false };
            let at = target.wrapping_sub(ip) as i64;
            !exit.inside.iter().any(|&(from, to)| (from..to).contains(&at))
        }
    }
}

/// The bits of the flags that a condition tests; one of the last two also wants the sign to
/// differ from the overflow.
pub(super) const CONDITION_BITS: [u64; 8] = [0x800, 1, 0x40, 0x41, 0x80, 4, 0, 0x40];

/// From this condition on, the sign and the overflow are compared.
pub(super) const FIRST_SIGNED: u8 = 6;

fn holds(condition: u8, flags: u64) -> bool {
    let half = condition >> 1 & 7;
    let mut bits = flags & CONDITION_BITS[usize::from(half)];
    if half >= FIRST_SIGNED {
        bits |= (flags ^ flags >> 4) & 0x80;
    }
    (bits != 0) != (condition & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(kind: LeaveKind, inside: &[(i64, i64)]) -> ExitPlace {
        ExitPlace { offset: 0x1000, len: 6, kind, inside: inside.to_vec() }
    }

    #[test]
    fn conditions_are_those_of_the_processor() {
        let [carry, parity, zero, sign, overflow] = [1, 4, 0x40, 0x80, 0x800];
        let check = |condition: u8, flags, expected: bool| {
            assert_eq!(holds(condition, flags), expected, "{condition} {flags:#x}");
            assert_eq!(holds(condition | 1, flags), !expected, "not {condition} {flags:#x}");
        };
        check(0, overflow, true);
        check(2, carry, true);
        check(4, zero, true);
        check(6, carry, true);
        check(6, zero, true);
        check(6, sign, false);
        check(8, sign, true);
        check(10, parity, true);
        check(12, sign, true);
        check(12, overflow, true);
        check(12, sign | overflow, false);
        check(14, zero | sign | overflow, true);
        check(14, sign | overflow, false);
        check(14, 0, false);
    }

    #[test]
    fn indirect_jumps_leave_where_they_lead_out() {
        let jump = exit(LeaveKind::ThroughRegister(0), &[(-0x20, 0x30), (0x1000, 0x1010)]);
        let check = |to: u64, expected| {
            assert_eq!(is_left(&jump, 0x40_0000, Some(to)), expected, "{to:#x}");
        };
        check(0x40_0000 - 0x20, false);
        check(0x40_0000 - 0x21, true);
        check(0x40_0030, true);
        check(0x40_100f, false);
        check(0, true);
        assert!(!is_left(&jump, 0x40_0000, None));
    }

    #[test]
    fn probes_fetch_what_decides() {
        let check = |kind, expected: Result<Option<&str>, ()>| {
            let found = fetched(&exit(kind, &[])).map_err(drop);
            assert_eq!(found, expected.map(|text| text.map(str::to_owned)), "{kind:?}");
        };
        let memory = |base, index, displacement| {
            LeaveKind::ThroughMemory(JumpMemory { base, index, displacement })
        };
        check(LeaveKind::Return { popped: 8 }, Ok(None));
        check(LeaveKind::Conditional(4), Ok(Some("%flags")));
        check(LeaveKind::ThroughRegister(10), Ok(Some("%r10")));
        check(memory(JumpBase::Register(0), None, 24), Ok(Some("+24(%ax)")));
        check(memory(JumpBase::Register(3), None, -8), Ok(Some("-8(%bx)")));
        check(memory(JumpBase::NextInstruction, None, 0x10), Ok(Some("+22(%ip)")));
        check(memory(JumpBase::Zero, Some((1, 3)), 0), Err(()));
    }
}
