//! Code between branches, decoded once and then known.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::ExecMode;
use crate::code::image::Image;
use crate::code::insn::{self, Insn, Kind, LEN_MAX};

/// Number of a block in its [`Blocks`].
pub(crate) type BlockId = u32;

const NOT_KNOWN: BlockId = BlockId::MAX;

/// Instructions of which only the last can branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) first: u64,
    /// The last instruction.
    pub(crate) last: u64,
    /// Behind it.
    pub(crate) next: u64,
    pub(crate) target: u64,
    /// None where no code is known.
    pub(crate) instructions: u32,
    /// Of the last instruction.
    pub(crate) kind: Kind,
    /// Its target is in another function.
    pub(crate) leaves: bool,
    /// What follows where the branch is not taken, and where it is.
    links: [BlockId; 2],
}

/// No block is longer, so that decoding a block takes bounded time.
const INSTRUCTIONS_MAX: u32 = 1 << 12;

const RECENT: usize = 1 << 10;

/// The blocks of one image in one mode, by their first address. Starting in the middle of a
/// block makes another.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    /// The function that each is in: its first address, and the first behind it. Asked for
    /// seldom, so that a block stays short.
    functions: Vec<(u64, u64)>,
    ids: HashMap<u64, BlockId, IpState>,
    /// What was asked for last, by a few bits of the address.
    recent: Vec<(u64, BlockId)>,
}

/// Begins with a random number: a file chooses the addresses, and must not be able to choose
/// such that all of them fall into one slot.
#[derive(Debug, Clone, Copy)]
struct IpState(u64);

impl Default for IpState {
    fn default() -> Self {
        IpState(RandomState::new().build_hasher().finish())
    }
}

impl BuildHasher for IpState {
    type Hasher = IpHasher;

    fn build_hasher(&self) -> IpHasher {
        IpHasher(self.0)
    }
}

#[derive(Debug)]
struct IpHasher(u64);

impl Hasher for IpHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, ip: u64) {
        // The table takes its bits from both ends.
        let mixed = u128::from(self.0 ^ ip) * 0x9e37_79b9_7f4a_7c15;
        self.0 = mixed as u64 ^ (mixed >> 64) as u64;
    }
}

impl Blocks {
    #[inline]
    pub(crate) fn get(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }

    /// The block that begins at an address.
    #[inline]
    pub(crate) fn at(&mut self, ip: u64, image: &Image<'_>, mode: ExecMode) -> BlockId {
        let slot = (ip ^ ip >> 10) as usize % RECENT;
        match self.recent.get(slot) {
            Some(&(known, id)) if known == ip && id != NOT_KNOWN => id,
            _ => self.find(ip, slot, image, mode),
        }
    }

    fn find(&mut self, ip: u64, slot: usize, image: &Image<'_>, mode: ExecMode) -> BlockId {
        if self.recent.is_empty() {
            self.recent.resize(RECENT, (0, NOT_KNOWN));
        }
        let (blocks, functions) = (&mut self.blocks, &mut self.functions);
        let id = *self.ids.entry(ip).or_insert_with(|| {
            let function = image.function(ip);
            functions.push(function);
            blocks.push(block_at(ip, function, image, mode));
            (blocks.len() - 1) as BlockId
        });
        self.recent[slot] = (ip, id);
        id
    }

    /// The block that follows one, at its target or behind it.
    #[inline]
    pub(crate) fn after(
        &mut self,
        id: BlockId,
        is_taken: bool,
        code: (&Image<'_>, ExecMode),
    ) -> BlockId {
        match self.get(id).links[usize::from(is_taken)] {
            NOT_KNOWN => self.link(id, is_taken, code),
            known => known,
        }
    }

    #[cold]
    fn link(&mut self, id: BlockId, is_taken: bool, code: (&Image<'_>, ExecMode)) -> BlockId {
        let (image, mode) = code;
        let Block { target, next, .. } = *self.get(id);
        let found = self.at(if is_taken { target } else { next }, image, mode);
        self.blocks[id as usize].links[usize::from(is_taken)] = found;
        found
    }

    /// True for an address outside of the function that a block is in.
    pub(crate) fn leaves_to(&self, id: BlockId, ip: u64) -> bool {
        let (start, end) = self.functions[id as usize];
        !(start..end).contains(&ip)
    }
}

/// The instruction at an address, though it may lie in two sections.
fn instruction(ip: u64, image: &Image<'_>, mode: ExecMode) -> Option<Insn> {
    let bytes = image.bytes(ip);
    if bytes.len() >= LEN_MAX {
        return insn::decode(bytes, mode);
    }
    let mut joined = bytes.to_vec();
    while joined.len() < LEN_MAX {
        let more = image.bytes(ip.wrapping_add(joined.len() as u64));
        if more.is_empty() {
            break;
        }
        joined.extend(&more[..more.len().min(LEN_MAX)]);
    }
    insn::decode(&joined, mode)
}

fn block_at(first: u64, function: (u64, u64), image: &Image<'_>, mode: ExecMode) -> Block {
    let mut block = Block {
        first,
        last: first,
        next: first,
        target: 0,
        instructions: 0,
        kind: Kind::Plain,
        leaves: false,
        links: [NOT_KNOWN; 2],
    };
    while block.instructions < INSTRUCTIONS_MAX {
        let Some(found) = instruction(block.next, image, mode) else { return block };
        block.last = block.next;
        block.next = within(mode, block.next.wrapping_add(found.len.into()));
        block.instructions += 1;
        if found.kind != Kind::Plain {
            block.kind = found.kind;
            block.target = within(mode, block.next.wrapping_add_signed(found.relative));
            block.leaves = !(function.0..function.1).contains(&block.target);
            return block;
        }
    }
    block
}

/// Addresses are as wide as the mode says.
fn within(mode: ExecMode, ip: u64) -> u64 {
    match mode {
        ExecMode::Bits64 => ip,
        ExecMode::Bits32 => ip & 0xffff_ffff,
        ExecMode::Bits16 => ip & 0xffff,
    }
}

/// How many instructions of a block are before an address; `None` where none begins there.
pub(crate) fn instructions_before(
    block: &Block,
    ip: u64,
    code: (&Image<'_>, ExecMode),
) -> Option<u32> {
    let (image, mode) = code;
    let mut at = block.first;
    for count in 0..block.instructions {
        if at == ip {
            return Some(count);
        }
        at = within(mode, at.wrapping_add(instruction(at, image, mode)?.len.into()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// nop; nop; jne back to the first; ret.
    const CODE: [u8; 5] = [0x90, 0x90, 0x75, 0xfc, 0xc3];

    fn image() -> Image<'static> {
        let mut image = Image::default();
        // An instruction lies in two sections.
        image.map(0x1000, &CODE[..3]);
        image.map(0x1003, &CODE[3..]);
        image
    }

    #[test]
    fn a_block_ends_with_its_branch() {
        let (image, mut blocks) = (image(), Blocks::default());
        let id = blocks.at(0x1000, &image, ExecMode::Bits64);
        let block = *blocks.get(id);
        assert_eq!((block.last, block.next, block.target), (0x1002, 0x1004, 0x1000));
        assert_eq!((block.instructions, block.kind), (3, Kind::Conditional));
        assert_eq!(blocks.after(id, true, (&image, ExecMode::Bits64)), id);
        let after = blocks.after(id, false, (&image, ExecMode::Bits64));
        assert_eq!(blocks.get(after).kind, Kind::Return);
        assert_eq!(blocks.at(0x1000, &image, ExecMode::Bits64), id);
        let counts = [0x1000, 0x1002, 0x1003, 0x1004]
            .map(|ip| instructions_before(&block, ip, (&image, ExecMode::Bits64)));
        assert_eq!(counts, [Some(0), Some(2), None, None]);
    }

    #[test]
    fn where_no_code_is_a_block_is_empty() {
        let (image, mut blocks) = (image(), Blocks::default());
        let id = blocks.at(0x1005, &image, ExecMode::Bits64);
        assert_eq!((blocks.get(id).instructions, blocks.get(id).kind), (0, Kind::Plain));
    }

    #[test]
    fn a_long_block_is_cut() {
        let nops = vec![0x90; 10_000];
        let (mut image, mut blocks) = (Image::default(), Blocks::default());
        image.map(0, &nops);
        let id = blocks.at(0, &image, ExecMode::Bits64);
        assert_eq!(blocks.get(id).next, u64::from(INSTRUCTIONS_MAX));
        let after = blocks.after(id, false, (&image, ExecMode::Bits64));
        assert_eq!(blocks.get(after).first, u64::from(INSTRUCTIONS_MAX));
    }
}
