//! The critical path: the chain of what the end of the window waited for.
//!
//! Walked backwards from the end. A thread did one thing after another; where it
//! waited for the GPU, the path goes on with the work it waited for; work goes back
//! to what it had to wait for last: its launch, the work before it on its stream, or
//! another stream. Every nanosecond of the window belongs to exactly one link.
//!
//! What shortening something would gain is not its time on the path: another chain
//! may be nearly as long. So the run is replayed with that thing taking no time, all
//! else as it was recorded. The replay lets work start as soon as what it is known
//! to depend on allows, so its answer is the most that can be gained, not a promise.

mod graph;
mod replay;
mod walk;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::StrId;

use crate::{Facts, TotalNanos};
use graph::Graph;

/// What a part of the path was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathKind {
    /// A thread worked.
    Host,
    /// A thread waited for something that no other thread or GPU explains.
    HostWaiting,
    /// A thread of whose doings nothing is recorded.
    HostUnrecorded,
    /// From the start of a launching call to the start of its work.
    Launch,
    /// Between two pieces of work on one stream, both launched in time.
    GpuGap,
    /// From the end of work on another stream to the start of the work.
    StreamWait,
    Compute,
    Communication,
    Copy,
    /// From the end of GPU work to the return of the call that waited for it.
    SyncReturn,
    /// One thread passed on to another.
    Handoff,
    /// Before anything that explains what came later.
    Unknown,
}

/// How much of the path was of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathKindTime {
    pub kind: PathKind,
    pub total_ns: TotalNanos,
    pub links: u64,
}

/// A function or a kernel on the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathItem {
    pub kind: PathKind,
    pub name: String,
    /// The Python line around it, or around the call that launched it.
    pub line: Option<String>,
    /// Its time on the path.
    pub path_ns: TotalNanos,
    pub links: u64,
    /// How much earlier the window could end, at most, if all of it took no time;
    /// `None` where that was not worked out.
    pub gain_ns: Option<TotalNanos>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriticalPath {
    pub window_ns: TotalNanos,
    /// Add up to the window, most time first.
    pub kinds: Vec<PathKindTime>,
    /// Most time on the path first.
    pub items: Vec<PathItem>,
    pub links: u64,
}

/// Each replay walks the whole trace; more gains than this nobody reads.
const GAINS_MAX: usize = 50;

/// The critical path of the whole window; what the first `gains` items are worth is
/// worked out, as far as that is bearable.
pub fn critical_path(facts: &Facts, gains: usize) -> CriticalPath {
    let graph = Graph::new(facts);
    let mut links = 0;
    let mut kinds: BTreeMap<PathKind, PathKindTime> = BTreeMap::new();
    let mut items: BTreeMap<ItemKey, (TotalNanos, u64)> = BTreeMap::new();
    walk::path(&graph, facts.window(), |link| {
        links += 1;
        let ns = i128::from(link.to) - i128::from(link.from);
        let empty = PathKindTime { kind: link.kind, total_ns: 0, links: 0 };
        let kind = kinds.entry(link.kind).or_insert(empty);
        kind.total_ns += ns;
        kind.links += 1;
        if let Some(node) = link.of {
            let (total_ns, count) = items.entry(item_key(facts, &graph, node)).or_default();
            *total_ns += ns;
            *count += 1;
        }
    });
    let mut kinds: Vec<PathKindTime> = kinds.into_values().collect();
    kinds.sort_by_key(|row| (Reverse(row.total_ns), row.kind));
    CriticalPath {
        window_ns: facts.window_ns(),
        kinds,
        items: named(facts, &graph, items, gains.min(GAINS_MAX)),
        links,
    }
}

/// What distinguishes one function or kernel from another.
type ItemKey = (PathKind, StrId, Option<StrId>);

fn item_key(facts: &Facts, graph: &Graph, node: u32) -> ItemKey {
    let node = graph.node(node);
    let spans = facts.trace().spans();
    let name = |span| facts.names().merged(spans.name(span));
    // Work stands under the line that launched it.
    let place = spans.launch(node.span).unwrap_or(node.span);
    let line = facts.frames().line(place).filter(|&line| line != node.span);
    (node.kind, name(node.span), line.map(name))
}

fn named(
    facts: &Facts,
    graph: &Graph,
    items: BTreeMap<ItemKey, (TotalNanos, u64)>,
    gains: usize,
) -> Vec<PathItem> {
    let mut items: Vec<(ItemKey, (TotalNanos, u64))> = items.into_iter().collect();
    items.sort_by_key(|&(key, (ns, _))| (Reverse(ns), key));
    let worth = gains_of(facts, graph, items.iter().take(gains).map(|item| item.0));
    let text = |id: StrId| facts.names().text(id).into_owned();
    let mut rows = Vec::with_capacity(items.len());
    for (place, ((kind, name, line), (path_ns, links))) in items.into_iter().enumerate() {
        let (name, line) = (text(name), line.map(text));
        let gain_ns = worth.get(place).copied();
        rows.push(PathItem { kind, name, line, path_ns, links, gain_ns });
    }
    rows
}

/// What each item is worth, at most.
fn gains_of(facts: &Facts, graph: &Graph, keys: impl Iterator<Item = ItemKey>) -> Vec<TotalNanos> {
    let keys: Vec<ItemKey> = keys.collect();
    let recorded = i128::from(graph.last_end());
    let gains = |keys: &[ItemKey]| {
        let ends = replay::ends_without(graph, &lanes(facts, graph, keys));
        ends.map(|end| recorded - i128::from(end)).into_iter().take(keys.len())
    };
    keys.chunks(replay::LANES).flat_map(gains).collect()
}

/// For each node the place of its item among `keys`.
fn lanes(facts: &Facts, graph: &Graph, keys: &[ItemKey]) -> Vec<u8> {
    // Most nodes are distinguished by their names alone.
    let names: Vec<StrId> = keys.iter().map(|key| key.1).collect();
    let lane = |node: u32| {
        let name = facts.names().merged(facts.trace().spans().name(graph.node(node).span));
        if !names.contains(&name) {
            return replay::NO_LANE;
        }
        let key = item_key(facts, graph, node);
        let lane = keys.iter().position(|&other| other == key);
        lane.map_or(replay::NO_LANE, |lane| lane as u8)
    };
    (0..graph.len() as u32).map(lane).collect()
}

#[cfg(test)]
mod tests;
