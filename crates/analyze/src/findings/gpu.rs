//! Findings about GPUs: idle, fed with crumbs, or with work of unknown origin.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::{Nanos, SpanId, SpanKind, StrId, TrackId};

use super::{Finding, FindingKind, Thresholds, TopFunction, reaches};
use crate::cpu::self_time::self_time_within;
use crate::gpu::usage::gpu_work;
use crate::{DeviceUse, Facts, Origin, ThreadTime, TotalNanos, main_thread};

/// A GPU without work for a good part of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuIdle {
    pub device: String,
    pub idle_ns: TotalNanos,
    pub window_ns: TotalNanos,
    pub cause: GpuIdleCause,
    pub kernels: u64,
    pub kernel_mean_ns: TotalNanos,
    /// The calls that launched them, where known, and their time.
    pub launch_calls: u64,
    pub launch_ns: TotalNanos,
    /// Work of the threads that launched them.
    pub host_working_ns: TotalNanos,
    pub longest_gap_from: TotalNanos,
    pub longest_gap_ns: TotalNanos,
    /// What the main thread did most of that time.
    pub in_gap: InGap,
}

/// What the main thread did in the longest gap of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InGap {
    Mostly(TopFunction),
    /// It did nothing there, or nothing of it was recorded.
    Nothing,
    /// Not looked up: so many of the idle GPUs have longer gaps.
    Skipped {
        examined: u64,
        gpus: u64,
    },
}

/// What the numbers say about an idle GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuIdleCause {
    /// Most of the idle time is one gap.
    OneGap,
    /// The host works all the time, a kernel is shorter than the call that launches
    /// it, and these calls are a good part of the host's work.
    LaunchBound,
    /// The host works all the time.
    HostBound,
    /// The host waits or was not recorded.
    HostNotBusy,
}

/// Kernels so short that launching them costs as much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TinyKernels {
    pub count: u64,
    pub kernels: u64,
    pub limit_ns: Nanos,
    pub total_ns: TotalNanos,
    /// The tiny kernel that came most often, and the line that launched it.
    pub top_name: String,
    pub top_count: u64,
    pub top_line: Option<String>,
}

/// GPU work without a launching call in the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRecorded {
    pub count: u64,
    pub total_ns: TotalNanos,
    pub work_ns: TotalNanos,
}

/// What the main thread did is looked up for so many gaps, the longest: each may hold most of
/// the trace, and a file may have as many devices as it has kernels.
const GAPS_EXAMINED_MAX: usize = 64;

/// All GPUs that had nothing to do for a good part of the window.
pub(super) fn gpus_idle(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let devices = &facts.gpu().devices;
    let is_idle = |device: &&DeviceUse| {
        device.work_count > 0
            && reaches(device.idle_ns(), device.window_ns, thresholds.gpu_idle_percent)
    };
    let idle: Vec<&DeviceUse> = devices.iter().filter(is_idle).collect();
    let mut by_gap: Vec<usize> = (0..idle.len()).collect();
    by_gap.sort_by_key(|&at| Reverse(gap_ns(idle[at])));
    let mut is_examined = vec![false; idle.len()];
    by_gap.iter().take(GAPS_EXAMINED_MAX).for_each(|&at| is_examined[at] = true);
    let skipped = InGap::Skipped { examined: GAPS_EXAMINED_MAX as u64, gpus: idle.len() as u64 };
    let main = main_thread(facts.threads());
    let mut launches = Launches::by_device(facts);
    let finding = |(device, is_examined): (&DeviceUse, bool)| {
        let launches = launches.remove(&*device.id).unwrap_or_default();
        let in_gap = match (main, is_examined) {
            (None, _) => InGap::Nothing,
            (Some(_), false) => skipped.clone(),
            (Some(thread), true) => in_gap(facts, thread, device),
        };
        gpu_idle(facts, device, &launches, in_gap, thresholds)
    };
    idle.into_iter().zip(is_examined).map(finding).collect()
}

fn gap_ns(device: &DeviceUse) -> Nanos {
    device.longest_gap.1.saturating_sub(device.longest_gap.0)
}

fn in_gap(facts: &Facts, thread: &ThreadTime, device: &DeviceUse) -> InGap {
    let there = self_time_within(facts.trace(), thread.track, device.longest_gap);
    facts.mostly(there.into_iter()).map_or(InGap::Nothing, InGap::Mostly)
}

fn gpu_idle(
    facts: &Facts,
    device: &DeviceUse,
    launches: &Launches,
    in_gap: InGap,
    thresholds: &Thresholds,
) -> Finding {
    let host_working_ns = launches.host_working_ns.min(device.window_ns);
    let (from, to) = device.longest_gap;
    let longest_gap_ns = i128::from(to) - i128::from(from);
    let host_is_busy = reaches(host_working_ns, device.window_ns, thresholds.host_busy_percent);
    let launch_ns = launches.call_ns;
    let cause = if reaches(longest_gap_ns, device.idle_ns(), thresholds.one_gap_percent) {
        GpuIdleCause::OneGap
    } else if !host_is_busy {
        GpuIdleCause::HostNotBusy
    } else if launches.kernel_mean_ns() < launches.call_mean_ns()
        && reaches(launch_ns, host_working_ns, thresholds.launch_percent)
    {
        GpuIdleCause::LaunchBound
    } else {
        GpuIdleCause::HostBound
    };
    let kind = FindingKind::GpuIdle(GpuIdle {
        device: device.id.clone(),
        idle_ns: device.idle_ns(),
        window_ns: device.window_ns,
        cause,
        kernels: launches.kernels,
        kernel_mean_ns: launches.kernel_mean_ns(),
        launch_calls: launches.calls.len() as u64,
        launch_ns,
        host_working_ns,
        longest_gap_from: facts.since_start(from),
        longest_gap_ns,
        in_gap,
    });
    Finding { kind, about_ns: device.idle_ns(), gain_ns: Some(device.idle_ns()) }
}

/// Kernels of one device and the calls that launched them.
#[derive(Default)]
struct Launches {
    kernels: u64,
    kernel_ns: TotalNanos,
    /// Each call once: a graph launches many kernels with one.
    calls: Vec<SpanId>,
    call_ns: TotalNanos,
    /// Work of all threads that launched a kernel: in training, autograd's thread takes
    /// turns with the main one.
    host_working_ns: TotalNanos,
}

impl Launches {
    fn by_device(facts: &Facts) -> BTreeMap<&str, Launches> {
        let (trace, spans) = (facts.trace(), facts.trace().spans());
        let mut devices: BTreeMap<&str, Launches> = BTreeMap::new();
        for span in gpu_work(trace).filter(|&span| trace.kind(span) == SpanKind::Kernel) {
            let process = trace.tracks().get(spans.track(span)).process;
            let launches = devices.entry(trace.strings().get(process)).or_default();
            launches.kernels += 1;
            launches.kernel_ns += i128::from(spans.dur(span));
            launches.calls.extend(spans.launch(span));
        }
        let working: BTreeMap<TrackId, TotalNanos> =
            facts.threads().iter().map(|row| (row.track, row.working_ns())).collect();
        for launches in devices.values_mut() {
            launches.calls.sort_unstable();
            launches.calls.dedup();
            launches.call_ns = launches.calls.iter().map(|&call| i128::from(spans.dur(call))).sum();
            let threads = launches.calls.iter().map(|&call| spans.track(call));
            let threads: BTreeSet<TrackId> = threads.collect();
            launches.host_working_ns = threads.iter().filter_map(|track| working.get(track)).sum();
        }
        devices
    }

    fn kernel_mean_ns(&self) -> TotalNanos {
        self.kernel_ns / i128::from(self.kernels.max(1))
    }

    fn call_mean_ns(&self) -> TotalNanos {
        self.call_ns / (self.calls.len().max(1) as i128)
    }
}

pub(super) fn tiny_kernels(facts: &Facts, thresholds: &Thresholds) -> Option<Finding> {
    let (mut kernels, mut count, mut total_ns) = (0, 0, 0);
    let mut by_name: BTreeMap<StrId, u64> = BTreeMap::new();
    for span in gpu_work(facts.trace()).filter(|&span| facts.trace().kind(span) == SpanKind::Kernel)
    {
        kernels += 1;
        let dur = facts.trace().spans().dur(span);
        if dur < thresholds.tiny_kernel_ns {
            count += 1;
            total_ns += i128::from(dur);
            let name = facts.names().merged(facts.trace().spans().name(span));
            *by_name.entry(name).or_default() += 1;
        }
    }
    let is_many = count >= thresholds.tiny_kernels_min
        && reaches(i128::from(count), i128::from(kernels), thresholds.tiny_kernels_percent);
    if !is_many {
        return None;
    }
    let most = by_name.iter().max_by_key(|&(&name, &count)| (count, Reverse(name)));
    let (&top, &top_count) = most?;
    let top_name = facts.text(top);
    let row = facts.gpu().work.iter().find(|row| row.name == top_name);
    let kind = FindingKind::TinyKernels(TinyKernels {
        count,
        kernels,
        limit_ns: thresholds.tiny_kernel_ns,
        total_ns,
        top_line: row.and_then(|row| row.launcher.line.clone()),
        top_name,
        top_count,
    });
    Some(Finding { kind, about_ns: total_ns, gain_ns: None })
}

pub(super) fn not_recorded(facts: &Facts, thresholds: &Thresholds) -> Option<Finding> {
    let row = facts.gpu().lines.iter().find(|row| row.origin == Origin::NotRecorded)?;
    if !reaches(row.total_ns, facts.gpu().work_ns, thresholds.not_recorded_percent) {
        return None;
    }
    let (count, total_ns) = (row.count, row.total_ns);
    let kind =
        FindingKind::NotRecorded(NotRecorded { count, total_ns, work_ns: facts.gpu().work_ns });
    Some(Finding { kind, about_ns: total_ns, gain_ns: None })
}
