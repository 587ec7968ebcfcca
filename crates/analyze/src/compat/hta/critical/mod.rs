//! HTA's critical path: the longest chain of host calls and GPU work in a window.
//!
//! Instants (starts and ends of operators, calls and GPU work) are joined by edges:
//! time inside an operator or kernel, order on a thread, the delay of a launch, the
//! gap between kernels, and waits. Calls that wait weigh nothing, so the path goes
//! through what they waited for. The native `critical_path` section asks otherwise:
//! it walks back from the end of the recording.
//!
//! Of events of one microsecond HTA's order is its sort's. Here a launch
//! stands before work that begins in the same microsecond, which turns some delays of
//! launches into gaps between kernels; with a stable sort HTA counts the same.

mod device;
mod graph;
mod host;
mod queue;
mod waits;
mod window;

use std::collections::{BTreeMap, BTreeSet};

use super::Rows;
use super::load::{KernelType, Loaded, STEP, kernel_type};
use crate::CompatValue;
use graph::{Edge, EdgeType, Graph, Node};
use window::Events;

/// What the critical path is asked of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HtaWindow {
    /// Part of an annotation's name. Without one the first step is taken, or all
    /// where there are no steps; empty means all.
    pub annotation: Option<String>,
    /// Which of the annotations so named, from 0.
    pub instance: usize,
}

impl HtaWindow {
    /// Its text, and from when to when, if there is such an annotation.
    fn find(&self, loaded: &Loaded<'_>) -> (String, Option<(i64, i64)>) {
        let rows = || [&loaded.cpu, &loaded.gpu, &loaded.syncs].into_iter().flatten();
        let part = match &self.annotation {
            Some(part) => part.as_str(),
            None if rows().any(|row| loaded.name(row).contains(STEP)) => STEP,
            None => "",
        };
        if part.is_empty() {
            return ("all".to_owned(), Some((i64::MIN, i64::MAX)));
        }
        let spans = loaded.trace.spans();
        let mut named: Vec<_> = rows().filter(|row| loaded.name(row).contains(part)).collect();
        named.sort_by_key(|row| (spans.offset(row.span), row.span));
        let text = format!("{part} [{}]", self.instance);
        (text, named.get(self.instance).map(|row| (row.ts, row.end())))
    }
}

pub(super) fn critical_path(loaded: &Loaded<'_>, window: &HtaWindow) -> Rows {
    let columns = vec!["rank", "of", "item", "count", "duration (us)", "percentage"];
    let mut table = Table { rank: loaded.rank, rows: Vec::new() };
    let (text, range) = window.find(loaded);
    let Some(range) = range else {
        table.add("window", &format!("{text}: no such annotation"), None, None, None);
        return (columns, table.rows);
    };
    let events = Events::new(loaded, range);
    let mut graph = Graph::default();
    host::add_edges(&events, &mut graph);
    let left_out = device::add_edges(&events, &mut graph);
    table.add("window", &text, None, None, None);
    if left_out > 0 {
        table.add("graph", "waits for streams left out: too many", Some(left_out), None, None);
    }
    let nodes: Vec<Node> = (0..events.rows.len())
        .filter(|&event| events.has_nodes[event])
        .flat_map(|event| [Node::start(event), Node::end(event)])
        .collect();
    let edges: Vec<Edge> = graph.edges().map(|(_, _, edge)| *edge).collect();
    table.add_part("graph", &nodes, &edges);
    match path(&events, &graph) {
        Ok((nodes, edges)) => {
            table.add_part("critical path", &nodes, &edges);
            table.add("critical path", "length", None, Some(weight(&edges)), None);
            table.add_bounds(&events, &edges);
        }
        Err(why) => table.add("critical path", why, None, None, None),
    }
    (columns, table.rows)
}

/// The longest way, or why HTA refuses to search for one.
fn path(events: &Events<'_>, graph: &Graph) -> Result<(Vec<Node>, Vec<Edge>), &'static str> {
    let stream = |node: Node| events.rows[node.event].stream;
    let is_wrong = |(from, to, edge): (Node, Node, &Edge)| {
        edge.kind == EdgeType::Sync && stream(from) != -1 && stream(from) == stream(to)
    };
    if graph.edges().any(is_wrong) {
        return Err("none: work waits for work of its own stream");
    }
    match graph.longest_path() {
        Some((nodes, edges)) if !edges.is_empty() => Ok((nodes, edges)),
        Some(_) => Err("none: no edges"),
        None => Err("none: the graph has a cycle"),
    }
}

/// What bounds the time of an edge of the path; an order or a wait takes none.
fn bound_by(events: &Events<'_>, edge: &Edge) -> Option<&'static str> {
    match edge.kind {
        EdgeType::Dependency | EdgeType::Sync => None,
        EdgeType::KernelDelay => Some("gpu_kernel_kernel_overhead"),
        EdgeType::LaunchDelay => Some("gpu_kernel_launch_overhead"),
        EdgeType::Operator => Some(match edge.event {
            Some(event) if events.rows[event].stream >= 0 => {
                match kernel_type(events.name(event)) {
                    KernelType::Communication => "gpu_communication_bound",
                    _ => "gpu_compute_bound",
                }
            }
            _ => "cpu_bound",
        }),
    }
}

fn weight(edges: &[Edge]) -> i64 {
    edges.iter().map(|edge| edge.weight).sum()
}

/// Rows that say what they count.
struct Table {
    rank: i64,
    rows: Vec<Vec<CompatValue>>,
}

impl Table {
    fn add(
        &mut self,
        of: &str,
        item: &str,
        count: Option<usize>,
        duration: Option<i64>,
        share: Option<f64>,
    ) {
        const NONE: CompatValue = CompatValue::Float(f64::NAN);
        self.rows.push(vec![
            self.rank.into(),
            of.into(),
            item.into(),
            count.map_or(NONE, |count| (count as i64).into()),
            duration.map_or(NONE, Into::into),
            share.map_or(NONE, Into::into),
        ]);
    }

    /// How many nodes, events and edges there are, and what the edges weigh.
    fn add_part(&mut self, of: &str, nodes: &[Node], edges: &[Edge]) {
        let events: BTreeSet<usize> = nodes.iter().map(|node| node.event).collect();
        self.add(of, "nodes", Some(nodes.len()), None, None);
        self.add(of, "events", Some(events.len()), None, None);
        self.add(of, "edges", Some(edges.len()), None, None);
        for kind in EdgeType::ALL {
            let of_kind: Vec<i64> =
                edges.iter().filter(|edge| edge.kind == kind).map(|edge| edge.weight).collect();
            self.add(of, kind.name(), Some(of_kind.len()), Some(of_kind.iter().sum()), None);
        }
    }

    fn add_bounds(&mut self, events: &Events<'_>, edges: &[Edge]) {
        let all = weight(edges);
        let mut bounds: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
        for edge in edges {
            let Some(bound) = bound_by(events, edge) else { continue };
            let (count, sum) = bounds.entry(bound).or_default();
            *count += 1;
            *sum += edge.weight;
        }
        for (bound, (count, sum)) in bounds {
            let share = sum as f64 / all as f64 * 100.0;
            self.add("bound_by", bound, Some(count), Some(sum), Some(share));
        }
    }
}
