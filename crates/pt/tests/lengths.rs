//! Every instruction of real programs is as long, and branches as, another disassembler says.

use std::path::Path;
use std::process::Command;

use spanwise_pt::{ExecMode, Kind, decode_instruction};

/// What the name of an instruction says about where the program goes on.
fn kind_of(text: &str) -> Option<Kind> {
    let mut words = text.split_whitespace().filter(|word| {
        !matches!(
            *word,
            "bnd" | "notrack" | "repz" | "repnz" | "rep" | "lock" | "cs" | "ds" | "data16"
        ) && !word.starts_with("rex")
    });
    let (name, operand) = (words.next()?, words.next().unwrap_or(""));
    let is_indirect = operand.starts_with('*');
    Some(match name.trim_end_matches(",pt").trim_end_matches(",pn") {
        "call" | "callq" if is_indirect => Kind::IndirectCall,
        "call" | "callq" => Kind::Call,
        "jmp" | "jmpq" if is_indirect => Kind::IndirectJump,
        "jmp" | "jmpq" => Kind::Jump,
        "ret" | "retq" => Kind::Return,
        "lret" | "lretq" | "rsm" => Kind::FarReturn,
        "syscall" | "sysenter" => Kind::Syscall,
        "sysret" | "sysretq" | "sysretl" | "sysexit" | "sysexitq" => Kind::SyscallReturn,
        "int" | "int3" | "int1" | "icebp" | "into" => Kind::Interrupt,
        "iret" | "iretq" | "iretw" | "uiret" => Kind::InterruptReturn,
        "ljmp" | "rex.W ljmp" | "vmlaunch" | "vmresume" => Kind::FarJump,
        "lcall" | "vmcall" => Kind::FarCall,
        name if name.starts_with('j') || name.starts_with("loop") => Kind::Conditional,
        _ => Kind::Plain,
    })
}

/// Checks each line of a disassembly; returns how many instructions there were.
fn check(path: &Path) -> Option<usize> {
    let output = Command::new("objdump").args(["-d", "-w", "--insn-width=16"]).arg(path).output();
    let output = output.ok().filter(|output| output.status.success())?;
    let (mut count, mut wrong) = (0, Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut parts = line.splitn(3, '\t');
        let (Some(at), Some(hex), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let bytes: Vec<u8> =
            hex.split_whitespace().filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        if text.contains("(bad)") || bytes.len() > 15 || bytes.first() == Some(&0x9b) {
            continue;
        }
        let Some(kind) = kind_of(text) else { continue };
        count += 1;
        let found = decode_instruction(&bytes, ExecMode::Bits64);
        let is_right = found.is_some_and(|found| {
            usize::from(found.len) == bytes.len()
                && found.kind == kind
                && (kind != Kind::Call && kind != Kind::Jump && kind != Kind::Conditional
                    || target_of(at, text).is_none_or(|(at, to)| {
                        (at + bytes.len() as u64).wrapping_add_signed(found.relative) == to
                    }))
        });
        if !is_right && wrong.len() < 10 {
            wrong.push(format!("{line} → {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", path.display(), wrong.join("\n"));
    Some(count)
}

/// Where an instruction stands, and where it leads to.
fn target_of(at: &str, text: &str) -> Option<(u64, u64)> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let to = text.split('<').next()?.split_whitespace().last()?;
    Some((number(at.trim().trim_end_matches(':'))?, number(to)?))
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped must say so")]
fn instructions_are_as_long_as_another_disassembler_says() {
    let mut count = 0;
    for path in ["/usr/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"] {
        match Path::new(path).exists().then(|| check(Path::new(path))).flatten() {
            Some(more) => count += more,
            None => eprintln!("SKIPPED: {path}: no such file, or no objdump"),
        }
    }
    eprintln!("{count} instructions compared");
}
