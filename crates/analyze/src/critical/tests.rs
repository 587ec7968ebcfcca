//! Paths of small programs, and of random ones.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_model::{Nanos, SpanId, SpanKind, Trace};

use super::graph::{Edge, Follows, Node, Point};
use super::*;
use crate::base::sample::Sample;

#[track_caller]
fn check(sample: &mut Sample, expected: &[(PathKind, TotalNanos)]) -> CriticalPath {
    let trace = sample.finish();
    let path = critical_path(&Facts::new(&trace), 10);
    let found: Vec<_> = path.kinds.iter().map(|row| (row.kind, row.total_ns)).collect();
    assert_eq!(found, expected);
    assert_eq!(found.iter().map(|row| row.1).sum::<TotalNanos>(), path.window_ns);
    path
}

fn gain(path: &CriticalPath, name: &str) -> Option<TotalNanos> {
    path.items.iter().find(|item| item.name == name).and_then(|item| item.gain_ns)
}

#[test]
fn a_wait_for_the_gpu_leads_to_the_kernel_and_to_its_launch() {
    let mut sample = Sample::default();
    sample.span("1", SpanKind::Python, "train.py(1): main", 0, 100);
    sample.call("1", 10, 5, 1);
    sample.span("1", SpanKind::Runtime, "cudaDeviceSynchronize", 20, 60);
    sample.work("7", SpanKind::Kernel, "mm", (18, 58), 1);
    // 0–10 main, 10–18 launch, 18–76 mm, 76–80 return, 80–100 main.
    let expected = [
        (PathKind::Compute, 58),
        (PathKind::Host, 30),
        (PathKind::Launch, 8),
        (PathKind::SyncReturn, 4),
    ];
    let path = check(&mut sample, &expected);
    // Without the kernel the call would still come at 20 and take its 4: the end is 44.
    assert_eq!(gain(&path, "mm"), Some(56));
    assert_eq!(gain(&path, "train.py(1): main"), Some(30));
}

#[test]
fn work_follows_the_work_before_it_when_it_was_launched_in_time() {
    let mut sample = Sample::default();
    sample.call("1", 0, 5, 1);
    sample.call("1", 5, 5, 2);
    sample.work("7", SpanKind::Kernel, "a", (10, 40), 1);
    sample.work("7", SpanKind::Kernel, "b", (52, 40), 2);
    let expected = [(PathKind::Compute, 80), (PathKind::Launch, 10), (PathKind::GpuGap, 2)];
    check(&mut sample, &expected);
}

#[test]
fn a_thread_that_waits_for_another_goes_on_with_it() {
    let mut sample = Sample::default();
    let backward = "<built-in method run_backward of torch._C._EngineBase object>";
    sample.span("1", SpanKind::Python, "train.py(1): main", 0, 100);
    sample.span("1", SpanKind::Python, backward, 20, 60);
    sample.span("2", SpanKind::Operator, "MmBackward0", 25, 50);
    let expected = [(PathKind::Host, 90), (PathKind::Handoff, 10)];
    check(&mut sample, &expected);
}

#[test]
fn an_empty_trace_has_an_empty_path() {
    check(&mut Sample::default(), &[]);
}

/// A random program: two threads that launch and wait, two streams.
fn program() -> impl Strategy<Value = Arc<Trace>> {
    let call = (0..2_u8, 0..60_i64, 1..9_i64, 0..30_i64, 0..12_i64, 0..3_u8);
    vec(call, 1..12).prop_map(|calls| {
        let mut sample = Sample::default();
        for (at, (thread, start, dur, delay, work, what)) in calls.into_iter().enumerate() {
            let thread = if thread == 0 { "1" } else { "2" };
            match what {
                0 => drop(sample.span(
                    thread,
                    SpanKind::Runtime,
                    "cudaDeviceSynchronize",
                    start,
                    dur,
                )),
                1 => drop(sample.span(thread, SpanKind::Operator, "op", start, dur)),
                _ => {
                    sample.call(thread, start, dur, at as u64 + 1);
                    let stream = if work % 2 == 0 { "7" } else { "8" };
                    let times = (start + delay, work);
                    sample.work(stream, SpanKind::Kernel, "k", times, at as u64 + 1);
                }
            }
        }
        sample.finish()
    })
}

/// Nodes in order of time with edges to earlier ones only.
fn graph() -> impl Strategy<Value = Graph> {
    let edge = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_i64, 0..4_u8);
    let durs = vec(0..9_i64, 1..8);
    (durs, vec(edge, 0..14)).prop_map(|(durs, edges)| {
        let node = |(at, &dur): (usize, &i64)| Node {
            start: at as i64 * 10,
            end: at as i64 * 10 + dur,
            span: SpanId(0),
            kind: PathKind::Host,
            follows: match (at, dur % 3) {
                (0, _) | (_, 0) => Follows::Nothing,
                (_, 1) => Follows::Recorded,
                _ => Follows::AtOnce,
            },
        };
        let nodes: Vec<Node> = durs.iter().enumerate().map(node).collect();
        let point = |bit: u8| if bit == 0 { Point::Start } else { Point::End };
        let edges = edges.into_iter().filter_map(|(to, from, lag, points)| {
            let (to, from) = (to.index(durs.len()), from.index(durs.len()));
            let (gates, point) = (point(points & 1), point(points >> 1));
            let (to, from, kind) = (to as u32, from as u32, PathKind::Launch);
            (from < to).then_some(Edge { to, gates, from, point, lag, kind })
        });
        let edges: Vec<Edge> = edges.collect();
        Graph::from_parts(nodes, edges)
    })
}

/// When a point is reached: every chain that leads to it, one by one.
fn by_all_chains(graph: &Graph, free: &[u32], node: u32, point: Point) -> Nanos {
    let is_free = free.contains(&node);
    let recorded = graph.node(node);
    let begun = match point {
        Point::Start => None,
        Point::End => Some(by_all_chains(graph, free, node, Point::Start)),
    };
    let held = graph.edges(node, point).map(|edge| {
        let from = by_all_chains(graph, free, edge.from, edge.point);
        match begun {
            None => from + edge.lag,
            Some(begun) => from.max(begun) + if is_free { 0 } else { edge.lag },
        }
    });
    let own = match (begun, is_free) {
        (None, _) => recorded.start,
        (Some(begun), true) => begun,
        (Some(begun), false) => begun + recorded.end - recorded.start,
    };
    held.max().unwrap_or(own)
}

proptest! {
    #[test]
    fn links_cover_the_window_once(trace in program()) {
        let facts = Facts::new(&trace);
        let graph = Graph::new(&facts);
        let mut reached = facts.window().1;
        let mut links = Vec::new();
        walk::path(&graph, facts.window(), |link| links.push(link));
        for link in links {
            prop_assert_eq!(link.to, reached);
            prop_assert!(link.from < link.to);
            reached = link.from;
        }
        prop_assert_eq!(reached, facts.window().0);
    }

    #[test]
    fn nothing_made_faster_changes_nothing(trace in program()) {
        let graph = Graph::new(&Facts::new(&trace));
        let ends = replay::ends_without(&graph, &vec![replay::NO_LANE; graph.len()]);
        prop_assert_eq!(ends, [graph.last_end(); replay::LANES]);
    }

    #[test]
    fn nothing_gains_more_than_its_time_on_the_path(trace in program()) {
        for item in critical_path(&Facts::new(&trace), 50).items {
            let gain = item.gain_ns.expect("few items");
            prop_assert!(0 <= gain && gain <= item.path_ns, "{:?}", item);
        }
    }

    #[test]
    fn a_replay_agrees_with_all_chains(graph in graph(), lanes in vec(0..4_u8, 8)) {
        let nodes = 0..graph.len() as u32;
        let ends = replay::ends_without(&graph, &lanes);
        for (lane, &end) in ends.iter().enumerate() {
            let is_free = |&node: &u32| usize::from(lanes[node as usize]) == lane;
            let free: Vec<u32> = nodes.clone().filter(is_free).collect();
            let all = nodes.clone().map(|node| by_all_chains(&graph, &free, node, Point::End));
            prop_assert_eq!(end, all.max().unwrap_or(0));
        }
    }
}
