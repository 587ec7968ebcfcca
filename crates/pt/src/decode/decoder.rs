//! Follows the program with the packets.
//!
//! Packets are processed in order. Each gives the outcome of the next branch that the code alone
//! does not determine; up to there the code is followed. If the two contradict each other, the
//! execution is unknown up to the next packet with an address.

use crate::code::image::{Image, Program};
use crate::decode::blocks::Blocks;
use crate::decode::clock::Clock;
use crate::decode::event::{BranchKind, Event, EventTime, Loss, Sink};
use crate::decode::returns::Returns;
use crate::{BadPacket, ClockRates, ExecMode, Ip, LastIp, Packet, Packets, find_psb};

/// What the packets do not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeOptions {
    /// The relation between the processor's clocks.
    pub rates: ClockRates,
    /// Whether returns always have an address (the processor did not compress them).
    pub has_all_returns: bool,
    /// Any time close to the recording, for the upper bits of the time stamp counter.
    pub ticks_near: u64,
}

/// Totals of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeCounts {
    /// Bytes before the first [`Packet::Psb`], and after bad packets.
    pub skipped_bytes: u64,
}

/// Whether the program is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tracing {
    /// Unknown until a packet shows it.
    #[default]
    Unknown,
    Off,
    On,
}

/// All that further decoding depends on, except the return addresses: those are discarded where
/// decoding can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) tracing: Tracing,
    /// The next instruction, if traced.
    pub(crate) ip: u64,
    pub(crate) last: LastIp,
    pub(crate) mode: ExecMode,
    /// Applies from the next address on.
    next_mode: Option<ExecMode>,
    pub(crate) is_in_transaction: bool,
    /// A transaction starts or ends at the next address.
    transaction: Option<Transaction>,
    pub(crate) clock: Clock,
    /// Address of an asynchronous event, whose target is in a later packet.
    pub(crate) event_at: Option<u64>,
    is_aborted: bool,
    /// Packets that the next address belongs to, and that have no effect.
    marks: u8,
    has_overflown: bool,
    /// Between `Psb` and `PsbEnd`: the address found there, if any yet.
    head: Option<Option<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transaction {
    is_inside: bool,
    is_aborted: bool,
}

/// A decoder, at one position of the bytes.
pub(crate) struct Decoder<'a, S> {
    pub(crate) program: &'a Program<'a>,
    pub(crate) options: DecodeOptions,
    pub(crate) state: State,
    pub(crate) returns: Returns,
    pub(crate) sink: S,
    pub(crate) counts: DecodeCounts,
    /// One for each image and mode.
    pub(crate) caches: Vec<Blocks>,
    /// The current one, if there is any code.
    pub(crate) cache: Option<usize>,
    /// The current block, if traced.
    pub(crate) here: u32,
    pub(crate) switch: usize,
    switch_times: std::ops::Range<u64>,
    /// Events are not emitted: they were before.
    pub(crate) is_silent: bool,
}

/// Number of caches per image.
pub(crate) const MODES: usize = 3;

impl<'a, S: Sink> Decoder<'a, S> {
    pub(crate) fn new(program: &'a Program<'a>, options: DecodeOptions, sink: S) -> Self {
        let caches = program.images().len() * MODES;
        let mut decoder = Decoder {
            program,
            options,
            state: State::default(),
            returns: Returns::default(),
            sink,
            counts: DecodeCounts::default(),
            caches: std::iter::repeat_with(Blocks::default).take(caches).collect(),
            cache: None,
            here: 0,
            switch: 0,
            switch_times: 0..0,
            is_silent: false,
        };
        decoder.find_switch();
        decoder
    }

    /// Decodes up to the end; with `until`, up to the first `PsbEnd` after it. Returns the offset
    /// where it stopped.
    pub(crate) fn run(&mut self, bytes: &[u8], from: usize, until: Option<usize>) -> usize {
        let mut packets = Packets::new(bytes, from);
        loop {
            // Most packets are these.
            if self.state.tracing == Tracing::On
                && let Some(tnt) = packets.next_bits()
            {
                if let Err(lost) = self.follow_bits(tnt, &mut packets) {
                    self.lose(lost);
                }
                continue;
            }
            let offset = packets.offset();
            match packets.next_packet() {
                Ok(None) => return offset,
                Ok(Some(packet)) => {
                    if let Err(lost) = self.packet(packet, &mut packets) {
                        self.lose(lost);
                    }
                    let is_past = until.is_some_and(|until| packets.offset() > until);
                    if is_past && packet == Packet::PsbEnd {
                        return packets.offset();
                    }
                }
                Err(bad) => match self.begin_again(bytes, offset, bad) {
                    Some(next) => packets = Packets::new(bytes, next),
                    None => return bytes.len(),
                },
            }
        }
    }

    fn begin_again(&mut self, bytes: &[u8], bad_at: usize, bad: BadPacket) -> Option<usize> {
        let next = find_psb(bytes, bad_at + 1);
        self.counts.skipped_bytes += (next.unwrap_or(bytes.len()) - bad_at) as u64;
        // The last packet of a snapshot is usually truncated; nothing is known to be missing.
        if next.is_some() || bad != BadPacket::Cut {
            self.lose(Loss::Packet(bad));
        }
        next
    }

    pub(crate) fn lose(&mut self, lost: Loss) {
        self.emit(Event::Loss(lost));
        self.returns.clear();
        let State { last, mode, next_mode, clock, head, .. } = self.state;
        let has_overflown = lost == Loss::Overflow;
        self.state =
            State { last, mode, next_mode, clock, head, has_overflown, ..State::default() };
    }

    #[inline]
    pub(crate) fn emit(&mut self, event: Event) {
        if !self.is_silent {
            let at = EventTime { ticks: self.state.clock.now(), switch: self.switch as u32 };
            self.sink.event(at, event);
        }
    }

    pub(crate) fn branch(&mut self, kind: BranchKind, from: u64, to: u64) {
        let is_in_transaction = self.state.is_in_transaction;
        self.emit(Event::Branch { kind, from, to, is_in_transaction });
    }

    #[inline]
    fn packet(&mut self, packet: Packet, packets: &mut Packets<'_>) -> Result<(), Loss> {
        match packet {
            Packet::Tnt(tnt) => match self.state.tracing {
                Tracing::On => self.follow_bits(tnt, packets),
                Tracing::Off => Err(Loss::Mismatch(0)),
                Tracing::Unknown => Ok(()),
            },
            Packet::Tip(ip) => {
                let ip = self.state.last.resolve(ip);
                self.arrive(ip)
            }
            Packet::TipPge(ip) => {
                let ip = self.state.last.resolve(ip);
                self.switch_on(ip)
            }
            Packet::TipPgd(ip) => {
                let ip = self.state.last.resolve(ip);
                self.switch_off(ip)
            }
            Packet::Fup(ip) => self.happen(ip),
            Packet::Tsc(_)
            | Packet::Tma { .. }
            | Packet::Mtc(_)
            | Packet::Cyc(_)
            | Packet::Cbr(_) => {
                self.time(packet);
                Ok(())
            }
            _ => self.other(packet),
        }
    }

    /// Takes in a time; false for a packet that is none.
    pub(crate) fn time(&mut self, packet: Packet) -> bool {
        let rates = &self.options.rates;
        let clock = &mut self.state.clock;
        match packet {
            Packet::Cyc(cycles) => clock.cycles(cycles, rates),
            Packet::Mtc(part) => clock.crystal(part, rates),
            Packet::Tsc(low) => clock.counter(low | self.options.ticks_near & !PACKET_TICKS),
            Packet::Tma { ctc, fast } => clock.relation(ctc, fast),
            Packet::Cbr(ratio) => {
                let is_new = ratio != clock.core_ratio();
                clock.ratio(ratio);
                if is_new {
                    self.emit(Event::CoreRatio(ratio));
                }
            }
            Packet::Pad => {}
            _ => return false,
        }
        if !self.switch_times.contains(&self.state.clock.now()) {
            self.find_switch();
        }
        true
    }

    fn other(&mut self, packet: Packet) -> Result<(), Loss> {
        match packet {
            Packet::Psb => {
                self.returns.clear();
                self.state.last = LastIp::default();
                self.state.head = Some(None);
            }
            Packet::PsbEnd => self.end_head(),
            Packet::Ovf => {
                self.state.head = None;
                return Err(Loss::Overflow);
            }
            Packet::ModeExec { mode, .. } => self.state.next_mode = Some(mode),
            Packet::ModeTsx { is_in_transaction: is_inside, is_aborted } => {
                match self.state.head.is_some() || self.state.tracing != Tracing::On {
                    true => self.state.is_in_transaction = is_inside,
                    false => self.state.transaction = Some(Transaction { is_inside, is_aborted }),
                }
            }
            Packet::Ptw { payload, has_ip, .. } => {
                self.emit(Event::Written(payload));
                self.mark(has_ip);
            }
            Packet::Exstop { has_ip } | Packet::Bep { has_ip } | Packet::Trig { has_ip, .. } => {
                self.mark(has_ip);
            }
            // The rest says nothing of the way that the program takes.
            _ => {}
        }
        Ok(())
    }

    fn mark(&mut self, has_ip: bool) {
        self.state.marks = self.state.marks.saturating_add(has_ip.into());
    }

    /// `Fup`: something happens at an address, or the address itself is the information.
    fn happen(&mut self, ip: Ip) -> Result<(), Loss> {
        let Some(ip) = self.state.last.resolve(ip) else { return Ok(()) };
        if let Some(head) = &mut self.state.head {
            *head = Some(ip);
            return Ok(());
        }
        match self.state.tracing {
            Tracing::On => self.walk_to(ip)?,
            Tracing::Off => return Ok(()),
            Tracing::Unknown => self.start(ip),
        }
        if std::mem::take(&mut self.state.has_overflown) {
            return Ok(());
        }
        if let Some(transaction) = self.state.transaction.take() {
            self.state.is_in_transaction = transaction.is_inside;
            self.state.is_aborted = transaction.is_aborted;
            self.state.event_at = transaction.is_aborted.then_some(ip);
        } else if self.state.marks > 0 {
            self.state.marks -= 1;
        } else {
            self.state.event_at = Some(ip);
        }
        Ok(())
    }

    /// `Tip`: a branch that only packets know the target of, or what an event led to.
    pub(crate) fn arrive(&mut self, ip: Option<u64>) -> Result<(), Loss> {
        match (self.state.tracing, ip) {
            (Tracing::On, Some(ip)) => match self.state.event_at.take() {
                Some(from) => {
                    let kind = match std::mem::take(&mut self.state.is_aborted) {
                        true => BranchKind::TransactionAbort,
                        false => BranchKind::Interrupt,
                    };
                    self.branch(kind, from, ip);
                    self.enter(ip);
                    Ok(())
                }
                None => self.walk_to_target(ip),
            },
            (Tracing::Unknown, Some(ip)) => {
                self.start(ip);
                Ok(())
            }
            (Tracing::Unknown, None) => Ok(()),
            (Tracing::Off, _) | (Tracing::On, None) => Err(Loss::Mismatch(self.state.ip)),
        }
    }

    fn switch_on(&mut self, ip: Option<u64>) -> Result<(), Loss> {
        self.state.event_at = None;
        match (self.state.tracing, ip) {
            (_, None) => Ok(()),
            (tracing, Some(ip)) => {
                if tracing == Tracing::On {
                    self.lose(Loss::Mismatch(self.state.ip));
                }
                self.start(ip);
                self.state.has_overflown = false;
                Ok(())
            }
        }
    }

    fn switch_off(&mut self, ip: Option<u64>) -> Result<(), Loss> {
        match (self.state.tracing, self.state.event_at.take()) {
            (Tracing::On, Some(from)) => {
                let is_aborted = std::mem::take(&mut self.state.is_aborted);
                let kind = match is_aborted {
                    true => BranchKind::TransactionAbort,
                    false => BranchKind::Interrupt,
                };
                self.emit(Event::End { kind: Some(kind), from, to: ip });
            }
            (Tracing::On, None) => self.walk_to_end(ip)?,
            (Tracing::Unknown | Tracing::Off, _) => {}
        }
        self.state.tracing = Tracing::Off;
        self.state.ip = 0;
        Ok(())
    }

    /// `PsbEnd`: the state of the processor is complete.
    fn end_head(&mut self) {
        let Some(head) = self.state.head.take() else { return };
        match (self.state.tracing, head) {
            (Tracing::On, Some(ip)) => {
                if let Err(lost) = self.walk_to(ip) {
                    self.lose(lost);
                    self.start(ip);
                }
            }
            (Tracing::On, None) => {
                let from = self.state.ip;
                self.emit(Event::End { kind: None, from, to: None });
                (self.state.tracing, self.state.ip) = (Tracing::Off, 0);
            }
            (Tracing::Unknown | Tracing::Off, Some(ip)) => self.start(ip),
            (Tracing::Unknown | Tracing::Off, None) => self.state.tracing = Tracing::Off,
        }
        self.state.has_overflown = false;
        if self.state.tracing == Tracing::On {
            self.enter(self.state.ip);
        }
    }

    fn start(&mut self, ip: u64) {
        self.state.tracing = Tracing::On;
        self.enter(ip);
        self.emit(Event::Start { to: ip });
    }

    /// Goes on at an address that a packet gave.
    pub(crate) fn enter(&mut self, ip: u64) {
        if let Some(mode) = self.state.next_mode.take()
            && mode != self.state.mode
        {
            self.state.mode = mode;
            self.find_cache();
        }
        self.move_to(ip);
    }

    #[inline]
    pub(crate) fn move_to(&mut self, ip: u64) {
        self.state.ip = ip;
        if let Some(cache) = self.cache {
            let image = &self.program.images()[cache / MODES];
            self.here = self.caches[cache].at(ip, image, self.state.mode);
        }
    }

    /// The code in use.
    #[inline]
    pub(crate) fn code(&mut self) -> Option<(&mut Blocks, (&'a Image<'a>, ExecMode))> {
        let cache = self.cache?;
        let image = &self.program.images()[cache / MODES];
        Some((&mut self.caches[cache], (image, self.state.mode)))
    }

    fn find_switch(&mut self) {
        let (switch, until) = self.program.switch_at(self.state.clock.now());
        let since = self.program.since(switch);
        let is_other = self.program.image_of(switch) != self.program.image_of(self.switch);
        (self.switch, self.switch_times) = (switch, since..until);
        if is_other || self.cache.is_none() {
            self.find_cache();
        }
    }

    fn find_cache(&mut self) {
        let image = self.program.image_of(self.switch);
        self.cache = image.map(|image| image * MODES + self.state.mode as usize);
        if self.state.tracing == Tracing::On {
            self.move_to(self.state.ip);
        }
    }
}

/// The bits of the time stamp counter that packets hold.
const PACKET_TICKS: u64 = (1 << 56) - 1;
