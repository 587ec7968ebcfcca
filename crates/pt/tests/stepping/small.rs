//! A few instructions and packets that lead through them: what fuzzing begins with.

use spanwise_pt::{ExecMode, Ip, Packet, PowerExit, Tnt, Writer};

pub const CODE_AT: u64 = 0x100;

/// A loop that calls a function, leaves by a jump through a register, and a system call.
#[rustfmt::skip]
pub const CODE: [u8; 24] = [
    0xe8, 0x0b, 0x00, 0x00, 0x00, // 100: call 110
    0x75, 0xf9, //                   105: jne 100
    0xff, 0xe0, //                   107: jmp rax
    0x0f, 0x05, //                   109: syscall
    0xeb, 0xf3, //                   10b: jmp 100
    0x90, 0x90, 0x90,
    0x74, 0x02, //                   110: je 114
    0x90, 0x90,
    0xc3, //                         114: ret
    0xff, 0xd0, //                   115: call rax
    0xc3,
];

fn head(writer: &mut Writer, ticks: u64, ip: Option<u64>) {
    writer.packet(Packet::Psb);
    writer.packet(Packet::Tsc(ticks));
    writer.packet(Packet::Tma { ctc: (ticks / 64) as u16, fast: (ticks % 64) as u16 });
    writer.packet(Packet::Cbr(24));
    writer.packet(Packet::ModeExec { mode: ExecMode::Bits64, has_interrupts: true });
    if let Some(ip) = ip {
        let ip = writer.ip(ip);
        writer.packet(Packet::Fup(ip));
    }
    writer.packet(Packet::PsbEnd);
}

fn at(writer: &mut Writer, packet: fn(Ip) -> Packet, ip: u64) {
    let ip = writer.ip(ip);
    writer.packet(packet(ip));
}

fn bits(writer: &mut Writer, text: &str) {
    let bits = text.bytes().fold(0, |bits, bit| bits << 1 | u64::from(bit == b'1'));
    writer.packet(Packet::Tnt(Tnt { bits, count: text.len() as u8 }));
}

/// Streams, each for another sort of packets, through the code at an address.
pub fn streams(base: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut loops = Writer::default();
    head(&mut loops, 1000, None);
    at(&mut loops, Packet::TipPge, base);
    for round in 0..40 {
        bits(&mut loops, "011111");
        bits(&mut loops, "111011111011");
        loops.packet(Packet::Cyc(40 + round));
        if round % 10 == 9 {
            head(&mut loops, 2000 + round * 100, Some(base));
        }
    }
    let mut ends = Writer::default();
    head(&mut ends, 3000, Some(base));
    for target in [base + 0x09, base + 0x15, base + 0x0b] {
        bits(&mut ends, "110");
        at(&mut ends, Packet::Tip, target);
        ends.packet(Packet::Mtc((target - base) as u8));
        if target == base + 0x09 {
            ends.packet(Packet::TipPgd(Ip::ABSENT));
            at(&mut ends, Packet::TipPge, base);
        }
        if target == base + 0x15 {
            at(&mut ends, Packet::Tip, base + 0x10);
            bits(&mut ends, "11");
            at(&mut ends, Packet::Tip, base + 0x05);
            bits(&mut ends, "1");
        }
    }
    let mut events = Writer::default();
    head(&mut events, 4000, Some(base + 0x10));
    events.packet(Packet::Ovf);
    at(&mut events, Packet::Fup, base + 0x05);
    at(&mut events, Packet::Fup, base + 0x05);
    at(&mut events, Packet::Tip, base + 0x10);
    events.packet(Packet::Ptw { payload: 7, is_wide: true, has_ip: false });
    events.packet(Packet::ModeTsx { is_in_transaction: true, is_aborted: false });
    at(&mut events, Packet::Fup, base + 0x10);
    bits(&mut events, "1");
    at(&mut events, Packet::Tip, base + 0x05);
    events.packet(Packet::Exstop { has_ip: false });
    events.packet(Packet::Pwrx(PowerExit { deepest_state: 3, last_state: 1, reasons: 1 }));
    events.packet(Packet::Bbp { kind: 4, is_narrow: true });
    events.packet(Packet::Bip { id: 3, value: 77 });
    events.packet(Packet::Bep { has_ip: false });
    events.packet(Packet::Pip { cr3: 0x5000, is_guest: false });
    head(&mut events, 5000, Some(base + 0x05));
    bits(&mut events, "1");
    let all = [("loops", loops), ("ends", ends), ("events", events)];
    all.map(|(name, writer)| (name, writer.into_bytes())).to_vec()
}

/// Compares a seed with the file of that name, or writes it where `UPDATE` is set.
pub fn check_seed(corpus: &str, name: &str, bytes: &[u8]) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let path = folder.join(corpus).join(format!("seed-{name}"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(folder.join(corpus)).expect("can be written");
        std::fs::write(&path, bytes).expect("can be written");
    }
    let found = std::fs::read(&path).expect("the corpus is there");
    assert!(found == bytes, "{} is not what is made now", path.display());
}
