//! The spans of a track in rows that do not overlap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use spanwise_model::{Nanos, SpanId, Trace, Track, TrackKind};

use super::range_max::RangeMax;

/// Rows of a track, the outermost first; in each the spans in order of time, none of which
/// begins before the one before it has ended.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Numbers of spans, row after row, and their times in the same order: neighbors of a row
    /// are far apart in the trace's own columns, and every search visits neighbors.
    ids: Vec<u32>,
    starts: Vec<Nanos>,
    durs: Vec<Nanos>,
    /// Where each row begins in `ids`, and the end of the last.
    begins: Vec<usize>,
    longest: Vec<RangeMax>,
    /// The row of each span of the track, in order of spans.
    row_of: Vec<u32>,
    first: u32,
}

impl Rows {
    pub fn of(trace: &Trace, track: &Track) -> Self {
        let row_of = match track.kind {
            TrackKind::Thread | TrackKind::Profiler | TrackKind::Counter => by_depth(trace, track),
            // Here spans overlap freely, and what contains what means nothing.
            TrackKind::GpuStream | TrackKind::Async => by_room(trace, track),
        };
        let rows = row_of.iter().map(|&row| row as usize + 1).max().unwrap_or(0);
        let mut begins = vec![0; rows + 1];
        for &row in &row_of {
            begins[row as usize + 1] += 1;
        }
        for row in 0..rows {
            begins[row + 1] += begins[row];
        }
        let mut next = begins.clone();
        let count = row_of.len();
        let (mut ids, mut starts, mut durs) = (vec![0; count], vec![0; count], vec![0; count]);
        for (id, &row) in track.spans.clone().zip(&row_of) {
            let at = next[row as usize];
            ids[at] = id;
            starts[at] = trace.spans().start(SpanId(id));
            durs[at] = trace.spans().dur(SpanId(id));
            next[row as usize] += 1;
        }
        let longest = |row: &[usize]| RangeMax::of(&durs[row[0]..row[1]]);
        let longest = begins.windows(2).map(longest).collect();
        Rows { ids, starts, durs, begins, longest, row_of, first: track.spans.start }
    }

    /// The row of each span of a track.
    pub fn depths(trace: &Trace, track: &Track) -> Vec<u32> {
        by_depth(trace, track)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.longest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.longest.is_empty()
    }

    /// The row of a span of this track.
    pub fn row_of(&self, span: SpanId) -> Option<u32> {
        self.row_of.get(span.0.checked_sub(self.first)? as usize).copied()
    }

    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let range = self.begins[row]..self.begins[row + 1];
        Row {
            ids: &self.ids[range.clone()],
            starts: &self.starts[range.clone()],
            durs: &self.durs[range],
            longest: &self.longest[row],
        }
    }
}

/// The spans of one row in order of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) ids: &'a [u32],
    pub(super) starts: &'a [Nanos],
    pub(super) durs: &'a [Nanos],
    pub(super) longest: &'a RangeMax,
}

impl Row<'_> {
    pub(super) fn end(&self, at: usize) -> Nanos {
        self.starts[at].saturating_add(self.durs[at])
    }
}

/// How many spans around one are checked, and how many rows, before a new row is begun: files
/// from strangers may overlap as they like.
const TRIES_MAX: usize = 256;

/// Below the innermost span that contains it, in the first row that is free: a stack. What only
/// overlaps its neighbor, as steps of a training loop do by microseconds, stands beside it and
/// not inside, so that a chain of such neighbors needs two rows and not one for each.
fn by_depth(trace: &Trace, track: &Track) -> Vec<u32> {
    let spans = trace.spans();
    let mut row_of: Vec<u32> = Vec::with_capacity(track.spans.len());
    let mut taken_until: Vec<Nanos> = Vec::new();
    for span in track.span_ids() {
        let (start, end) = (spans.start(span), spans.end(span));
        let around = std::iter::successors(spans.parent(span), |&inner| spans.parent(inner));
        let around = around.take(TRIES_MAX).find(|&outer| spans.end(outer) >= end);
        let first =
            around.map_or(0, |outer| row_of[(outer.0 - track.spans.start) as usize] as usize + 1);
        let mut tried = (first..taken_until.len()).take(TRIES_MAX);
        let row = tried.find(|&row| taken_until[row] <= start).unwrap_or(taken_until.len());
        if row == taken_until.len() {
            taken_until.push(end);
        }
        taken_until[row] = end;
        row_of.push(row as u32);
    }
    row_of
}

/// The first row that is free again.
fn by_room(trace: &Trace, track: &Track) -> Vec<u32> {
    let spans = trace.spans();
    let mut taken: BinaryHeap<Reverse<(Nanos, u32)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
    let mut rows = 0;
    let mut row_of = Vec::with_capacity(track.spans.len());
    for span in track.span_ids() {
        while taken.peek().is_some_and(|Reverse((end, _))| *end <= spans.start(span)) {
            free.extend(taken.pop().map(|Reverse((_, row))| Reverse(row)));
        }
        let row = free.pop().map_or_else(
            || {
                rows += 1;
                rows - 1
            },
            |Reverse(row)| row,
        );
        taken.push(Reverse((spans.end(span), row)));
        row_of.push(row);
    }
    row_of
}
