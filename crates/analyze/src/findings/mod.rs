//! What deserves attention first, each with its numbers.
//!
//! A finding is a fact of the trace that crossed a threshold; it claims no cause
//! that the numbers do not show. The thresholds stand in one place.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, StrId};

use crate::{Facts, TotalNanos};

mod gpu;
mod host;

pub use gpu::{GpuIdle, GpuIdleCause, NotRecorded, TinyKernels};
pub use host::{Doing, HostLine, Waiting};

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
    /// The main thread working under one line of Python for at least this part of
    /// the window.
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
    GpuIdle(GpuIdle),
    Waiting(Waiting),
    HostLine(HostLine),
    TinyKernels(TinyKernels),
    NotRecorded(NotRecorded),
}

/// All findings, those about most time first.
pub fn findings(facts: &Facts<'_>, thresholds: &Thresholds) -> Vec<Finding> {
    let mut found = Vec::new();
    found
        .extend(facts.gpu().devices.iter().filter_map(|row| gpu::gpu_idle(facts, row, thresholds)));
    found.extend(host::waiting(facts, thresholds));
    found.extend(host::host_line(facts, thresholds));
    found.extend(gpu::tiny_kernels(facts, thresholds));
    found.extend(gpu::not_recorded(facts, thresholds));
    found.sort_by_key(|finding| Reverse(finding.about_ns));
    found
}

impl Facts<'_> {
    fn since_start(&self, time: Nanos) -> TotalNanos {
        i128::from(time) - i128::from(self.window().0)
    }

    fn line(&self, span: SpanId) -> Option<StrId> {
        let line = self.frames().line(span)?;
        Some(self.names().merged(self.trace().spans().name(line)))
    }

    /// The function with most of these self times, and the line it ran under most.
    pub(super) fn mostly(
        &self,
        self_times: impl Iterator<Item = (SpanId, Nanos)>,
    ) -> Option<Doing> {
        let mut sums: BTreeMap<StrId, BTreeMap<Option<StrId>, TotalNanos>> = BTreeMap::new();
        for (span, self_ns) in self_times.filter(|&(_, ns)| ns > 0) {
            let function = self.names().merged(self.trace().spans().name(span));
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
        self.names().text(name).into_owned()
    }
}

fn reaches(part: TotalNanos, whole: TotalNanos, percent: i128) -> bool {
    part > 0 && part.saturating_mul(100) >= whole.saturating_mul(percent)
}

/// The entry with most time; of equals the first.
fn largest(by_line: &BTreeMap<Option<StrId>, TotalNanos>) -> (Option<StrId>, TotalNanos) {
    let most = by_line.iter().max_by_key(|&(&line, &ns)| (ns, Reverse(line)));
    most.map_or((None, 0), |(&line, &ns)| (line, ns))
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::WaitKind;
    use crate::sample::Sample;

    #[track_caller]
    fn check(sample: &mut Sample, expected: &[FindingKind]) {
        let trace = sample.finish();
        let found = findings(&Facts::new(&trace), &Thresholds::default());
        let kinds: Vec<FindingKind> = found.into_iter().map(|row| row.kind).collect();
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
        let idle = FindingKind::GpuIdle(GpuIdle {
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
        });
        check(&mut sample, &[idle]);
    }

    #[test]
    fn waiting_for_the_gpu_and_the_line_that_does_it() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "a.py(1): f", 1000, 70);
        sample.span("1", SpanKind::Runtime, "cudaDeviceSynchronize", 1010, 60);
        sample.span("1", SpanKind::Python, "b.py(1): g", 1070, 30);
        sample.span("1", SpanKind::Runtime, "cudaDeviceSynchronize", 1080, 5);
        let waiting = FindingKind::Waiting(Waiting {
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
        });
        check(&mut sample, &[waiting]);
    }

    #[test]
    fn a_line_with_most_of_the_main_threads_time() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "a.py(1): main", 0, 100);
        sample.span("1", SpanKind::Python, "a.py(5): load", 10, 70);
        sample.span("1", SpanKind::Python, "<built-in function loads at 0x1>", 15, 60);
        let line = FindingKind::HostLine(HostLine {
            thread: "thread 1".into(),
            line: "a.py(5): load".into(),
            line_ns: 70,
            window_ns: 100,
            inside: Some(Doing {
                function: "<built-in function loads>".into(),
                line: None,
                self_ns: 60,
            }),
            from: 10,
            to: 80,
        });
        check(&mut sample, &[line]);
    }

    #[test]
    fn work_launched_before_the_recording() {
        let mut sample = Sample::default();
        sample.work("7", SpanKind::Kernel, "mm", (0, 10), 5);
        check(
            &mut sample,
            &[FindingKind::NotRecorded(NotRecorded { count: 1, total_ns: 10, work_ns: 10 })],
        );
    }

    #[test]
    fn an_empty_trace_has_none() {
        check(&mut Sample::default(), &[]);
    }
}
