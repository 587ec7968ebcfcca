//! Finds what belongs together: start and end, call and GPU work, the ends of links.
//!
//! GPU work is joined to its launch by correlation id, never by "External id"
//! (old producers copy the correlation into it) and by flows only where a producer
//! gives no correlation: half of the launch flows in real traces have no start.

use std::collections::BTreeMap;

use crate::build::batch::{AsyncPhase, Batch, FlowPhase, FlowRow, LinkRow, NO_KEY, SpanRow};
use crate::build::builder::{Numbers, no_rows};
use crate::build::nest::{self, SpanColumns, derived_row};
use crate::build::pairing::{Pairing, pair_nested};
use crate::{
    Category, CategoryId, Links, NO_ROW, Nanos, NoticeKind, Notices, QuickMap, SpanKind, StrId,
    Track, TrackId, count_effort, for_each_index,
};

pub(crate) struct Relations {
    pub(crate) parent: Vec<u32>,
    pub(crate) launch: Vec<u32>,
    pub(crate) links: Links,
    pub(crate) notices: Notices,
}

/// Parents, launches and links of the merged spans.
pub(crate) fn join(
    columns: &SpanColumns,
    tracks: &[Track],
    categories: &[Category],
    flows: Flows<'_>,
    threads: usize,
) -> Relations {
    let kinds: Vec<SpanKind> = categories.iter().map(|category| category.kind).collect();
    let mut notices = Notices::default();
    let named = flows.named(columns, &mut notices);
    // Two independent halves: nesting reads times, launches read keys.
    let mut parent = no_rows(columns.start.len());
    let nest = |parent: &mut [u32], threads| {
        fill_parents(columns, tracks, parent, threads);
        python_parents(columns, &kinds, parent)
    };
    let (parent_notices, launches) = if threads > 1 {
        std::thread::scope(|scope| {
            let nesting = scope.spawn(|| nest(&mut parent, threads - 1));
            let launches = Launches::find(columns, &kinds, &named);
            (nesting.join().expect("nesting does not panic"), launches)
        })
    } else {
        (nest(&mut parent, 1), Launches::find(columns, &kinds, &named))
    };
    let Launches { mut launch, by_key, notices: launch_notices } = launches;
    notices.merge(&parent_notices);
    notices.merge(&launch_notices);
    let flows = flows.unknown(&by_key);
    let place = SpanFinder { columns, tracks, parent: &parent };
    let mut links = drawn_links(columns, &kinds, &named, &mut launch);
    notices.merge(&link_flows(&place, flows, &kinds, &mut launch, &mut links));
    let RowLinks { from, to, category } = links;
    let links = Links { from: from.into(), to: to.into(), category: category.into() };
    Relations { parent, launch, links, notices }
}

fn fill_parents(columns: &SpanColumns, tracks: &[Track], parent: &mut [u32], threads: usize) {
    let mut rest = parent;
    let mut pieces = Vec::with_capacity(tracks.len());
    for track in tracks {
        let (rows, after) = rest.split_at_mut(track.rows().len());
        rest = after;
        pieces.push(std::sync::Mutex::new(rows));
    }
    for_each_index(tracks.len(), threads, |index| {
        let range = tracks[index].rows();
        let mut rows = pieces[index].lock().expect("no panic inside");
        let (starts, durs) = (&columns.start[range.clone()], &columns.dur[range.clone()]);
        nest::parents(starts, durs, range.start as u32, &mut rows);
    });
}

/// From correlation ids to the rows of launching calls.
#[derive(Default)]
struct ByKey {
    /// For the usual case, ids that lie close together: those from `first` on.
    dense: Vec<u32>,
    first: u64,
    sparse: QuickMap<u64, u32>,
}

impl ByKey {
    /// A table over more than this many ids for each one in use is mostly empty pages.
    const SPREAD_MAX: u64 = 8;

    /// Room for these keys.
    fn over(keys: impl Iterator<Item = u64>) -> Self {
        let (mut first, mut last, mut count) = (u64::MAX, 0, 0);
        for key in keys {
            (first, last, count) = (first.min(key), last.max(key), count + 1);
        }
        let spread = last.saturating_sub(first);
        let len = match spread / Self::SPREAD_MAX < count {
            true => spread as usize + 1,
            false => 0,
        };
        ByKey { dense: vec![NO_ROW; len], first, sparse: QuickMap::default() }
    }

    fn get(&self, key: u64) -> Option<u32> {
        let near = key.checked_sub(self.first).and_then(|index| self.dense.get(index as usize));
        let row = *near.or_else(|| self.sparse.get(&key))?;
        (row != NO_ROW).then_some(row)
    }

    fn slot(&mut self, key: u64) -> &mut u32 {
        let index = key.wrapping_sub(self.first);
        match self.dense.get_mut(index as usize) {
            Some(row) => row,
            None => self.sparse.entry(key).or_insert(NO_ROW),
        }
    }
}

#[derive(Default)]
struct Launches {
    launch: Vec<u32>,
    by_key: ByKey,
    notices: Notices,
}

impl Launches {
    fn find(columns: &SpanColumns, kinds: &[SpanKind], named: &[NamedLink]) -> Self {
        let rows = columns.key.len();
        let with_kind = || columns.category.iter().map(|&id| kinds[usize::from(id)]).enumerate();
        let calls = || {
            let keys = with_kind().map(|(row, kind)| (row, kind, columns.key[row]));
            keys.filter(|&(_, kind, key)| kind == SpanKind::Runtime && key != NO_KEY)
        };
        let mut by_key = ByKey::over(calls().map(|(_, _, key)| key));
        for (row, _, key) in calls() {
            let slot = by_key.slot(key);
            // A driver call inside a runtime call may repeat its id: the inner one, which
            // begins later, is the launch.
            if *slot == NO_ROW || columns.start[*slot as usize] <= columns.start[row] {
                *slot = row as u32;
            }
        }
        let mut launch = no_rows(rows);
        for link in named.iter().filter(|link| link.category.is_none()) {
            launch[link.to as usize] = link.from;
        }
        let mut notices = Notices::default();
        for (row, kind) in with_kind() {
            if !kind.is_on_gpu() || kind == SpanKind::GpuAnnotation {
                continue;
            }
            let key = columns.key[row];
            if launch[row] != NO_ROW {
                // A link says so.
            } else if let Some(call) = by_key.get(key).filter(|_| key != NO_KEY) {
                launch[row] = call;
            } else if kind.is_gpu_work() {
                notices.add(NoticeKind::UnlinkedGpuWork, columns.offset[row], b"");
            }
            if kind.is_gpu_work() && columns.start[row] == 0 && columns.dur[row] == 0 {
                notices.add(NoticeKind::LostTimestamp, columns.offset[row], b"");
            }
        }
        Launches { launch, by_key, notices }
    }
}

/// How far up a frame's caller is searched for: a bound for odd traces.
const OPERATORS_BETWEEN_FRAMES_MAX: usize = 256;

/// Compares the callers that Python frames recorded with those that time shows.
///
/// Time decides: it knows operators and runtime calls as well. A recorded caller
/// that is not open is worth a notice, since then one of the two is wrong. Frames
/// whose caller is outside the recording say nothing.
fn python_parents(columns: &SpanColumns, kinds: &[SpanKind], parent: &[u32]) -> Notices {
    let mut notices = Notices::default();
    let python = kinds.iter().position(|&kind| kind == SpanKind::Python);
    let Some(python) = python else { return notices };
    let is_python = |row: usize| usize::from(columns.category[row]) == python;
    let id_of = |row: u32| (columns.key[row as usize] >> 32) as u32;
    let mut suspects = Vec::new();
    for row in 0..parent.len() {
        let key = columns.key[row];
        let recorded = key as u32;
        if !is_python(row) || key == NO_KEY || recorded == u32::MAX {
            continue;
        }
        // The nearest enclosing Python frame: a step or two away.
        let mut caller = parent[row];
        for _ in 0..OPERATORS_BETWEEN_FRAMES_MAX {
            if caller == NO_ROW || is_python(caller as usize) {
                break;
            }
            caller = parent[caller as usize];
        }
        if caller == NO_ROW || !is_python(caller as usize) || id_of(caller) != recorded {
            suspects.push((recorded, row as u32));
        }
    }
    if suspects.is_empty() {
        return notices;
    }
    let frames = || (0..parent.len()).filter(|&row| is_python(row) && columns.key[row] != NO_KEY);
    let mut by_id = ByKey::over(frames().map(|row| u64::from(id_of(row as u32))));
    for row in frames() {
        *by_id.slot(u64::from(id_of(row as u32))) = row as u32;
    }
    for (recorded, row) in suspects {
        if by_id.get(u64::from(recorded)).is_some() {
            notices.add(NoticeKind::PythonParentElsewhere, columns.offset[row as usize], b"");
        }
    }
    notices
}

/// A link that its source names, by the rows of its spans. One without a category is a launch.
struct NamedLink {
    from: u32,
    to: u32,
    category: Option<CategoryId>,
}

/// The flow points and links of each batch, still under its own numbers.
pub(crate) struct Flows<'a> {
    pub(crate) flows: Vec<Vec<FlowRow>>,
    pub(crate) links: Vec<Vec<LinkRow>>,
    pub(crate) numbers: &'a [Numbers],
}

impl Flows<'_> {
    /// The links by the rows of their spans.
    fn named(&self, columns: &SpanColumns, notices: &mut Notices) -> Vec<NamedLink> {
        let offsets = self.links.iter().flatten().flat_map(|link| [link.from, link.to]);
        let mut rows: QuickMap<u64, u32> = offsets.map(|offset| (offset, NO_ROW)).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        for (row, offset) in columns.offset.iter().enumerate() {
            rows.entry(*offset).and_modify(|known| *known = row as u32);
        }
        let mut named = Vec::new();
        for (links, numbers) in self.links.iter().zip(self.numbers) {
            for link in links {
                let (from, to) = (rows[&link.from], rows[&link.to]);
                match from == NO_ROW || to == NO_ROW {
                    true => notices.add(NoticeKind::UnmatchedFlow, link.from, b""),
                    false => {
                        let category = link.category.map(|category| numbers.category(category));
                        named.push(NamedLink { from, to, category });
                    }
                }
            }
        }
        named
    }

    /// Those that say something new, under the trace's numbers. Most flows of a
    /// PyTorch trace repeat what the correlation has said: they go first.
    fn unknown(self, by_key: &ByKey) -> Vec<FlowRow> {
        let mut unknown = Vec::new();
        for (flows, numbers) in self.flows.iter().zip(self.numbers) {
            let news =
                flows.iter().filter(|flow| !flow.is_launch || by_key.get(flow.key).is_none());
            unknown.extend(news.map(|flow| FlowRow {
                track: numbers.track(flow.track),
                category: numbers.category(flow.category),
                ..*flow
            }));
        }
        unknown
    }
}

/// Finds the span that a flow point stands on.
struct SpanFinder<'a> {
    columns: &'a SpanColumns,
    tracks: &'a [Track],
    parent: &'a [u32],
}

impl SpanFinder<'_> {
    fn span_at(&self, flow: &FlowRow) -> Option<u32> {
        let range = self.tracks[flow.track.index()].rows();
        let starts = &self.columns.start[range.clone()];
        if !flow.binds_enclosing {
            let at = starts.partition_point(|&start| start < flow.time);
            return (at < starts.len()).then_some((range.start + at) as u32);
        }
        let began = starts.partition_point(|&start| start <= flow.time);
        let mut row = (range.start + began.checked_sub(1)?) as u32;
        loop {
            let (start, dur) = (self.columns.start[row as usize], self.columns.dur[row as usize]);
            if flow.time < start + dur || (dur == 0 && start == flow.time) {
                return Some(row);
            }
            row = self.parent[row as usize];
            if row == NO_ROW {
                return None;
            }
        }
    }
}

/// Links as columns, by row.
#[derive(Default)]
struct RowLinks {
    from: Vec<u32>,
    to: Vec<u32>,
    category: Vec<u16>,
}

impl RowLinks {
    fn add(&mut self, from: u32, to: u32, category: CategoryId) {
        self.from.push(from);
        self.to.push(to);
        self.category.push(category.0 as u16);
    }
}

/// The named links that are no launches. What leads to GPU work that nothing has launched yet is
/// taken as its launch, too.
fn drawn_links(
    columns: &SpanColumns,
    kinds: &[SpanKind],
    named: &[NamedLink],
    launch: &mut [u32],
) -> RowLinks {
    let mut links = RowLinks::default();
    for &NamedLink { from, to, category } in named {
        let Some(category) = category else { continue };
        links.add(from, to, category);
        let kind = kinds[usize::from(columns.category[to as usize])];
        if kind.is_gpu_work() && launch[to as usize] == NO_ROW {
            launch[to as usize] = from;
        }
    }
    links
}

/// Makes links of flows, and launches of those flows that are the only evidence of a launch.
fn link_flows(
    place: &SpanFinder<'_>,
    mut flows: Vec<FlowRow>,
    kinds: &[SpanKind],
    launch: &mut [u32],
    links: &mut RowLinks,
) -> Notices {
    flows.sort_by_key(|flow| (flow.category, flow.key, flow.time, flow.offset));
    let mut notices = Notices::default();
    for group in flows.chunk_by(|a, b| (a.category, a.key) == (b.category, b.key)) {
        let mut last: Option<(u32, &FlowRow)> = None;
        let mut is_used = true;
        for flow in group {
            let here = place.span_at(flow);
            let joined = match (last, here) {
                (Some((last, _)), Some(here)) if flow.phase != FlowPhase::Start => {
                    Some((last, here))
                }
                _ => None,
            };
            if let Some((source, target)) = joined {
                links.add(source, target, flow.category);
                is_used = true;
                let target_kind = kinds[usize::from(place.columns.category[target as usize])];
                if flow.is_launch && target_kind.is_gpu_work() && launch[target as usize] == NO_ROW
                {
                    launch[target as usize] = source;
                }
            } else if flow.phase != FlowPhase::Start || here.is_none() {
                notices.add(NoticeKind::UnmatchedFlow, flow.offset, b"");
            }
            if flow.phase == FlowPhase::End {
                continue;
            }
            if let Some((_, unused)) = last.filter(|_| !is_used) {
                notices.add(NoticeKind::UnmatchedFlow, unused.offset, b"");
            }
            last = here.map(|here| (here, flow));
            is_used = flow.phase != FlowPhase::Start;
        }
        if let Some((_, unused)) = last.filter(|_| !is_used) {
            notices.add(NoticeKind::UnmatchedFlow, unused.offset, b"");
        }
    }
    notices
}

/// An end that was opened and waits for its close.
struct Open {
    time: Nanos,
    name: StrId,
    category: CategoryId,
    offset: u64,
}

/// Spans made of separate begin and end events, by track, in order.
pub(crate) fn pair_spans(
    batches: &[Batch],
    numbers: &[Numbers],
    notices: &mut Notices,
) -> BTreeMap<TrackId, Vec<SpanRow>> {
    let mut spans: BTreeMap<TrackId, Vec<SpanRow>> = BTreeMap::new();
    if batches.iter().all(|batch| batch.pairs.is_empty() && batch.asyncs.is_empty()) {
        return spans;
    }
    let trace_end = last_time(batches);
    let mut emit = |track: TrackId, open: Open, end: Nanos| {
        let end = end.max(open.time);
        let row = derived_row(open.time, end, open.name, open.category, open.offset);
        spans.entry(track).or_default().push(row);
    };
    pair_thread_spans(batches, numbers, trace_end, notices, &mut emit);
    pair_async_spans(batches, numbers, trace_end, notices, &mut emit);
    for rows in spans.values_mut() {
        rows.sort_by_key(SpanRow::order);
    }
    spans
}

/// The end of everything that has a time, for spans that never ended.
fn last_time(batches: &[Batch]) -> Nanos {
    let mut last = Nanos::MIN;
    for batch in batches {
        let spans = batch.spans.iter().flat_map(|spans| spans.chunks().flatten());
        let times = spans.map(|row| row.start + row.dur);
        let times = times.chain(batch.pairs.iter().map(|row| row.time));
        let times = times.chain(batch.asyncs.iter().map(|row| row.time));
        last = times.fold(last, Nanos::max);
    }
    last
}

fn pair_thread_spans(
    batches: &[Batch],
    numbers: &[Numbers],
    trace_end: Nanos,
    notices: &mut Notices,
    emit: &mut impl FnMut(TrackId, Open, Nanos),
) {
    let mut rows = Vec::new();
    for (batch, numbers) in batches.iter().zip(numbers) {
        rows.extend(batch.pairs.iter().map(|row| {
            let (name, category) = (numbers.string(row.name), numbers.category(row.category));
            (numbers.track(row.track), row.time, row.offset, name, category, row.is_begin)
        }));
    }
    rows.sort_by_key(|row| (row.0, row.1, row.2));
    let mut names = OpenNames::default();
    for of_track in rows.chunk_by(|a, b| a.0 == b.0) {
        let mut open: Vec<Open> = Vec::new();
        for &(track, time, offset, name, category, is_begin) in of_track {
            count_effort(1);
            if is_begin {
                names.add(name);
                open.push(Open { time, name, category, offset });
                continue;
            }
            // An end may leave its name out; one that gives it must find it.
            let depth = match name {
                StrId::EMPTY => open.len().checked_sub(1),
                name if !names.contains(name) => None,
                name => open.iter().rposition(|begin| {
                    count_effort(1);
                    begin.name == name
                }),
            };
            let Some(depth) = depth else {
                notices.add(NoticeKind::UnmatchedEnd, offset, b"");
                continue;
            };
            open[depth..].iter().for_each(|closed| names.remove(closed.name));
            for inner in open.drain(depth + 1..) {
                notices.add(NoticeKind::UnfinishedSpan, inner.offset, b"");
                emit(track, inner, time);
            }
            emit(track, open.pop().expect("depth is an index"), time);
        }
        for left in open {
            names.remove(left.name);
            notices.add(NoticeKind::UnfinishedSpan, left.offset, b"");
            emit(of_track[0].0, left, trace_end);
        }
    }
}

/// How many spans of each name are open: an end without a start need not search all of them.
#[derive(Default)]
struct OpenNames(Vec<u32>);

impl OpenNames {
    fn add(&mut self, name: StrId) {
        if self.0.len() <= name.index() {
            self.0.resize(name.index() + 1, 0);
        }
        self.0[name.index()] += 1;
    }

    fn remove(&mut self, name: StrId) {
        self.0[name.index()] -= 1;
    }

    fn contains(&self, name: StrId) -> bool {
        self.0.get(name.index()).is_some_and(|&count| count > 0)
    }
}

fn pair_async_spans(
    batches: &[Batch],
    numbers: &[Numbers],
    trace_end: Nanos,
    notices: &mut Notices,
    emit: &mut impl FnMut(TrackId, Open, Nanos),
) {
    let mut rows = Vec::new();
    for (batch, numbers) in batches.iter().zip(numbers) {
        rows.extend(batch.asyncs.iter().map(|row| {
            let (name, category) = (numbers.string(row.name), numbers.category(row.category));
            (numbers.track(row.track), row.key, row.time, row.offset, name, category, row.phase)
        }));
    }
    rows.sort_by_key(|row| (row.0, row.1, row.2, row.3));
    for of_key in rows.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        pair_nested(
            of_key,
            |row| row.6 == AsyncPhase::Begin,
            |pairing| {
                let (begin, end) = match pairing {
                    Pairing::Closed { begin, end } => (begin, end.2),
                    Pairing::UnmatchedEnd(end) => {
                        return notices.add(NoticeKind::UnmatchedEnd, end.3, b"");
                    }
                    Pairing::Unfinished(begin) => {
                        notices.add(NoticeKind::UnfinishedSpan, begin.3, b"");
                        (begin, trace_end)
                    }
                };
                let &(track, _, time, offset, name, category, _) = begin;
                emit(track, Open { time, name, category, offset }, end);
            },
        );
    }
}
