//! What one reader thread makes of one piece of a source.
//!
//! A batch numbers its strings, categories and tracks for itself, so that threads
//! share nothing while they read; [`crate::TraceBuilder`] joins batches in the
//! order of the source. A simple reader fills a single batch.

use std::collections::{BTreeMap, HashMap};

use crate::{
    CategoryId, Nanos, NoticeKind, Notices, ObservedRows, SpanKind, StrId, StringsBuilder, TrackId,
    TrackKind,
};

/// A [`SpanRow::key`] that says nothing.
pub const NO_KEY: u64 = u64::MAX;

/// The offset of an event that has no place in a source text.
pub const NO_OFFSET: u64 = u64::MAX;

/// A span as its reader found it.
#[derive(Debug, Clone, Copy)]
pub struct SpanRow {
    /// Its start.
    pub start: Nanos,
    /// Its duration.
    pub dur: Nanos,
    /// What joins it with other rows: the correlation id of runtime calls and GPU
    /// work; [`SpanRow::python_key`] of Python frames; else [`NO_KEY`].
    pub key: u64,
    /// Offset in the source text ([`crate::NO_OFFSET`] if none).
    pub offset: u64,
    /// Its name.
    pub name: StrId,
    /// Its category.
    pub category: CategoryId,
}

impl SpanRow {
    /// A Python frame's own number and its caller's, where both fit 32 bits.
    pub fn python_key(id: u64, parent: Option<u64>) -> u64 {
        let parent = parent.unwrap_or(u64::from(u32::MAX));
        match (u32::try_from(id), u32::try_from(parent)) {
            (Ok(id), Ok(parent)) => u64::from(id) << 32 | u64::from(parent),
            _ => NO_KEY,
        }
    }

    /// The order of spans inside a track (I3).
    pub(crate) fn order(&self) -> (Nanos, std::cmp::Reverse<Nanos>, u64) {
        (self.start, std::cmp::Reverse(self.dur), self.offset)
    }
}

/// A begin or an end that still has to find its counterpart.
#[derive(Debug, Clone, Copy)]
pub struct PairRow {
    /// When it happened.
    pub time: Nanos,
    /// Offset in the source text ([`crate::NO_OFFSET`] if none).
    pub offset: u64,
    /// Its name.
    pub name: StrId,
    /// The track it is on.
    pub track: TrackId,
    /// Its category.
    pub category: CategoryId,
    /// Whether it is the start of a span.
    pub is_begin: bool,
}

/// What an asynchronous event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncPhase {
    /// Starts a span.
    Begin,
    /// Ends a span.
    End,
}

/// One end of a span that belongs to no thread; `key` joins it with the other.
#[derive(Debug, Clone, Copy)]
pub struct AsyncRow {
    /// When it happened.
    pub time: Nanos,
    /// What the two ends have in common.
    pub key: u64,
    /// Offset in the source text ([`crate::NO_OFFSET`] if none).
    pub offset: u64,
    /// Its name.
    pub name: StrId,
    /// The track it is on.
    pub track: TrackId,
    /// Its category.
    pub category: CategoryId,
    /// Start or end.
    pub phase: AsyncPhase,
}

/// The position of a flow event in its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowPhase {
    /// The first.
    Start,
    /// One in between.
    Step,
    /// The last.
    End,
}

/// A flow event; those of one category and key are one flow.
#[derive(Debug, Clone, Copy)]
pub struct FlowRow {
    /// When it happened.
    pub time: Nanos,
    /// What the events of a flow have in common.
    pub key: u64,
    /// Offset in the source text ([`crate::NO_OFFSET`] if none).
    pub offset: u64,
    /// The track it is on.
    pub track: TrackId,
    /// Its category.
    pub category: CategoryId,
    /// Its position in the flow.
    pub phase: FlowPhase,
    /// Stands on the span open at its time, not on the next one to begin.
    pub binds_enclosing: bool,
    /// Draws the launch of GPU work, with the correlation id as key.
    pub is_launch: bool,
}

/// A link between two spans that its source names, by their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRow {
    /// The offset of the span that it leads from.
    pub from: u64,
    /// The offset of the span that it leads to.
    pub to: u64,
    /// Its category. A link without one is the launch of GPU work, and nothing to draw.
    pub category: Option<CategoryId>,
}

/// An instant event as its reader found it.
#[derive(Debug, Clone, Copy)]
pub struct InstantRow {
    /// When it happened.
    pub time: Nanos,
    /// Offset in the source text ([`crate::NO_OFFSET`] if none).
    pub offset: u64,
    /// Its name.
    pub name: StrId,
    /// The track it is on.
    pub track: TrackId,
    /// Its category.
    pub category: CategoryId,
}

/// A value of a counter as its reader found it.
#[derive(Debug, Clone, Copy)]
pub struct CounterRow {
    /// When it happened.
    pub time: Nanos,
    /// Offset in the source text ([`crate::NO_OFFSET`] if none).
    pub offset: u64,
    /// The value.
    pub value: f64,
    /// The track it is on.
    pub track: TrackId,
}

/// What a source says about a track or a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackLabel {
    /// The name of the process.
    ProcessName(StrId),
    /// The name of the thread.
    ThreadName(StrId),
    /// The position of the process among others.
    ProcessSort(i64),
    /// The position of the thread in its process.
    ThreadSort(i64),
}

/// The spans of one track in one batch, in order once the batch is sealed.
///
/// Kept in chunks: growing one long vector would touch twice the memory, and
/// fresh memory costs more here than anything that is done with the rows.
#[derive(Debug, Default)]
pub(crate) struct TrackRows {
    full: Vec<Vec<SpanRow>>,
    last: Vec<SpanRow>,
    unsorted: bool,
}

impl TrackRows {
    /// 80 KB: what is larger, allocators ask the kernel for piece by piece, and give back so.
    const CHUNK_ROWS: usize = 2048;
    /// Producers write calls when they end, or many with one time: rows that come late
    /// mostly belong among the last few.
    const NEAR_ROWS: usize = 32;

    #[inline]
    fn push(&mut self, row: SpanRow) {
        if self.last.len() == Self::CHUNK_ROWS {
            self.close_chunk();
        }
        let before = self.last.last().or_else(|| self.full.last()?.last());
        if before.is_some_and(|before| before.order() > row.order()) {
            return self.push_late(row);
        }
        self.last.push(row);
    }

    /// Puts a row that should have come earlier where it belongs, if that is not far.
    #[cold]
    fn push_late(&mut self, row: SpanRow) {
        let near = self.last.len().saturating_sub(Self::NEAR_ROWS);
        let later = self.last[near..].partition_point(|other| other.order() <= row.order());
        let at = near + later;
        let before = match at.checked_sub(1) {
            Some(before) => self.last.get(before),
            None => self.full.last().and_then(|chunk| chunk.last()),
        };
        if self.unsorted || before.is_some_and(|before| before.order() > row.order()) {
            self.unsorted = true;
            self.last.push(row);
        } else {
            self.last.insert(at, row);
        }
    }

    #[cold]
    fn close_chunk(&mut self) {
        let next = Vec::with_capacity(Self::CHUNK_ROWS);
        self.full.push(std::mem::replace(&mut self.last, next));
    }

    fn sort(&mut self) {
        if std::mem::take(&mut self.unsorted) {
            let mut rows = self.full.concat();
            self.full.clear();
            rows.append(&mut self.last);
            rows.sort_by_key(SpanRow::order);
            self.last = rows;
        }
    }

    /// The rows, chunk after chunk; none is empty.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[SpanRow]> {
        let chunks = self.full.iter().chain(std::iter::once(&self.last));
        chunks.map(Vec::as_slice).filter(|rows| !rows.is_empty())
    }
}

/// Rows of one piece of a source, with ids of its own.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) strings: StringsBuilder,
    pub(crate) categories: Vec<(StrId, SpanKind)>,
    pub(crate) tracks: Vec<(TrackKind, StrId, StrId)>,
    category_ids: HashMap<StrId, CategoryId>,
    track_ids: HashMap<(TrackKind, StrId, StrId), TrackId>,
    pub(crate) spans: Vec<TrackRows>,
    pub(crate) labels: Vec<(TrackId, TrackLabel)>,
    /// Starts and ends of spans on threads.
    pub pairs: Vec<PairRow>,
    /// Starts and ends of asynchronous spans.
    pub asyncs: Vec<AsyncRow>,
    /// Flow events.
    pub flows: Vec<FlowRow>,
    /// Links between spans of any batch.
    pub links: Vec<LinkRow>,
    /// Instant events.
    pub instants: Vec<InstantRow>,
    /// Counter values.
    pub counters: Vec<CounterRow>,
    /// Samples and thread states.
    pub observed: ObservedRows,
    /// Repairs and losses.
    pub notices: Notices,
    /// Events read, by phase letter.
    pub phases: BTreeMap<u8, u64>,
}

impl Batch {
    /// With less room for names than usual.
    #[cfg(test)]
    pub(crate) fn with_name_bytes_max(bytes_max: usize) -> Self {
        Batch { strings: StringsBuilder::with_bytes_max(bytes_max), ..Batch::default() }
    }

    /// The id of a text, new or known.
    pub fn string(&mut self, text: &str) -> StrId {
        self.strings.intern(text)
    }

    /// The id of a string that the batch holds already.
    #[inline]
    pub fn find_string(&self, bytes: &[u8]) -> Option<StrId> {
        self.strings.find(bytes)
    }

    /// The category of this name, new or known.
    pub fn category(&mut self, name: &str, kind: SpanKind) -> CategoryId {
        let name = self.strings.intern(name);
        *self.category_ids.entry(name).or_insert_with(|| {
            self.categories.push((name, kind));
            CategoryId(self.categories.len() as u32 - 1)
        })
    }

    /// A string that the batch holds.
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    /// The name of a category.
    pub fn category_text(&self, category: CategoryId) -> &str {
        self.strings.get(self.categories[category.index()].0)
    }

    /// The meaning of a category.
    pub fn category_kind(&self, category: CategoryId) -> SpanKind {
        self.categories[category.index()].1
    }

    /// The track with these ids, new or known. Readers say `Thread`, `Async` or
    /// `Counter`; the builder finds the GPU streams among threads by their spans.
    pub fn track(&mut self, kind: TrackKind, process: &str, thread: &str) -> TrackId {
        let key = (kind, self.strings.intern(process), self.strings.intern(thread));
        *self.track_ids.entry(key).or_insert_with(|| {
            self.tracks.push(key);
            self.spans.push(TrackRows::default());
            TrackId(self.tracks.len() as u32 - 1)
        })
    }

    /// The process and the thread of each thread's track.
    pub fn threads(&self) -> impl Iterator<Item = (&str, &str)> {
        let threads = self.tracks.iter().filter(|track| track.0 == TrackKind::Thread);
        threads.map(|&(_, process, thread)| (self.text(process), self.text(thread)))
    }

    /// Adds a span to a track.
    #[inline]
    pub fn push_span(&mut self, track: TrackId, row: SpanRow) {
        self.spans[track.index()].push(row);
    }

    /// Adds a name or a position of a track.
    pub fn label(&mut self, track: TrackId, label: TrackLabel) {
        self.labels.push((track, label));
    }

    /// Adds a notice about the source at an offset, with an example of its text.
    pub fn notice(&mut self, kind: NoticeKind, offset: u64, example: &[u8]) {
        self.notices.add(kind, offset, example);
    }

    /// Puts the spans of each track in order. Called by the thread that filled the
    /// batch, so that sorting runs on all cores; cheap, since sources are nearly
    /// sorted already.
    pub fn seal(&mut self) {
        self.spans.iter_mut().for_each(TrackRows::sort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the order in which rows come, they end in the order of a track.
    #[track_caller]
    fn check(starts: impl Iterator<Item = i64>) {
        let mut rows = TrackRows::default();
        let mut expected = Vec::new();
        for (offset, start) in starts.enumerate() {
            let (name, category) = (StrId(0), CategoryId(0));
            let row =
                SpanRow { start, dur: start % 3, key: 0, offset: offset as u64, name, category };
            rows.push(row);
            expected.push(row.order());
        }
        rows.sort();
        expected.sort();
        let got: Vec<_> = rows.chunks().flatten().map(SpanRow::order).collect();
        assert!(got == expected, "{} rows", expected.len());
    }

    #[test]
    fn rows_that_come_late_go_where_they_belong() {
        check((0..10_000).map(|at| at ^ 1));
        check((0..10_000).map(|at| at ^ 7));
        check((0..10_000).map(|at| at ^ 63));
        check((0..10_000).rev());
        check((0..20_000).map(|at| at * 7919 % 20_011));
        // Late rows at the seams of chunks.
        let chunk = TrackRows::CHUNK_ROWS as i64;
        for late in -2..3 {
            check((0..3 * chunk).map(|at| if at == chunk + late { chunk - 5 } else { at }));
        }
    }
}
