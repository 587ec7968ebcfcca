//! HTA's graph of instants, and the longest way through it.
//!
//! Several ways are often equally long, and HTA takes the one that its graph library
//! comes upon first. So nodes, and the edges of a node, stand here in the order of
//! their coming, and the search goes as that library's does.

use std::collections::BTreeMap;

/// Why an edge is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EdgeType {
    Operator,
    Dependency,
    LaunchDelay,
    KernelDelay,
    Sync,
}

impl EdgeType {
    pub(super) const ALL: [EdgeType; 5] = [
        EdgeType::Operator,
        EdgeType::Dependency,
        EdgeType::LaunchDelay,
        EdgeType::KernelDelay,
        EdgeType::Sync,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            EdgeType::Operator => "critical_path_operator",
            EdgeType::Dependency => "critical_path_dependency",
            EdgeType::LaunchDelay => "critical_path_kernel_launch_delay",
            EdgeType::KernelDelay => "critical_path_kernel_kernel_delay",
            EdgeType::Sync => "critical_path_sync_dependency",
        }
    }
}

/// The start or the end of an event, which is a number in the list of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) event: usize,
    pub(super) is_start: bool,
}

impl Node {
    pub(super) fn start(event: usize) -> Self {
        Node { event, is_start: true }
    }

    pub(super) fn end(event: usize) -> Self {
        Node { event, is_start: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) kind: EdgeType,
    /// Microseconds; below zero where rounding let an event end before it began.
    pub(super) weight: i64,
    /// The event whose time this is, where it is any event's.
    pub(super) event: Option<usize>,
}

/// Nodes that have an edge, and the edges, one at most between two nodes.
#[derive(Debug, Default)]
pub(super) struct Graph {
    places: BTreeMap<Node, usize>,
    nodes: Vec<Node>,
    after: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
    edges: BTreeMap<(usize, usize), Edge>,
}

impl Graph {
    /// A second edge between the same nodes takes the place of the first.
    pub(super) fn add(&mut self, from: Node, to: Node, edge: Edge) {
        let pair = (self.place(from), self.place(to));
        if self.edges.insert(pair, edge).is_none() {
            self.after[pair.0].push(pair.1);
            self.before[pair.1].push(pair.0);
        }
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (Node, Node, &Edge)> {
        self.edges.iter().map(|(pair, edge)| (self.nodes[pair.0], self.nodes[pair.1], edge))
    }

    fn place(&mut self, node: Node) -> usize {
        if let Some(&place) = self.places.get(&node) {
            return place;
        }
        let place = self.nodes.len();
        self.places.insert(node, place);
        self.nodes.push(node);
        self.after.push(Vec::new());
        self.before.push(Vec::new());
        place
    }

    /// Each node after all that lead to it, or nothing where there is a cycle.
    fn order(&self) -> Option<Vec<usize>> {
        let mut missing: Vec<usize> = self.before.iter().map(Vec::len).collect();
        let mut order: Vec<usize> =
            (0..self.nodes.len()).filter(|&place| missing[place] == 0).collect();
        let mut at = 0;
        while let Some(&place) = order.get(at) {
            at += 1;
            for &next in &self.after[place] {
                missing[next] -= 1;
                if missing[next] == 0 {
                    order.push(next);
                }
            }
        }
        (order.len() == self.nodes.len()).then_some(order)
    }

    /// The nodes of the longest way and the edges between them; weights below zero
    /// count as zero. Nothing where there is a cycle.
    pub(super) fn longest_path(&self) -> Option<(Vec<Node>, Vec<Edge>)> {
        let order = self.order()?;
        let mut best: Vec<(i64, Option<usize>)> = vec![(0, None); self.nodes.len()];
        let mut last: Option<usize> = None;
        for place in order {
            for &from in &self.before[place] {
                let length = best[from].0 + self.edges[&(from, place)].weight.max(0);
                if best[place].1.is_none() || length > best[place].0 {
                    best[place] = (length, Some(from));
                }
            }
            if last.is_none_or(|last| best[place].0 > best[last].0) {
                last = Some(place);
            }
        }
        let mut places: Vec<usize> = std::iter::successors(last, |&place| best[place].1).collect();
        places.reverse();
        let edges = places.windows(2).map(|pair| self.edges[&(pair[0], pair[1])]).collect();
        Some((places.into_iter().map(|place| self.nodes[place]).collect(), edges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edges as (from, to, weight) between the starts of events.
    #[track_caller]
    fn check(edges: &[(usize, usize, i64)], expected: Option<&[usize]>) {
        let mut graph = Graph::default();
        for &(from, to, weight) in edges {
            let edge = Edge { kind: EdgeType::Operator, weight, event: None };
            graph.add(Node::start(from), Node::start(to), edge);
        }
        let found = graph.longest_path().map(|(nodes, _)| nodes);
        let found: Option<Vec<usize>> =
            found.map(|nodes| nodes.iter().map(|node| node.event).collect());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn the_heavier_way_wins() {
        check(&[(0, 1, 1), (1, 3, 1), (0, 2, 2), (2, 3, 1)], Some(&[0, 2, 3]));
    }

    #[test]
    fn of_equal_ways_the_first_wins() {
        check(&[(0, 2, 1), (0, 1, 1), (1, 3, 1), (2, 3, 1)], Some(&[0, 1, 3]));
        // What adds nothing at the end is not walked.
        check(&[(0, 1, 1), (1, 2, 0)], Some(&[0, 1]));
    }

    #[test]
    fn a_weight_below_zero_counts_as_zero() {
        check(&[(0, 1, 2), (1, 2, -1), (2, 3, 1)], Some(&[0, 1, 2, 3]));
    }

    #[test]
    fn an_edge_again_replaces_the_first() {
        check(&[(0, 1, 9), (0, 2, 5), (0, 1, 1)], Some(&[0, 2]));
    }

    #[test]
    fn a_cycle_has_no_path() {
        check(&[(0, 1, 1), (1, 0, 1)], None);
    }
}
