//! Following the code from packet to packet.

use crate::blocks::{BlockId, instructions_before};
use crate::decode::Decoder;
use crate::event::{BranchKind, Event, Lost, Ran, Sink};
use crate::insn::Kind;
use crate::{Packet, Packets, Tnt};

/// So many branches without a packet are a loop that never ends.
const STEPS_MAX: u32 = 1 << 16;

/// What stops a walk.
enum Stop {
    /// A branch that the code does not decide.
    Branch(BlockId),
    /// The address that was asked for.
    Reached,
}

impl<S: Sink> Decoder<'_, S> {
    /// Takes the branches that the bits tell, the oldest first.
    pub(crate) fn follow_bits(&mut self, tnt: Tnt, packets: &mut Packets<'_>) -> Result<(), Lost> {
        self.state.event_at = None;
        let mut left = tnt.count;
        while left > 0 {
            let id = self.next_branch()?;
            let Some((blocks, code)) = self.code() else { return Err(Lost::NoCode(0)) };
            let block = *blocks.get(id);
            let is_taken = tnt.bits >> (left - 1) & 1 == 1;
            match block.kind {
                Kind::Conditional => {
                    left -= 1;
                    let next = blocks.after(id, is_taken, code);
                    self.ran(block.first, block.instructions);
                    self.here = next;
                    self.state.ip = if is_taken { block.target } else { block.next };
                    if is_taken && block.leaves {
                        self.branch(BranchKind::Jump, block.last, block.target);
                    }
                }
                Kind::Return if !self.options.has_all_returns => {
                    left -= 1;
                    if !is_taken {
                        return Err(Lost::Mismatch(block.last));
                    }
                    let back = self.returns.pop().ok_or(Lost::NoReturnAddress(block.last))?;
                    self.ran(block.first, block.instructions);
                    self.branch(BranchKind::Return, block.last, back);
                    self.move_to(back);
                }
                _ => self.late_target(packets)?,
            }
        }
        Ok(())
    }

    /// A target that is needed before the bits are used up: processors may keep it back until
    /// their bits are full.
    fn late_target(&mut self, packets: &mut Packets<'_>) -> Result<(), Lost> {
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
                _ => return Err(Lost::Mismatch(at)),
            }
        }
    }

    /// Follows the code up to a branch that it does not decide itself.
    #[inline]
    fn next_branch(&mut self) -> Result<BlockId, Lost> {
        for _ in 0..STEPS_MAX {
            if let Some(Stop::Branch(id)) = self.step(None)? {
                return Ok(id);
            }
        }
        Err(Lost::EndlessLoop(self.state.ip))
    }

    /// One block further, where the code alone says where to.
    #[inline]
    fn step(&mut self, end: Option<u64>) -> Result<Option<Stop>, Lost> {
        let (id, ip) = (self.here, self.state.ip);
        let Some((blocks, code)) = self.code() else { return Err(Lost::NoCode(ip)) };
        let block = *blocks.get(id);
        let is_taken = match block.kind {
            Kind::Plain if block.instructions == 0 => return Err(Lost::NoCode(ip)),
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
                self.returns.push(block.next);
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
    pub(crate) fn walk_to(&mut self, end: u64) -> Result<(), Lost> {
        for _ in 0..STEPS_MAX {
            if self.state.ip == end {
                return Ok(());
            }
            let (id, ip) = (self.here, self.state.ip);
            let Some((blocks, code)) = self.code() else { return Err(Lost::NoCode(ip)) };
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
                // An interrupt that the program asked for may be told behind its instruction.
                if block.kind == Kind::Interrupt && block.next == end {
                    self.ran(block.first, block.instructions);
                    self.move_to(end);
                    return Ok(());
                }
                return Err(Lost::Mismatch(block.last));
            }
        }
        Err(Lost::EndlessLoop(self.state.ip))
    }

    /// Follows the code up to a branch that needs a target, and takes it.
    pub(crate) fn walk_to_target(&mut self, target: u64) -> Result<(), Lost> {
        let id = self.next_branch()?;
        let Some((blocks, _)) = self.code() else { return Err(Lost::NoCode(0)) };
        let block = *blocks.get(id);
        if !block.kind.needs_target() {
            return Err(Lost::Mismatch(block.last));
        }
        match block.kind {
            Kind::IndirectCall => self.returns.push(block.next),
            Kind::Return => drop(self.returns.pop()),
            _ => {}
        }
        self.ran(block.first, block.instructions);
        if block.kind != Kind::IndirectJump || block.leaves_to(target) {
            self.branch(BranchKind::of(block.kind), block.last, target);
        }
        self.enter(target);
        Ok(())
    }

    /// Follows the code up to the branch with which tracing ended.
    pub(crate) fn walk_to_end(&mut self, target: Option<u64>) -> Result<(), Lost> {
        for _ in 0..STEPS_MAX {
            let Some(stop) = self.step(target)? else { continue };
            let id = self.here;
            let Some((blocks, _)) = self.code() else { return Err(Lost::NoCode(0)) };
            let block = *blocks.get(id);
            let fits = match stop {
                Stop::Reached => true,
                Stop::Branch(_) if block.kind == Kind::Conditional => {
                    target.is_none_or(|target| [block.target, block.next].contains(&target))
                }
                Stop::Branch(_) => true,
            };
            if !fits {
                return Err(Lost::Mismatch(block.last));
            }
            self.ran(block.first, block.instructions);
            let kind = Some(BranchKind::of(block.kind));
            self.tell(Event::End { kind, from: block.last, to: target });
            return Ok(());
        }
        Err(Lost::EndlessLoop(self.state.ip))
    }

    #[inline]
    fn ran(&mut self, first: u64, instructions: u32) {
        if S::HAS_RUNS && !self.is_silent && instructions > 0 {
            self.sink.ran(Ran { first, instructions });
        }
    }
}
