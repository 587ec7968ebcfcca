//! HTA's critical path on its own traces and on one of ours, number by number.
//!
//! The numbers are those of HTA 0.5.0, networkx 3.6.1. With pandas 3 that version
//! stops at its first `drop`, so it was given the calls that pandas 3 wants in the place
//! of `drop(axis=1, columns=…)` and of `fillna(…, inplace=True)` on a column.

#![allow(clippy::print_stderr, reason = "a test says what it skipped")]

mod corpus;

use std::path::Path;

use corpus::{close, corpus};
use spanwise_analyze::{CompatTable, CompatValue, HtaWindow, hta_tables};
use spanwise_read::{IndexUse, OpenOptions};

/// The numbers of one trace; pairs are how many, and their microseconds. Edges are
/// operators, dependencies, launch delays, gaps between kernels, and waits.
struct Expected {
    nodes: i64,
    edges: [(i64, i64); 5],
    path_nodes: i64,
    path_events: i64,
    path_edges: [(i64, i64); 5],
    length: i64,
    /// With the share in percent.
    bound_by: &'static [(&'static str, i64, i64, f64)],
}

const CPU: &str = "cpu_bound";
const GPU: &str = "gpu_compute_bound";
const GAP: &str = "gpu_kernel_kernel_overhead";
const LAUNCH: &str = "gpu_kernel_launch_overhead";

const EDGES: [&str; 5] = [
    "critical_path_operator",
    "critical_path_dependency",
    "critical_path_kernel_launch_delay",
    "critical_path_kernel_kernel_delay",
    "critical_path_sync_dependency",
];

fn window(annotation: &str, instance: usize) -> HtaWindow {
    HtaWindow { annotation: Some(annotation.to_owned()), instance }
}

#[track_caller]
fn check(trace: &Path, window: &HtaWindow, expected: &Expected) {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(trace, &options).expect("a trace");
    let tables = hta_tables(&trace, &["critical_path"], window);
    let found = |of: &str, item: &str| numbers(&tables[0], of, item);
    assert_eq!(found("graph", "nodes").0, expected.nodes);
    assert_eq!(found("critical path", "nodes").0, expected.path_nodes);
    assert_eq!(found("critical path", "events").0, expected.path_events);
    assert_eq!(found("critical path", "length").1, expected.length);
    for (of, edges) in [("graph", expected.edges), ("critical path", expected.path_edges)] {
        for (kind, edges) in EDGES.into_iter().zip(edges) {
            let (count, weight, _) = found(of, kind);
            assert_eq!((count, weight), edges, "{of}: {kind}");
        }
        assert_eq!(found(of, "edges").0, edges.iter().map(|edge| edge.0).sum::<i64>());
    }
    for &(bound, count, duration, share) in expected.bound_by {
        let found = found("bound_by", bound);
        assert_eq!((found.0, found.1), (count, duration), "{bound}");
        assert!(close(share, found.2, 1e-12, 0.0), "{bound}: {}", found.2);
    }
    let bounds = tables[0].rows.iter().filter(|row| row[1] == "bound_by".into()).count();
    assert_eq!(bounds, expected.bound_by.len());
}

/// Count, duration and share of a row; -1 where there is none.
#[track_caller]
fn numbers(table: &CompatTable, of: &str, item: &str) -> (i64, i64, f64) {
    let row = table.rows.iter().find(|row| row[1] == of.into() && row[2] == item.into());
    let row = row.unwrap_or_else(|| panic!("no row {of}: {item}"));
    let int = |value: &CompatValue| match value {
        CompatValue::Int(value) => *value,
        _ => -1,
    };
    let share = match row[5] {
        CompatValue::Float(share) => share,
        _ => -1.0,
    };
    (int(&row[3]), int(&row[4]), share)
}

const FORWARD: &str = "[param|pytorch.model.alex_net|0|0|0|measure|forward]";

#[test]
fn simple_add_is_as_hta_has_it() {
    let Some(folder) = corpus("hta/critical_path/simple_add") else { return };
    let trace = folder.join("benchmark_result_493459_1694039959_trace.json.gz");
    let second = Expected {
        nodes: 458,
        edges: [(350, 246_996), (23, 0), (15, 647), (25, 49), (2, 0)],
        path_nodes: 315,
        path_events: 159,
        path_edges: [(288, 241_698), (20, 0), (1, 17), (5, 9), (0, 0)],
        length: 241_724,
        bound_by: &[
            (CPU, 282, 241_190, 99.77908689248895),
            (GPU, 6, 508, 0.21015703860601348),
            (GAP, 5, 9, 0.003723254620972679),
            (LAUNCH, 1, 17, 0.007032814284059506),
        ],
    };
    check(&trace, &window(FORWARD, 1), &second);
    let first_of_many = Expected {
        nodes: 1000,
        edges: [(816, 15_958_315), (54, 0), (39, 4_220_389), (42, 11_964), (6, 0)],
        path_nodes: 719,
        path_events: 363,
        path_edges: [(656, 15_935_964), (45, 0), (2, 40), (14, 11_897), (1, 0)],
        length: 15_947_901,
        bound_by: &[
            (CPU, 640, 15_934_052, 99.91316098588774),
            (GPU, 16, 1912, 0.01198903855748791),
            (GAP, 14, 11_897, 0.07459915884855318),
            (LAUNCH, 2, 40, 0.0002508167062235964),
        ],
    };
    check(&trace, &window("[param|pytorch", 0), &first_of_many);
}

#[test]
fn alexnet_is_as_hta_has_it() {
    let Some(folder) = corpus("hta/critical_path/alexnet") else { return };
    let expected = Expected {
        nodes: 462,
        edges: [(354, 39_772), (23, 0), (5, 120), (34, 52), (5, 0)],
        path_nodes: 149,
        path_events: 77,
        path_edges: [(110, 35_754), (4, 0), (1, 30), (32, 50), (1, 0)],
        length: 35_834,
        bound_by: &[
            (CPU, 76, 32_042, 89.41787129541777),
            (GPU, 34, 3712, 10.358877044148015),
            (GAP, 32, 50, 0.1395322877713903),
            (LAUNCH, 1, 30, 0.08371937266283418),
        ],
    };
    let trace = folder.join("benchmark_result_2869224_1695835535_trace.json.gz");
    check(&trace, &window(FORWARD, 1), &expected);
}

#[test]
fn waits_of_the_host_for_events_are_as_hta_has_them() {
    let Some(folder) = corpus("hta/critical_path/cuda_event_sync") else { return };
    let expected = Expected {
        nodes: 56,
        edges: [(38, 2399), (10, 0), (5, 89), (0, 0), (4, 0)],
        path_nodes: 40,
        path_events: 22,
        path_edges: [(28, 2373), (7, 0), (2, 28), (0, 0), (2, 0)],
        length: 2401,
        bound_by: &[
            (CPU, 26, 2335, 97.25114535610162),
            (GPU, 2, 38, 1.5826738858808829),
            (LAUNCH, 2, 28, 1.1661807580174928),
        ],
    };
    let trace = folder.join("event_sync_trace.json.gz");
    check(&trace, &window("", 0), &expected);
    // One step only, which is also what is asked of where nothing is said.
    check(&trace, &window("ProfilerStep", 0), &expected);
    check(&trace, &HtaWindow::default(), &expected);
}

#[test]
fn waits_of_streams_for_streams_are_as_hta_has_them() {
    let Some(folder) = corpus("hta/critical_path/cuda_event_sync_multi_stream") else { return };
    let expected = Expected {
        nodes: 80,
        edges: [(66, 1440), (5, 0), (3, 68), (2, 30), (6, 0)],
        path_nodes: 59,
        path_events: 31,
        path_edges: [(52, 1149), (4, 0), (1, 14), (1, 15), (0, 0)],
        length: 1178,
        bound_by: &[
            (CPU, 50, 1025, 87.0118845500849),
            (GPU, 2, 124, 10.526315789473683),
            (GAP, 1, 15, 1.2733446519524618),
            (LAUNCH, 1, 14, 1.1884550084889642),
        ],
    };
    check(&folder.join("event_sync_trace.json.gz"), &window("", 0), &expected);
}

#[test]
fn nanoseconds_and_weights_below_zero_are_as_hta_has_them() {
    let expected = Expected {
        nodes: 5318,
        edges: [(4097, 83_984), (703, 0), (432, 4665), (85, 70_963), (0, 0)],
        path_nodes: 4252,
        path_events: 2127,
        path_edges: [(3552, 83_359), (697, 0), (1, 9), (1, 340), (0, 0)],
        length: 83_708,
        bound_by: &[
            (CPU, 3550, 83_353, 99.57590672337172),
            (GPU, 2, 6, 0.007167773689492044),
            (GAP, 1, 340, 0.4061738424045491),
            (LAUNCH, 1, 9, 0.010751660534238065),
        ],
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kineto");
    check(&folder.join("llama_small.json.gz"), &HtaWindow::default(), &expected);
}

#[test]
fn the_first_of_several_steps_is_as_hta_has_it() {
    let expected = Expected {
        nodes: 1712,
        edges: [(1393, 77_680), (171, 0), (21, 36_470), (123, 93_932), (0, 0)],
        path_nodes: 981,
        path_events: 492,
        path_edges: [(893, 61_218), (61, 0), (1, 18), (25, 88_995), (0, 0)],
        length: 150_231,
        bound_by: &[
            (CPU, 867, 60_956, 40.574848067309674),
            (GPU, 26, 262, 0.1743980936025188),
            (GAP, 25, 88_995, 59.23877229067236),
            (LAUNCH, 1, 18, 0.011981548415440222),
        ],
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kineto/ddp");
    check(&folder.join("ddp_rank0.json.gz"), &HtaWindow::default(), &expected);
}

#[test]
fn an_annotation_that_is_not_there_is_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kineto");
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace =
        spanwise_read::open(&folder.join("llama_small.json.gz"), &options).expect("a trace");
    let tables = hta_tables(&trace, &["critical_path"], &window("no such thing", 3));
    let items: Vec<&CompatValue> = tables[0].rows.iter().map(|row| &row[2]).collect();
    assert_eq!(items, [&"no such thing [3]: no such annotation".into()]);
}
