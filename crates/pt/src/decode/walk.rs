//! Following the code from packet to packet.

use crate::code::insn::Kind;
use crate::decode::blocks::{Block, BlockId, instructions_before};
use crate::decode::decoder::{Decoder, MODES};
use crate::decode::event::{BranchKind, Event, EventTime, InstructionRun, Loss, Sink};
use crate::decode::returns::Return;
use crate::{Packet, Packets, Tnt};

/// This many branches without a packet are a loop that never ends.
const STEPS_MAX: u32 = 1 << 12;

/// Branches that were taken or not, and were not come to yet.
struct Bits {
    left: u8,
    bits: u64,
}

impl Bits {
    #[inline]
    fn next(&mut self) -> bool {
        let is_taken = self.bits >> 63 == 1;
        (self.left, self.bits) = (self.left - 1, self.bits << 1);
        is_taken
    }
}

/// Reports to a sink what happens between two packets: all at one time.
struct Emitter<'a, S> {
    sink: &'a mut S,
    at: EventTime,
    is_in_transaction: bool,
    is_silent: bool,
}

impl<S: Sink> Emitter<'_, S> {
    #[inline]
    fn ran(&mut self, block: &Block) {
        if S::HAS_RUNS && !self.is_silent {
            let Block { first, instructions, .. } = *block;
            self.sink.instructions(InstructionRun { first, instructions });
        }
    }

    /// A block of which the code alone says what follows; true for a call that returns.
    #[inline]
    fn direct(&mut self, block: &Block) -> bool {
        self.ran(block);
        // A call of what follows it only asks where it is.
        let is_call = block.kind == Kind::Call && block.target != block.next;
        if is_call {
            self.branch(BranchKind::Call, block.last, block.target);
        } else if block.kind == Kind::Jump && block.leaves {
            self.branch(BranchKind::Jump, block.last, block.target);
        }
        is_call
    }

    #[inline]
    fn branch(&mut self, kind: BranchKind, from: u64, to: u64) {
        let is_in_transaction = self.is_in_transaction;
        if !self.is_silent {
            self.sink.event(self.at, Event::Branch { kind, from, to, is_in_transaction });
        }
    }
}

/// What stops a walk.
enum Stop {
    /// A branch that the code does not decide.
    Branch(BlockId),
    /// The address that was asked for.
    Reached,
}

impl<S: Sink> Decoder<'_, S> {
    /// Takes the branches that the bits describe, the oldest first.
    pub(crate) fn follow_bits(&mut self, tnt: Tnt, packets: &mut Packets<'_>) -> Result<(), Loss> {
        self.state.event_at = None;
        // The oldest is the highest; zeros follow the last.
        let mut bits = Bits { left: tnt.count, bits: tnt.bits << (64 - tnt.count.max(1)) };
        loop {
            self.follow(&mut bits)?;
            if bits.left == 0 {
                return Ok(());
            }
            self.late_target(packets)?;
        }
    }

    /// Follows the code while bits decide, and no further: up to a branch that needs a target
    /// where some are left. This is where time goes, so everything is at hand and nothing is
    /// copied.
    fn follow(&mut self, bits: &mut Bits) -> Result<(), Loss> {
        let Some(cache) = self.cache else { return Err(Loss::NoCode(self.state.ip)) };
        let code = (&self.program.images()[cache / MODES], self.state.mode);
        let (returns, blocks) = (&mut self.returns, &mut self.caches[cache]);
        let has_short_returns = !self.options.has_all_returns;
        let mut emitter = Emitter {
            sink: &mut self.sink,
            at: EventTime { ticks: self.state.clock.now(), switch: self.switch as u32 },
            is_in_transaction: self.state.is_in_transaction,
            is_silent: self.is_silent,
        };
        let (mut here, mut steps) = (self.here, 0);
        let result = loop {
            if bits.left == 0 {
                break Ok(());
            }
            let block = blocks.get(here);
            match block.kind {
                Kind::Conditional => {
                    let is_taken = bits.next();
                    emitter.ran(block);
                    if is_taken && block.leaves {
                        emitter.branch(BranchKind::Jump, block.last, block.target);
                    }
                    here = blocks.after(here, is_taken, code);
                    steps = 0;
                }
                Kind::Return if has_short_returns => {
                    if !bits.next() {
                        break Err(Loss::Mismatch(block.last));
                    }
                    let Some(back) = returns.pop() else {
                        break Err(Loss::NoReturnAddress(block.last));
                    };
                    emitter.ran(block);
                    emitter.branch(BranchKind::Return, block.last, back.ip);
                    here = match back.cache == cache as u32 {
                        true => blocks.after(back.call, false, code),
                        false => blocks.at(back.ip, code.0, code.1),
                    };
                    steps = 0;
                }
                Kind::Plain | Kind::Jump | Kind::Call if block.instructions > 0 => {
                    let is_taken = block.kind != Kind::Plain;
                    if emitter.direct(block) {
                        let cache = cache as u32;
                        returns.push(Return { ip: block.next, call: here, cache });
                    }
                    here = blocks.after(here, is_taken, code);
                    steps += 1;
                }
                Kind::Plain | Kind::Jump | Kind::Call => {
                    break Err(Loss::NoCode(block.first));
                }
                _ => break Ok(()),
            }
            if steps > STEPS_MAX {
                break Err(Loss::EndlessLoop(blocks.get(here).first));
            }
        };
        (self.here, self.state.ip) = (here, blocks.get(here).first);
        result
    }

    /// A target that is needed before the bits are used up: processors may keep it back until
    /// their bits are full.
    fn late_target(&mut self, packets: &mut Packets<'_>) -> Result<(), Loss> {
        let at = self.state.ip;
        loop {
            let mut ahead = packets.clone();
            match ahead.next_packet() {
                Ok(Some(packet)) if self.time(packet) => *packets = ahead,
                Ok(Some(Packet::Tip(ip))) => {
                    *packets = ahead;
                    let ip = self.state.last.resolve(ip);
                    return self.arrive(ip);
                }
                _ => return Err(Loss::Mismatch(at)),
            }
        }
    }

    /// Follows the code up to a branch that it does not decide itself.
    #[inline]
    fn next_branch(&mut self) -> Result<BlockId, Loss> {
        for _ in 0..STEPS_MAX {
            if let Some(Stop::Branch(id)) = self.step(None)? {
                return Ok(id);
            }
        }
        Err(Loss::EndlessLoop(self.state.ip))
    }

    /// One block further, where the code alone says where to.
    #[inline]
    fn step(&mut self, end: Option<u64>) -> Result<Option<Stop>, Loss> {
        let (id, ip) = (self.here, self.state.ip);
        let Some((blocks, code)) = self.code() else { return Err(Loss::NoCode(ip)) };
        let block = *blocks.get(id);
        let is_taken = match block.kind {
            Kind::Plain if block.instructions == 0 => return Err(Loss::NoCode(ip)),
            Kind::Plain => false,
            Kind::Jump | Kind::Call => true,
            _ => return Ok(Some(Stop::Branch(id))),
        };
        if is_taken && end == Some(block.target) {
            return Ok(Some(Stop::Reached));
        }
        let next = blocks.after(id, is_taken, code);
        self.ran(block.first, block.instructions);
        self.here = next;
        self.state.ip = if is_taken { block.target } else { block.next };
        match block.kind {
            // A call of what follows it only asks where it is.
            Kind::Call if block.target != block.next => {
                self.called(id, block.next);
                self.branch(BranchKind::Call, block.last, block.target);
            }
            Kind::Jump if block.leaves => {
                self.branch(BranchKind::Jump, block.last, block.target);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Follows the code up to an address, which has to be there before the next branch that the
    /// code does not decide.
    pub(crate) fn walk_to(&mut self, end: u64) -> Result<(), Loss> {
        for _ in 0..STEPS_MAX {
            if self.state.ip == end {
                return Ok(());
            }
            let (id, ip) = (self.here, self.state.ip);
            let Some((blocks, code)) = self.code() else { return Err(Loss::NoCode(ip)) };
            let block = *blocks.get(id);
            if block.first < end
                && end < block.next
                && let Some(count) = instructions_before(&block, end, code)
            {
                self.ran(block.first, count);
                self.move_to(end);
                return Ok(());
            }
            if let Some(Stop::Branch(_)) = self.step(None)? {
                // An interrupt that the program asked for may be reported behind its instruction.
                if block.kind == Kind::Interrupt && block.next == end {
                    self.ran(block.first, block.instructions);
                    self.move_to(end);
                    return Ok(());
                }
                return Err(Loss::Mismatch(block.last));
            }
        }
        Err(Loss::EndlessLoop(self.state.ip))
    }

    /// Follows the code up to a branch that needs a target, and takes it.
    pub(crate) fn walk_to_target(&mut self, target: u64) -> Result<(), Loss> {
        let id = self.next_branch()?;
        let Some((blocks, _)) = self.code() else { return Err(Loss::NoCode(0)) };
        let block = *blocks.get(id);
        if !block.kind.needs_target() {
            return Err(Loss::Mismatch(block.last));
        }
        let is_event = block.kind != Kind::IndirectJump || blocks.leaves_to(id, target);
        match block.kind {
            Kind::IndirectCall => self.called(id, block.next),
            Kind::Return => drop(self.returns.pop()),
            _ => {}
        }
        self.ran(block.first, block.instructions);
        if is_event {
            self.branch(BranchKind::of(block.kind), block.last, target);
        }
        self.enter(target);
        Ok(())
    }

    /// Follows the code up to the branch with which tracing ended.
    pub(crate) fn walk_to_end(&mut self, target: Option<u64>) -> Result<(), Loss> {
        for _ in 0..STEPS_MAX {
            let Some(stop) = self.step(target)? else { continue };
            let id = self.here;
            let Some((blocks, _)) = self.code() else { return Err(Loss::NoCode(0)) };
            let block = *blocks.get(id);
            let fits = match stop {
                Stop::Reached => true,
                Stop::Branch(_) if block.kind == Kind::Conditional => {
                    target.is_none_or(|target| [block.target, block.next].contains(&target))
                }
                Stop::Branch(_) => true,
            };
            if !fits {
                return Err(Loss::Mismatch(block.last));
            }
            self.ran(block.first, block.instructions);
            let kind = Some(BranchKind::of(block.kind));
            self.emit(Event::End { kind, from: block.last, to: target });
            return Ok(());
        }
        Err(Loss::EndlessLoop(self.state.ip))
    }

    #[inline]
    fn called(&mut self, call: BlockId, ip: u64) {
        let cache = self.cache.map_or(u32::MAX, |cache| cache as u32);
        self.returns.push(Return { ip, call, cache });
    }

    #[inline]
    fn ran(&mut self, first: u64, instructions: u32) {
        if S::HAS_RUNS && !self.is_silent && instructions > 0 {
            self.sink.instructions(InstructionRun { first, instructions });
        }
    }
}
