//! What a processor would have written, had it traced the steps of a program.

use spanwise_pt::{ExecMode, Image, Insn, Ip, Kind, Packet, Tnt, Writer, decode_instruction};

use super::step::{Code, Step};

/// How time is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    None,
    /// Where decoding may begin, and nowhere else.
    Seldom,
    /// By cycles, exactly, at every packet.
    Cycles,
    /// By the crystal: every `CRYSTAL` ticks.
    Crystal,
}

#[derive(Debug, Clone, Copy)]
pub struct RecorderOptions {
    pub timing: Timing,
    /// Returns to where the call was are one bit.
    pub shortens_returns: bool,
    /// Bits are written 47 at a time, not 6.
    pub has_long_bits: bool,
    /// Targets are kept back until the bits are full.
    pub keeps_targets_back: bool,
    /// A place to begin after this many bytes.
    pub psb_every: usize,
    /// After this many instructions packets are lost, for as many instructions as said.
    pub overflow: Option<(usize, usize)>,
    pub ticks_per_instruction: u64,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        RecorderOptions {
            timing: Timing::Cycles,
            shortens_returns: true,
            has_long_bits: false,
            keeps_targets_back: false,
            psb_every: 2048,
            overflow: None,
            ticks_per_instruction: 3,
        }
    }
}

/// Ticks of the counter for one of the crystal.
pub const CRYSTAL: u64 = 64;
pub const CRYSTAL_SHIFT: u8 = 2;
pub const FIRST_TICK: u64 = 1 << 40;
const RATIO: u8 = 24;

#[derive(Debug, Default)]
pub struct TraceRecord {
    pub bytes: Vec<u8>,
    /// The instructions that the packets show, in order.
    pub instructions: Vec<u64>,
    /// When targets were written that were not kept back: the step and the tick.
    pub target_times: Vec<(usize, u64)>,
}

pub struct Recorder {
    options: RecorderOptions,
    writer: Writer,
    bits: Tnt,
    kept_back: Vec<u64>,
    returns: Vec<u64>,
    now: u64,
    cycles_at: u64,
    crystal_at: u64,
    psb_at: usize,
    out: TraceRecord,
}

/// The instruction at an address of the code.
pub fn instruction_at(code: &[Code], ip: u64) -> Insn {
    let holder =
        code.iter().find(|code| (code.start..code.start + code.bytes.len() as u64).contains(&ip));
    let holder = holder.unwrap_or_else(|| panic!("no code at {ip:#x}"));
    let bytes = &holder.bytes[(ip - holder.start) as usize..];
    decode_instruction(bytes, ExecMode::Bits64)
        .unwrap_or_else(|| panic!("no instruction at {ip:#x}"))
}

pub fn image(code: &[Code]) -> Image<'_> {
    let mut image = Image::default();
    code.iter().for_each(|code| image.map(code.start, &code.bytes));
    image
}

/// Steps without the repetitions of one instruction, which the processor does not distinguish.
pub fn without_repetitions(steps: &[Step], code: &[Code]) -> Vec<Step> {
    let mut kept: Vec<Step> = Vec::new();
    for &step in steps {
        match kept.last_mut() {
            Some(last)
                if last.ip == step.ip
                    && !last.is_diverted
                    && instruction_at(code, step.ip).kind == Kind::Plain =>
            {
                last.is_diverted = step.is_diverted;
            }
            _ => kept.push(step),
        }
    }
    kept
}

impl Recorder {
    pub fn record(steps: &[Step], code: &[Code], options: RecorderOptions) -> TraceRecord {
        let mut recorder = Recorder::new(options, FIRST_TICK);
        recorder.run(steps, code);
        recorder.out.bytes = recorder.writer.into_bytes();
        recorder.out
    }

    /// What is written while a thread has a processor, from a time on; and when it left.
    pub fn turn(
        steps: &[Step],
        code: &[Code],
        options: RecorderOptions,
        since: u64,
    ) -> (TraceRecord, u64) {
        let mut recorder = Recorder::new(options, since);
        recorder.run(steps, code);
        recorder.now += options.ticks_per_instruction;
        if let Some(last) = steps.last() {
            recorder.address(Packet::Fup, last.ip);
            recorder.packet(Packet::TipPgd(Ip::ABSENT));
        }
        recorder.out.bytes = recorder.writer.into_bytes();
        (recorder.out, recorder.now)
    }

    fn new(options: RecorderOptions, since: u64) -> Recorder {
        Recorder {
            options,
            writer: Writer::default(),
            bits: Tnt::default(),
            kept_back: Vec::new(),
            returns: Vec::new(),
            now: since,
            cycles_at: since,
            crystal_at: since / CRYSTAL,
            psb_at: 0,
            out: TraceRecord::default(),
        }
    }

    fn run(&mut self, steps: &[Step], code: &[Code]) {
        self.head(None);
        self.address(Packet::TipPge, steps[0].ip);
        // What ran since the last packet; recorded once another comes.
        let mut unrecorded = Vec::new();
        let (mut at, mut since_overflow) = (0, 0);
        while at + 1 < steps.len() {
            let (step, next) = (steps[at], steps[at + 1].ip);
            self.now += self.options.ticks_per_instruction;
            let is_recorded = self.step(step, next, at, code, &mut unrecorded);
            if is_recorded {
                self.out.instructions.append(&mut unrecorded);
            }
            (at, since_overflow) = (at + 1, since_overflow + 1);
            if let Some((every, len)) = self.options.overflow
                && since_overflow > every
                && is_recorded
                && self.bits.count == 0
            {
                at = (at + len).min(steps.len() - 1);
                self.now += self.options.ticks_per_instruction * len as u64;
                self.overflow(steps[at].ip);
                since_overflow = 0;
            }
            if self.writer.bytes().len() > self.psb_at + self.options.psb_every {
                self.flush();
                self.head(Some(steps[at].ip));
                self.out.instructions.append(&mut unrecorded);
            }
        }
        self.flush();
    }

    /// True where what ran up to here will be shown by a packet.
    fn step(
        &mut self,
        step: Step,
        next: u64,
        at: usize,
        code: &[Code],
        unrecorded: &mut Vec<u64>,
    ) -> bool {
        if step.is_diverted {
            self.flush();
            self.address(Packet::Fup, step.ip);
            self.packet(Packet::TipPgd(Ip::ABSENT));
            self.address(Packet::TipPge, next);
            return true;
        }
        unrecorded.push(step.ip);
        let insn = instruction_at(code, step.ip);
        let after = step.ip + u64::from(insn.len);
        let target = after.wrapping_add_signed(insn.relative);
        match insn.kind {
            Kind::Plain => {
                assert_eq!(next, after, "what follows {:#x}", step.ip);
                false
            }
            Kind::Jump | Kind::Call => {
                assert_eq!(next, target, "what {:#x} leads to", step.ip);
                if insn.kind == Kind::Call && target != after {
                    self.call(after);
                }
                false
            }
            Kind::Conditional => {
                assert!(next == target || next == after, "what {:#x} leads to", step.ip);
                self.bit(next != after);
                true
            }
            Kind::Return => {
                match self.returns.pop() {
                    Some(known) if known == next && self.options.shortens_returns => self.bit(true),
                    _ => self.target(next, at, self.options.shortens_returns),
                }
                true
            }
            Kind::IndirectJump | Kind::IndirectCall => {
                if insn.kind == Kind::IndirectCall {
                    self.call(after);
                }
                self.target(next, at, false);
                true
            }
            _ => {
                self.flush();
                self.packet(Packet::TipPgd(Ip::ABSENT));
                self.now += 50;
                self.address(Packet::TipPge, next);
                true
            }
        }
    }

    fn call(&mut self, back: u64) {
        self.returns.push(back);
        if self.returns.len() > 64 {
            self.returns.remove(0);
        }
    }

    fn bit(&mut self, is_taken: bool) {
        self.bits.bits = self.bits.bits << 1 | u64::from(is_taken);
        self.bits.count += 1;
        if self.bits.count == if self.options.has_long_bits { 47 } else { 6 } {
            self.flush();
        }
    }

    fn target(&mut self, ip: u64, at: usize, is_urgent: bool) {
        if self.options.keeps_targets_back && !is_urgent && self.bits.count > 0 {
            self.kept_back.push(ip);
            return;
        }
        self.flush();
        self.out.target_times.push((at, self.now));
        self.address(Packet::Tip, ip);
    }

    fn flush(&mut self) {
        if self.bits.count > 0 {
            let bits = std::mem::take(&mut self.bits);
            self.packet(Packet::Tnt(bits));
        }
        for ip in std::mem::take(&mut self.kept_back) {
            self.address(Packet::Tip, ip);
        }
    }

    fn address(&mut self, packet: fn(Ip) -> Packet, ip: u64) {
        let ip = self.writer.ip(ip);
        self.packet(packet(ip));
    }

    fn packet(&mut self, packet: Packet) {
        match self.options.timing {
            Timing::Cycles if self.now > self.cycles_at => {
                self.writer.packet(Packet::Cyc(self.now - self.cycles_at));
                self.cycles_at = self.now;
            }
            Timing::Crystal => {
                let mask = !((1 << CRYSTAL_SHIFT) - 1);
                let reached = (self.now / CRYSTAL) & mask;
                while self.crystal_at & mask < reached {
                    self.crystal_at = (self.crystal_at & mask) + (1 << CRYSTAL_SHIFT);
                    let part = (self.crystal_at >> CRYSTAL_SHIFT) as u8;
                    self.writer.packet(Packet::Mtc(part));
                }
            }
            _ => {}
        }
        self.writer.packet(packet);
    }

    fn head(&mut self, ip: Option<u64>) {
        self.returns.clear();
        self.psb_at = self.writer.bytes().len();
        self.writer.packet(Packet::Psb);
        if self.options.timing != Timing::None {
            self.writer.packet(Packet::Tsc(self.now));
            let (ctc, fast) = (self.now / CRYSTAL, self.now % CRYSTAL);
            self.writer.packet(Packet::Tma { ctc: ctc as u16, fast: fast as u16 });
            self.writer.packet(Packet::Cbr(RATIO));
            (self.cycles_at, self.crystal_at) = (self.now, ctc);
        }
        let mode = ExecMode::Bits64;
        self.writer.packet(Packet::ModeExec { mode, has_interrupts: false });
        if let Some(ip) = ip {
            let ip = self.writer.ip(ip);
            self.writer.packet(Packet::Fup(ip));
        }
        self.writer.packet(Packet::PsbEnd);
    }

    fn overflow(&mut self, ip: u64) {
        self.returns.clear();
        self.packet(Packet::Ovf);
        self.address(Packet::Fup, ip);
    }
}

/// How the clocks of the recorder relate.
pub fn options(recorder: &RecorderOptions) -> spanwise_pt::DecodeOptions {
    let rates = spanwise_pt::ClockRates {
        ticks_per_crystal: (CRYSTAL as u32, 1),
        crystal_shift: CRYSTAL_SHIFT,
        counter_ratio: RATIO,
    };
    let has_all_returns = !recorder.shortens_returns;
    spanwise_pt::DecodeOptions { rates, has_all_returns, ticks_near: 0 }
}
