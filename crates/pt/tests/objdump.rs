//! Instructions begin and end where objdump says, in libraries that every machine has.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use spanwise_pt::{ExecMode, decode_instruction};

/// One line of objdump: the bytes of an instruction, and its text.
fn instruction(line: &str) -> Option<(&str, Vec<u8>, &str)> {
    let mut columns = line.split('\t');
    let address = columns.next()?.trim().strip_suffix(':')?;
    let bytes = columns.next()?.split_whitespace();
    let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<_>>()?;
    Some((address, bytes, columns.next().unwrap_or_default()))
}

/// Whether objdump is sure, and takes a prefix for a part of what follows it.
fn is_whole(text: &str) -> bool {
    const ALONE: [&str; 14] = [
        "lock", "rep", "repz", "repnz", "data16", "addr32", "cs", "ds", "es", "ss", "fs", "gs",
        "bnd", "notrack",
    ];
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_prefix = |word: &&str| ALONE.contains(word) || word.starts_with("rex");
    // Data between functions; makers of processors differ about 16-bit jumps.
    const ODD: [&str; 4] = ["(bad)", ".byte", "jmpw ", "callw "];
    !ODD.iter().any(|odd| text.contains(odd)) && !text.is_empty() && !words.iter().all(is_prefix)
}

#[track_caller]
fn check(path: &str) {
    if !Path::new(path).exists() {
        eprintln!("skipped: no {path}");
        return;
    }
    let Ok(output) = Command::new("objdump").args(["-d", "-w", path]).output() else {
        eprintln!("skipped: no objdump");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut count, mut wrong) = (0, String::new());
    for (address, bytes, text) in text.lines().filter_map(instruction) {
        let is_16_bit = matches!(bytes[..], [0x66, 0x0f, 0x80..=0x8f, ..]);
        if !is_whole(text) || is_16_bit {
            continue;
        }
        count += 1;
        // `fwait` is an instruction of its own, which assemblers write as a part of the next.
        let bytes = if bytes.len() > 1 && bytes[0] == 0x9b { &bytes[1..] } else { &bytes[..] };
        // What follows must not matter.
        let more = [bytes, &[0; 15]].concat();
        let len = decode_instruction(&more, ExecMode::Bits64).map(|found| usize::from(found.len));
        if len != Some(bytes.len()) {
            writeln!(wrong, "{address}: {bytes:02x?} {text}: {len:?}").expect("memory");
        }
    }
    let head: Vec<&str> = wrong.lines().take(20).collect();
    assert!(wrong.is_empty(), "{path}: {} of {count}:\n{}", wrong.lines().count(), head.join("\n"));
    eprintln!("{path}: {count} instructions");
}

#[test]
fn the_libraries_of_c_and_cpp_are_taken_apart_as_by_objdump() {
    check("/lib/x86_64-linux-gnu/libc.so.6");
    check("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
}

/// Files to be named in `OBJDUMP_FILES`, with colons in between.
#[test]
#[ignore = "as many files as somebody wants"]
fn other_files_are_taken_apart_as_by_objdump() {
    std::env::var("OBJDUMP_FILES").unwrap_or_default().split(':').for_each(check);
}
