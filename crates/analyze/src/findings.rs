//! What deserves attention first, each with its numbers.
//!
//! A finding is a fact of the trace that crossed a threshold; it claims no cause
//! that the numbers do not show. The thresholds stand in one place.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, SpanKind, StrId, Trace, TrackId};

use crate::gpu::gpu_work;
use crate::self_time::self_time_within;
use crate::{
    DeviceUse, Frames, GpuUse, Names, Origin, SelfTime, ThreadTime, TotalNanos, WaitKind, Waits,
    main_thread,
};

/// When something becomes a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// A GPU idle for at least this part of the window.
    pub gpu_idle_percent: i128,
    /// The main thread working at least this part of the window makes it the
    /// suspect for an idle GPU.
    pub host_busy_percent: i128,
    /// Calls that wait for at least this part of the window.
    pub waiting_percent: i128,
    /// One line of Python with at least this part of the main thread's work.
    pub host_line_percent: i128,
    /// A kernel shorter than this is tiny …
    pub tiny_kernel_ns: Nanos,
    /// … and worth a finding from so many on, if they are this part of all.
    pub tiny_kernels_min: u64,
    pub tiny_kernels_percent: i128,
    /// GPU work without a launch in the trace, as part of all GPU work.
    pub not_recorded_percent: i128,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            gpu_idle_percent: 30,
            host_busy_percent: 60,
            waiting_percent: 5,
            host_line_percent: 40,
            tiny_kernel_ns: 5_000,
            tiny_kernels_min: 200,
            tiny_kernels_percent: 50,
            not_recorded_percent: 1,
        }
    }
}

/// Something worth attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    /// The time it is about; findings are sorted by it.
    pub about_ns: TotalNanos,
}

/// What was found. Moments count from the start of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingKind {
    GpuIdle {
        device: String,
        idle_ns: TotalNanos,
        window_ns: TotalNanos,
        cause: GpuIdleCause,
        kernels: u64,
        kernel_mean_ns: TotalNanos,
        /// Mean length of the calls that launched them, where known.
        launch_mean_ns: Option<TotalNanos>,
        /// Work of the main thread in the window.
        host_working_ns: TotalNanos,
        longest_gap_from: TotalNanos,
        longest_gap_ns: TotalNanos,
        /// What the main thread did most of that time.
        in_gap: Option<Doing>,
    },
    Waiting {
        thread: String,
        call: String,
        wait: WaitKind,
        count: u64,
        total_ns: TotalNanos,
        window_ns: TotalNanos,
        longest_from: TotalNanos,
        longest_ns: Nanos,
        /// The line with most of it, and how much.
        line: Option<String>,
        line_ns: TotalNanos,
    },
    HostLine {
        thread: String,
        line: String,
        line_ns: TotalNanos,
        working_ns: TotalNanos,
        /// What took most of it there.
        inside: Option<Doing>,
        /// First and last moment spent there.
        from: TotalNanos,
        to: TotalNanos,
    },
    TinyKernels {
        count: u64,
        kernels: u64,
        limit_ns: Nanos,
        total_ns: TotalNanos,
        /// The tiny kernel that came most often, and the line that launched it.
        top_name: String,
        top_count: u64,
        top_line: Option<String>,
    },
    NotRecorded {
        count: u64,
        total_ns: TotalNanos,
        work_ns: TotalNanos,
    },
}

/// A function, the line it runs under, and its self time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doing {
    pub function: String,
    pub line: Option<String>,
    pub self_ns: TotalNanos,
}

/// What the numbers say about an idle GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuIdleCause {
    /// The host works all the time, and a kernel is shorter than the call that
    /// launches it.
    LaunchBound,
    /// The host works all the time.
    HostBound,
    /// The host waits or was not recorded.
    HostNotBusy,
}

/// What findings are drawn from: the trace and answers already at hand.
pub(crate) struct Facts<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) frames: &'a Frames,
    pub(crate) names: &'a Names<'a>,
    pub(crate) waits: &'a Waits,
    pub(crate) self_time: &'a SelfTime,
    pub(crate) gpu: &'a GpuUse,
    pub(crate) threads: &'a [ThreadTime],
    pub(crate) window: (Nanos, Nanos),
}

/// All findings, those about most time first.
pub(crate) fn findings(facts: &Facts<'_>, thresholds: &Thresholds) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(facts.gpu.devices.iter().filter_map(|row| gpu_idle(facts, row, thresholds)));
    found.extend(waiting(facts, thresholds));
    found.extend(host_line(facts, thresholds));
    found.extend(tiny_kernels(facts, thresholds));
    found.extend(not_recorded(facts, thresholds));
    found.sort_by_key(|finding| Reverse(finding.about_ns));
    found
}

impl Facts<'_> {
    fn window_ns(&self) -> TotalNanos {
        i128::from(self.window.1) - i128::from(self.window.0)
    }

    fn since_start(&self, time: Nanos) -> TotalNanos {
        i128::from(time) - i128::from(self.window.0)
    }

    fn line(&self, span: SpanId) -> Option<StrId> {
        let line = self.frames.line(span)?;
        Some(self.names.merged(self.trace.spans().name(line)))
    }

    /// The function with most of these self times, and the line it ran under most.
    fn mostly(&self, self_times: impl Iterator<Item = (SpanId, Nanos)>) -> Option<Doing> {
        let mut sums: BTreeMap<StrId, BTreeMap<Option<StrId>, TotalNanos>> = BTreeMap::new();
        for (span, self_ns) in self_times.filter(|&(_, ns)| ns > 0) {
            let function = self.names.merged(self.trace.spans().name(span));
            let by_line = sums.entry(function).or_default();
            *by_line.entry(self.line(span)).or_default() += i128::from(self_ns);
        }
        let total = |by_line: &BTreeMap<_, TotalNanos>| by_line.values().sum::<TotalNanos>();
        let most = sums.iter().max_by_key(|&(&name, lines)| (total(lines), Reverse(name)));
        most.map(|(&function, by_line)| Doing {
            function: self.text(function),
            line: largest(by_line).0.filter(|&line| line != function).map(|line| self.text(line)),
            self_ns: total(by_line),
        })
    }

    fn text(&self, name: StrId) -> String {
        self.names.text(name).into_owned()
    }
}

fn reaches(part: TotalNanos, whole: TotalNanos, percent: i128) -> bool {
    part > 0 && part.saturating_mul(100) >= whole.saturating_mul(percent)
}

fn gpu_idle(facts: &Facts<'_>, device: &DeviceUse, thresholds: &Thresholds) -> Option<Finding> {
    if device.work_count == 0
        || !reaches(device.idle_ns(), device.window_ns, thresholds.gpu_idle_percent)
    {
        return None;
    }
    let spans = facts.trace.spans();
    let (mut kernels, mut kernel_ns, mut launch_ns) = (0_u64, 0, 0);
    let mut calls = Vec::new();
    for span in gpu_work(facts.trace) {
        let process = facts.trace.tracks().get(spans.track(span)).process;
        if facts.trace.kind(span) != SpanKind::Kernel
            || facts.trace.strings().get(process) != device.id
        {
            continue;
        }
        kernels += 1;
        kernel_ns += i128::from(spans.dur(span));
        calls.extend(spans.launch(span));
    }
    // A graph launches many kernels with one call.
    calls.sort_unstable();
    calls.dedup();
    launch_ns += calls.iter().map(|&call| i128::from(spans.dur(call))).sum::<TotalNanos>();
    let kernel_mean_ns = kernel_ns / i128::from(kernels.max(1));
    let launch_mean_ns = (!calls.is_empty()).then(|| launch_ns / calls.len() as i128);
    let host_working_ns = main_thread(facts.threads).map_or(0, ThreadTime::working_ns);
    let host_is_busy = reaches(host_working_ns, device.window_ns, thresholds.host_busy_percent);
    let cause = match host_is_busy {
        true if launch_mean_ns.is_some_and(|launch| kernel_mean_ns < launch) => {
            GpuIdleCause::LaunchBound
        }
        true => GpuIdleCause::HostBound,
        false => GpuIdleCause::HostNotBusy,
    };
    let (from, to) = device.longest_gap;
    let kind = FindingKind::GpuIdle {
        device: device.id.clone(),
        idle_ns: device.idle_ns(),
        window_ns: device.window_ns,
        cause,
        kernels,
        kernel_mean_ns,
        launch_mean_ns,
        host_working_ns,
        longest_gap_from: facts.since_start(from),
        longest_gap_ns: i128::from(to) - i128::from(from),
        in_gap: main_thread(facts.threads).and_then(|thread| {
            let there = self_time_within(facts.trace, thread.track, device.longest_gap);
            facts.mostly(there.into_iter())
        }),
    };
    Some(Finding { kind, about_ns: device.idle_ns() })
}

#[derive(Default)]
struct WaitSum {
    count: u64,
    total_ns: TotalNanos,
    longest: Option<(Nanos, SpanId)>,
    by_line: BTreeMap<Option<StrId>, TotalNanos>,
}

/// Waiting calls by thread and name: all that wait for a GPU, the rest on the main thread
/// only, since a worker that waits for work is doing its job.
fn waiting(facts: &Facts<'_>, thresholds: &Thresholds) -> Vec<Finding> {
    let spans = facts.trace.spans();
    let main = main_thread(facts.threads).map(|thread| thread.track);
    let mut sums: BTreeMap<(TrackId, WaitKind, StrId), WaitSum> = BTreeMap::new();
    for span in spans.ids().filter(|&span| facts.waits.is_call(span)) {
        let Some(wait) = facts.waits.kind(span) else { continue };
        if wait != WaitKind::Gpu && Some(spans.track(span)) != main {
            continue;
        }
        let name = facts.names.merged(spans.name(span));
        let sum = sums.entry((spans.track(span), wait, name)).or_default();
        let dur = spans.dur(span);
        sum.count += 1;
        sum.total_ns += i128::from(dur);
        if sum.longest.is_none_or(|(longest, _)| dur > longest) {
            sum.longest = Some((dur, span));
        }
        *sum.by_line.entry(facts.line(span)).or_default() += i128::from(dur);
    }
    let mut found = Vec::new();
    for ((track, wait, name), sum) in sums {
        let Some((longest_ns, longest)) = sum.longest else { continue };
        if !reaches(sum.total_ns, facts.window_ns(), thresholds.waiting_percent) {
            continue;
        }
        let (line, line_ns) = largest(&sum.by_line);
        let thread = facts.threads.iter().find(|thread| thread.track == track);
        let kind = FindingKind::Waiting {
            thread: thread.map(thread_label).unwrap_or_default(),
            call: facts.text(name),
            wait,
            count: sum.count,
            total_ns: sum.total_ns,
            window_ns: facts.window_ns(),
            longest_from: facts.since_start(spans.start(longest)),
            longest_ns,
            line: line.map(|line| facts.text(line)),
            line_ns,
        };
        found.push(Finding { kind, about_ns: sum.total_ns });
    }
    found
}

/// The entry with most time; of equals the first.
fn largest(by_line: &BTreeMap<Option<StrId>, TotalNanos>) -> (Option<StrId>, TotalNanos) {
    let most = by_line.iter().max_by_key(|&(&line, &ns)| (ns, Reverse(line)));
    most.map_or((None, 0), |(&line, &ns)| (line, ns))
}

fn host_line(facts: &Facts<'_>, thresholds: &Thresholds) -> Option<Finding> {
    let thread = main_thread(facts.threads)?;
    let spans = facts.trace.spans();
    let mut by_line: BTreeMap<Option<StrId>, TotalNanos> = BTreeMap::new();
    let working = |&span: &SpanId| facts.waits.kind(span).is_none();
    let rows = facts.trace.tracks().get(thread.track).span_ids();
    for span in rows.filter(working) {
        let self_ns = i128::from(facts.self_time.span_ns[span.index()]);
        *by_line.entry(facts.line(span)).or_default() += self_ns;
    }
    by_line.remove(&None);
    let (line, line_ns) = largest(&by_line);
    let line = line?;
    if !reaches(line_ns, thread.working_ns(), thresholds.host_line_percent) {
        return None;
    }
    let rows = facts.trace.tracks().get(thread.track).span_ids().filter(working);
    let there: Vec<SpanId> = rows.filter(|&span| facts.line(span) == Some(line)).collect();
    let first = *there.first()?;
    let end = there.iter().map(|&span| spans.end(span)).max()?;
    let self_times = there.iter().map(|&span| (span, facts.self_time.span_ns[span.index()]));
    let kind = FindingKind::HostLine {
        thread: thread_label(thread),
        line: facts.text(line),
        line_ns,
        working_ns: thread.working_ns(),
        inside: facts.mostly(self_times),
        from: facts.since_start(spans.start(first)),
        to: facts.since_start(end),
    };
    Some(Finding { kind, about_ns: line_ns })
}

fn thread_label(thread: &ThreadTime) -> String {
    match thread.thread_name.trim() {
        "" => format!("thread {}", thread.thread),
        name => name.to_owned(),
    }
}

fn tiny_kernels(facts: &Facts<'_>, thresholds: &Thresholds) -> Option<Finding> {
    let (mut kernels, mut count, mut total_ns) = (0, 0, 0);
    let mut by_name: BTreeMap<StrId, u64> = BTreeMap::new();
    for span in gpu_work(facts.trace).filter(|&span| facts.trace.kind(span) == SpanKind::Kernel) {
        kernels += 1;
        let dur = facts.trace.spans().dur(span);
        if dur < thresholds.tiny_kernel_ns {
            count += 1;
            total_ns += i128::from(dur);
            let name = facts.names.merged(facts.trace.spans().name(span));
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
    let row = facts.gpu.work.iter().find(|row| row.name == top_name);
    let kind = FindingKind::TinyKernels {
        count,
        kernels,
        limit_ns: thresholds.tiny_kernel_ns,
        total_ns,
        top_line: row.and_then(|row| row.launcher.line.clone()),
        top_name,
        top_count,
    };
    Some(Finding { kind, about_ns: total_ns })
}

fn not_recorded(facts: &Facts<'_>, thresholds: &Thresholds) -> Option<Finding> {
    let row = facts.gpu.lines.iter().find(|row| row.origin == Origin::NotRecorded)?;
    if !reaches(row.total_ns, facts.gpu.work_ns, thresholds.not_recorded_percent) {
        return None;
    }
    let (count, total_ns) = (row.count, row.total_ns);
    let kind = FindingKind::NotRecorded { count, total_ns, work_ns: facts.gpu.work_ns };
    Some(Finding { kind, about_ns: total_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::report;
    use crate::sample::Sample;

    #[track_caller]
    fn check(sample: &mut Sample, expected: &[FindingKind]) {
        let report = report(&sample.finish(), &Thresholds::default());
        let kinds: Vec<FindingKind> = report.findings.into_iter().map(|row| row.kind).collect();
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_gpu_that_waits_for_launches() {
        let mut sample = Sample::default();
        for at in 0..4 {
            let file = format!("part{at}.py(1): step");
            sample.span("1", SpanKind::Python, &file, at * 25, 25);
            sample.call("1", at * 25, 20, at as u64);
            sample.work("7", SpanKind::Kernel, "add", (at * 25 + 15, 10), at as u64);
        }
        let idle = FindingKind::GpuIdle {
            device: "0".into(),
            idle_ns: 60,
            window_ns: 100,
            cause: GpuIdleCause::LaunchBound,
            kernels: 4,
            kernel_mean_ns: 10,
            launch_mean_ns: Some(20),
            host_working_ns: 100,
            longest_gap_from: 0,
            longest_gap_ns: 15,
            in_gap: Some(Doing {
                function: "cudaLaunchKernel".into(),
                line: Some("part0.py(1): step".into()),
                self_ns: 15,
            }),
        };
        check(&mut sample, &[idle]);
    }

    #[test]
    fn waiting_for_the_gpu_and_the_line_that_does_it() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "a.py(1): f", 1000, 70);
        sample.span("1", SpanKind::Runtime, "cudaDeviceSynchronize", 1010, 60);
        sample.span("1", SpanKind::Python, "b.py(1): g", 1070, 30);
        sample.span("1", SpanKind::Runtime, "cudaDeviceSynchronize", 1080, 5);
        let waiting = FindingKind::Waiting {
            thread: "thread 1".into(),
            call: "cudaDeviceSynchronize".into(),
            wait: WaitKind::Gpu,
            count: 2,
            total_ns: 65,
            window_ns: 100,
            longest_from: 10,
            longest_ns: 60,
            line: Some("a.py(1): f".into()),
            line_ns: 60,
        };
        let line = FindingKind::HostLine {
            thread: "thread 1".into(),
            line: "b.py(1): g".into(),
            line_ns: 25,
            working_ns: 35,
            inside: Some(Doing { function: "b.py(1): g".into(), line: None, self_ns: 25 }),
            from: 70,
            to: 100,
        };
        check(&mut sample, &[waiting, line]);
    }

    #[test]
    fn work_launched_before_the_recording() {
        let mut sample = Sample::default();
        sample.work("7", SpanKind::Kernel, "mm", (0, 10), 5);
        check(&mut sample, &[FindingKind::NotRecorded { count: 1, total_ns: 10, work_ns: 10 }]);
    }

    #[test]
    fn an_empty_trace_has_none() {
        check(&mut Sample::default(), &[]);
    }
}
