//! Reads packets from bytes.
//!
//! This does not depend on the program, so only the bytes can be wrong: unknown ones are an error
//! with an offset, and reading can resume at the next [`PSB`].

use crate::packets::packet::PowerExit;
use crate::{ExecMode, Ip, IpForm, Packet, Tnt};

/// The bytes of the packet at which decoding can start.
pub const PSB: [u8; 16] = [
    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, //
    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
];

/// Why bytes are not a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadPacket {
    /// They end within the packet.
    Cut,
    /// No packet starts like this.
    Unknown,
}

/// Reads the packets of a byte slice, one after the other.
#[derive(Debug, Clone)]
pub struct Packets<'a> {
    bytes: &'a [u8],
    at: usize,
    /// In a block of values, the size of each. Only there do these first bytes mean values.
    value_len: Option<u8>,
}

impl<'a> Packets<'a> {
    /// Starts at offset `at`, where a packet should start.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Packets { bytes, at: at.min(bytes.len()), value_len: None }
    }

    /// Offset of the next packet.
    #[inline]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next packet; `None` at the end. After an error the offset is that of the bad bytes.
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<Packet>, BadPacket> {
        let Some(&first) = self.bytes.get(self.at) else { return Ok(None) };
        let (packet, len) = match first {
            0x00 => (Packet::Pad, 1),
            0x02 => extended(&self.bytes[self.at..])?,
            _ if first & 0x07 == 0x04 && self.value_len.is_some() => self.value(first)?,
            _ if first & 1 == 0 => (Packet::Tnt(short_tnt(first)), 1),
            _ if first & 3 == 3 => cycles(&self.bytes[self.at..])?,
            _ => plain(first, &self.bytes[self.at..])?,
        };
        self.at += len;
        if self.value_len.is_some() || matches!(packet, Packet::Bbp { .. }) {
            self.follow_block(&packet);
        }
        Ok(Some(packet))
    }

    /// The next packet, if it is one of few branches: the shortest and the most frequent.
    #[inline]
    pub(crate) fn next_bits(&mut self) -> Option<Tnt> {
        let &first = self.bytes.get(self.at)?;
        let is_bits = first & 1 == 0 && first > 2 && self.value_len.is_none();
        is_bits.then(|| {
            self.at += 1;
            short_tnt(first)
        })
    }

    fn value(&self, first: u8) -> Result<(Packet, usize), BadPacket> {
        let len = usize::from(self.value_len.unwrap_or(8));
        let value = number(&self.bytes[self.at..], 1, len)?;
        Ok((Packet::Bip { id: first >> 3, value }, 1 + len))
    }

    /// Blocks end with `Bep`, or with any packet that cannot be inside one.
    #[cold]
    fn follow_block(&mut self, packet: &Packet) {
        self.value_len = match packet {
            Packet::Bbp { is_narrow, .. } => Some(if *is_narrow { 4 } else { 8 }),
            Packet::Bip { .. }
            | Packet::Pad
            | Packet::Tsc(_)
            | Packet::Tma { .. }
            | Packet::Mtc(_)
            | Packet::Cyc(_)
            | Packet::Cbr(_)
            | Packet::Fup(_)
            | Packet::Mnt(_)
            | Packet::Exstop { .. }
            | Packet::Pwre { .. }
            | Packet::Pwrx(_) => self.value_len,
            _ => None,
        };
    }
}

/// Offset of the next [`PSB`] from `from` on. If the preceding bytes happen to continue its
/// pattern, so that there are several candidates, it is the last.
pub fn find_psb(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(window) = bytes.get(at..).and_then(|rest| rest.get(..PSB.len())) {
        if window == PSB {
            let more = bytes[at + PSB.len()..].chunks(2).take_while(|pair| *pair == &PSB[..2]);
            return Some(at + 2 * more.count());
        }
        // It holds no other bytes than these two, so it cannot begin before a third.
        at += match window.iter().rposition(|byte| !matches!(byte, 0x02 | 0x82)) {
            Some(foreign) => foreign + 1,
            None => 1,
        };
    }
    None
}

/// `len` bytes at `from`, the lowest first.
#[inline]
fn number(bytes: &[u8], from: usize, len: usize) -> Result<u64, BadPacket> {
    // At once, where there are eight.
    if let Some(word) = bytes.get(from..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        return Ok(if len < 8 { word & ((1 << (8 * len)) - 1) } else { word });
    }
    let bytes = bytes.get(from..from + len).ok_or(BadPacket::Cut)?;
    Ok(bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

#[inline]
fn short_tnt(byte: u8) -> Tnt {
    // The highest bit that is set only says where the others begin.
    let count = 6 - byte.leading_zeros() as u8;
    Tnt { bits: u64::from(byte >> 1) & !(1 << count), count }
}

fn long_tnt(payload: u64) -> Result<Tnt, BadPacket> {
    let count = payload.checked_ilog2().ok_or(BadPacket::Unknown)? as u8;
    Ok(Tnt { bits: payload & !(1 << count), count })
}

fn cycles(bytes: &[u8]) -> Result<(Packet, usize), BadPacket> {
    let mut value = u64::from(bytes[0] >> 3);
    let (mut has_more, mut len, mut shift) = (bytes[0] & 4 != 0, 1, 5);
    while has_more {
        let byte = *bytes.get(len).ok_or(BadPacket::Cut)?;
        let part = u64::from(byte >> 1);
        if shift > 63 || part << shift >> shift != part {
            return Err(BadPacket::Unknown);
        }
        value |= part << shift;
        (has_more, len, shift) = (byte & 1 != 0, len + 1, shift + 7);
    }
    Ok((Packet::Cyc(value), len))
}

/// Packets of one first byte: addresses, times, modes.
#[inline]
fn plain(first: u8, bytes: &[u8]) -> Result<(Packet, usize), BadPacket> {
    let packet: fn(Ip) -> Packet = match first & 0x1f {
        0x0d => Packet::Tip,
        0x11 => Packet::TipPge,
        0x01 => Packet::TipPgd,
        0x1d => Packet::Fup,
        _ => return timed(first, bytes),
    };
    let form = IpForm::from_bits(first >> 5).ok_or(BadPacket::Unknown)?;
    let bits = number(bytes, 1, form.len())?;
    Ok((packet(Ip { form, bits }), 1 + form.len()))
}

fn timed(first: u8, bytes: &[u8]) -> Result<(Packet, usize), BadPacket> {
    Ok(match first {
        0x19 => (Packet::Tsc(number(bytes, 1, 7)?), 8),
        0x59 => (Packet::Mtc(number(bytes, 1, 1)? as u8), 2),
        0x99 => (mode(number(bytes, 1, 1)? as u8)?, 2),
        0xd9 => trigger(bytes)?,
        _ => return Err(BadPacket::Unknown),
    })
}

fn mode(byte: u8) -> Result<Packet, BadPacket> {
    Ok(match byte >> 5 {
        0 => {
            let mode = match byte & 3 {
                1 => ExecMode::Bits64,
                2 => ExecMode::Bits32,
                0 => ExecMode::Bits16,
                _ => return Err(BadPacket::Unknown),
            };
            Packet::ModeExec { mode, has_interrupts: byte & 4 != 0 }
        }
        1 => Packet::ModeTsx { is_in_transaction: byte & 1 != 0, is_aborted: byte & 2 != 0 },
        _ => return Err(BadPacket::Unknown),
    })
}

fn trigger(bytes: &[u8]) -> Result<(Packet, usize), BadPacket> {
    let (flags, triggers) = (number(bytes, 1, 1)? as u8, number(bytes, 2, 1)? as u8);
    let (instructions, len) = match flags & 0x40 != 0 {
        true => (Some(number(bytes, 3, 2)? as u16), 5),
        false => (None, 3),
    };
    let (is_multiple, has_ip) = (flags & 0x20 != 0, flags & 0x80 != 0);
    Ok((Packet::Trig { triggers, is_multiple, has_ip, instructions }, len))
}

/// Packets of two first bytes, of which the first is 2.
fn extended(bytes: &[u8]) -> Result<(Packet, usize), BadPacket> {
    let second = *bytes.get(1).ok_or(BadPacket::Cut)?;
    Ok(match second {
        0xa3 => (Packet::Tnt(long_tnt(number(bytes, 2, 6)?)?), 8),
        0x82 => match bytes.get(..PSB.len()) {
            Some(whole) if whole == PSB => (Packet::Psb, PSB.len()),
            None if PSB.starts_with(bytes) => return Err(BadPacket::Cut),
            _ => return Err(BadPacket::Unknown),
        },
        0x23 => (Packet::PsbEnd, 2),
        0xf3 => (Packet::Ovf, 2),
        0x83 => (Packet::Stop, 2),
        0x03 => (Packet::Cbr(number(bytes, 2, 2)? as u8), 4),
        0x73 => {
            let (ctc, fast) = (number(bytes, 2, 2)? as u16, number(bytes, 5, 2)? as u16);
            (Packet::Tma { ctc, fast: fast & 0x1ff }, 7)
        }
        0x43 => {
            let value = number(bytes, 2, 6)?;
            (Packet::Pip { cr3: value >> 1 << 5, is_guest: value & 1 == 1 }, 8)
        }
        0xc8 => (Packet::Vmcs(number(bytes, 2, 5)? << 12), 7),
        0xc3 => match number(bytes, 2, 1)? {
            0x88 => (Packet::Mnt(number(bytes, 3, 8)?), 11),
            _ => return Err(BadPacket::Unknown),
        },
        _ if second & 0x1f == 0x12 => {
            let len = match second >> 5 & 3 {
                0 => 4,
                1 => 8,
                _ => return Err(BadPacket::Unknown),
            };
            let payload = number(bytes, 2, len)?;
            let (is_wide, has_ip) = (len == 8, second & 0x80 != 0);
            (Packet::Ptw { payload, is_wide, has_ip }, 2 + len)
        }
        _ => return rare(second, bytes),
    })
}

/// Power, values and events.
fn rare(second: u8, bytes: &[u8]) -> Result<(Packet, usize), BadPacket> {
    Ok(match second {
        0x62 | 0xe2 => (Packet::Exstop { has_ip: second & 0x80 != 0 }, 2),
        0xc2 => {
            let (hints, extensions) = (number(bytes, 2, 4)? as u32, number(bytes, 6, 4)? as u32);
            (Packet::Mwait { hints, extensions }, 10)
        }
        0x22 => {
            let value = number(bytes, 2, 2)?;
            let (state, sub_state) = ((value >> 12 & 15) as u8, (value >> 8 & 15) as u8);
            (Packet::Pwre { state, sub_state, is_by_hardware: value & 0x80 != 0 }, 4)
        }
        0xa2 => {
            let value = number(bytes, 2, 5)?;
            let nibble = |shift: u32| (value >> shift & 15) as u8;
            let [deepest_state, last_state, reasons] = [nibble(0), nibble(4), nibble(8)];
            (Packet::Pwrx(PowerExit { deepest_state, last_state, reasons }), 7)
        }
        0x63 => {
            let value = number(bytes, 2, 1)? as u8;
            (Packet::Bbp { kind: value & 0x1f, is_narrow: value & 0x80 != 0 }, 3)
        }
        0x33 | 0xb3 => (Packet::Bep { has_ip: second & 0x80 != 0 }, 2),
        0x13 => {
            let (kind, vector) = (number(bytes, 2, 1)? as u8, number(bytes, 3, 1)? as u8);
            (Packet::Cfe { kind: kind & 0x1f, vector, has_ip: kind & 0x80 != 0 }, 4)
        }
        0x53 => {
            let kind = number(bytes, 2, 1)? as u8 & 0x3f;
            (Packet::Evd { kind, payload: number(bytes, 3, 8)? }, 11)
        }
        _ => return Err(BadPacket::Unknown),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;

    /// Bytes and the packet that they are; both directions.
    #[track_caller]
    fn check(bytes: &[u8], expected: Packet) {
        let mut packets = Packets::new(bytes, 0);
        assert_eq!(packets.next_packet(), Ok(Some(expected)));
        assert_eq!(packets.next_packet(), Ok(None));
        let mut writer = Writer::default();
        writer.packet(expected);
        assert_eq!(writer.bytes(), bytes);
        for len in 1..bytes.len() {
            let cut = Packets::new(&bytes[..len], 0).next_packet();
            assert_eq!(cut, Err(BadPacket::Cut), "{len} bytes of {expected:?}");
        }
    }

    #[track_caller]
    fn check_bad(bytes: &[u8]) {
        assert_eq!(Packets::new(bytes, 0).next_packet(), Err(BadPacket::Unknown));
    }

    #[test]
    fn branches_are_bits() {
        check(&[0b110], Packet::Tnt(Tnt { bits: 1, count: 1 }));
        check(&[0b100], Packet::Tnt(Tnt { bits: 0, count: 1 }));
        check(&[0b1101_0010], Packet::Tnt(Tnt { bits: 0b10_1001, count: 6 }));
        check(&[2, 0xa3, 0, 0, 0, 0, 0, 0x80], Packet::Tnt(Tnt { bits: 0, count: 47 }));
        check(&[2, 0xa3, 0x85, 0, 0, 0, 0, 0], Packet::Tnt(Tnt { bits: 5, count: 7 }));
        check_bad(&[2, 0xa3, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn addresses_come_in_six_forms() {
        let ip = |form, bits| Ip { form, bits };
        check(&[0x0d], Packet::Tip(Ip::ABSENT));
        check(&[0x2d, 0x34, 0x12], Packet::Tip(ip(IpForm::Low16, 0x1234)));
        check(&[0x51, 4, 3, 2, 1], Packet::TipPge(ip(IpForm::Low32, 0x0102_0304)));
        check(&[0x61, 6, 5, 4, 3, 2, 1], Packet::TipPgd(ip(IpForm::Extended48, 0x0102_0304_0506)));
        check(&[0x9d, 6, 5, 4, 3, 2, 1], Packet::Fup(ip(IpForm::Low48, 0x0102_0304_0506)));
        let full = ip(IpForm::Full, 0x0102_0304_0506_0708);
        check(&[0xdd, 8, 7, 6, 5, 4, 3, 2, 1], Packet::Fup(full));
        check_bad(&[0xad, 0, 0, 0, 0, 0, 0, 0, 0]);
        check_bad(&[0xed, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn times_are_read() {
        check(&[0x19, 7, 6, 5, 4, 3, 2, 1], Packet::Tsc(0x01_0203_0405_0607));
        check(&[2, 0x73, 0x34, 0x12, 0, 0xff, 1], Packet::Tma { ctc: 0x1234, fast: 0x1ff });
        check(&[0x59, 0x7f], Packet::Mtc(0x7f));
        check(&[2, 3, 30, 0], Packet::Cbr(30));
        check(&[0b1111_1011], Packet::Cyc(31));
        check(&[0b0000_0111, 0b10], Packet::Cyc(32));
        check(&[0b0000_0111, 0b1, 0b10], Packet::Cyc(1 << 12));
        let most = [&[0xff][..], &[0xff; 8], &[0b110]].concat();
        check(&most, Packet::Cyc((1 << 63) - 1));
        check_bad(&[0xff; 11]);
    }

    #[test]
    fn states_are_read() {
        check(&PSB, Packet::Psb);
        check(&[2, 0x23], Packet::PsbEnd);
        check(&[2, 0xf3], Packet::Ovf);
        check(&[2, 0x83], Packet::Stop);
        check(&[0], Packet::Pad);
        let mode = |mode, has_interrupts| Packet::ModeExec { mode, has_interrupts };
        check(&[0x99, 1], mode(ExecMode::Bits64, false));
        check(&[0x99, 2], mode(ExecMode::Bits32, false));
        check(&[0x99, 4], mode(ExecMode::Bits16, true));
        check(&[0x99, 0x21], Packet::ModeTsx { is_in_transaction: true, is_aborted: false });
        check(&[0x99, 0x22], Packet::ModeTsx { is_in_transaction: false, is_aborted: true });
        check(&[2, 0x43, 3, 0, 0, 0, 0, 0], Packet::Pip { cr3: 0x20, is_guest: true });
        check(&[2, 0xc8, 5, 4, 3, 2, 1], Packet::Vmcs(0x01_0203_0405 << 12));
        check(&[2, 0xc3, 0x88, 8, 7, 6, 5, 4, 3, 2, 1], Packet::Mnt(0x0102_0304_0506_0708));
        for bad in
            [&[0x99, 3][..], &[0x99, 0x40], &[2, 0xc3, 0], &[2, 4], &[0xc9], &[2, 0x82, 2, 0]]
        {
            check_bad(bad);
        }
    }

    #[test]
    fn values_power_and_events_are_read() {
        let written = Packet::Ptw { payload: 0x0102_0304, is_wide: false, has_ip: true };
        check(&[2, 0x92, 4, 3, 2, 1], written);
        let written = Packet::Ptw { payload: 1, is_wide: true, has_ip: false };
        check(&[2, 0x32, 1, 0, 0, 0, 0, 0, 0, 0], written);
        check_bad(&[2, 0x52, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(&[2, 0x62], Packet::Exstop { has_ip: false });
        check(&[2, 0xe2], Packet::Exstop { has_ip: true });
        let waits = Packet::Mwait { hints: 0x20, extensions: 3 };
        check(&[2, 0xc2, 0x20, 0, 0, 0, 3, 0, 0, 0], waits);
        let sleeps = Packet::Pwre { state: 6, sub_state: 1, is_by_hardware: true };
        check(&[2, 0x22, 0x80, 0x61], sleeps);
        let wakes = PowerExit { deepest_state: 6, last_state: 3, reasons: 4 };
        check(&[2, 0xa2, 0x36, 4, 0, 0, 0], Packet::Pwrx(wakes));
        check(&[2, 0x63, 0x84], Packet::Bbp { kind: 4, is_narrow: true });
        check(&[2, 0x33], Packet::Bep { has_ip: false });
        check(&[2, 0xb3], Packet::Bep { has_ip: true });
        check(&[2, 0x13, 0x81, 14], Packet::Cfe { kind: 1, vector: 14, has_ip: true });
        check(&[2, 0x53, 2, 1, 0, 0, 0, 0, 0, 0, 0], Packet::Evd { kind: 2, payload: 1 });
        let fires = |instructions| Packet::Trig {
            triggers: 3,
            is_multiple: true,
            has_ip: true,
            instructions,
        };
        check(&[0xd9, 0xa0, 3], fires(None));
        check(&[0xd9, 0xe0, 3, 2, 1], fires(Some(0x102)));
    }

    #[test]
    fn values_are_only_in_blocks() {
        let packets = |bytes: &[u8]| {
            let (mut packets, mut found) = (Packets::new(bytes, 0), Vec::new());
            while let Ok(Some(packet)) = packets.next_packet() {
                found.push(packet);
            }
            found
        };
        let tnt = |bits, count| Packet::Tnt(Tnt { bits, count });
        assert_eq!(packets(&[0x0c]), [tnt(2, 2)]);
        let begins = |is_narrow| Packet::Bbp { kind: 1, is_narrow };
        let value = |value| Packet::Bip { id: 1, value };
        let ends = Packet::Bep { has_ip: false };
        let narrow = [2, 0x63, 0x81, 0x0c, 7, 0, 0, 0, 2, 0x33, 0x0c];
        assert_eq!(packets(&narrow), [begins(true), value(7), ends, tnt(2, 2)]);
        let wide = [2, 0x63, 1, 0x0c, 7, 0, 0, 0, 0, 0, 0, 0, 0x0b, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(packets(&wide), [begins(false), value(7), Packet::Cyc(1), value(0)]);
        // What changes the way a program takes is not in a block.
        assert_eq!(packets(&[2, 0x63, 1, 6, 0x0c]), [begins(false), tnt(1, 1), tnt(2, 2)]);
    }

    #[test]
    fn places_to_begin_are_found() {
        let check = |before: &[u8], expected: Option<usize>| {
            let bytes = [before, &PSB, &[1, 2, 3]].concat();
            assert_eq!(find_psb(&bytes, 0), expected);
        };
        check(&[], Some(0));
        check(&[1, 2, 3], Some(3));
        check(&[0x82; 5], Some(5));
        check(&[0x02; 40], Some(40));
        check(&PSB[..15], Some(15));
        check(&PSB[..6], Some(6));
        check(&[&PSB[..12], &[0x83]].concat(), Some(13));
        assert_eq!(find_psb(&PSB, 1), None);
        assert_eq!(find_psb(&PSB[..15], 0), None);
        assert_eq!(find_psb(&PSB, usize::MAX), None);
    }
}
