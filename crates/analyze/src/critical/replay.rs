//! The run again, with some of it taking no time.

use spanwise_model::Nanos;

use super::graph::{Graph, Point};

/// An order in which every point comes after all that it waits for: found once, since
/// it does not depend on how long anything takes.
pub(super) struct Order(Vec<Turn>);

/// When a point can be worked out.
#[derive(Clone, Copy)]
struct Turn {
    node: u32,
    point: Point,
    /// On a circle, which clocks that disagree can draw: it stays as recorded.
    is_circular: bool,
}

impl Order {
    pub(super) fn new(graph: &Graph) -> Self {
        let points = vec![[Progress::Untouched; 2]; graph.len()];
        let mut search = Search { graph, points, turns: Vec::with_capacity(2 * graph.len()) };
        for node in 0..graph.len() as u32 {
            search.visit(node, Point::End);
        }
        Order(search.turns)
    }

    /// When the last node would end if the nodes of `free` (ascending) took no time.
    ///
    /// Each point is reached as soon as all that it waits for allows. What nothing
    /// holds back stays where it was recorded.
    pub(super) fn end_without(&self, graph: &Graph, free: &[u32]) -> Nanos {
        let mut replay = Replay { graph, free, times: vec![[None; 2]; graph.len()] };
        let mut last: Option<Nanos> = None;
        for turn in &self.0 {
            let time = match turn.is_circular {
                true => graph.time(turn.node, turn.point),
                false => replay.earliest(turn.node, turn.point),
            };
            replay.times[turn.node as usize][turn.point as usize] = Some(time);
            if turn.point == Point::End {
                last = last.max(Some(time));
            }
        }
        last.unwrap_or(0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Untouched,
    Open,
    Done,
}

struct Search<'a> {
    graph: &'a Graph,
    points: Vec<[Progress; 2]>,
    turns: Vec<Turn>,
}

impl Search<'_> {
    /// Puts a point after all that it hangs on, without recursion: chains are as long as
    /// a trace.
    fn visit(&mut self, node: u32, point: Point) {
        let mut open = vec![(node, point)];
        while let Some(&(node, point)) = open.last() {
            if self.progress(node, point) == Progress::Done {
                open.pop();
                continue;
            }
            let missing = self.missing(node, point);
            match missing {
                Some((from, of)) if self.progress(from, of) == Progress::Untouched => {
                    self.points[from as usize][of as usize] = Progress::Open;
                    open.push((from, of));
                }
                missing => {
                    self.turns.push(Turn { node, point, is_circular: missing.is_some() });
                    self.points[node as usize][point as usize] = Progress::Done;
                }
            }
        }
    }

    fn progress(&self, node: u32, point: Point) -> Progress {
        self.points[node as usize][point as usize]
    }

    /// Something that has to come first.
    fn missing(&self, node: u32, point: Point) -> Option<(u32, Point)> {
        let is_missing = |node, point| self.progress(node, point) != Progress::Done;
        if point == Point::End && is_missing(node, Point::Start) {
            return Some((node, Point::Start));
        }
        let edges = self.graph.edges(node, point);
        let mut waits_for = edges.map(|edge| (edge.from, edge.point));
        waits_for.find(|&(from, point)| is_missing(from, point))
    }
}

struct Replay<'a> {
    graph: &'a Graph,
    free: &'a [u32],
    /// Start and end of each node, once known.
    times: Vec<[Option<Nanos>; 2]>,
}

impl Replay<'_> {
    fn known(&self, node: u32, point: Point) -> Option<Nanos> {
        self.times[node as usize][point as usize]
    }

    fn earliest(&self, node: u32, point: Point) -> Nanos {
        let recorded = self.graph.node(node);
        let is_free = self.free.binary_search(&node).is_ok();
        let own_start = match point {
            Point::Start => None,
            Point::End => self.known(node, Point::Start),
        };
        let held = self.graph.edges(node, point).filter_map(|edge| {
            // A wait returns its lag after what it waited for, and after it began.
            let from = self.known(edge.from, edge.point)?.max(own_start.unwrap_or(Nanos::MIN));
            let lag = if is_free && point == Point::End { 0 } else { edge.lag };
            Some(from.saturating_add(lag))
        });
        match (held.max(), own_start) {
            (Some(held), _) => held,
            (None, None) => recorded.start,
            (None, Some(start)) if is_free => start,
            (None, Some(start)) => start.saturating_add(recorded.end - recorded.start),
        }
    }
}
