//! How much time a set of spans of one thread covers; what is nested counts once.
//!
//! Spans come mostly in the order of their ends. What is covered so far is kept as intervals
//! that do not touch; a span takes those away that it covers. They can be forgotten as soon as
//! nothing is open any more, since nothing that ends later can reach back.

/// So many intervals are kept while something long is open, 16 MiB of them.
const INTERVALS_MAX: usize = 1 << 20;

#[derive(Debug, Default, Clone)]
pub(crate) struct Union {
    /// Ascending, apart from each other.
    intervals: Vec<(u64, u64)>,
    /// The era that they are of: see [`Union::add`].
    era: u64,
}

impl Union {
    /// How much the span covers that was not covered before. An era ends when nothing is open
    /// on the thread: no later span reaches back beyond that.
    pub(crate) fn add(&mut self, start: u64, end: u64, era: u64) -> u64 {
        if self.era != era {
            self.era = era;
            self.intervals.clear();
        }
        let end = end.max(start);
        // Mostly the last one or two: what comes ends last.
        let mut first = self.intervals.len();
        while first > 0 && self.intervals[first - 1].1 >= start {
            first -= 1;
        }
        let reached = self.intervals[first..].partition_point(|known| known.0 <= end);
        let touched = first..first + reached;
        let (mut from, mut to, mut new) = (start, end, end - start);
        for &(known_start, known_end) in &self.intervals[touched.clone()] {
            new -= known_end.min(end).saturating_sub(known_start.max(start));
            from = from.min(known_start);
            to = to.max(known_end);
        }
        // Mostly it follows all others, or lies around the last one: a splice is ten times slower.
        match touched.len() {
            0 if first == self.intervals.len() => self.intervals.push((from, to)),
            1 => self.intervals[first] = (from, to),
            _ => drop(self.intervals.splice(touched, [(from, to)])),
        }
        if self.intervals.len() > INTERVALS_MAX {
            self.intervals.drain(..INTERVALS_MAX / 2);
        }
        new
    }
}
