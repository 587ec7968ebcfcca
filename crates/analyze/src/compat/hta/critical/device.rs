//! Edges of the GPU: work after work, work after its launch, and waits for work.

use std::collections::BTreeMap;

use super::super::load::SYNCS;
use super::graph::{Edge, EdgeType, Graph, Node};
use super::queue::{Lengths, queue_lengths};
use super::waits::StreamWaits;
use super::window::{Events, STREAM_WAIT};

/// Where the walk over the GPU's work is.
struct Walk<'a> {
    events: &'a Events<'a>,
    lengths: Lengths,
    waits: StreamWaits,
    /// The end of the last work of each stream, in the order in which streams come up.
    last: Vec<(i64, Node)>,
    /// Of these, the one that ends last.
    latest: Option<Node>,
    /// Where each stream stands there.
    places: BTreeMap<i64, usize>,
    /// Work, and the work that its stream was made to wait for.
    awaited: BTreeMap<usize, usize>,
    /// How many more edges waits for all streams may have.
    edges_left: usize,
    /// Edges beyond that.
    left_out: usize,
}

/// Waits for the whole device lead to each of its streams. What no recording comes near, more edges
/// for each event than this, is cut: only the stream that ends last is waited for then.
const EDGES_PER_EVENT_MAX: usize = 64;
const EDGES_MIN: usize = 65_536;

/// Adds all edges; gives how many were left out.
pub(super) fn add_edges(events: &Events<'_>, graph: &mut Graph) -> usize {
    let is_wanted = |&event: &usize| {
        let row = &events.rows[event];
        let is_sync = SYNCS.contains(&events.name(event));
        events.is_inside[event] && row.correlation >= 0 && (row.stream != -1 || is_sync)
    };
    let mut work: Vec<usize> = (0..events.rows.len()).filter(is_wanted).collect();
    // A wait stands where it ends: what it waits for may begin while it lasts.
    work.sort_by_key(|&event| match events.is_sync(event) {
        true => events.rows[event].end(),
        false => events.rows[event].ts,
    });
    let mut walk = Walk {
        events,
        lengths: queue_lengths(events),
        waits: StreamWaits::new(events),
        last: Vec::new(),
        latest: None,
        places: BTreeMap::new(),
        awaited: BTreeMap::new(),
        edges_left: EDGES_MIN.max(events.rows.len().saturating_mul(EDGES_PER_EVENT_MAX)),
        left_out: 0,
    };
    for event in work {
        match events.is_sync(event) {
            true => walk.wait(graph, event),
            false => walk.work(graph, event),
        }
    }
    walk.left_out
}

const SYNC: Edge = Edge { kind: EdgeType::Sync, weight: 0, event: None };

impl Walk<'_> {
    fn last_of(&self, stream: i64) -> Option<Node> {
        self.places.get(&stream).map(|&place| self.last[place].1)
    }

    /// The last work of every stream.
    fn ends_of_all(&mut self) -> Vec<Node> {
        if let Some(left) = self.edges_left.checked_sub(self.last.len()) {
            self.edges_left = left;
            return self.last.iter().map(|row| row.1).collect();
        }
        self.left_out += self.last.len().saturating_sub(1);
        self.latest.into_iter().collect()
    }

    fn wait(&mut self, graph: &mut Graph, event: usize) {
        let events = self.events;
        let call = events.partner[event];
        let ends: Vec<Node> = match events.name(event) {
            STREAM_WAIT => {
                let next = call.and_then(|call| self.waits.work_after(call));
                if let (Some(source), Some(next)) = (self.waits.work_before(event), next) {
                    self.awaited.insert(next, source);
                }
                return;
            }
            "Event Sync" => {
                let source = self.waits.work_before(event);
                source
                    .filter(|&source| events.has_nodes[source])
                    .map(Node::end)
                    .into_iter()
                    .collect()
            }
            "Context Sync" => self.ends_of_all(),
            _ => self.last_of(events.rows[event].stream).into_iter().collect(),
        };
        let Some(call) = call.filter(|&call| events.has_nodes[call]) else { return };
        for end in ends {
            graph.add(end, Node::end(call), SYNC);
        }
    }

    fn work(&mut self, graph: &mut Graph, event: usize) {
        let events = self.events;
        let (start, end, row) = (Node::start(event), Node::end(event), &events.rows[event]);
        let edge = |kind, weight, event| Edge { kind, weight, event };
        graph.add(start, end, edge(EdgeType::Operator, row.dur, Some(event)));
        let awaited = self.awaited.remove(&event).filter(|&source| events.has_nodes[source]);
        if let Some(source) = awaited {
            graph.add(Node::end(source), start, SYNC);
        }
        let awaited = awaited.map(|source| events.time(Node::end(source)));
        let is_awaited_before = |time: i64| awaited.is_none_or(|end| end < time);
        let last = self.last_of(row.stream);
        let is_empty = |call: usize| {
            self.lengths.get(&call) == Some(&1) && self.lengths.get(&event) == Some(&0)
        };
        let launch = events.partner[event].filter(|&call| {
            let time = events.rows[call].ts;
            is_empty(call)
                && last.is_none_or(|last| events.time(last) < time)
                && is_awaited_before(time)
        });
        if let Some(call) = launch {
            if events.has_nodes[call] {
                let delay = row.ts - events.rows[call].ts;
                graph.add(Node::start(call), start, edge(EdgeType::LaunchDelay, delay, None));
            }
        } else if let Some(last) = last.filter(|&last| is_awaited_before(events.time(last))) {
            let delay = row.ts - events.time(last);
            // A gap is counted with the work before it.
            graph.add(last, start, edge(EdgeType::KernelDelay, delay, Some(last.event)));
        }
        if self.latest.is_none_or(|latest| events.time(latest) <= events.time(end)) {
            self.latest = Some(end);
        }
        let place = *self.places.entry(row.stream).or_insert(self.last.len());
        match self.last.get_mut(place) {
            Some(known) => known.1 = end,
            None => self.last.push((row.stream, end)),
        }
    }
}
