//! From rows of many batches to the span columns: merge, then find parents.
//!
//! Each batch holds sorted rows per track. Batches of one track mostly follow one
//! another in time, so they form a few sorted chains, and one merge writes the
//! final columns without a sort, a key array or a scratch copy. A large track is
//! cut at pivot keys, so that all cores merge disjoint ranges of rows.

use std::cmp::Reverse;
use std::sync::Mutex;

use crate::build::batch::SpanRow;
use crate::{CategoryId, NO_ROW, Nanos, StrId, for_each_index};

/// Rows of one track in one batch, with that batch's numbering of names.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) rows: &'a [SpanRow],
    pub(crate) names: &'a [u32],
    pub(crate) categories: &'a [u16],
}

/// The span columns before joins; `key` is needed for those only.
pub(crate) struct SpanColumns {
    pub(crate) start: Vec<i64>,
    pub(crate) dur: Vec<i64>,
    pub(crate) name: Vec<u32>,
    pub(crate) category: Vec<u16>,
    pub(crate) offset: Vec<u64>,
    pub(crate) key: Vec<u64>,
}

/// A track longer than this is merged by several threads.
const ROWS_PER_PART_MIN: usize = 1 << 16;

/// Merges the runs of each track into the columns, track by track. Also gives
/// where each track's rows begin, and the end of the last.
pub(crate) fn merge_tracks(runs: Vec<Vec<Run<'_>>>, threads: usize) -> (SpanColumns, Vec<u32>) {
    let mut ranges = vec![0];
    for runs in &runs {
        ranges.push(ranges[ranges.len() - 1] + rows_of(runs) as u32);
    }
    let rows = ranges[ranges.len() - 1] as usize;
    let mut columns = SpanColumns {
        start: vec![0; rows],
        dur: vec![0; rows],
        name: vec![0; rows],
        category: vec![0; rows],
        offset: vec![0; rows],
        key: vec![0; rows],
    };
    let mut rest = Slots {
        start: &mut columns.start,
        dur: &mut columns.dur,
        name: &mut columns.name,
        category: &mut columns.category,
        offset: &mut columns.offset,
        key: &mut columns.key,
    };
    let mut pieces = Vec::new();
    for runs in runs {
        let parts = (rows_of(&runs) / ROWS_PER_PART_MIN).clamp(1, 4 * threads);
        for chains in cut(chains(runs), parts) {
            let len = chains.iter().map(|chain| rows_of(chain)).sum();
            let (slots, after) = rest.split_at(len);
            rest = after;
            if len > 0 {
                pieces.push(Mutex::new(Some((chains, slots))));
            }
        }
    }
    for_each_index(pieces.len(), threads, |index| {
        let piece = pieces[index].lock().expect("no panic inside").take();
        let (chains, slots) = piece.expect("each piece is taken once");
        merge(chains, slots);
    });
    drop(pieces);
    (columns, ranges)
}

fn rows_of(runs: &[Run<'_>]) -> usize {
    runs.iter().map(|run| run.rows.len()).sum()
}

/// A disjoint range of all span columns while they are written.
struct Slots<'a> {
    start: &'a mut [i64],
    dur: &'a mut [i64],
    name: &'a mut [u32],
    category: &'a mut [u16],
    offset: &'a mut [u64],
    key: &'a mut [u64],
}

impl<'a> Slots<'a> {
    fn split_at(self, at: usize) -> (Slots<'a>, Slots<'a>) {
        let (start, start_rest) = self.start.split_at_mut(at);
        let (dur, dur_rest) = self.dur.split_at_mut(at);
        let (name, name_rest) = self.name.split_at_mut(at);
        let (category, category_rest) = self.category.split_at_mut(at);
        let (offset, offset_rest) = self.offset.split_at_mut(at);
        let (key, key_rest) = self.key.split_at_mut(at);
        (
            Slots { start, dur, name, category, offset, key },
            Slots {
                start: start_rest,
                dur: dur_rest,
                name: name_rest,
                category: category_rest,
                offset: offset_rest,
                key: key_rest,
            },
        )
    }

    fn write(&mut self, at: usize, run: &Run<'_>, row: &SpanRow) {
        self.start[at] = row.start;
        self.dur[at] = row.dur;
        self.name[at] = run.names[row.name.index()];
        self.category[at] = run.categories[row.category.index()];
        self.offset[at] = row.offset;
        self.key[at] = row.key;
    }
}

/// Runs that follow one another in order: together one sorted sequence.
type Chain<'a> = Vec<Run<'a>>;

/// Strings runs together into as few sorted chains as a greedy choice gives.
fn chains<'a>(runs: impl IntoIterator<Item = Run<'a>>) -> Vec<Chain<'a>> {
    let mut chains: Vec<Chain<'a>> = Vec::new();
    for run in runs {
        let Some(first) = run.rows.first() else { continue };
        let fits = |chain: &&mut Chain<'a>| {
            let last = chain.last().and_then(|run| run.rows.last()).expect("chains hold rows");
            last.order() <= first.order()
        };
        match chains.iter_mut().find(fits) {
            Some(chain) => chain.push(run),
            None => chains.push(vec![run]),
        }
    }
    chains
}

/// Cuts sorted chains into `parts` ranges of keys, of about equal length.
fn cut<'a>(chains: Vec<Chain<'a>>, parts: usize) -> Vec<Vec<Chain<'a>>> {
    let longest = chains.iter().max_by_key(|chain| rows_of(chain));
    let Some(longest) = longest.filter(|_| parts > 1) else { return vec![chains] };
    let pivots: Vec<_> =
        (1..parts).map(|part| row_at(longest, rows_of(longest) * part / parts).order()).collect();
    let mut rest = chains;
    let mut pieces = Vec::with_capacity(parts);
    for pivot in pivots {
        let (below, above) = rest.into_iter().map(|chain| split_chain(chain, pivot)).unzip();
        pieces.push(below);
        rest = above;
    }
    pieces.push(rest);
    pieces
}

fn row_at<'a>(chain: &Chain<'a>, mut at: usize) -> &'a SpanRow {
    for run in chain {
        match run.rows.get(at) {
            Some(row) => return row,
            None => at -= run.rows.len(),
        }
    }
    unreachable!("callers ask for a row below its length")
}

fn split_chain<'a>(
    chain: Chain<'a>,
    pivot: (Nanos, Reverse<Nanos>, u64),
) -> (Chain<'a>, Chain<'a>) {
    let (mut below, mut above) = (Vec::new(), Vec::new());
    for run in chain {
        let at = run.rows.partition_point(|row| row.order() < pivot);
        let (low, high) = run.rows.split_at(at);
        if !low.is_empty() {
            below.push(Run { rows: low, ..run });
        }
        if !high.is_empty() {
            above.push(Run { rows: high, ..run });
        }
    }
    (below, above)
}

/// Merges sorted chains into the columns, which have exactly their length.
fn merge(chains: Vec<Chain<'_>>, mut slots: Slots<'_>) {
    let mut at = 0;
    let mut heads: Vec<Head<'_>> = chains.into_iter().filter_map(Head::new).collect();
    // The head that comes first stands last. After each step it is moved down to
    // its place: one comparison while a chain leads, few where chains are few.
    heads.sort_by_key(|head| Reverse(head.first));
    while let Some(mut head) = heads.pop() {
        let next = heads.last().map(|other| other.first);
        loop {
            slots.write(at, &head.run, &head.run.rows[0]);
            at += 1;
            if !head.advance() {
                break;
            }
            if next.is_some_and(|next| next < head.first) {
                let place = heads.partition_point(|other| other.first > head.first);
                heads.insert(place, head);
                break;
            }
        }
    }
    debug_assert_eq!(at, slots.start.len());
}

struct Head<'a> {
    first: (Nanos, Reverse<Nanos>, u64),
    run: Run<'a>,
    rest: std::vec::IntoIter<Run<'a>>,
}

impl<'a> Head<'a> {
    fn new(chain: Chain<'a>) -> Option<Self> {
        let mut rest = chain.into_iter();
        let run = rest.next()?;
        Some(Head { first: run.rows.first()?.order(), run, rest })
    }

    /// Moves to the next row; false at the end.
    fn advance(&mut self) -> bool {
        self.run.rows = &self.run.rows[1..];
        if self.run.rows.is_empty() {
            match self.rest.next() {
                Some(run) => self.run = run,
                None => return false,
            }
        }
        self.first = self.run.rows[0].order();
        true
    }
}

/// For each span the innermost one that was open when it began.
///
/// `starts` ascends; `first_row` is the number of the first row. Where spans do
/// not nest, an outer one may end first; it then lies dead in the stack below and
/// is dropped when it comes to the top, so the top is always the innermost open.
pub(crate) fn parents(starts: &[i64], durs: &[i64], first_row: u32, parents: &mut [u32]) {
    debug_assert!(starts.is_sorted());
    let mut open: Vec<(i64, u32)> = Vec::new();
    for (at, (&start, &dur)) in starts.iter().zip(durs).enumerate() {
        while open.last().is_some_and(|&(end, _)| end <= start) {
            open.pop();
        }
        parents[at] = open.last().map_or(NO_ROW, |&(_, row)| row);
        if dur > 0 {
            open.push((start + dur, first_row + at as u32));
        }
    }
}

/// A span made by the builder itself, with numbers that are final already.
pub(crate) fn derived_row(
    start: Nanos,
    end: Nanos,
    name: StrId,
    category: CategoryId,
    offset: u64,
) -> SpanRow {
    // From one end of 64 bits to the other a length does not fit: the longest does.
    let dur = end.saturating_sub(start);
    SpanRow { start, dur, key: crate::NO_KEY, offset, name, category }
}
