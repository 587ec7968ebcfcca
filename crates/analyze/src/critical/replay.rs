//! The run again, with some of it taking no time.
//!
//! Several runs at once, a lane each: what a step costs is to find its way through the
//! graph, not to add up. Times are kept only for as long as something waits for them, so
//! what is at work stays small, however long the trace.

use spanwise_model::Nanos;

use super::graph::{Graph, Point};

/// How many runs are replayed at once.
pub(super) const LANES: usize = 16;

/// A node that takes its time in every lane.
pub(super) const NO_LANE: u8 = u8::MAX;

/// When a point is reached, in each lane.
type Times = [Nanos; LANES];

/// When the last node would end, in each lane, if the nodes of that lane took no time.
///
/// `lane_of` has a lane, or [`NO_LANE`], for each node. Each point is reached as soon as
/// all that it waits for allows. What nothing holds back stays where it was recorded.
pub(super) fn ends_without(graph: &Graph, lane_of: &[u8]) -> Times {
    let mut replay = Replay::new(graph, lane_of);
    for node in 0..graph.len() as u32 {
        replay.visit(node, Point::End);
    }
    replay.last.unwrap_or_default()
}

/// A point that was not come to yet.
const UNTOUCHED: u32 = u32::MAX;
/// A point that waits for others, which are being worked out.
const OPEN: u32 = u32::MAX - 1;

/// So many wait for a point that nobody counts them: its times are kept.
const MANY: u8 = u8::MAX;

struct Replay<'a> {
    graph: &'a Graph,
    lane_of: &'a [u8],
    /// Where the times of each node's start and end are kept, once known.
    places: Vec<[u32; 2]>,
    /// How many points still wait for each node's start and end.
    waiting: Vec<[u8; 2]>,
    kept: Vec<Times>,
    /// Rows of `kept` that nobody waits for any more.
    spare: Vec<u32>,
    last: Option<Times>,
}

impl<'a> Replay<'a> {
    fn new(graph: &'a Graph, lane_of: &'a [u8]) -> Self {
        // Each end waits for its own start.
        let mut waiting = vec![[1, 0]; graph.len()];
        for node in 0..graph.len() as u32 {
            for gates in [Point::Start, Point::End] {
                for edge in graph.edges(node, gates) {
                    let count: &mut u8 = &mut waiting[edge.from as usize][edge.point as usize];
                    *count = count.saturating_add(1);
                }
            }
        }
        let places = vec![[UNTOUCHED; 2]; graph.len()];
        Replay { graph, lane_of, places, waiting, kept: Vec::new(), spare: Vec::new(), last: None }
    }

    /// Works out a point after all that it hangs on, without recursion: chains are as
    /// long as a trace.
    fn visit(&mut self, node: u32, point: Point) {
        let mut open = vec![(node, point)];
        while let Some(&(node, point)) = open.last() {
            if self.is_known(node, point) {
                open.pop();
                continue;
            }
            match self.missing(node, point) {
                Some((from, of)) if self.places[from as usize][of as usize] == UNTOUCHED => {
                    self.places[from as usize][of as usize] = OPEN;
                    open.push((from, of));
                }
                // On a circle, which clocks that disagree can draw: it stays as recorded.
                Some(_) => self.reach(node, point, [self.graph.time(node, point); LANES]),
                None => self.reach(node, point, self.earliest(node, point)),
            }
        }
    }

    fn is_known(&self, node: u32, point: Point) -> bool {
        self.places[node as usize][point as usize] < OPEN
    }

    /// What a point waits for, its own start included.
    fn awaited(&self, node: u32, point: Point) -> impl Iterator<Item = (u32, Point)> + use<'a> {
        let own = (point == Point::End).then_some((node, Point::Start));
        let edges = self.graph.edges(node, point);
        own.into_iter().chain(edges.map(|edge| (edge.from, edge.point)))
    }

    /// Something that has to come first.
    fn missing(&self, node: u32, point: Point) -> Option<(u32, Point)> {
        self.awaited(node, point).find(|&(from, of)| !self.is_known(from, of))
    }

    fn times(&self, node: u32, point: Point) -> &Times {
        &self.kept[self.places[node as usize][point as usize] as usize]
    }

    /// When a point is reached; all that it waits for is known.
    fn earliest(&self, node: u32, point: Point) -> Times {
        let recorded = self.graph.node(node);
        let free_lane = usize::from(self.lane_of[node as usize]);
        let mut edges = self.graph.edges(node, point).peekable();
        if point == Point::Start {
            if edges.peek().is_none() {
                return [recorded.start; LANES];
            }
            let mut latest = [Nanos::MIN; LANES];
            for edge in edges {
                raise(&mut latest, self.times(edge.from, edge.point), &[edge.lag; LANES]);
            }
            return latest;
        }
        let begun = self.times(node, Point::Start);
        let lags = |lag: Nanos| {
            let mut lags = [lag; LANES];
            if let Some(lag) = lags.get_mut(free_lane) {
                *lag = 0;
            }
            lags
        };
        let mut latest = [Nanos::MIN; LANES];
        if edges.peek().is_none() {
            raise(&mut latest, begun, &lags(recorded.end - recorded.start));
        }
        for edge in edges {
            // A wait returns its lag after what it waited for, and after it began.
            let lags = lags(edge.lag);
            raise(&mut latest, self.times(edge.from, edge.point), &lags);
            raise(&mut latest, begun, &lags);
        }
        latest
    }

    /// Keeps the times of a point for those who wait for it, and lets go of what only
    /// this one still waited for.
    fn reach(&mut self, node: u32, point: Point, times: Times) {
        for (from, of) in self.awaited(node, point) {
            let place = self.places[from as usize][of as usize];
            let waiting = &mut self.waiting[from as usize][of as usize];
            if place < OPEN && *waiting != MANY {
                *waiting -= 1;
                if *waiting == 0 {
                    self.spare.push(place);
                }
            }
        }
        if point == Point::End {
            raise(self.last.get_or_insert([Nanos::MIN; LANES]), &times, &[0; LANES]);
        }
        let place = match self.spare.pop() {
            Some(place) => {
                self.kept[place as usize] = times;
                place
            }
            None => {
                self.kept.push(times);
                self.kept.len() as u32 - 1
            }
        };
        self.places[node as usize][point as usize] = place;
        if self.waiting[node as usize][point as usize] == 0 {
            self.spare.push(place);
        }
    }
}

/// Makes each lane no earlier than a time and its lag.
#[inline]
fn raise(latest: &mut Times, times: &Times, lags: &Times) {
    for lane in 0..LANES {
        latest[lane] = latest[lane].max(times[lane].saturating_add(lags[lane]));
    }
}
