//! Edges of the host: each thread's calls, one inside or after the other.

use super::graph::{Edge, EdgeType, Graph, Node};
use super::window::Events;

/// Calls that wait for the GPU, so that their own time does not count.
const BLOCKING: [&str; 6] = [
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaMemcpyAsync",
];

/// Where the walk over a thread is.
#[derive(Default)]
struct Walk {
    last: Option<Node>,
    last_outermost: Option<Node>,
    depth: usize,
    /// What the event of `last` lies in.
    parent: Option<usize>,
}

pub(super) fn add_edges(events: &Events<'_>, graph: &mut Graph) {
    for thread in events.threads() {
        let mut walk = Walk::default();
        let mut stack: Vec<usize> = Vec::new();
        for node in nodes(events, &thread) {
            if node.is_start {
                walk.enter(events, graph, node.event, stack.last().copied());
                stack.push(node.event);
            } else if let Some(event) = stack.pop() {
                // Where events cross, the one on top ends, whichever it was.
                walk.exit(events, graph, event, stack.last().copied());
            }
        }
    }
}

/// Starts and ends in the order of a call stack. All events have a length.
fn nodes(events: &Events<'_>, thread: &[usize]) -> Vec<Node> {
    let mut nodes: Vec<Node> =
        thread.iter().flat_map(|&event| [Node::start(event), Node::end(event)]).collect();
    nodes.sort_by_key(|&node| {
        let (event, dur) = (node.event as i64, events.rows[node.event].dur);
        // Ends first, the shorter inside; then starts, the longer outside.
        let tie = if node.is_start { (-dur, event) } else { (dur, -event) };
        (events.time(node), node.is_start, tie)
    });
    nodes
}

impl Walk {
    fn enter(
        &mut self,
        events: &Events<'_>,
        graph: &mut Graph,
        event: usize,
        parent: Option<usize>,
    ) {
        if !events.has_nodes[event] {
            return;
        }
        let start = Node::start(event);
        if let (0, Some(before)) = (self.depth, self.last_outermost) {
            let edge = Edge { kind: EdgeType::Dependency, weight: 0, event: None };
            graph.add(before, start, edge);
        }
        self.depth += 1;
        if let Some(last) = self.last {
            graph.add(last, start, self.operator_edge(events, last, start, false));
        }
        self.last = Some(start);
        self.parent = parent;
    }

    fn exit(
        &mut self,
        events: &Events<'_>,
        graph: &mut Graph,
        event: usize,
        parent: Option<usize>,
    ) {
        if !events.has_nodes[event] {
            return;
        }
        let end = Node::end(event);
        self.depth = self.depth.saturating_sub(1);
        if let Some(last) = self.last {
            let is_blocking = BLOCKING.contains(&events.name(event));
            graph.add(last, end, self.operator_edge(events, last, end, is_blocking));
        }
        if self.depth == 0 {
            self.last = None;
            self.last_outermost = Some(end);
        } else {
            self.last = Some(end);
            self.parent = parent;
        }
    }

    /// The time from one instant to the next, given to the innermost event around it.
    fn operator_edge(&self, events: &Events<'_>, from: Node, to: Node, is_blocking: bool) -> Edge {
        let weight = if is_blocking { 0 } else { events.time(to) - events.time(from) };
        let event = match (from.is_start, to.is_start) {
            (true, _) => Some(from.event),
            (false, false) => Some(to.event),
            (false, true) => self.parent,
        };
        Edge { kind: EdgeType::Operator, weight, event }
    }
}
