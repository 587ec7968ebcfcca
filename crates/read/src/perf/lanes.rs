//! Blocks of whole records, read by all cores and handed over in order.
//!
//! Each core has a lane: names of its own, and what it learned of earlier lines, from block
//! to block. Which lane reads which block is fixed, and the names of a lane are taken over
//! block by block, so what comes out does not depend on how many lanes there are.

use std::thread;

use spanwise_flow::{Adopted, Names, NamesLen};
use spanwise_model::Notices;

use super::header::Header;
use super::parser::{self, Counts, ParseOptions};
use super::quick::Quick;
use super::record::Record;

/// What a stretch of whole records holds, in the numbers of its lane.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) records: Vec<Record>,
    pub(crate) notices: Notices,
    pub(crate) counts: Counts,
    /// How many names the lane had when it was through.
    pub(crate) names_len: NamesLen,
}

/// What one core keeps from block to block.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) names: Names,
    pub(super) quick: Quick,
    /// The numbers of the lane's names where they are joined.
    adopted: Adopted,
}

/// The lanes, and how much text one of them reads at a time.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    block_bytes: usize,
}

/// Where blocks are joined.
pub(crate) trait Join {
    fn names(&mut self) -> &mut Names;
    fn block(&mut self, block: Block, numbers: &Adopted);
}

impl Lanes {
    pub(crate) fn new(threads: usize, block_bytes: usize) -> Self {
        let lanes = (0..threads.max(1)).map(|_| Lane::default()).collect();
        Lanes { lanes, block_bytes }
    }

    /// Reads whole records, and hands them over in order.
    pub(crate) fn read(
        &mut self,
        text: &[u8],
        base: u64,
        options: ParseOptions<'_>,
        join: &mut impl Join,
    ) {
        let mut from = 0;
        while from < text.len() {
            let mut wave: Vec<(u64, &[u8])> = Vec::new();
            while from < text.len() && wave.len() < BLOCKS_A_LANE * self.lanes.len() {
                let rest = &text[from..];
                let len = match rest.get(..self.block_bytes) {
                    None => rest.len(),
                    Some(_) => record_end(rest, self.block_bytes),
                };
                wave.push((base + from as u64, &rest[..len]));
                from += len;
            }
            self.read_wave(&wave, options, join);
        }
    }

    fn read_wave(
        &mut self,
        wave: &[(u64, &[u8])],
        options: ParseOptions<'_>,
        join: &mut impl Join,
    ) {
        let lanes = self.lanes.len();
        let run = |number: usize, lane: &mut Lane| -> Vec<Block> {
            let own = wave.iter().skip(number).step_by(lanes);
            own.map(|&(base, text)| parser::parse(text, base, options, lane)).collect()
        };
        let parsed: Vec<Vec<Block>> = thread::scope(|scope| {
            let (first, others) = self.lanes.split_at_mut(1);
            let others = others.iter_mut().enumerate().take(wave.len().saturating_sub(1));
            let others: Vec<_> =
                others.map(|(number, lane)| scope.spawn(move || run(number + 1, lane))).collect();
            let mut parsed = vec![run(0, &mut first[0])];
            parsed.extend(others.into_iter().map(|lane| lane.join().expect("no panic inside")));
            parsed
        });
        let mut parsed: Vec<_> = parsed.into_iter().map(Vec::into_iter).collect();
        for number in 0..wave.len() {
            let lane = &mut self.lanes[number % lanes];
            let Some(block) = parsed[number % lanes].next() else { continue };
            lane.adopted.extend(join.names(), &lane.names, block.names_len);
            join.block(block, &lane.adopted);
        }
    }
}

/// So many, that lanes seldom wait for each other, and few records are held at once.
const BLOCKS_A_LANE: usize = 4;

/// True where a record begins: at a line that is neither a frame nor beside one.
fn begins_record(text: &[u8]) -> bool {
    match text.first() {
        None | Some(b'\t' | b'\n' | b'\r') => false,
        // Names are set to the right, and lines of source stand between frames. What a line
        // is that has not come to its end cannot be told: `7.5:` may go on as `7.5:x`.
        Some(b' ') => {
            memchr::memchr(b'\n', text).is_some_and(|end| Header::read(&text[..end]).is_some())
        }
        Some(_) => true,
    }
}

/// Where the first record ends at or behind `from`.
fn record_end(text: &[u8], from: usize) -> usize {
    let ends = memchr::memchr_iter(b'\n', &text[from..]).map(|end| from + end + 1);
    let mut ends = ends.filter(|&end| begins_record(&text[end..]));
    ends.next().unwrap_or(text.len())
}

/// How much of a text that goes on is surely whole records.
pub(super) fn whole_records(text: &[u8]) -> usize {
    let ends = memchr::memrchr_iter(b'\n', text).map(|end| end + 1);
    let mut ends = ends.filter(|&end| begins_record(&text[end..]));
    ends.next().unwrap_or(0)
}
