//! The numbers of TraceLens, as TraceLens computes them.
//!
//! It measures from the first to the last piece of GPU work, not over the window of
//! the recording, counts fills as computation, and leaves out of the timeline what
//! has no launch in the trace, unless nothing has. It adds floats; these are sums of
//! nanoseconds, which agree to 10⁻³ and better. The category of an operator, which
//! TraceLens finds in its own list, is not given.

use std::collections::BTreeMap;

use spanwise_model::{SpanId, SpanKind, Trace};

use crate::base::intervals::{Interval, IntervalSet, length};
use crate::gpu::device::devices;
use crate::{CompatTable, CompatValue, Facts, TotalNanos};

/// The tables of TraceLens: key and title.
pub const TRACELENS_TABLES: &[(&str, &str)] = &[
    ("gpu_timeline", "GPU timeline (TraceLens)"),
    ("kernel_summary", "Kernels by launching operator (TraceLens)"),
];

/// The tables with these keys, in the order of [`TRACELENS_TABLES`].
pub fn tracelens_tables(facts: &Facts, keys: &[&str]) -> Vec<CompatTable> {
    let timeline = Timeline::new(facts.trace());
    let wanted = TRACELENS_TABLES.iter().filter(|(key, _)| keys.contains(key));
    let table = |&(key, title): &(&'static str, &'static str)| {
        let (columns, rows) = match key {
            "gpu_timeline" => timeline.rows(),
            _ => kernel_summary(facts, &timeline),
        };
        CompatTable { key, title, columns, rows, left_out: None }
    };
    wanted.map(table).collect()
}

type Rows = (Vec<&'static str>, Vec<Vec<CompatValue>>);

/// Kernels that move data between GPUs, for TraceLens.
const COMMUNICATION: [&str; 3] = ["nccl", "rccl", "cross_device_reduce"];
/// Kernels of the driver that copy.
const COPY_KERNELS: [&str; 2] = ["MEMORY_COPY_", "__amd_rocclr_copyBuffer"];

struct Timeline {
    compute: IntervalSet,
    communication: IntervalSet,
    copy: IntervalSet,
    total_ns: TotalNanos,
}

impl Timeline {
    fn new(trace: &Trace) -> Self {
        let spans = trace.spans();
        let all: Vec<SpanId> =
            devices(trace).iter().flat_map(|device| device.work().collect::<Vec<_>>()).collect();
        let has_launches = all.iter().any(|&work| spans.launch(work).is_some());
        let counts = |work: &SpanId| !has_launches || spans.launch(*work).is_some();
        let mut sets: [Vec<Interval>; 3] = Default::default();
        for work in all.into_iter().filter(counts) {
            let name = trace.name(work);
            let is_one_of = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
            let place = match trace.kind(work) {
                SpanKind::Memcpy => 2,
                SpanKind::Memset => 0,
                _ if is_one_of(&COPY_KERNELS) => 2,
                _ if is_one_of(&COMMUNICATION) => 1,
                _ => 0,
            };
            sets[place].push((spans.start(work), spans.end(work)));
        }
        let first = sets.iter().flatten().map(|interval| interval.0).min();
        let last = sets.iter().flatten().map(|interval| interval.1).max();
        let [compute, communication, copy] = sets.map(IntervalSet::new);
        let total_ns = first.zip(last).map_or(0, length);
        Timeline { compute, communication, copy, total_ns }
    }

    fn rows(&self) -> Rows {
        let kernels = self.compute.union(&self.communication);
        let busy_ns = kernels.union(&self.copy).total_ns();
        let times = [
            ("computation_time", self.compute.total_ns()),
            ("exposed_comm_time", self.communication.minus(&self.compute).total_ns()),
            ("exposed_memcpy_time", self.copy.minus(&kernels).total_ns()),
            ("busy_time", busy_ns),
            ("idle_time", self.total_ns - busy_ns),
            ("total_time", self.total_ns),
            ("total_comm_time", self.communication.total_ns()),
            ("total_memcpy_time", self.copy.total_ns()),
        ];
        let row = |(name, ns): (&str, TotalNanos)| {
            let percent = 100.0 * ns as f64 / self.total_ns as f64;
            vec![name.into(), (ns as f64 / 1e6).into(), percent.into()]
        };
        let rows = if self.total_ns == 0 { vec![] } else { times.map(row).to_vec() };
        (vec!["type", "time ms", "percent"], rows)
    }
}

/// Durations of one kernel on one stream from one operator.
#[derive(Default)]
struct Kernels {
    sum_ns: TotalNanos,
    count: i64,
    min_ns: TotalNanos,
    max_ns: TotalNanos,
}

fn kernel_summary(facts: &Facts, timeline: &Timeline) -> Rows {
    let columns = vec![
        "Parent cpu_op",
        "Kernel name",
        "Kernel stream",
        "Kernel duration (µs)_sum",
        "Kernel duration (µs)_count",
        "Kernel duration (µs)_mean",
        "Kernel duration (µs)_min",
        "Kernel duration (µs)_max",
        "Percent of kernels time (%)",
        "Percent of total time (%)",
    ];
    let (trace, spans) = (facts.trace(), facts.trace().spans());
    let mut groups: BTreeMap<(&str, &str, String), Kernels> = BTreeMap::new();
    for device in devices(trace) {
        for stream in &device.streams {
            let is_kernel = |work: &&SpanId| trace.kind(**work) == SpanKind::Kernel;
            for &work in stream.work.iter().filter(is_kernel) {
                let call = spans.launch(work);
                let operator = call.and_then(|call| facts.frames().operator(call));
                let operator = operator.map_or("", |operator| trace.name(operator));
                let key = (operator, trace.name(work), stream.id.to_owned());
                let dur = i128::from(spans.dur(work));
                let group = groups.entry(key).or_default();
                group.min_ns = if group.count == 0 { dur } else { group.min_ns.min(dur) };
                group.max_ns = group.max_ns.max(dur);
                group.sum_ns += dur;
                group.count += 1;
            }
        }
    }
    let all_ns: TotalNanos = groups.values().map(|group| group.sum_ns).sum();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.sum_ns));
    let micros = |ns: TotalNanos| CompatValue::Float(ns as f64 / 1e3);
    let percent = |ns: TotalNanos, of: TotalNanos| (100.0 * ns as f64 / of as f64).into();
    let row = |((operator, name, stream), group): ((&str, &str, String), Kernels)| {
        vec![
            operator.into(),
            name.into(),
            stream.as_str().into(),
            micros(group.sum_ns),
            group.count.into(),
            (group.sum_ns as f64 / 1e3 / group.count as f64).into(),
            micros(group.min_ns),
            micros(group.max_ns),
            percent(group.sum_ns, all_ns),
            percent(group.sum_ns, timeline.total_ns),
        ]
    };
    (columns, groups.into_iter().map(row).collect())
}
