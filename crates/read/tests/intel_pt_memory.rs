//! A recording of Intel PT that stands for more calls than there is memory for.
//!
//! In a program of its own: the limit belongs to the process.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../../pt/tests/stepping/mod.rs"]
mod stepping;

use std::path::Path;

use spanwise_pt::{ExecMode, Packet, Tnt, Writer};
use spanwise_read::{OpenOptions, ReadErrorKind, set_memory_max};
use stepping::perf_data::{AuxSource, File, PiecePlace};
use stepping::record::FIRST_TICK;
use stepping::small::{CODE, CODE_AT};
use stepping::{Code, RecorderOptions};

/// One branch that is taken or not each bit; three of them are a call and its return.
const BITS: &[u8] = b"011";

/// Where in the code the function begins that the rest calls.
const CALLED: usize = 0x10;

const NOP: u8 = 0x90;

const HEADER_BYTES: usize = 64;

const TRACE_BYTES: usize = 4 << 20;
const MEMORY_MAX: u64 = 200 << 20;

/// Of an executable for x86-64 without segments and sections: code is taken from ELF files only.
fn elf_header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    let halves = [(16, 2), (18, 62), (20, 1), (52, 64), (54, 56), (58, 64)];
    halves.iter().for_each(|&(at, value)| header[at] = value);
    header
}

fn packets() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.packet(Packet::Psb);
    writer.packet(Packet::Tsc(FIRST_TICK));
    writer.packet(Packet::Tma { ctc: 0, fast: 0 });
    writer.packet(Packet::Cbr(24));
    writer.packet(Packet::ModeExec { mode: ExecMode::Bits64, has_interrupts: true });
    writer.packet(Packet::PsbEnd);
    let ip = writer.ip(CODE_AT);
    writer.packet(Packet::TipPge(ip));
    let bits = BITS.repeat(2).iter().fold(0, |bits, bit| bits << 1 | u64::from(bit - b'0'));
    let mut once = Writer::default();
    once.packet(Packet::Tnt(Tnt { bits, count: 6 }));
    let once = once.into_bytes();
    [writer.into_bytes(), once.repeat(TRACE_BYTES / once.len())].concat()
}

#[test]
fn branches_without_end_are_an_error_that_names_the_limit() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pt-memory");
    std::fs::create_dir_all(&folder).expect("writable");
    let code = folder.join("code");
    let bytes = [&elf_header()[..], &CODE, &[NOP; 64]].concat();
    std::fs::write(&code, &bytes).expect("writable");
    let mut file = File::default();
    file.info(AuxSource::OfThreads);
    file.named(5, 5, "small");
    // The function that is called has a mapping of its own: no symbol says that it is another.
    let called = HEADER_BYTES + CALLED;
    for (from, to) in [(HEADER_BYTES, called), (called, bytes.len())] {
        let (start, file_offset) = (CODE_AT + (from - HEADER_BYTES) as u64, from as u64);
        let path = code.to_str().expect("a path of ours").to_owned();
        file.mapped(5, &Code { start, bytes: bytes[from..to].to_vec(), file: path, file_offset });
    }
    file.started(5, 5);
    file.piece(5, PiecePlace { queue: 0, tid: 5, cpu: -1, offset: 0 }, &packets(), 0);
    let recording = folder.join("perf.data");
    std::fs::write(
        &recording,
        file.finish(&RecorderOptions { shortens_returns: true, ..RecorderOptions::default() }),
    )
    .expect("writable");
    set_memory_max(MEMORY_MAX);
    let error = spanwise_read::open(&recording, &OpenOptions::default()).expect_err("a limit");
    assert!(matches!(error.kind, ReadErrorKind::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
}
