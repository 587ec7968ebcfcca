//! Spans and arrows of binary formats become a trace.
//!
//! These formats bind an arrow to an event, which may be a begin or an end, not to a time as JSON
//! does. So which end belongs to which begin is known here, before the builder has all spans;
//! arrows are led from span to span, and the trace gets exactly those as its links. An arrow from
//! a runtime call to GPU work is a launch.

pub(crate) mod restored_states;

use std::collections::HashMap;

use spanwise_model::{
    Batch, CategoryId, FlowPhase, LinkRow, NO_KEY, Nanos, NoticeKind, Pairing, SourceInfo,
    SpanKind, SpanRow, StrId, Trace, TraceBuilder, TrackId, pair_nested,
};

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
            pair_nested(
                of_lane,
                |edge| edge.begin.is_some(),
                |pairing| match pairing {
                    Pairing::Closed { begin, end } => {
                        begin_of.insert(end.offset, begin.offset);
                        self.between(track, begin, end.time);
                    }
                    Pairing::UnmatchedEnd(end) => {
                        self.batch.notice(NoticeKind::UnmatchedEnd, end.offset, b"");
                    }
                    Pairing::Unfinished(begin) => {
                        self.batch.notice(NoticeKind::UnfinishedSpan, begin.offset, b"");
                        self.between(track, begin, trace_end.max(begin.time));
                    }
                },
            );
        }
        for point in &mut self.flows {
            point.event = *begin_of.get(&point.event).unwrap_or(&point.event);
        }
    }

    fn between(&mut self, track: TrackId, start: &Edge, end: Nanos) {
        let Some((name, category)) = start.begin else { return };
        let Some(dur) = end.checked_sub(start.time) else {
            return self.batch.notice(NoticeKind::TimeOutOfRange, start.offset, b"");
        };
        let (start, offset) = (start.time, start.offset);
        self.span(track, SpanRow { start, dur, key: NO_KEY, offset, name, category });
    }

    pub(crate) fn finish(mut self, info: SourceInfo, threads: usize) -> Trace {
        let arrows = self.arrows();
        self.links(&arrows);
        for &(track, row) in &self.spans {
            self.batch.push_span(track, row);
        }
        self.batch.seal();
        let mut builder = TraceBuilder::new(threads);
        builder.push(self.batch);
        builder.finish(info, None)
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

    /// The arrows as links: those from runtime calls to GPU work are launches.
    fn links(&mut self, arrows: &[Arrow]) {
        let mut is_launched = vec![false; self.spans.len()];
        for arrow in arrows {
            let ends = [arrow.from, arrow.to].map(|place| self.spans[place].1);
            let [from, to] = ends.map(|row| self.batch.category_kind(row.category));
            let is_work = to.is_on_gpu() && to != SpanKind::GpuAnnotation;
            let is_launch = from == SpanKind::Runtime && is_work && !is_launched[arrow.to];
            is_launched[arrow.to] |= is_launch;
            let category = (!is_launch).then(|| {
                let of_flow = || self.batch.category("flow", SpanKind::Other);
                arrow.category.unwrap_or_else(of_flow)
            });
            let [from, to] = ends.map(|row| row.offset);
            self.batch.links.push(LinkRow { from, to, category });
        }
    }
}
