//! Joins batches into a [`Trace`]: common numbers, order, parents, links.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::OnceLock;

use crate::build::batch::{Batch, NO_OFFSET, SpanRow, TrackLabel};
use crate::build::join::{self, Flows, Relations};
use crate::build::nest::{self, Run, SpanColumns};
use crate::columns::category::CategoryTable;
use crate::observed::{self, RowNumbers};
use crate::{
    ArgsSource, CategoryId, Counters, Instants, NO_ROW, Nanos, NoticeKind, Notices, ObservedTables,
    SourceInfo, SpanKind, Spans, StrId, StringsBuilder, Trace, Track, TrackId, TrackKind, Tracks,
};

/// Collects batches in the order of the source.
pub struct TraceBuilder {
    batches: Vec<Batch>,
    notices: Notices,
    threads: usize,
}

/// Translates a batch's own numbers into the trace's.
pub(crate) struct Numbers {
    pub(crate) strings: Vec<u32>,
    pub(crate) categories: Vec<u16>,
    pub(crate) tracks: Vec<u32>,
}

impl Numbers {
    pub(crate) fn string(&self, id: StrId) -> StrId {
        StrId(self.strings[id.index()])
    }

    pub(crate) fn category(&self, id: CategoryId) -> CategoryId {
        self.categories[id.index()].into()
    }

    pub(crate) fn track(&self, id: TrackId) -> TrackId {
        TrackId(self.tracks[id.index()])
    }
}

impl RowNumbers for Numbers {
    fn string(&self, id: StrId) -> StrId {
        Numbers::string(self, id)
    }

    fn track(&self, id: TrackId) -> TrackId {
        Numbers::track(self, id)
    }
}

/// Names and tracks of all batches under common numbers.
#[derive(Default)]
struct Registry {
    strings: StringsBuilder,
    categories: CategoryTable,
    tracks: Vec<(TrackKind, StrId, StrId)>,
    track_ids: HashMap<(TrackKind, StrId, StrId), TrackId>,
}

impl Registry {
    fn numbers(&mut self, batch: &Batch) -> Numbers {
        let strings: Vec<u32> = (0..batch.strings.len() as u32)
            .map(|id| self.strings.intern(batch.strings.get(StrId(id))).0)
            .collect();
        let common = |id: StrId| StrId(strings[id.index()]);
        let categories = batch
            .categories
            .iter()
            .map(|&(name, kind)| self.categories.id((common(name), None), kind, &mut self.strings));
        let categories = categories.collect();
        let tracks = batch.tracks.iter().map(|&(kind, process, thread)| {
            let key = (kind, common(process), common(thread));
            let id = *self.track_ids.entry(key).or_insert_with(|| {
                self.tracks.push(key);
                TrackId(self.tracks.len() as u32 - 1)
            });
            id.0
        });
        Numbers { categories, tracks: tracks.collect(), strings }
    }

    /// Says what has no number or no room in the trace.
    fn notice(&self, batches: &[Batch], notices: &mut Notices) {
        self.categories.notice(notices);
        let left_out = batches.iter().map(|batch| batch.strings.left_out()).sum::<u64>();
        let left_out = left_out + self.strings.left_out();
        notices.add_count(NoticeKind::NamesLeftOut, left_out, NO_OFFSET);
    }
}

impl TraceBuilder {
    /// `threads` bounds how many work at once in [`TraceBuilder::finish`].
    pub fn new(threads: usize) -> Self {
        TraceBuilder { batches: Vec::new(), notices: Notices::default(), threads: threads.max(1) }
    }

    /// Adds what follows in the source. The batch must be sealed.
    pub fn push(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    /// Adds what was noticed outside the batches.
    pub fn notices(&mut self, notices: &Notices) {
        self.notices.merge(notices);
    }

    /// Joins the batches to a trace. `args` reads arguments from the source later.
    pub fn finish(self, info: SourceInfo, args: Option<Box<dyn ArgsSource>>) -> Trace {
        self.finish_in(Registry::default(), info, args)
    }

    fn finish_in(
        self,
        mut registry: Registry,
        mut info: SourceInfo,
        args: Option<Box<dyn ArgsSource>>,
    ) -> Trace {
        let TraceBuilder { mut batches, mut notices, threads } = self;
        let numbers: Vec<Numbers> = batches.iter().map(|batch| registry.numbers(batch)).collect();
        registry.notice(&batches, &mut notices);
        for batch in &batches {
            notices.merge(&batch.notices);
            count_phases(&mut info.events_by_phase, batch);
        }

        let paired = join::pair_spans(&batches, &numbers, &mut notices);
        let labels = Labels::collect(&batches, &numbers);
        let instants = instants(&batches, &numbers);
        let counters = counters(&batches, &numbers);
        let observed = observed(&mut batches, &numbers);
        let flows = batches.iter_mut().map(|batch| mem::take(&mut batch.flows)).collect();
        let links = batches.iter_mut().map(|batch| mem::take(&mut batch.links)).collect();
        // Consumes the batches: their rows and the columns need not both stay.
        let merged = merge_spans(batches, &numbers, &paired, &registry, threads);
        let MergedSpans { columns, ranges, kinds } = merged;

        let mut tracks = tracks(&registry, &ranges, &kinds);
        labels.apply(&mut tracks);

        let joined = join::join(
            &columns,
            &tracks,
            registry.categories.rows(),
            Flows { flows, links, numbers: &numbers },
            threads,
        );
        let Relations { parent, launch, links, notices: join_notices } = joined;
        notices.merge(&join_notices);

        let track_column = track_column(&ranges, columns.start.len());
        let spans = Spans {
            start: columns.start.into(),
            dur: columns.dur.into(),
            name: columns.name.into(),
            category: columns.category.into(),
            track: track_column.into(),
            parent: parent.into(),
            launch: launch.into(),
            offset: columns.offset.into(),
        };
        let trace = Trace {
            strings: registry.strings.finish(),
            categories: registry.categories.finish(),
            tracks: Tracks::new(tracks),
            spans,
            instants,
            counters,
            links,
            observed,
            info,
            notices,
            args,
            window: OnceLock::new(),
        };
        debug_assert_eq!(trace.check(), Ok(()));
        trace
    }
}

fn observed(batches: &mut [Batch], numbers: &[Numbers]) -> ObservedTables {
    let rows = batches.iter_mut().map(|batch| mem::take(&mut batch.observed));
    observed::join(rows.zip(numbers).collect())
}

fn count_phases(all: &mut BTreeMap<String, u64>, batch: &Batch) {
    for (&phase, &count) in &batch.phases {
        *all.entry(char::from(phase).to_string()).or_insert(0) += count;
    }
}

struct MergedSpans {
    columns: SpanColumns,
    /// Where each track's rows begin, and the end of the last.
    ranges: Vec<u32>,
    /// For each track a bit for every kind of span on it.
    kinds: Vec<u16>,
}

fn merge_spans(
    batches: Vec<Batch>,
    numbers: &[Numbers],
    paired: &BTreeMap<TrackId, Vec<SpanRow>>,
    registry: &Registry,
    threads: usize,
) -> MergedSpans {
    // Rows that the builder made have final numbers: they translate to themselves.
    let same_strings: Vec<u32> = match paired.is_empty() {
        true => Vec::new(),
        false => (0..registry.strings.len() as u32).collect(),
    };
    let same_categories: Vec<u16> =
        (0..registry.categories.rows().len()).map(|id| id as u16).collect();

    let mut runs: Vec<Vec<Run<'_>>> = vec![Vec::new(); registry.tracks.len()];
    for (batch, numbers) in batches.iter().zip(numbers) {
        for (spans, &track) in batch.spans.iter().zip(&numbers.tracks) {
            let (names, categories) = (&numbers.strings[..], &numbers.categories[..]);
            let chunks = spans.chunks().map(|rows| Run { rows, names, categories });
            runs[track as usize].extend(chunks);
        }
    }
    for (track, rows) in paired {
        let (names, categories) = (&same_strings[..], &same_categories[..]);
        runs[track.index()].push(Run { rows, names, categories });
    }
    let (columns, ranges) = nest::merge_tracks(runs, threads);

    let kind = |id: u16| registry.categories.rows()[usize::from(id)].kind as u8;
    let kinds = ranges.windows(2).map(|range| {
        let rows = &columns.category[range[0] as usize..range[1] as usize];
        rows.iter().fold(0, |seen, &id| seen | 1u16 << kind(id))
    });
    let kinds = kinds.collect();
    MergedSpans { columns, ranges, kinds }
}

/// The tracks with their rows, not yet labelled.
fn tracks(registry: &Registry, ranges: &[u32], kinds: &[u16]) -> Vec<Track> {
    let rows = registry.tracks.iter().zip(ranges.windows(2)).zip(kinds);
    let track = |((&(kind, process, thread), range), &kinds): ((_, &[u32]), &u16)| Track {
        kind: if kind == TrackKind::Thread { timeline_kind(kinds) } else { kind },
        process,
        thread,
        process_name: StrId::EMPTY,
        thread_name: StrId::EMPTY,
        sort_index: 0,
        spans: range[0]..range[1],
    };
    rows.map(track).collect()
}

/// A thread's row that holds GPU work is a stream; one that holds nothing but the
/// profiler's own bars is the profiler's.
fn timeline_kind(kinds: u16) -> TrackKind {
    let any = |wanted: fn(SpanKind) -> bool| {
        SpanKind::ALL.iter().any(|&kind| wanted(kind) && kinds & 1 << kind as u8 != 0)
    };
    if any(SpanKind::is_on_gpu) {
        TrackKind::GpuStream
    } else if kinds != 0 && !any(SpanKind::is_of_thread) {
        TrackKind::Profiler
    } else {
        TrackKind::Thread
    }
}

fn track_column(ranges: &[u32], rows: usize) -> Vec<u32> {
    let mut column = vec![0; rows];
    for (track, range) in ranges.windows(2).enumerate() {
        column[range[0] as usize..range[1] as usize].fill(track as u32);
    }
    column
}

/// Names and places in the picture, by process and by track.
#[derive(Default)]
struct Labels {
    by_process: HashMap<StrId, (StrId, Option<i64>)>,
    by_track: HashMap<TrackId, (StrId, Option<i64>)>,
}

impl Labels {
    fn collect(batches: &[Batch], numbers: &[Numbers]) -> Self {
        let mut labels = Labels::default();
        for (batch, numbers) in batches.iter().zip(numbers) {
            for &(track, label) in &batch.labels {
                let process = numbers.string(batch.tracks[track.index()].1);
                let track = numbers.track(track);
                match label {
                    TrackLabel::ProcessName(name) => {
                        labels.by_process.entry(process).or_default().0 = numbers.string(name);
                    }
                    TrackLabel::ProcessSort(index) => {
                        labels.by_process.entry(process).or_default().1 = Some(index);
                    }
                    TrackLabel::ThreadName(name) => {
                        labels.by_track.entry(track).or_default().0 = numbers.string(name);
                    }
                    TrackLabel::ThreadSort(index) => {
                        labels.by_track.entry(track).or_default().1 = Some(index);
                    }
                }
            }
        }
        labels
    }

    fn apply(&self, tracks: &mut [Track]) {
        for (index, track) in tracks.iter_mut().enumerate() {
            if let Some(&(name, _)) = self.by_process.get(&track.process) {
                track.process_name = name;
            }
            if let Some(&(name, sort)) = self.by_track.get(&TrackId(index as u32)) {
                track.thread_name = name;
                track.sort_index = sort.unwrap_or(0);
            }
        }
    }
}

fn instants(batches: &[Batch], numbers: &[Numbers]) -> Instants {
    let mut rows = Vec::new();
    for (batch, numbers) in batches.iter().zip(numbers) {
        rows.extend(batch.instants.iter().map(|row| {
            let track = numbers.track(row.track);
            let category = numbers.category(row.category);
            (track, row.time, row.offset, numbers.string(row.name), category)
        }));
    }
    rows.sort_by_key(|&(track, time, offset, ..)| (track, time, offset));
    Instants {
        time: rows.iter().map(|row| row.1).collect(),
        name: rows.iter().map(|row| row.3.0).collect(),
        category: rows.iter().map(|row| row.4.0 as u16).collect(),
        track: rows.iter().map(|row| row.0.0).collect(),
        offset: rows.iter().map(|row| row.2).collect(),
    }
}

fn counters(batches: &[Batch], numbers: &[Numbers]) -> Counters {
    let mut rows: Vec<(TrackId, Nanos, u64, f64)> = Vec::new();
    for (batch, numbers) in batches.iter().zip(numbers) {
        let named =
            |row: &crate::CounterRow| (numbers.track(row.track), row.time, row.offset, row.value);
        rows.extend(batch.counters.iter().map(named));
    }
    rows.sort_by_key(|&(track, time, offset, _)| (track, time, offset));
    Counters {
        time: rows.iter().map(|row| row.1).collect(),
        track: rows.iter().map(|row| row.0.0).collect(),
        value: rows.iter().map(|row| row.3).collect(),
    }
}

/// Space for row numbers, filled with "none".
pub(crate) fn no_rows(len: usize) -> Vec<u32> {
    vec![NO_ROW; len]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that a trace has no room for are empty, with a notice.
    #[track_caller]
    fn check(in_batch_max: usize, in_trace_max: usize, expected: u64) {
        let mut batch = Batch::with_name_bytes_max(in_batch_max);
        let track = batch.track(TrackKind::Thread, "1", "2");
        let category = batch.category("c", SpanKind::Other);
        for (at, text) in ["first", "second", "third"].into_iter().enumerate() {
            let (start, name) = (at as i64, batch.string(text));
            let row = SpanRow { start, dur: 1, key: crate::NO_KEY, offset: 0, name, category };
            batch.push_span(track, row);
        }
        batch.seal();
        let strings = StringsBuilder::with_bytes_max(in_trace_max);
        let registry = Registry { strings, ..Registry::default() };
        let mut builder = TraceBuilder::new(1);
        builder.push(batch);
        let trace = builder.finish_in(registry, SourceInfo::default(), None);
        let named = trace.spans().ids().filter(|&span| !trace.name(span).is_empty()).count();
        assert_eq!(trace.notices().count(NoticeKind::NamesLeftOut), expected);
        assert_eq!(named as u64, 3 - expected);
    }

    #[test]
    fn names_without_room_are_counted() {
        check(1000, 1000, 0);
        check(10, 1000, 2);
        check(1000, 14, 1);
        check(14, 8, 2);
    }
}
