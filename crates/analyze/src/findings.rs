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
    /// Threads that launch kernels working at least this part of the window make
    /// the host the suspect for an idle GPU.
    pub host_busy_percent: i128,
    /// Launch calls taking at least this part of the host's work make launching
    /// the suspect.
    pub launch_percent: i128,
    /// A single gap with at least this part of the idle time.
    pub one_gap_percent: i128,
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
            launch_percent: 10,
            one_gap_percent: 50,
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
        /// The calls that launched them, where known, and their time.
        launch_calls: u64,
        launch_ns: TotalNanos,
        /// Work of the threads that launched them.
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
        longest_ns: TotalNanos,
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
    let launches = Launches::of(facts, device);
    let host_working_ns = launches.host_working_ns(facts).min(device.window_ns);
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
    let kind = FindingKind::GpuIdle {
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
        in_gap: main_thread(facts.threads).and_then(|thread| {
            let there = self_time_within(facts.trace, thread.track, device.longest_gap);
            facts.mostly(there.into_iter())
        }),
    };
    Some(Finding { kind, about_ns: device.idle_ns() })
}

/// Kernels of one device and the calls that launched them.
#[derive(Default)]
struct Launches {
    kernels: u64,
    kernel_ns: TotalNanos,
    /// Each call once: a graph launches many kernels with one.
    calls: Vec<SpanId>,
    call_ns: TotalNanos,
}

impl Launches {
    fn of(facts: &Facts<'_>, device: &DeviceUse) -> Self {
        let (trace, spans) = (facts.trace, facts.trace.spans());
        let mut launches = Launches::default();
        for span in gpu_work(trace).filter(|&span| trace.kind(span) == SpanKind::Kernel) {
            let process = trace.tracks().get(spans.track(span)).process;
            if trace.strings().get(process) != device.id {
                continue;
            }
            launches.kernels += 1;
            launches.kernel_ns += i128::from(spans.dur(span));
            launches.calls.extend(spans.launch(span));
        }
        launches.calls.sort_unstable();
        launches.calls.dedup();
        launches.call_ns = launches.calls.iter().map(|&call| i128::from(spans.dur(call))).sum();
        launches
    }

    fn kernel_mean_ns(&self) -> TotalNanos {
        self.kernel_ns / i128::from(self.kernels.max(1))
    }

    fn call_mean_ns(&self) -> TotalNanos {
        self.call_ns / (self.calls.len().max(1) as i128)
    }

    /// Work of all threads that launched a kernel: in training, autograd's thread
    /// takes turns with the main one.
    fn host_working_ns(&self, facts: &Facts<'_>) -> TotalNanos {
        let mut tracks: Vec<TrackId> =
            self.calls.iter().map(|&call| facts.trace.spans().track(call)).collect();
        tracks.dedup();
        let launched = |thread: &&ThreadTime| tracks.contains(&thread.track);
        facts.threads.iter().filter(launched).map(ThreadTime::working_ns).sum()
    }
}

#[derive(Default)]
struct WaitSum {
    count: u64,
    total_ns: TotalNanos,
    longest: Option<(TotalNanos, SpanId)>,
    by_line: BTreeMap<Option<StrId>, TotalNanos>,
}

/// Waiting calls by thread and name: all that wait for a GPU, the rest on the main
/// thread only, since a worker that waits for work is doing its job.
fn waiting(facts: &Facts<'_>, thresholds: &Thresholds) -> Vec<Finding> {
    let spans = facts.trace.spans();
    let main = main_thread(facts.threads).map(|thread| thread.track);
    let mut sums: BTreeMap<(TrackId, WaitKind, StrId), WaitSum> = BTreeMap::new();
    for (call, waited_ns) in waited_by_call(facts) {
        let (Some(wait), track) = (facts.waits.kind(call), spans.track(call)) else { continue };
        if wait != WaitKind::Gpu && Some(track) != main {
            continue;
        }
        let sum = sums.entry((track, wait, facts.names.merged(spans.name(call)))).or_default();
        sum.count += 1;
        sum.total_ns += waited_ns;
        if sum.longest.is_none_or(|(longest, _)| waited_ns > longest) {
            sum.longest = Some((waited_ns, call));
        }
        *sum.by_line.entry(facts.line(call)).or_default() += waited_ns;
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

/// How long each outermost waiting call waited, itself or further down.
fn waited_by_call(facts: &Facts<'_>) -> BTreeMap<SpanId, TotalNanos> {
    let mut waited = BTreeMap::new();
    for span in facts.trace.spans().ids() {
        if let (Some(_), Some(call)) = (facts.waits.kind(span), facts.waits.call(span)) {
            let self_ns = i128::from(facts.self_time.span_ns[span.index()]);
            *waited.entry(call).or_default() += self_ns;
        }
    }
    waited
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
        inside: facts.mostly(self_times).map(|doing| Doing { line: None, ..doing }),
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
            launch_calls: 4,
            launch_ns: 80,
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
