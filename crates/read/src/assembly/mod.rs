//! Spans and arrows of binary formats become a trace.
//!
//! These formats bind an arrow to an event, not to a moment as JSON does. So begins and
//! ends are paired here, arrows are led from span to span, and the finished trace gets
//! exactly those as its links. An arrow from a runtime call to GPU work is a launch.

pub(crate) mod restored_states;

use std::collections::HashMap;

use spanwise_model::{
    Batch, CategoryId, Column, FlowPhase, Links, NO_KEY, NO_ROW, Nanos, NoticeKind, Parts,
    SourceInfo, SpanKind, SpanRow, Spans, StrId, Trace, TraceBuilder, TrackId,
};

use crate::ReadErrorKind;

/// A begin or an end; those of one lane nest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) lane: u64,
    pub(crate) time: Nanos,
    /// Where the event stands; no two events share it.
    pub(crate) offset: u64,
    /// Name and category of a begin; `None` for an end.
    pub(crate) begin: Option<(StrId, CategoryId)>,
}

/// A point of an arrow; points of one id belong together, in order of time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowPoint {
    pub(crate) id: u64,
    pub(crate) time: Nanos,
    /// The event that it stands on, by its offset: of a span, or one of its edges.
    pub(crate) event: u64,
    pub(crate) phase: FlowPhase,
    pub(crate) category: Option<CategoryId>,
}

/// What a reader has found so far.
#[derive(Default)]
pub(crate) struct Assembly {
    pub(crate) batch: Batch,
    pub(crate) edges: Vec<Edge>,
    pub(crate) flows: Vec<FlowPoint>,
    spans: Vec<(TrackId, SpanRow)>,
    last_time: Option<Nanos>,
}

/// An arrow between two spans, by their places in the list.
struct Arrow {
    from: usize,
    to: usize,
    category: Option<CategoryId>,
}

impl Assembly {
    /// Adds a span; one that ends beyond 64 bits is left out with a notice.
    pub(crate) fn span(&mut self, track: TrackId, row: SpanRow) {
        let Some(end) = row.start.checked_add(row.dur) else {
            return self.batch.notice(NoticeKind::TimeOutOfRange, row.offset, b"");
        };
        self.saw(end);
        self.spans.push((track, row));
    }

    fn saw(&mut self, time: Nanos) {
        self.last_time = self.last_time.max(Some(time));
    }

    /// Pairs begins with ends; `track_of` says where a lane belongs.
    pub(crate) fn pair(&mut self, mut track_of: impl FnMut(&mut Batch, u64) -> TrackId) {
        let mut edges = std::mem::take(&mut self.edges);
        edges.sort_by_key(|edge| (edge.lane, edge.time, edge.offset));
        let last = edges.iter().map(|edge| edge.time).max();
        let trace_end = last.max(self.last_time).unwrap_or(0);
        let mut begin_of: HashMap<u64, u64> = HashMap::new();
        for of_lane in edges.chunk_by(|a, b| a.lane == b.lane) {
            let track = track_of(&mut self.batch, of_lane[0].lane);
            let mut open: Vec<(Edge, (StrId, CategoryId))> = Vec::new();
            for &edge in of_lane {
                if let Some(begin) = edge.begin {
                    open.push((edge, begin));
                    continue;
                }
                let Some((start, texts)) = open.pop() else {
                    self.batch.notice(NoticeKind::UnmatchedEnd, edge.offset, b"");
                    continue;
                };
                begin_of.insert(edge.offset, start.offset);
                self.between(track, &start, edge.time, texts);
            }
            for (start, texts) in open {
                self.batch.notice(NoticeKind::UnfinishedSpan, start.offset, b"");
                self.between(track, &start, trace_end.max(start.time), texts);
            }
        }
        for point in &mut self.flows {
            point.event = *begin_of.get(&point.event).unwrap_or(&point.event);
        }
    }

    fn between(&mut self, track: TrackId, start: &Edge, end: Nanos, texts: (StrId, CategoryId)) {
        let Some(dur) = end.checked_sub(start.time) else {
            return self.batch.notice(NoticeKind::TimeOutOfRange, start.offset, b"");
        };
        let (name, category) = texts;
        let (start, offset) = (start.time, start.offset);
        self.span(track, SpanRow { start, dur, key: NO_KEY, offset, name, category });
    }

    pub(crate) fn finish(
        mut self,
        info: SourceInfo,
        threads: usize,
    ) -> Result<Trace, ReadErrorKind> {
        let arrows = self.arrows();
        let links = self.launches(arrows);
        let category = |arrow: &Arrow, batch: &mut Batch| {
            let id = arrow.category.unwrap_or_else(|| batch.category("flow", SpanKind::Other));
            (id, batch.category_kind(id))
        };
        let categories: Vec<(CategoryId, SpanKind)> =
            links.iter().map(|arrow| category(arrow, &mut self.batch)).collect();
        for &(track, row) in &self.spans {
            self.batch.push_span(track, row);
        }
        self.batch.seal();
        let mut builder = TraceBuilder::new(threads);
        builder.push(self.batch);
        let trace = builder.finish(info, None);
        if links.is_empty() {
            return Ok(trace);
        }
        let in_trace = |&(id, kind): &(CategoryId, SpanKind)| {
            trace.categories().of_only_batch(id, kind).unwrap_or_default()
        };
        let categories: Vec<u16> = categories.iter().map(in_trace).collect();
        with_links(&trace, &self.spans, &links, categories.into())
    }

    /// Leads the points of each id from span to span.
    fn arrows(&mut self) -> Vec<Arrow> {
        let mut flows = std::mem::take(&mut self.flows);
        let is_end = |point: &FlowPoint| point.phase == FlowPhase::End;
        flows.sort_by_key(|point| (point.id, point.time, is_end(point), point.event));
        let mut places: HashMap<u64, usize> = HashMap::new();
        places.extend(flows.iter().map(|point| (point.event, usize::MAX)));
        for (place, (_, row)) in self.spans.iter().enumerate() {
            places.entry(row.offset).and_modify(|known| *known = place);
        }
        let mut arrows = Vec::new();
        for of_id in flows.chunk_by(|a, b| a.id == b.id) {
            let mut last: Option<(usize, &FlowPoint, bool)> = None;
            for point in of_id {
                let here = places[&point.event];
                let is_joined = here != usize::MAX && point.phase != FlowPhase::Start;
                match last {
                    Some((from, start, _)) if is_joined => {
                        arrows.push(Arrow { from, to: here, category: start.category });
                    }
                    _ if here == usize::MAX || point.phase == FlowPhase::End => {
                        self.batch.notice(NoticeKind::UnmatchedFlow, point.event, b"");
                    }
                    _ => {}
                }
                let was_used = last.is_some() && is_joined;
                last = (here != usize::MAX).then_some((here, point, was_used));
                last = last.filter(|_| point.phase != FlowPhase::End);
            }
            if let Some((_, point, false)) = last {
                self.batch.notice(NoticeKind::UnmatchedFlow, point.event, b"");
            }
        }
        arrows
    }

    /// Takes the launches out: the builder finds them by a common key.
    fn launches(&mut self, arrows: Vec<Arrow>) -> Vec<Arrow> {
        let kind = |row: &SpanRow| self.batch.category_kind(row.category);
        let mut links = Vec::new();
        for arrow in arrows {
            let (from, to) = (&self.spans[arrow.from].1, &self.spans[arrow.to].1);
            let is_launched = kind(to).is_on_gpu() && kind(to) != SpanKind::GpuAnnotation;
            if kind(from) == SpanKind::Runtime && is_launched && to.key == NO_KEY {
                self.spans[arrow.from].1.key = arrow.from as u64;
                self.spans[arrow.to].1.key = arrow.from as u64;
            } else {
                links.push(arrow);
            }
        }
        links
    }
}

/// The same trace with these links. What launches GPU work that has no launch yet is
/// taken as its launch.
fn with_links(
    trace: &Trace,
    spans: &[(TrackId, SpanRow)],
    arrows: &[Arrow],
    category: Column<u16>,
) -> Result<Trace, ReadErrorKind> {
    let ends = arrows.iter().flat_map(|arrow| [arrow.from, arrow.to]);
    let mut rows: HashMap<u64, u32> = ends.map(|place| (spans[place].1.offset, NO_ROW)).collect();
    for (row, offset) in trace.spans().offset_column().iter().enumerate() {
        rows.entry(*offset).and_modify(|known| *known = row as u32);
    }
    let row = |place: usize| rows[&spans[place].1.offset];
    let (from, to): (Vec<u32>, Vec<u32>) =
        arrows.iter().map(|arrow| (row(arrow.from), row(arrow.to))).unzip();
    let columns = trace.spans();
    let mut launch = columns.launch_column().to_vec();
    for (&from, &to) in from.iter().zip(&to) {
        if trace.kind(spanwise_model::SpanId(to)).is_gpu_work() && launch[to as usize] == NO_ROW {
            launch[to as usize] = from;
        }
    }
    let parts = Parts {
        strings: trace.strings().clone(),
        categories: trace.categories().clone(),
        tracks: trace.tracks().clone(),
        spans: Spans::from_columns(
            columns.start_column().clone(),
            columns.dur_column().clone(),
            columns.name_column().clone(),
            columns.category_column().clone(),
            columns.track_column().clone(),
            columns.parent_column().clone(),
            launch.into(),
            columns.offset_column().clone(),
        ),
        instants: trace.instants().clone(),
        counters: trace.counters().clone(),
        links: Links { from: from.into(), to: to.into(), category },
        observed: trace.observed().clone(),
        info: trace.info().clone(),
        notices: trace.notices().clone(),
        args: None,
    };
    let found = "a broken invariant".to_owned();
    Trace::from_parts(parts).map_err(|_| ReadErrorKind::NotATrace {
        offset: 0,
        what: "its arrows lead astray",
        found,
    })
}
