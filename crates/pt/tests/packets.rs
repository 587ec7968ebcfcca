//! Whatever packets are written, the same are read; whatever bytes are read, reading ends.

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_pt::{
    BadPacket, ExecMode, Ip, IpForm, PSB, Packet, Packets, PowerExit, Tnt, Writer, find_psb,
};

fn ip() -> impl Strategy<Value = Ip> {
    let forms = [
        (IpForm::Absent, 0),
        (IpForm::Low16, 16),
        (IpForm::Low32, 32),
        (IpForm::Low48, 48),
        (IpForm::Extended48, 48),
        (IpForm::Full, 64),
    ];
    (0..forms.len(), any::<u64>()).prop_map(move |(form, bits)| {
        let (form, width) = forms[form];
        let bits = if width == 0 { 0 } else { bits >> (64 - width) };
        Ip { form, bits }
    })
}

/// Packets of the way that a program takes, and of time.
fn flow() -> impl Strategy<Value = Packet> {
    prop_oneof![
        (any::<u64>(), 1..48_u8)
            .prop_map(|(bits, count)| Packet::Tnt(Tnt { bits: bits & ((1 << count) - 1), count })),
        ip().prop_map(Packet::Tip),
        ip().prop_map(Packet::TipPge),
        ip().prop_map(Packet::TipPgd),
        ip().prop_map(Packet::Fup),
        (0..1_u64 << 56).prop_map(Packet::Tsc),
        (any::<u16>(), 0..512_u16).prop_map(|(ctc, fast)| Packet::Tma { ctc, fast }),
        any::<u8>().prop_map(Packet::Mtc),
        (0..64_u32, any::<u64>()).prop_map(|(shift, cycles)| Packet::Cyc(cycles >> shift)),
        any::<u8>().prop_map(Packet::Cbr),
    ]
}

fn state() -> impl Strategy<Value = Packet> {
    prop_oneof![
        Just(Packet::Pad),
        Just(Packet::Psb),
        Just(Packet::PsbEnd),
        Just(Packet::Ovf),
        Just(Packet::Stop),
        (0..3_usize, any::<bool>()).prop_map(|(mode, has_interrupts)| {
            let modes = [ExecMode::Bits64, ExecMode::Bits32, ExecMode::Bits16];
            Packet::ModeExec { mode: modes[mode], has_interrupts }
        }),
        (any::<bool>(), any::<bool>()).prop_map(|(is_in_transaction, is_aborted)| {
            Packet::ModeTsx { is_in_transaction, is_aborted }
        }),
        (0..1_u64 << 47, any::<bool>())
            .prop_map(|(page, is_guest)| Packet::Pip { cr3: page << 5, is_guest }),
        (0..1_u64 << 40).prop_map(|base| Packet::Vmcs(base << 12)),
        any::<u64>().prop_map(Packet::Mnt),
    ]
}

fn rare() -> impl Strategy<Value = Packet> {
    prop_oneof![
        (any::<u64>(), any::<bool>(), any::<bool>()).prop_map(|(payload, is_wide, has_ip)| {
            let payload = if is_wide { payload } else { payload >> 32 };
            Packet::Ptw { payload, is_wide, has_ip }
        }),
        any::<bool>().prop_map(|has_ip| Packet::Exstop { has_ip }),
        (any::<u32>(), any::<u32>())
            .prop_map(|(hints, extensions)| Packet::Mwait { hints, extensions }),
        (0..16_u8, 0..16_u8, any::<bool>()).prop_map(|(state, sub_state, is_by_hardware)| {
            Packet::Pwre { state, sub_state, is_by_hardware }
        }),
        (0..16_u8, 0..16_u8, 0..16_u8).prop_map(|(deepest_state, last_state, reasons)| {
            Packet::Pwrx(PowerExit { deepest_state, last_state, reasons })
        }),
        (0..32_u8, any::<u8>(), any::<bool>()).prop_map(|(kind, vector, has_ip)| Packet::Cfe {
            kind,
            vector,
            has_ip
        }),
        (0..64_u8, any::<u64>()).prop_map(|(kind, payload)| Packet::Evd { kind, payload }),
        (any::<u8>(), any::<bool>(), any::<bool>(), proptest::option::of(any::<u16>())).prop_map(
            |(triggers, is_multiple, has_ip, instructions)| {
                Packet::Trig { triggers, is_multiple, has_ip, instructions }
            }
        ),
    ]
}

/// A block of values, whole.
fn block() -> impl Strategy<Value = Vec<Packet>> {
    let values = vec((0..32_u8, any::<u64>()), 0..4);
    (0..32_u8, any::<bool>(), values, any::<bool>()).prop_map(
        |(kind, is_narrow, values, has_ip)| {
            let values = values.into_iter().map(|(id, value)| {
                let value = if is_narrow { value >> 32 } else { value };
                Packet::Bip { id, value }
            });
            let begin = std::iter::once(Packet::Bbp { kind, is_narrow });
            begin.chain(values).chain([Packet::Bep { has_ip }]).collect()
        },
    )
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let single = prop_oneof![4 => flow(), 2 => state(), 1 => rare()].prop_map(|one| vec![one]);
    vec(prop_oneof![8 => single, 1 => block()], 0..60).prop_map(|parts| parts.concat())
}

fn read(bytes: &[u8]) -> (Vec<Packet>, Option<BadPacket>, usize) {
    let (mut reader, mut found) = (Packets::new(bytes, 0), Vec::new());
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => found.push(packet),
            Ok(None) => return (found, None, reader.offset()),
            Err(bad) => return (found, Some(bad), reader.offset()),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(packets in packets()) {
        let mut writer = Writer::default();
        packets.iter().for_each(|&packet| writer.packet(packet));
        let bytes = writer.into_bytes();
        prop_assert_eq!(read(&bytes), (packets, None, bytes.len()));
    }

    #[test]
    fn a_stream_that_is_cut_gives_what_was_before(packets in packets(), cut in 0..100_usize) {
        let mut writer = Writer::default();
        packets.iter().for_each(|&packet| writer.packet(packet));
        let bytes = writer.into_bytes();
        let len = bytes.len() * cut / 100;
        let (found, bad, at) = read(&bytes[..len]);
        prop_assert!(packets.starts_with(&found));
        prop_assert_eq!(bad, (at < len).then_some(BadPacket::Cut));
    }

    #[test]
    fn any_bytes_are_read_up_to_what_is_bad(bytes in vec(any::<u8>(), 0..300)) {
        let (found, bad, at) = read(&bytes);
        prop_assert_eq!(bad.is_none(), at == bytes.len());
        prop_assert!(found.len() <= at);
    }

    #[test]
    fn the_first_place_to_begin_is_found(
        bytes in vec(prop_oneof![Just(2_u8), Just(0x82), any::<u8>()], 0..300),
        at in 0..300_usize,
        from in 0..300_usize,
    ) {
        let mut bytes = bytes;
        bytes.splice(at.min(bytes.len())..at.min(bytes.len()), PSB);
        let is_psb = |from: usize| bytes.get(from..).is_some_and(|rest| rest.starts_with(&PSB));
        let expected = (from..bytes.len()).find(|&from| is_psb(from) && !is_psb(from + 2));
        prop_assert_eq!(find_psb(&bytes, from), expected);
    }
}
