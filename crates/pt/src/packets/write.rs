//! Writes packets as bytes, as a processor does.

use crate::{ExecMode, Ip, LastIp, PSB, Packet, Tnt};

/// Writes packets, each address in its shortest form.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    last: LastIp,
    /// Values of the current block have four bytes, not eight.
    is_narrow: bool,
}

impl Writer {
    /// What was written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All that was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// An address for the next packet, in its shortest form.
    pub fn ip(&mut self, whole: u64) -> Ip {
        self.last.shorten(whole)
    }

    /// Writes a packet. Fields are truncated to the width that they have in it.
    pub fn packet(&mut self, packet: Packet) {
        match packet {
            Packet::Pad => self.bytes.push(0),
            Packet::Psb => {
                self.bytes.extend(PSB);
                self.last = LastIp::default();
            }
            Packet::PsbEnd => self.extended(0x23, 0, 0),
            Packet::Tnt(tnt) => self.tnt(tnt),
            Packet::Tip(ip) => self.addressed(0x0d, ip),
            Packet::TipPge(ip) => self.addressed(0x11, ip),
            Packet::TipPgd(ip) => self.addressed(0x01, ip),
            Packet::Fup(ip) => self.addressed(0x1d, ip),
            Packet::Pip { cr3, is_guest } => {
                self.extended(0x43, cr3 >> 5 << 1 | u64::from(is_guest), 6);
            }
            Packet::Vmcs(base) => self.extended(0xc8, base >> 12, 5),
            Packet::Cbr(ratio) => self.extended(0x03, ratio.into(), 2),
            Packet::Tsc(ticks) => self.single(0x19, ticks, 7),
            Packet::Tma { ctc, fast } => {
                self.extended(0x73, u64::from(ctc) | u64::from(fast & 0x1ff) << 24, 5);
            }
            Packet::Mtc(ticks) => self.single(0x59, ticks.into(), 1),
            Packet::Cyc(cycles) => self.cycles(cycles),
            Packet::Ovf => self.extended(0xf3, 0, 0),
            Packet::ModeExec { mode, has_interrupts } => {
                let bits = match mode {
                    ExecMode::Bits64 => 1,
                    ExecMode::Bits32 => 2,
                    ExecMode::Bits16 => 0,
                };
                self.single(0x99, bits | u64::from(has_interrupts) << 2, 1);
            }
            Packet::ModeTsx { is_in_transaction, is_aborted } => {
                let bits = u64::from(is_in_transaction) | u64::from(is_aborted) << 1;
                self.single(0x99, 1 << 5 | bits, 1);
            }
            Packet::Stop => self.extended(0x83, 0, 0),
            _ => self.rare(packet),
        }
    }

    /// Packets that do not affect the control flow.
    fn rare(&mut self, packet: Packet) {
        let with_ip = |code: u8, has_ip: bool| code | u8::from(has_ip) << 7;
        match packet {
            Packet::Ptw { payload, is_wide, has_ip } => {
                let code = with_ip(0x12 | u8::from(is_wide) << 5, has_ip);
                self.extended(code, payload, if is_wide { 8 } else { 4 });
            }
            Packet::Exstop { has_ip } => self.extended(with_ip(0x62, has_ip), 0, 0),
            Packet::Mwait { hints, extensions } => {
                self.extended(0xc2, u64::from(hints) | u64::from(extensions) << 32, 8);
            }
            Packet::Pwre { state, sub_state, is_by_hardware } => {
                let states = u64::from(state & 15) << 12 | u64::from(sub_state & 15) << 8;
                self.extended(0x22, states | u64::from(is_by_hardware) << 7, 2);
            }
            Packet::Pwrx(exit) => {
                let states = u64::from(exit.deepest_state & 15) | u64::from(exit.last_state) << 4;
                self.extended(0xa2, states & 0xff | u64::from(exit.reasons & 15) << 8, 5);
            }
            Packet::Bbp { kind, is_narrow } => {
                self.is_narrow = is_narrow;
                self.extended(0x63, with_ip(kind & 0x1f, is_narrow).into(), 1);
            }
            Packet::Bip { id, value } => {
                self.single(id << 3 | 4, value, if self.is_narrow { 4 } else { 8 });
            }
            Packet::Bep { has_ip } => self.extended(with_ip(0x33, has_ip), 0, 0),
            Packet::Cfe { kind, vector, has_ip } => {
                let kind = with_ip(kind & 0x1f, has_ip);
                self.extended(0x13, u64::from(kind) | u64::from(vector) << 8, 2);
            }
            Packet::Evd { kind, payload } => {
                self.extended(0x53, (kind & 0x3f).into(), 1);
                self.number(payload, 8);
            }
            Packet::Mnt(payload) => {
                self.extended(0xc3, 0x88, 1);
                self.number(payload, 8);
            }
            Packet::Trig { triggers, is_multiple, has_ip, instructions } => {
                let flags = u8::from(is_multiple) << 5 | u8::from(instructions.is_some()) << 6;
                self.single(0xd9, with_ip(flags, has_ip).into(), 1);
                self.bytes.push(triggers);
                if let Some(instructions) = instructions {
                    self.number(instructions.into(), 2);
                }
            }
            _ => {}
        }
    }

    fn tnt(&mut self, tnt: Tnt) {
        let payload = tnt.bits & ((1 << tnt.count) - 1) | 1 << tnt.count;
        match tnt.count {
            1..=6 => self.bytes.push((payload << 1) as u8),
            _ => self.extended(0xa3, payload, 6),
        }
    }

    fn addressed(&mut self, code: u8, ip: Ip) {
        self.single(code | ip.form.bits() << 5, ip.bits, ip.form.len());
    }

    fn cycles(&mut self, cycles: u64) {
        let mut rest = cycles >> 5;
        let has_more = u8::from(rest > 0) << 2;
        self.bytes.push((cycles as u8 & 0x1f) << 3 | has_more | 3);
        while rest > 0 {
            let has_more = u8::from(rest >> 7 > 0);
            self.bytes.push((rest as u8 & 0x7f) << 1 | has_more);
            rest >>= 7;
        }
    }

    fn extended(&mut self, code: u8, payload: u64, len: usize) {
        self.bytes.push(2);
        self.single(code, payload, len);
    }

    fn single(&mut self, code: u8, payload: u64, len: usize) {
        self.bytes.push(code);
        self.number(payload, len);
    }

    fn number(&mut self, payload: u64, len: usize) {
        self.bytes.extend(&payload.to_le_bytes()[..len]);
    }
}
