//! What deserves attention first, each with its numbers.
//!
//! A finding is a fact of the trace that crossed a threshold; it claims no cause
//! that the numbers do not show. The thresholds stand in one place.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, StrId};

use crate::{Facts, TotalNanos};

mod allocation_burst;
mod gpu;
mod host;
mod observed;
mod overheads;
mod transfers;

pub use allocation_burst::AllocationStorm;
pub use gpu::{GpuIdle, GpuIdleCause, InGap, NotRecorded, TinyKernels};
pub use host::{HostLine, TopFunction, Waiting};
pub use observed::{CpuFunction, CpuSpent, CpuStarvation, OffCpuWaits};
pub use overheads::{Overhead, SpentOn};
pub(crate) use overheads::{Spending, spent_on};
pub use transfers::{Copied, HostCopies, LostOverlap, Synchronization};

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
    /// The main thread loading data, preparing it, pickling, running an event loop for
    /// at least this part of the window.
    pub data_loading_percent: i128,
    pub preprocessing_percent: i128,
    pub serialisation_percent: i128,
    pub event_loop_percent: i128,
    /// Calls for memory of the driver, on all threads.
    pub allocation_percent: i128,
    /// Of recorded programs: Python finding and loading modules.
    pub import_percent: i128,
    /// Of recorded programs, of all CPU time: one function …
    pub cpu_function_percent: i128,
    /// … and of the time in which threads could run: no processor was free.
    pub cpu_starvation_percent: i128,
    /// A line that makes the host wait costs this part of the window: the host blocked,
    /// and the GPU without work afterwards.
    pub sync_percent: i128,
    /// Copies between host and GPU from one line cost this part of the window.
    pub host_copies_percent: i128,
    /// Communication while nothing computes.
    pub exposed_communication_percent: i128,
    /// So many allocations under one line …
    pub allocation_storm_min: u64,
    /// … in at most this time.
    pub allocation_storm_ns: Nanos,
}

impl Thresholds {
    /// Each by its name.
    fn named(&mut self) -> [(&'static str, Limit<'_>); 23] {
        use Limit::{Count, Nanos, Percent};
        [
            ("gpu_idle_percent", Percent(&mut self.gpu_idle_percent)),
            ("host_busy_percent", Percent(&mut self.host_busy_percent)),
            ("launch_percent", Percent(&mut self.launch_percent)),
            ("one_gap_percent", Percent(&mut self.one_gap_percent)),
            ("waiting_percent", Percent(&mut self.waiting_percent)),
            ("host_line_percent", Percent(&mut self.host_line_percent)),
            ("tiny_kernel_ns", Nanos(&mut self.tiny_kernel_ns)),
            ("tiny_kernels_min", Count(&mut self.tiny_kernels_min)),
            ("tiny_kernels_percent", Percent(&mut self.tiny_kernels_percent)),
            ("not_recorded_percent", Percent(&mut self.not_recorded_percent)),
            ("data_loading_percent", Percent(&mut self.data_loading_percent)),
            ("preprocessing_percent", Percent(&mut self.preprocessing_percent)),
            ("serialisation_percent", Percent(&mut self.serialisation_percent)),
            ("event_loop_percent", Percent(&mut self.event_loop_percent)),
            ("allocation_percent", Percent(&mut self.allocation_percent)),
            ("import_percent", Percent(&mut self.import_percent)),
            ("cpu_function_percent", Percent(&mut self.cpu_function_percent)),
            ("cpu_starvation_percent", Percent(&mut self.cpu_starvation_percent)),
            ("sync_percent", Percent(&mut self.sync_percent)),
            ("host_copies_percent", Percent(&mut self.host_copies_percent)),
            ("exposed_communication_percent", Percent(&mut self.exposed_communication_percent)),
            ("allocation_storm_min", Count(&mut self.allocation_storm_min)),
            ("allocation_storm_ns", Nanos(&mut self.allocation_storm_ns)),
        ]
    }

    /// Sets one by its name; says what is wrong with the name or the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number: u32 =
            value.parse().map_err(|_| format!("{name}: not a whole number: {value:?}"))?;
        let mut rows = self.named();
        let names: Vec<&str> = rows.iter().map(|row| row.0).collect();
        match rows.iter_mut().find(|row| row.0 == name) {
            Some((_, Limit::Percent(limit))) => **limit = number.into(),
            Some((_, Limit::Nanos(limit))) => **limit = number.into(),
            Some((_, Limit::Count(limit))) => **limit = number.into(),
            None => {
                return Err(format!("no threshold named {name}; there are {}", names.join(", ")));
            }
        }
        Ok(())
    }
}

/// Where a threshold is kept.
enum Limit<'a> {
    Percent(&'a mut i128),
    Nanos(&'a mut Nanos),
    Count(&'a mut u64),
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
            data_loading_percent: 10,
            preprocessing_percent: 10,
            serialisation_percent: 3,
            event_loop_percent: 3,
            allocation_percent: 3,
            import_percent: 10,
            cpu_function_percent: 20,
            cpu_starvation_percent: 10,
            sync_percent: 1,
            host_copies_percent: 1,
            exposed_communication_percent: 10,
            allocation_storm_min: 1000,
            allocation_storm_ns: 10_000_000,
        }
    }
}

/// Something worth attention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    /// The time it is about; findings are sorted by it.
    pub about_ns: TotalNanos,
    /// What a repair can gain at most, where the trace shows it: it does not say how much
    /// of that another bottleneck would then take.
    pub gain_ns: Option<TotalNanos>,
}

/// What was found. Times count from the start of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingKind {
    GpuIdle(GpuIdle),
    Waiting(Waiting),
    HostLine(HostLine),
    TinyKernels(TinyKernels),
    NotRecorded(NotRecorded),
    Overhead(Overhead),
    Synchronization(Synchronization),
    HostCopies(HostCopies),
    LostOverlap(LostOverlap),
    AllocationStorm(AllocationStorm),
    CpuSpent(CpuSpent),
    CpuFunction(CpuFunction),
    OffCpu(OffCpuWaits),
    CpuStarvation(CpuStarvation),
}

impl FindingKind {
    /// Waits for what others do, and processors that others have, explain nothing by themselves:
    /// they stand behind what does.
    fn is_of_others(&self) -> bool {
        match self {
            FindingKind::OffCpu(waits) => waits.is_for_others,
            FindingKind::CpuStarvation(starved) => starved.is_by_others,
            _ => false,
        }
    }
}

/// All findings, those about most time first.
pub fn findings(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(gpu::gpus_idle(facts, thresholds));
    found.extend(host::waiting(facts, thresholds));
    found.extend(host::host_line(facts, thresholds));
    found.extend(gpu::tiny_kernels(facts, thresholds));
    found.extend(gpu::not_recorded(facts, thresholds));
    found.extend(overheads::spent(facts, thresholds));
    found.extend(transfers::transfers(facts, thresholds));
    found.extend(allocation_burst::storms(facts, thresholds));
    found.extend(observed::observed(facts, thresholds));
    found.sort_by_key(|finding| (finding.kind.is_of_others(), Reverse(finding.about_ns)));
    found
}

impl Facts {
    pub(crate) fn since_start(&self, time: Nanos) -> TotalNanos {
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
    ) -> Option<TopFunction> {
        let mut sums: BTreeMap<StrId, BTreeMap<Option<StrId>, TotalNanos>> = BTreeMap::new();
        for (span, self_ns) in self_times.filter(|&(_, ns)| ns > 0) {
            let function = self.names().merged(self.trace().spans().name(span));
            let by_line = sums.entry(function).or_default();
            *by_line.entry(self.line(span)).or_default() += i128::from(self_ns);
        }
        let total = |by_line: &BTreeMap<_, TotalNanos>| by_line.values().sum::<TotalNanos>();
        let most = sums.iter().max_by_key(|&(&name, lines)| (total(lines), Reverse(name)));
        most.map(|(&function, by_line)| TopFunction {
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
    use crate::base::sample::Sample;

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
            in_gap: InGap::Mostly(TopFunction {
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
        sample.span("1", SpanKind::Python, "<built-in function crunch at 0x1>", 15, 60);
        let line = FindingKind::HostLine(HostLine {
            thread: "thread 1".into(),
            line: "a.py(5): load".into(),
            line_ns: 70,
            window_ns: 100,
            inside: Some(TopFunction {
                function: "<built-in function crunch>".into(),
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
    fn thresholds_are_set_by_name() {
        let mut thresholds = Thresholds::default();
        assert_eq!(thresholds.set("gpu_idle_percent", "55"), Ok(()));
        assert_eq!(thresholds.gpu_idle_percent, 55);
        let wrong = thresholds.set("gpu_idle_percent", "many").expect_err("no number");
        assert_eq!(wrong, "gpu_idle_percent: not a whole number: \"many\"");
        let unknown = thresholds.set("idle", "1").expect_err("no such name");
        assert!(unknown.starts_with("no threshold named idle; there are gpu_idle_percent, "));
    }

    #[test]
    fn an_empty_trace_has_none() {
        check(&mut Sample::default(), &[]);
    }
}
