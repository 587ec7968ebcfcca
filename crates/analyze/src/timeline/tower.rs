//! Sums and longest spans over ranges of a row, in a few steps however long the range.

use std::ops::Range;

use spanwise_model::{Nanos, SpanId, Spans};

/// How many blocks of a level make up one of the next.
const BLOCK: usize = 16;

/// What a range of spans amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) longest: SpanId,
    pub(super) longest_ns: Nanos,
    pub(super) covered_ns: Nanos,
}

impl Part {
    fn of(span: SpanId, spans: &Spans) -> Self {
        let dur = spans.dur(span);
        Part { longest: span, longest_ns: dur, covered_ns: dur }
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
pub(super) struct Tower(Vec<Vec<Part>>);

impl Tower {
    /// Of a row, whose spans do not overlap.
    pub(super) fn of(ids: &[u32], spans: &Spans) -> Self {
        let mut levels: Vec<Vec<Part>> = Vec::new();
        let parts = |ids: &[u32]| sum(ids.iter().map(|&id| Part::of(SpanId(id), spans)));
        let mut level: Vec<Part> = ids.chunks_exact(BLOCK).filter_map(parts).collect();
        while !level.is_empty() {
            let next = level.chunks_exact(BLOCK).filter_map(|part| sum(part.iter().copied()));
            let next = next.collect();
            levels.push(std::mem::replace(&mut level, next));
        }
        Tower(levels)
    }

    /// What a range of the row amounts to; nothing for an empty one.
    pub(super) fn of_range(&self, ids: &[u32], spans: &Spans, range: Range<usize>) -> Option<Part> {
        let single =
            |range: Range<usize>| sum(ids[range].iter().map(|&id| Part::of(SpanId(id), spans)));
        self.climb(0, range, &single)
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

fn sum(parts: impl Iterator<Item = Part>) -> Option<Part> {
    parts.reduce(Part::and)
}
