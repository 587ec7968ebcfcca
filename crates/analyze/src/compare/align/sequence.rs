//! Two sequences side by side: which items correspond.
//!
//! Items are alike on several levels, such as name, operator and class; a closer
//! likeness weighs more, and the pairs found weigh most together. Short sequences are
//! solved by the table of all pairs. Long ones are first cut where they certainly
//! correspond: at their common beginning and end; where they differ by little, at the
//! longest common subsequence; at keys that occur once on both sides, or equally often,
//! as a layer's attention does. What remains too long after that is cut into pieces by
//! length, and the result says so. So time is never quadratic, and space is linear.
//!
//! The sides are put in order first, so that swapping them swaps the result.

use std::collections::HashMap;
use std::ops::Range;

use super::middle;

/// How an item may be like another, the closest likeness first.
pub(crate) type Keys = [u32; 3];

/// Like nothing.
pub(crate) const NO_KEY: u32 = u32::MAX;

/// What a pair is worth that agrees on the first, second or third key.
const WEIGHTS: [u32; 3] = [4, 3, 2];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matches {
    /// Rows of both sides, ascending on both.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// The sequences were too long and too different: a better alignment may exist.
    pub(crate) is_bounded: bool,
}

pub(crate) fn align(a: &[Keys], b: &[Keys]) -> Matches {
    align_within(a, b, &Limits::default())
}

/// When to go on by quicker means.
struct Limits {
    /// So many pairs are weighed at once; less than the square of a piece.
    cells: usize,
    /// Sequences that differ by more are not searched for all they have in common.
    differences: usize,
    /// Items that may be visited in search of places to cut, for each item there is.
    searches: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { cells: 1 << 20, differences: 1 << 10, searches: 64 }
    }
}

fn align_within(a: &[Keys], b: &[Keys], limits: &Limits) -> Matches {
    let is_swapped = (b.len(), b) < (a.len(), a);
    let (first, second) = if is_swapped { (b, a) } else { (a, b) };
    let rows = [with_partner(first, second), with_partner(second, first)];
    let picked = |rows: &[usize], side: &[Keys]| rows.iter().map(|&row| side[row]).collect();
    let mut search = Search {
        a: picked(&rows[0], first),
        b: picked(&rows[1], second),
        limits,
        visited: 0,
        table: Table::default(),
        matches: Matches { pairs: Vec::new(), is_bounded: false },
    };
    search.run();
    let Matches { mut pairs, is_bounded } = search.matches;
    for pair in &mut pairs {
        let (row_a, row_b) = (rows[0][pair.0], rows[1][pair.1]);
        *pair = if is_swapped { (row_b, row_a) } else { (row_a, row_b) };
    }
    pairs.sort_unstable();
    Matches { pairs, is_bounded }
}

/// What a pair is worth; 0 for items that are not alike.
fn weight(a: Keys, b: Keys) -> u32 {
    let level = (0..a.len()).find(|&level| a[level] == b[level] && a[level] != NO_KEY);
    level.map_or(0, |level| WEIGHTS[level])
}

/// Rows that are like something on the other side.
fn with_partner(side: &[Keys], other: &[Keys]) -> Vec<usize> {
    let known: [std::collections::HashSet<u32>; 3] = std::array::from_fn(|level| {
        other.iter().map(|keys| keys[level]).filter(|&key| key != NO_KEY).collect()
    });
    let has_partner =
        |keys: &Keys| (0..keys.len()).any(|level| known[level].contains(&keys[level]));
    (0..side.len()).filter(|&row| has_partner(&side[row])).collect()
}

type Ranges = (Range<usize>, Range<usize>);

struct Search<'a> {
    a: Vec<Keys>,
    b: Vec<Keys>,
    limits: &'a Limits,
    visited: usize,
    table: Table,
    matches: Matches,
}

impl Search<'_> {
    fn run(&mut self) {
        let mut open: Vec<Ranges> = vec![(0..self.a.len(), 0..self.b.len())];
        while let Some((in_a, in_b)) = open.pop() {
            let (in_a, in_b) = self.trimmed(in_a, in_b);
            if in_a.len().saturating_mul(in_b.len()) <= self.limits.cells {
                self.weigh(in_a, in_b);
                continue;
            }
            self.visited += in_a.len() + in_b.len();
            let budget = self.limits.searches * (self.a.len() + self.b.len());
            let anchors =
                if self.visited > budget { Vec::new() } else { self.anchors(&in_a, &in_b) };
            if anchors.is_empty() {
                self.cut(in_a, in_b);
                continue;
            }
            let (mut from_a, mut from_b) = (in_a.start, in_b.start);
            for (x, y) in anchors {
                self.matches.pairs.push((x, y));
                open.push((from_a..x, from_b..y));
                (from_a, from_b) = (x + 1, y + 1);
            }
            open.push((from_a..in_a.end, from_b..in_b.end));
        }
    }

    /// Pairs what is the same at the beginning and at the end.
    fn trimmed(&mut self, mut in_a: Range<usize>, mut in_b: Range<usize>) -> Ranges {
        let same = |x: usize, y: usize| self.a[x][0] == self.b[y][0] && self.a[x][0] != NO_KEY;
        while !in_a.is_empty() && !in_b.is_empty() && same(in_a.start, in_b.start) {
            self.matches.pairs.push((in_a.start, in_b.start));
            (in_a.start, in_b.start) = (in_a.start + 1, in_b.start + 1);
        }
        while !in_a.is_empty() && !in_b.is_empty() && same(in_a.end - 1, in_b.end - 1) {
            (in_a.end, in_b.end) = (in_a.end - 1, in_b.end - 1);
            self.matches.pairs.push((in_a.end, in_b.end));
        }
        (in_a, in_b)
    }

    fn weigh(&mut self, in_a: Range<usize>, in_b: Range<usize>) {
        let (a, b) = (&self.a[in_a.clone()], &self.b[in_b.clone()]);
        let found = self.table.heaviest(a, b);
        let pairs = found.into_iter().map(|(x, y)| (in_a.start + x, in_b.start + y));
        self.matches.pairs.extend(pairs);
    }

    /// Pieces of equal share, each weighed by itself.
    fn cut(&mut self, in_a: Range<usize>, in_b: Range<usize>) {
        self.matches.is_bounded = true;
        let side = self.limits.cells.isqrt().max(1);
        let pieces = in_a.len().max(in_b.len()).div_ceil(side);
        let part = |range: &Range<usize>, at: usize| range.start + range.len() * at / pieces;
        for at in 0..pieces {
            let a = part(&in_a, at)..part(&in_a, at + 1);
            self.weigh(a, part(&in_b, at)..part(&in_b, at + 1));
        }
    }

    /// Pairs that are certainly right, ascending; empty where none are known.
    fn anchors(&self, in_a: &Range<usize>, in_b: &Range<usize>) -> Vec<(usize, usize)> {
        let keys = |side: &[Keys], level: usize| -> Vec<u32> {
            side.iter().map(|keys| keys[level]).collect()
        };
        let (a, b) = (&self.a[in_a.clone()], &self.b[in_b.clone()]);
        let mut found = Vec::new();
        if a.iter().chain(b).all(|keys| keys[0] != NO_KEY) {
            let common = middle::common(&keys(a, 0), &keys(b, 0), self.limits.differences);
            found = common.unwrap_or_default();
        }
        for level in 0..WEIGHTS.len() {
            if found.is_empty() {
                found = counted(&keys(a, level), &keys(b, level));
            }
        }
        found.into_iter().map(|(x, y)| (in_a.start + x, in_b.start + y)).collect()
    }
}

/// Pairs by keys that occur equally often on both sides: those that occur once where most
/// of them agree on the order, else all occurrences of the key whose places agree best.
fn counted(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    let mut places: HashMap<u32, [Vec<usize>; 2]> = HashMap::new();
    for (side, keys) in [a, b].into_iter().enumerate() {
        for (at, &key) in keys.iter().enumerate().filter(|(_, key)| **key != NO_KEY) {
            places.entry(key).or_default()[side].push(at);
        }
    }
    let mut once: Vec<(usize, usize)> = places
        .values()
        .filter(|[in_a, in_b]| in_a.len() == 1 && in_b.len() == 1)
        .map(|[in_a, in_b]| (in_a[0], in_b[0]))
        .collect();
    once.sort_unstable();
    let ascending = longest_ascending(&once);
    if !ascending.is_empty() && ascending.len() * 2 >= once.len() {
        return ascending;
    }
    let equal = places.iter().filter(|(_, [in_a, in_b])| in_a.len() == in_b.len());
    let best = equal
        .map(|(&key, [in_a, in_b])| (farthest([in_a, in_b], [a.len(), b.len()]), key))
        .filter(|&(apart, _)| apart * 8 <= a.len() as u128 * b.len() as u128)
        .min();
    let Some((_, key)) = best else { return Vec::new() };
    let [in_a, in_b] = &places[&key];
    in_a.iter().copied().zip(in_b.iter().copied()).collect()
}

/// The largest distance of positions, as shares of the lengths, times both lengths.
fn farthest(positions: [&[usize]; 2], lengths: [usize; 2]) -> u128 {
    let ([in_a, in_b], [n, m]) = (positions, lengths);
    let apart =
        |(&x, &y): (&usize, &usize)| (x as u128 * m as u128).abs_diff(y as u128 * n as u128);
    in_a.iter().zip(in_b).map(apart).max().unwrap_or(0)
}

/// The longest part of pairs, which ascend by the first, that also ascends by the second.
fn longest_ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length the row of its lowest end, and for each row the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (row, &(_, second)) in pairs.iter().enumerate() {
        let len = ends.partition_point(|&end| pairs[end].1 < second);
        before.push(len.checked_sub(1).map(|last| ends[last]));
        ends.truncate(ends.len().max(len));
        match ends.get_mut(len) {
            Some(end) => *end = row,
            None => ends.push(row),
        }
    }
    let rows = std::iter::successors(ends.last().copied(), |&row| before[row]);
    let mut found: Vec<(usize, usize)> = rows.map(|row| pairs[row]).collect();
    found.reverse();
    found
}

/// The table of all pairs, kept for its memory.
#[derive(Default)]
struct Table {
    /// What the rest is worth from each pair on, of two rows.
    rows: [Vec<u32>; 2],
    steps: Vec<Step>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    #[default]
    Pair,
    SkipA,
    SkipB,
}

impl Table {
    /// Of all ascending pairs those that weigh most together; of equals the earliest.
    fn heaviest(&mut self, a: &[Keys], b: &[Keys]) -> Vec<(usize, usize)> {
        if a.is_empty() || b.is_empty() {
            return Vec::new();
        }
        self.steps.clear();
        self.steps.resize(a.len() * b.len(), Step::Pair);
        let [below, row] = &mut self.rows;
        below.clear();
        below.resize(b.len() + 1, 0);
        row.clear();
        row.resize(b.len() + 1, 0);
        for (at_a, &keys) in a.iter().enumerate().rev() {
            for (at_b, &other) in b.iter().enumerate().rev() {
                let weight = weight(keys, other);
                let paired = if weight == 0 { 0 } else { weight + below[at_b + 1] };
                let (skip_a, skip_b) = (below[at_b], row[at_b + 1]);
                let best = paired.max(skip_a).max(skip_b);
                row[at_b] = best;
                self.steps[at_a * b.len() + at_b] = match best {
                    _ if weight > 0 && paired == best => Step::Pair,
                    _ if skip_b == best => Step::SkipB,
                    _ => Step::SkipA,
                };
            }
            std::mem::swap(below, row);
        }
        let (mut at_a, mut at_b, mut pairs) = (0, 0, Vec::new());
        while at_a < a.len() && at_b < b.len() {
            match self.steps[at_a * b.len() + at_b] {
                Step::Pair => {
                    pairs.push((at_a, at_b));
                    (at_a, at_b) = (at_a + 1, at_b + 1);
                }
                Step::SkipA => at_a += 1,
                Step::SkipB => at_b += 1,
            }
        }
        pairs
    }
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
