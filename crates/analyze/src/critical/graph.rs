//! What waited for what: pieces of threads and GPU work, and the edges between them.

use std::collections::BTreeMap;

use spanwise_model::{NO_ROW, Nanos, SpanId, SpanKind, TrackId, TrackKind};

use super::PathKind;
use crate::cpu::self_time::{innermost_pieces, takes_part};
use crate::gpu::device::{Device, WorkKind, WorkKinds, devices};
use crate::{Facts, WaitKind};

/// A part of a thread inside one innermost span, or one piece of GPU work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) span: SpanId,
    pub(super) kind: PathKind,
    pub(super) follows: Follows,
}

/// Whether a piece of a thread comes after the node before it. Nearly all do, so this is
/// no edge of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    /// As long after it as was recorded.
    Recorded,
    /// Another edge explains what lies between.
    AtOnce,
}

/// Which end of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    Start,
    End,
}

/// A point of a node comes no earlier than a point of another, and a lag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) to: u32,
    pub(super) gates: Point,
    pub(super) from: u32,
    pub(super) point: Point,
    /// What lay between the two in the recording; 0 where another edge explains it.
    pub(super) lag: Nanos,
    /// What that time is on the path.
    pub(super) kind: PathKind,
}

/// Nodes, and for each the edges that hold it back.
#[derive(Debug)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Where the edges of each node begin; one more than there are nodes.
    first_edge: Vec<u32>,
}

impl Graph {
    pub(super) fn new(facts: &Facts) -> Self {
        let mut build = Build::new(facts);
        build.threads();
        build.thread_edges();
        build.devices();
        let Build { nodes, edges, .. } = build;
        Graph::from_parts(nodes, edges)
    }

    pub(super) fn from_parts(nodes: Vec<Node>, mut edges: Vec<Edge>) -> Self {
        edges.sort_by_key(|edge| edge.to);
        let mut first_edge = Vec::with_capacity(nodes.len() + 1);
        let mut place = 0;
        for node in 0..=nodes.len() as u32 {
            while edges.get(place).is_some_and(|edge| edge.to < node) {
                place += 1;
            }
            first_edge.push(place as u32);
        }
        Graph { nodes, edges, first_edge }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    /// What a point of a node waits for; the piece before it on its thread comes last.
    #[inline]
    pub(super) fn edges(&self, node: u32, gates: Point) -> impl Iterator<Item = Edge> + use<'_> {
        let at = node as usize;
        let (from, to) = (self.first_edge[at] as usize, self.first_edge[at + 1] as usize);
        let known = self.edges[from..to].iter().copied().filter(move |edge| edge.gates == gates);
        let before = (gates == Point::Start).then(|| self.before(node)).flatten();
        known.chain(before)
    }

    fn before(&self, node: u32) -> Option<Edge> {
        let this = self.node(node);
        let lag = match this.follows {
            Follows::Nothing => return None,
            Follows::Recorded => this.start - self.node(node - 1).end,
            Follows::AtOnce => 0,
        };
        let (gates, point, kind) = (Point::Start, Point::End, PathKind::HostUnrecorded);
        Some(Edge { to: node, gates, from: node - 1, point, lag, kind })
    }

    /// When a point was reached in the recording.
    pub(super) fn time(&self, node: u32, point: Point) -> Nanos {
        match point {
            Point::Start => self.node(node).start,
            Point::End => self.node(node).end,
        }
    }

    pub(super) fn last_end(&self) -> Nanos {
        self.nodes.iter().map(|node| node.end).max().unwrap_or(0)
    }

    /// The node that ends last; of several the first.
    pub(super) fn last(&self) -> Option<u32> {
        let rank = |&node: &u32| (self.node(node).end, std::cmp::Reverse(node));
        (0..self.len() as u32).max_by_key(rank)
    }
}

/// A launch that was under way for longer than this while another stream finished
/// something is taken to have waited for it.
const LATENCY_MAX_NS: Nanos = 20_000;
/// How far back to search for the thread that one waited for.
const LOOKBACK_MAX: usize = 256;

struct Build<'a> {
    facts: &'a Facts,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Nodes of each thread, in order of time.
    threads: Vec<std::ops::Range<u32>>,
    /// The first node of each span; [`NO_ROW`] for none.
    first_node: Vec<u32>,
    /// (end, node) of all GPU work, by end.
    work_ends: Vec<(Nanos, u32)>,
}

impl<'a> Build<'a> {
    fn new(facts: &'a Facts) -> Self {
        let first_node = vec![NO_ROW; facts.trace().spans().len()];
        let (nodes, edges, threads, work_ends) = Default::default();
        Build { facts, nodes, edges, threads, first_node, work_ends }
    }

    fn threads(&mut self) {
        let (trace, waits) = (self.facts.trace(), self.facts.waits());
        let takes_part = takes_part(trace);
        let is_thread = |row: &&(TrackId, bool)| row.1;
        let tracks: Vec<(TrackId, bool)> =
            trace.tracks().iter().map(|(id, row)| (id, row.kind == TrackKind::Thread)).collect();
        for &(track, _) in tracks.iter().filter(is_thread) {
            let first = self.nodes.len() as u32;
            let (nodes, first_node) = (&mut self.nodes, &mut self.first_node);
            innermost_pieces(trace, track, &takes_part, |span, start, end| {
                if start == end {
                    return;
                }
                let kind = match waits.kind(span) {
                    None | Some(WaitKind::Gpu) => PathKind::Host,
                    Some(_) => PathKind::HostWaiting,
                };
                let slot = &mut first_node[span.index()];
                *slot = (*slot).min(nodes.len() as u32);
                nodes.push(Node { start, end, span, kind, follows: Follows::Nothing });
            });
            self.threads.push(first..self.nodes.len() as u32);
        }
    }

    /// Each piece after the one before it, or after the thread that it waited for.
    fn thread_edges(&mut self) {
        let stops = self.stops();
        let waits = self.wait_starts();
        for (thread, nodes) in self.threads.clone().into_iter().enumerate() {
            for node in nodes.clone() {
                let Node { start, end, span, kind, .. } = self.nodes[node as usize];
                let before = (node > nodes.start).then(|| node - 1);
                let reached = before.map_or(Nanos::MIN, |node| self.nodes[node as usize].end);
                let passed_on = match reached < start {
                    true => latest(&waits, thread, (reached, start)),
                    false => None,
                };
                let mut edge = |gates, from, point, lag, kind| {
                    self.edges.push(Edge { to: node, gates, from, point, lag, kind });
                };
                if let Some((time, waiting)) = passed_on {
                    let lag = start - time;
                    edge(Point::Start, waiting, Point::Start, lag, PathKind::Handoff);
                }
                self.nodes[node as usize].follows = match (before, passed_on) {
                    (None, _) => Follows::Nothing,
                    (Some(_), None) => Follows::Recorded,
                    (Some(_), Some(_)) => Follows::AtOnce,
                };
                let is_wakeable = kind == PathKind::HostWaiting
                    && !matches!(
                        self.facts.waits().kind(span),
                        Some(WaitKind::Io | WaitKind::Sleep | WaitKind::Cpu)
                    );
                if is_wakeable && let Some((time, other)) = latest(&stops, thread, (start, end)) {
                    edge(Point::End, other, Point::End, end - time, PathKind::Handoff);
                }
            }
        }
    }

    /// Where threads stopped working: (time, node, thread), by time.
    fn stops(&self) -> Vec<(Nanos, u32, usize)> {
        let mut stops = Vec::new();
        for (thread, nodes) in self.threads.iter().enumerate() {
            for node in nodes.clone() {
                let this = self.nodes[node as usize];
                let next = self.nodes.get(node as usize + 1).filter(|_| node + 1 < nodes.end);
                let goes_on = next.is_some_and(|next| {
                    next.start == this.end && next.kind != PathKind::HostWaiting
                });
                if this.kind != PathKind::HostWaiting && !goes_on {
                    stops.push((this.end, node, thread));
                }
            }
        }
        stops.sort_unstable();
        stops
    }

    /// Where threads began to wait for others: (time, node, thread), by time.
    fn wait_starts(&self) -> Vec<(Nanos, u32, usize)> {
        let mut starts = Vec::new();
        for (thread, nodes) in self.threads.iter().enumerate() {
            let waiting = nodes
                .clone()
                .filter(|&node| self.nodes[node as usize].kind == PathKind::HostWaiting);
            starts.extend(waiting.map(|node| (self.nodes[node as usize].start, node, thread)));
        }
        starts.sort_unstable();
        starts
    }

    fn devices(&mut self) {
        let mut kinds = WorkKinds::new(self.facts.trace());
        for device in devices(self.facts.trace()) {
            self.device(&device, &mut kinds);
        }
        self.work_ends.sort_unstable();
        self.sync_edges();
    }

    fn device(&mut self, device: &Device<'_>, kinds: &mut WorkKinds<'_>) {
        let spans = self.facts.trace().spans();
        let first = self.nodes.len();
        let mut streams = Vec::new();
        for stream in &device.streams {
            let from = self.nodes.len() as u32;
            for &span in &stream.work {
                let kind = match kinds.of(span) {
                    WorkKind::Compute => PathKind::Compute,
                    WorkKind::Communication => PathKind::Communication,
                    WorkKind::Copy => PathKind::Copy,
                };
                let (start, end) = (spans.start(span), spans.end(span));
                self.nodes.push(Node { start, end, span, kind, follows: Follows::Nothing });
            }
            streams.push(from..self.nodes.len() as u32);
        }
        let mut ends: Vec<(Nanos, u32, usize)> = Vec::new();
        for (stream, nodes) in streams.iter().enumerate() {
            ends.extend(nodes.clone().map(|node| (self.nodes[node as usize].end, node, stream)));
        }
        ends.sort_unstable();
        self.work_ends.extend(ends.iter().map(|&(end, node, _)| (end, node)));
        debug_assert!(first <= self.nodes.len());
        for (stream, nodes) in streams.into_iter().enumerate() {
            self.stream_edges(stream, nodes, &ends);
        }
    }

    /// Work after its launch, after what went before it, and after other streams.
    fn stream_edges(
        &mut self,
        stream: usize,
        nodes: std::ops::Range<u32>,
        ends: &[(Nanos, u32, usize)],
    ) {
        let spans = self.facts.trace().spans();
        // The work of this stream that has ended last so far.
        let mut before: Option<u32> = None;
        for node in nodes {
            let Node { start, span, end, .. } = self.nodes[node as usize];
            let ended = before.map(|node| (self.nodes[node as usize].end, node));
            let ended = ended.filter(|&(end, _)| end <= start);
            let launch = spans.launch(span).map(|call| self.first_node[call.index()]);
            let launch = launch.filter(|&call| call != NO_ROW);
            let launched = launch.map(|call| (self.nodes[call as usize].start, call));
            let launched = launched.filter(|&(time, _)| time <= start);
            let known = ended.max(launched).map(|(time, _)| time);
            let elsewhere = known
                .filter(|&time| start - time > LATENCY_MAX_NS)
                .and_then(|time| latest(ends, stream, (time, start)));
            let candidates = [
                (ended, Point::End, PathKind::GpuGap),
                (launched, Point::Start, PathKind::Launch),
                (elsewhere, Point::End, PathKind::StreamWait),
            ];
            let last = candidates.iter().filter_map(|row| row.0).map(|row| row.0).max();
            for (from, point, kind) in candidates {
                if let Some((time, from)) = from {
                    // Only what came last explains the time until the start.
                    let lag = if Some(time) == last { start - time } else { 0 };
                    let to = node;
                    self.edges.push(Edge { to, gates: Point::Start, from, point, lag, kind });
                }
            }
            if before.is_none_or(|before| self.nodes[before as usize].end <= end) {
                before = Some(node);
            }
        }
    }

    /// Calls that wait for the GPU return after the work that ended in them.
    fn sync_edges(&mut self) {
        let copies = self.blocking_copies();
        for nodes in self.threads.clone() {
            for node in nodes {
                let Node { start, end, span, .. } = self.nodes[node as usize];
                let awaited = match self.facts.waits().kind(span) {
                    Some(WaitKind::Gpu) => {
                        let place = self.work_ends.partition_point(|&(time, _)| time <= end);
                        place.checked_sub(1).map(|place| self.work_ends[place])
                    }
                    _ => copies.get(&span).copied(),
                };
                let awaited = awaited.filter(|&(time, _)| start < time && time <= end);
                if let Some((time, from)) = awaited {
                    self.edges.push(Edge {
                        to: node,
                        gates: Point::End,
                        from,
                        point: Point::End,
                        lag: end - time,
                        kind: PathKind::SyncReturn,
                    });
                }
            }
        }
    }

    /// Calls that returned after the copy that they launched: its end and its node.
    fn blocking_copies(&self) -> BTreeMap<SpanId, (Nanos, u32)> {
        let (trace, spans) = (self.facts.trace(), self.facts.trace().spans());
        let mut found = BTreeMap::new();
        for &(time, node) in &self.work_ends {
            let work = self.nodes[node as usize].span;
            if let Some(call) = spans.launch(work)
                && trace.kind(work) == SpanKind::Memcpy
                && time <= spans.end(call)
            {
                found.insert(call, (time, node));
            }
        }
        found
    }
}

/// The last of the times in (from, to] that is not this lane's own.
fn latest(
    times: &[(Nanos, u32, usize)],
    lane: usize,
    within: (Nanos, Nanos),
) -> Option<(Nanos, u32)> {
    let (from, to) = within;
    let end = times.partition_point(|other_end| other_end.0 <= to);
    let recent = times[..end].iter().rev().take(LOOKBACK_MAX);
    let inside = recent.take_while(|other_end| other_end.0 > from);
    let other = |other_end: &&(Nanos, u32, usize)| other_end.2 != lane;
    inside.into_iter().find(other).map(|&(time, node, _)| (time, node))
}
