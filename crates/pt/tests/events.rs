//! Packets that stepping a program cannot bring about: interrupts, transactions, lost packets.

use spanwise_pt::{
    BranchKind, DecodeOptions, Event, EventTime, ExecMode, Image, ImageSwitch, Ip, Loss, Packet,
    Program, Sink, Tnt, Writer, decode,
};

/// At 0x1000: nop; call 0x1010; jne 0x1000; ret. At 0x1010: nop; ret; int3; nop.
/// At 0x1020: syscall; nop; jmp rax. At 0x1030: jmp 0x1030. At 0x1040: int 0x80; nop; ret.
const CODE: [u8; 0x48] = {
    let mut code = [0x90; 0x48];
    (code[1], code[2], code[3], code[4], code[5]) = (0xe8, 0x0a, 0, 0, 0);
    (code[6], code[7], code[8]) = (0x75, 0xf8, 0xc3);
    (code[0x11], code[0x12]) = (0xc3, 0xcc);
    (code[0x20], code[0x21]) = (0x0f, 0x05);
    (code[0x23], code[0x24]) = (0xff, 0xe0);
    (code[0x30], code[0x31]) = (0xeb, 0xfe);
    (code[0x40], code[0x41], code[0x43]) = (0xcd, 0x80, 0xc3);
    code
};

/// A handler of interrupts: nop; iretq.
const HANDLER: [u8; 3] = [0x90, 0x48, 0xcf];
const KERNEL: u64 = 0xffff_ffff_8100_0000;

#[derive(Default)]
struct EventList(Vec<Event>);

impl Sink for EventList {
    fn event(&mut self, _: EventTime, event: Event) {
        self.0.push(event);
    }
}

/// What stands in a test for a packet; addresses are shortened when it is written.
enum Write {
    Plain(Packet),
    At(fn(Ip) -> Packet, u64),
    /// Taken and not taken, from the oldest on.
    Bits(&'static str),
}

use Write::{Bits, Plain};

fn at(packet: fn(Ip) -> Packet, ip: u64) -> Write {
    Write::At(packet, ip)
}

fn bytes(packets: &[Write]) -> Vec<u8> {
    let mut writer = Writer::default();
    for packet in packets {
        match *packet {
            Plain(packet) => writer.packet(packet),
            Write::At(packet, ip) => {
                let ip = writer.ip(ip);
                writer.packet(packet(ip));
            }
            Bits(bits) => {
                let bits: Vec<u64> = bits.bytes().map(|bit| u64::from(bit == b'T')).collect();
                let all = bits.iter().fold(0, |all, bit| all << 1 | bit);
                writer.packet(Packet::Tnt(Tnt { bits: all, count: bits.len() as u8 }));
            }
        }
    }
    writer.into_bytes()
}

fn decoded(packets: &[Write], options: DecodeOptions) -> Vec<Event> {
    let mut image = Image::default();
    image.map(0x1000, &CODE);
    image.map(KERNEL, &HANDLER);
    let program = Program::single(image);
    decode(&program, options, &bytes(packets), EventList::default()).0.0
}

#[track_caller]
fn check(packets: Vec<Write>, expected: &[Event]) {
    let mut all = head(None);
    all.extend(packets);
    assert_eq!(decoded(&all, DecodeOptions::default()), expected);
}

fn head(ip: Option<u64>) -> Vec<Write> {
    let mode = Packet::ModeExec { mode: ExecMode::Bits64, has_interrupts: false };
    let mut packets = vec![Plain(Packet::Psb), Plain(mode)];
    packets.extend(ip.map(|ip| at(Packet::Fup, ip)));
    packets.push(Plain(Packet::PsbEnd));
    packets
}

fn branch(kind: BranchKind, from: u64, to: u64) -> Event {
    Event::Branch { kind, from, to, is_in_transaction: false }
}

const CALL: Event =
    Event::Branch { kind: BranchKind::Call, from: 0x1001, to: 0x1010, is_in_transaction: false };
const BACK: Event =
    Event::Branch { kind: BranchKind::Return, from: 0x1011, to: 0x1006, is_in_transaction: false };

fn pge(ip: u64) -> Write {
    at(Packet::TipPge, ip)
}

fn start(to: u64) -> Event {
    Event::Start { to }
}

#[test]
fn calls_and_returns_are_reported_and_jumps_within_are_not() {
    let bits = Bits("TTTN");
    check(vec![pge(0x1000), bits], &[start(0x1000), CALL, BACK, CALL, BACK]);
    let returns = vec![pge(0x1000), at(Packet::Tip, 0x1006), Bits("N"), at(Packet::Tip, KERNEL)];
    let out = branch(BranchKind::Return, 0x1008, KERNEL);
    check(returns, &[start(0x1000), CALL, BACK, out]);
}

#[test]
fn an_interrupt_leads_to_its_handler_and_back() {
    let packets = vec![
        pge(0x1000),
        at(Packet::Fup, 0x1010),
        at(Packet::Tip, KERNEL),
        at(Packet::Tip, 0x1010),
        Bits("TN"),
    ];
    let there = branch(BranchKind::Interrupt, 0x1010, KERNEL);
    let back = branch(BranchKind::InterruptReturn, KERNEL + 1, 0x1010);
    check(packets, &[start(0x1000), CALL, there, back, BACK]);
    // One that the program asked for, reported behind its instruction.
    let packets = vec![pge(0x1040), at(Packet::Fup, 0x1042), at(Packet::Tip, KERNEL)];
    check(packets, &[start(0x1040), branch(BranchKind::Interrupt, 0x1042, KERNEL)]);
}

#[test]
fn tracing_ends_at_system_calls_events_and_filters() {
    let end = |kind, from, to| Event::End { kind: Some(kind), from, to };
    let packets = vec![pge(0x1020), Plain(Packet::TipPgd(Ip::ABSENT)), pge(0x1022)];
    check(packets, &[start(0x1020), end(BranchKind::Syscall, 0x1020, None), start(0x1022)]);
    let packets = vec![pge(0x1000), at(Packet::Fup, 0x1010), Plain(Packet::TipPgd(Ip::ABSENT))];
    check(packets, &[start(0x1000), CALL, end(BranchKind::Interrupt, 0x1010, None)]);
    let packets = vec![pge(0x1000), at(Packet::TipPgd, 0x1010)];
    check(packets, &[start(0x1000), end(BranchKind::Call, 0x1001, Some(0x1010))]);
    let packets = vec![pge(0x1006), at(Packet::TipPgd, 0x1000)];
    check(packets, &[start(0x1006), end(BranchKind::Jump, 0x1006, Some(0x1000))]);
}

#[test]
fn transactions_are_marked_and_may_be_aborted() {
    let tsx =
        |is_in_transaction, is_aborted| Plain(Packet::ModeTsx { is_in_transaction, is_aborted });
    let packets = vec![
        pge(0x1000),
        tsx(true, false),
        at(Packet::Fup, 0x1001),
        Bits("T"),
        tsx(false, true),
        at(Packet::Fup, 0x1006),
        at(Packet::Tip, 0x1008),
    ];
    let inside = |event| match event {
        Event::Branch { kind, from, to, .. } => {
            Event::Branch { kind, from, to, is_in_transaction: true }
        }
        other => other,
    };
    let abort = branch(BranchKind::TransactionAbort, 0x1006, 0x1008);
    check(packets, &[start(0x1000), inside(CALL), inside(BACK), abort]);
}

#[test]
fn what_the_program_writes_changes_nothing() {
    let written = Packet::Ptw { payload: 7, is_wide: false, has_ip: true };
    let packets =
        vec![pge(0x1000), Plain(written), at(Packet::Fup, 0x1001), at(Packet::Tip, 0x1006)];
    check(packets, &[start(0x1000), Event::Written(7), CALL, BACK]);
}

#[test]
fn targets_may_come_after_the_bits_behind_them() {
    let options = DecodeOptions { has_all_returns: true, ..DecodeOptions::default() };
    let mut packets = head(None);
    packets.extend([
        pge(0x1000),
        Bits("TN"),
        at(Packet::Tip, 0x1006),
        Plain(Packet::Pad),
        Plain(Packet::Mtc(3)),
        at(Packet::Tip, 0x1006),
    ]);
    assert_eq!(decoded(&packets, options), [start(0x1000), CALL, BACK, CALL, BACK]);
}

#[test]
fn what_is_lost_is_reported_and_decoding_goes_on() {
    let lost = |lost| Event::Loss(lost);
    let ovf = || Plain(Packet::Ovf);
    let packets = vec![pge(0x1000), ovf(), at(Packet::Fup, 0x1010), at(Packet::Tip, 0x1006)];
    check(packets, &[start(0x1000), lost(Loss::Overflow), start(0x1010), BACK]);
    let packets = vec![pge(0x1000), ovf(), pge(0x1022)];
    check(packets, &[start(0x1000), lost(Loss::Overflow), start(0x1022)]);
    // A return from a call that was not seen.
    let packets = vec![pge(0x1010), Bits("T"), Bits("TTN"), at(Packet::Tip, 0x1000)];
    let expected = [start(0x1010), lost(Loss::NoReturnAddress(0x1011)), start(0x1000)];
    check(packets, &expected);
    let packets = vec![pge(0x1000), Bits("N"), pge(0x1022)];
    check(packets, &[start(0x1000), CALL, lost(Loss::Mismatch(0x1011)), start(0x1022)]);
    let packets = vec![pge(0x5000), Bits("N"), at(Packet::Tip, 0x1010), at(Packet::Tip, 0x1006)];
    check(packets, &[start(0x5000), lost(Loss::NoCode(0x5000)), start(0x1010), BACK]);
    let packets = vec![pge(0x1030), Bits("N"), pge(0x1022)];
    check(packets, &[start(0x1030), lost(Loss::EndlessLoop(0x1030)), start(0x1022)]);
}

#[test]
fn decoding_begins_in_the_middle() {
    let mut packets = head(Some(0x1010));
    packets.push(at(Packet::Tip, 0x1006));
    let all = decoded(&packets, DecodeOptions::default());
    assert_eq!(all, [start(0x1010), BACK]);
    // A place to begin says nothing new to one who came there, and nothing of calls before.
    packets.extend(head(Some(0x1006)));
    packets.push(Bits("N"));
    assert_eq!(decoded(&packets, DecodeOptions::default()), [start(0x1010), BACK]);
    packets.push(Bits("T"));
    let lost = Event::Loss(Loss::NoReturnAddress(0x1008));
    assert_eq!(decoded(&packets, DecodeOptions::default()), [start(0x1010), BACK, lost]);
}

#[test]
fn other_modes_have_other_instructions() {
    // In 32-bit mode 0x48 is an instruction by itself, so `48 cf` is two.
    let mode = Packet::ModeExec { mode: ExecMode::Bits32, has_interrupts: false };
    let packets = vec![Plain(mode), pge(KERNEL & 0xffff_ffff), at(Packet::Tip, 0x1000)];
    let mut image = Image::default();
    image.map(KERNEL & 0xffff_ffff, &HANDLER);
    let program = Program::single(image);
    let mut all = head(None);
    all.extend(packets);
    let (found, _) = decode(&program, DecodeOptions::default(), &bytes(&all), EventList::default());
    let back = branch(BranchKind::InterruptReturn, 0x8100_0002, 0x1000);
    assert_eq!(found.0, [start(0x8100_0000), back]);
}

#[test]
fn code_changes_with_time() {
    let (mut before, mut after) = (Image::default(), Image::default());
    before.map(0x1000, &[0xff, 0xe0]);
    after.map(0x1000, &[0x90, 0xff, 0xd0]);
    let switches = vec![ImageSwitch { since: 0, image: 0 }, ImageSwitch { since: 500, image: 1 }];
    let program = Program::new(vec![before, after], switches);
    let time = |ticks| Plain(Packet::Tsc(ticks));
    let mut all = head(None);
    all.extend([time(499), pge(0x1000), at(Packet::Tip, 0x9000), time(500)]);
    all.extend([Plain(Packet::Ovf), at(Packet::Fup, 0x1000), at(Packet::Tip, 0x1000)]);
    let (found, _) = decode(&program, DecodeOptions::default(), &bytes(&all), EventList::default());
    let expected = [
        start(0x1000),
        branch(BranchKind::Jump, 0x1000, 0x9000),
        Event::Loss(Loss::Overflow),
        start(0x1000),
        branch(BranchKind::Call, 0x1001, 0x1000),
    ];
    assert_eq!(found.0, expected);
}
