//! Sums and longest spans over ranges of a row, in a few steps however long the range.

use std::ops::Range;

use spanwise_model::Nanos;

/// How many blocks of a level make up one of the next.
const BLOCK: usize = 16;

/// What a range of spans amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// The place of the longest in the row.
    pub(super) longest: u32,
    pub(super) longest_ns: Nanos,
    pub(super) covered_ns: Nanos,
}

impl Part {
    fn of(at: usize, dur: Nanos) -> Self {
        // A row has no more spans than a trace, whose numbers are as short.
        Part { longest: at as u32, longest_ns: dur, covered_ns: dur }
    }

    /// Both together; of two that are as long the first stays.
    fn and(self, other: Part) -> Part {
        let longer = if other.longest_ns > self.longest_ns { other } else { self };
        // They do not overlap and lie between two times, so the sum is one as well.
        let covered_ns = self.covered_ns.saturating_add(other.covered_ns);
        Part { covered_ns, ..longer }
    }
}

/// Levels of blocks: 16 spans each, 256 each, and so on.
#[derive(Debug, Clone, Default)]
pub(super) struct RangeMax(Vec<Vec<Part>>);

impl RangeMax {
    /// Of the lengths of a row's spans, which do not overlap.
    pub(super) fn of(durs: &[Nanos]) -> Self {
        let mut levels: Vec<Vec<Part>> = Vec::new();
        let blocks = (0..durs.len() / BLOCK).map(|block| block * BLOCK..(block + 1) * BLOCK);
        let mut level: Vec<Part> = blocks.filter_map(|block| single(durs, block)).collect();
        while !level.is_empty() {
            let next = level.chunks_exact(BLOCK).filter_map(|part| sum(part.iter().copied()));
            let next = next.collect();
            levels.push(std::mem::replace(&mut level, next));
        }
        RangeMax(levels)
    }

    /// What a range of the row amounts to; nothing for an empty one.
    pub(super) fn of_range(&self, durs: &[Nanos], range: Range<usize>) -> Option<Part> {
        self.climb(0, range, &|range| single(durs, range))
    }

    /// The blocks of a level that lie in the range (counted in entries of the level below), and
    /// what stands at its sides on the level below.
    fn climb(
        &self,
        level: usize,
        range: Range<usize>,
        below: &dyn Fn(Range<usize>) -> Option<Part>,
    ) -> Option<Part> {
        let blocks = range.start.div_ceil(BLOCK)..range.end / BLOCK;
        if blocks.is_empty() || level == self.0.len() {
            return below(range);
        }
        let here = |range: Range<usize>| sum(self.0[level][range].iter().copied());
        let left = below(range.start..blocks.start * BLOCK);
        let right = below(blocks.end * BLOCK..range.end);
        let middle = self.climb(level + 1, blocks, &here);
        sum([left, middle, right].into_iter().flatten())
    }
}

fn single(durs: &[Nanos], range: Range<usize>) -> Option<Part> {
    sum(range.map(|at| Part::of(at, durs[at])))
}

fn sum(parts: impl Iterator<Item = Part>) -> Option<Part> {
    parts.reduce(Part::and)
}
