//! The run again, with some of it taking no time.

use spanwise_model::Nanos;

use super::graph::{Graph, Point};

/// When the last node would end if the nodes of `free` (ascending) took no time.
///
/// Each point is reached as soon as all that it waits for allows. What nothing
/// holds back stays where it was recorded.
pub(super) fn end_without(graph: &Graph, free: &[u32]) -> Nanos {
    let (times, is_open) = (vec![[None; 2]; graph.len()], vec![[false; 2]; graph.len()]);
    let mut replay = Replay { graph, free, times, is_open };
    let ends = (0..graph.len() as u32).map(|node| replay.time(node, Point::End));
    ends.max().unwrap_or(0)
}

struct Replay<'a> {
    graph: &'a Graph,
    free: &'a [u32],
    /// Start and end of each node, once known.
    times: Vec<[Option<Nanos>; 2]>,
    /// What is being worked out.
    is_open: Vec<[bool; 2]>,
}

impl Replay<'_> {
    /// Works out a point and all that it hangs on, without recursion: chains are as
    /// long as a trace.
    fn time(&mut self, node: u32, point: Point) -> Nanos {
        let mut open = vec![(node, point)];
        while let Some(&(node, point)) = open.last() {
            if self.known(node, point).is_some() {
                open.pop();
                continue;
            }
            match self.missing(node, point) {
                Some(missing) if !self.is_open[missing.0 as usize][missing.1 as usize] => {
                    self.is_open[missing.0 as usize][missing.1 as usize] = true;
                    open.push(missing);
                }
                // A circle, which clocks that disagree can draw: keep the recording.
                Some(_) => self.set(node, point, self.graph.time(node, point)),
                None => {
                    let time = self.earliest(node, point);
                    self.set(node, point, time);
                }
            }
        }
        self.known(node, point).unwrap_or(0)
    }

    fn known(&self, node: u32, point: Point) -> Option<Nanos> {
        self.times[node as usize][point as usize]
    }

    fn set(&mut self, node: u32, point: Point, time: Nanos) {
        self.times[node as usize][point as usize] = Some(time);
    }

    /// Something that has to be worked out first.
    fn missing(&self, node: u32, point: Point) -> Option<(u32, Point)> {
        if point == Point::End && self.known(node, Point::Start).is_none() {
            return Some((node, Point::Start));
        }
        let edges = self.graph.edges(node, point);
        let mut waits_for = edges.map(|edge| (edge.from, edge.point));
        waits_for.find(|&(from, point)| self.known(from, point).is_none())
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
