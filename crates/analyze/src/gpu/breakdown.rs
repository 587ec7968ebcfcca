//! What each GPU spent its time on: computing, communicating, copying, nothing.
//!
//! Each instant of the window counts once, for the first that applies: compute,
//! then communication (exposed: nothing computes meanwhile), then copies (exposed:
//! neither), else idle. So the four parts add up to the window, to the nanosecond.

use std::collections::BTreeMap;
use std::rc::Rc;

use spanwise_model::TrackId;

use crate::base::intervals::{CoveredSet, Interval, IntervalSet, length};
use crate::gpu::device::{Device, WorkKind, WorkKinds, devices};
use crate::training::steps::Steps;
use crate::{Facts, TotalNanos};

/// One GPU over the whole window or over one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakdownRow {
    /// As the source numbers it.
    pub device: String,
    pub rank: Option<i64>,
    /// `None` for the whole window.
    pub step: Option<i64>,
    pub window_ns: TotalNanos,
    /// While any kernel computed.
    pub compute_ns: TotalNanos,
    /// While kernels communicated and nothing computed.
    pub exposed_communication_ns: TotalNanos,
    /// While memory was copied or filled and no kernel ran.
    pub exposed_copy_ns: TotalNanos,
    pub idle_ns: TotalNanos,
    /// While anything communicated, computing or not.
    pub communication_ns: TotalNanos,
    /// While anything was copied or filled, kernels running or not.
    pub copy_ns: TotalNanos,
    pub balance: HostBalance,
}

/// Host against device, where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostBalance {
    Known(Balance),
    /// No launch is recorded, so that nobody knows which threads matter.
    Unknown,
    /// So many threads launch its work that putting them together is not affordable.
    Skipped {
        threads: u64,
    },
}

impl HostBalance {
    pub fn known(self) -> Option<Balance> {
        match self {
            HostBalance::Known(balance) => Some(balance),
            HostBalance::Unknown | HostBalance::Skipped { .. } => None,
        }
    }

    /// The threads that were too many.
    pub fn skipped_threads(self) -> Option<u64> {
        match self {
            HostBalance::Skipped { threads } => Some(threads),
            HostBalance::Known(_) | HostBalance::Unknown => None,
        }
    }
}

/// Host against device: each instant of the window is one of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// The host worked and the device was busy.
    pub both_ns: TotalNanos,
    pub host_only_ns: TotalNanos,
    pub device_only_ns: TotalNanos,
    pub neither_ns: TotalNanos,
}

impl BreakdownRow {
    pub fn busy_ns(&self) -> TotalNanos {
        self.window_ns - self.idle_ns
    }

    /// Communication that ran beside computation.
    pub fn hidden_communication_ns(&self) -> TotalNanos {
        self.communication_ns - self.exposed_communication_ns
    }
}

/// Each GPU over the whole window, then each over every step.
pub fn breakdown(facts: &Facts) -> Vec<BreakdownRow> {
    let mut hosts = Hosts::new(facts);
    breakdown_with(facts, &mut |device| hosts.of(device))
}

/// The same without the balance, for which all activity of the host must be read.
pub(crate) fn device_breakdown(facts: &Facts) -> Vec<BreakdownRow> {
    breakdown_with(facts, &mut |_| Host::Unknown)
}

fn breakdown_with(facts: &Facts, host: &mut dyn FnMut(&Device<'_>) -> Host) -> Vec<BreakdownRow> {
    let trace = facts.trace();
    let mut kinds = WorkKinds::new(trace);
    let devices = devices(trace);
    let uses: Vec<Use<'_>> =
        devices.iter().map(|device| Use::of(facts, device, &mut kinds, host(device))).collect();
    let rank = trace.info().rank;
    let mut rows: Vec<BreakdownRow> =
        uses.iter().map(|used| used.row(facts.window(), rank, None)).collect();
    for step in Steps::new(trace).rows() {
        let (from, to, step) = (step.start, step.end, step.number);
        rows.extend(uses.iter().map(|used| used.row((from, to), rank, Some(step))));
    }
    rows
}

/// When one device did what.
struct Use<'a> {
    device: &'a str,
    compute: IntervalSet,
    communication: IntervalSet,
    copy: IntervalSet,
    host: Host,
}

/// When a thread that launches work of a device worked.
#[derive(Clone)]
enum Host {
    Worked(Rc<CoveredSet>),
    Unknown,
    Skipped { threads: u64 },
}

impl<'a> Use<'a> {
    fn of(facts: &Facts, device: &'a Device<'_>, kinds: &mut WorkKinds<'_>, host: Host) -> Self {
        let spans = facts.trace().spans();
        let mut intervals: [Vec<Interval>; 3] = Default::default();
        for work in device.work() {
            let place = match kinds.of(work) {
                WorkKind::Compute => 0,
                WorkKind::Communication => 1,
                WorkKind::Copy => 2,
            };
            intervals[place].push((spans.start(work), spans.end(work)));
        }
        let [compute, communication, copy] = intervals.map(IntervalSet::new);
        Use { device: device.id, compute, communication, copy, host }
    }

    fn row(&self, window: Interval, rank: Option<i64>, step: Option<i64>) -> BreakdownRow {
        let compute = self.compute.cut_to(window);
        let communication = self.communication.cut_to(window);
        let copy = self.copy.cut_to(window);
        let kernels = compute.union(&communication);
        let busy = kernels.union(&copy);
        let window_ns = length(window);
        BreakdownRow {
            device: self.device.to_owned(),
            rank,
            step,
            window_ns,
            compute_ns: compute.total_ns(),
            exposed_communication_ns: communication.minus(&compute).total_ns(),
            exposed_copy_ns: copy.minus(&kernels).total_ns(),
            idle_ns: window_ns - busy.total_ns(),
            communication_ns: communication.total_ns(),
            copy_ns: copy.total_ns(),
            balance: match &self.host {
                Host::Worked(host) => HostBalance::Known(balance(host, &busy, window)),
                Host::Unknown => HostBalance::Unknown,
                &Host::Skipped { threads } => HostBalance::Skipped { threads },
            },
        }
    }
}

/// `device` lies in the window.
fn balance(host: &CoveredSet, device: &IntervalSet, window: Interval) -> Balance {
    let both_ns = device.iter().map(|interval| host.covered_ns(interval)).sum();
    let host_only_ns = host.covered_ns(window) - both_ns;
    let device_only_ns = device.total_ns() - both_ns;
    let neither_ns = length(window) - both_ns - host_only_ns - device_only_ns;
    Balance { both_ns, host_only_ns, device_only_ns, neither_ns }
}

/// When the threads worked that launched work of a device.
struct Hosts<'a> {
    facts: &'a Facts,
    /// By threads: devices mostly share them.
    known: BTreeMap<Vec<TrackId>, Host>,
    /// So many intervals are put together; a file may have other threads for every device.
    intervals_left: usize,
}

impl<'a> Hosts<'a> {
    fn new(facts: &'a Facts) -> Self {
        let intervals_left = 16 * facts.trace().spans().len() + (1 << 16);
        Hosts { facts, known: BTreeMap::new(), intervals_left }
    }

    /// When any of its threads worked.
    fn of(&mut self, device: &Device<'_>) -> Host {
        let spans = self.facts.trace().spans();
        let calls = device.work().filter_map(|work| spans.launch(work));
        let mut threads: Vec<TrackId> = calls.map(|call| spans.track(call)).collect();
        threads.sort_unstable();
        threads.dedup();
        if let Some(known) = self.known.get(&threads) {
            return known.clone();
        }
        let working = self.working(&threads);
        self.known.insert(threads, working.clone());
        working
    }

    fn working(&mut self, threads: &[TrackId]) -> Host {
        let states = self.facts.host_states();
        let sets = || threads.iter().filter_map(|&thread| Some(&states.of(thread)?.working));
        if sets().next().is_none() {
            return Host::Unknown;
        }
        let count = sets().map(IntervalSet::len).sum();
        let Some(left) = self.intervals_left.checked_sub(count) else {
            return Host::Skipped { threads: threads.len() as u64 };
        };
        self.intervals_left = left;
        let intervals = sets().flat_map(IntervalSet::iter).collect();
        Host::Worked(Rc::new(CoveredSet::new(IntervalSet::new(intervals))))
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    const NCCL: &str = "ncclDevKernel_AllReduce";

    /// GPU work as (stream, kind, name, start, length); the window is 0 to 100.
    #[track_caller]
    fn check(work: &[(&str, SpanKind, &str, i64, i64)], expected: [TotalNanos; 6]) {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "train.py(1): main", 0, 100);
        for &(stream, kind, name, start, dur) in work {
            sample.work(stream, kind, name, (start, dur), 1);
        }
        let trace = sample.finish();
        let rows = breakdown(&Facts::new(&trace));
        let row = &rows[0];
        let found = [
            row.compute_ns,
            row.exposed_communication_ns,
            row.exposed_copy_ns,
            row.idle_ns,
            row.communication_ns,
            row.copy_ns,
        ];
        assert_eq!(found, expected);
        assert_eq!(found[..4].iter().sum::<TotalNanos>(), row.window_ns);
    }

    #[test]
    fn what_runs_beside_computation_is_hidden() {
        check(
            &[
                ("7", SpanKind::Kernel, "mm", 10, 20),
                ("8", SpanKind::Kernel, NCCL, 20, 30),
                ("9", SpanKind::Memcpy, "Memcpy HtoD", 45, 15),
            ],
            [20, 20, 10, 50, 30, 15],
        );
    }

    #[test]
    fn copies_beside_communication_are_hidden_too() {
        check(
            &[("8", SpanKind::Kernel, NCCL, 0, 100), ("9", SpanKind::Memset, "Memset", 20, 10)],
            [0, 100, 0, 0, 100, 10],
        );
    }

    #[test]
    fn steps_are_windows_of_their_own() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Annotation, "ProfilerStep#3", 0, 50);
        sample.span("1", SpanKind::Annotation, "ProfilerStep#4", 50, 50);
        sample.call("1", 5, 10, 1);
        sample.work("7", SpanKind::Kernel, "mm", (30, 40), 1);
        let trace = sample.finish();
        let rows = breakdown(&Facts::new(&trace));
        let found: Vec<_> =
            rows.iter().map(|row| (row.step, row.window_ns, row.compute_ns)).collect();
        assert_eq!(found, [(None, 100, 40), (Some(3), 50, 20), (Some(4), 50, 20)]);
        let balance = rows[0].balance.known().expect("a launch is recorded");
        assert_eq!((balance.both_ns, balance.host_only_ns), (40, 60));
    }
}
