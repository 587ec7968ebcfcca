//! The walk from the end of the window back to its beginning.

use spanwise_model::Nanos;

use super::PathKind;
use super::graph::{Edge, Graph, Point};

/// A part of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) kind: PathKind,
    /// The node whose time it is; `None` for the time before a node.
    pub(super) of: Option<u32>,
}

/// Gives the links of the path, the last first; they cover the window without a gap.
pub(super) fn path(graph: &Graph, window: (Nanos, Nanos), mut give: impl FnMut(Link)) {
    let mut reached = window.1;
    let mut add = |to: Nanos, kind: PathKind, of: Option<u32>| {
        let from = to.clamp(window.0, reached);
        if from < reached {
            give(Link { from, to: reached, kind, of });
            reached = from;
        }
    };
    let mut place = graph.last().map(|node| (node, Point::End));
    if let Some((node, point)) = place {
        add(graph.time(node, point), PathKind::Unknown, None);
    }
    // A recording whose clocks disagree must not send us round in circles.
    let mut steps_left = 4 * graph.len();
    while let Some((node, point)) = place.filter(|_| steps_left > 0) {
        steps_left -= 1;
        let edge = binding(graph, node, point);
        place = edge.map(|edge| (edge.from, edge.point));
        match (edge, point) {
            (Some(edge), _) => {
                // What a call that waited took after the wait is its own.
                let of = (point == Point::End).then_some(node);
                add(graph.time(edge.from, edge.point), edge.kind, of);
            }
            (None, Point::End) => {
                add(graph.node(node).start, graph.node(node).kind, Some(node));
                place = Some((node, Point::Start));
            }
            (None, Point::Start) => {}
        }
    }
    add(window.0, PathKind::Unknown, None);
}

/// Of what a point waits for, what came last; of equals the first.
fn binding(graph: &Graph, node: u32, point: Point) -> Option<Edge> {
    let time = |edge: &Edge| graph.time(edge.from, edge.point);
    graph.edges(node, point).reduce(|last, edge| match time(&edge) > time(&last) {
        true => edge,
        false => last,
    })
}
