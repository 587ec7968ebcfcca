//! Single numbers that say how well a run went: what a gate can hold on to.

use spanwise_model::{SpanKind, StackId, ThreadState, TrackId};

use crate::cpu::sampled::{ObservedSpending, ObservedSpent, main_observed, share_error_percent};
use crate::findings::{Spending, SpentOn, spent_on};
use crate::{BreakdownRow, Facts, TotalNanos, breakdown, main_thread};

/// One number with its name and exact meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    /// `None` where the trace lacks what it takes.
    pub value: Option<MetricValue>,
    pub about: &'static str,
    /// Where samples show it.
    pub error: Option<MetricError>,
}

/// How far a share that samples show may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricError {
    /// Samples that show it.
    pub samples: u64,
    /// As nanoseconds of the whole: in 19 of 20 recordings the part is off by less.
    pub ns: TotalNanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricValue {
    /// Part and whole.
    Share(i128, i128),
    Nanos(TotalNanos),
}

/// All metrics of a trace, always the same names in the same order.
pub fn metrics(facts: &Facts) -> Vec<Metric> {
    let window_ns = facts.window_ns();
    let share = |part: Option<TotalNanos>| part.map(|part| MetricValue::Share(part, window_ns));
    let mut gpus = breakdown(facts);
    gpus.retain(|row| row.step.is_none());
    let gpu = |part: fn(&BreakdownRow) -> TotalNanos| {
        let whole: TotalNanos = gpus.iter().map(|row| row.window_ns).sum();
        let part = gpus.iter().map(part).sum();
        (!gpus.is_empty()).then_some(MetricValue::Share(part, whole))
    };
    let host = Host::of(facts);
    let metric = |name, value, about| Metric { name, value, about, error: None };
    let by_samples = |metric: Metric, error| Metric { error, ..metric };
    vec![
        metric("wall_time", Some(MetricValue::Nanos(window_ns)), "length of the recording"),
        metric(
            "gpu_utilization",
            gpu(BreakdownRow::busy_ns),
            "while a GPU had work, of the recording; over all GPUs",
        ),
        metric("gpu_compute", gpu(|row| row.compute_ns), "while kernels computed"),
        metric(
            "gpu_exposed_communication",
            gpu(|row| row.exposed_communication_ns),
            "while kernels communicated and none computed",
        ),
        metric(
            "gpu_exposed_copy",
            gpu(|row| row.exposed_copy_ns),
            "while memory was copied and no kernel ran",
        ),
        by_samples(
            metric(
                "data_loading_overhead",
                share(host.data_loading_ns),
                "while the main thread fetched a batch or waited for one",
            ),
            host.loading_error,
        ),
        by_samples(
            metric(
                "python_overhead",
                share(host.python_ns),
                "interpreting Python on the main thread, waiting and native work left out",
            ),
            host.python_error,
        ),
        by_samples(
            metric(
                "memory_allocation_cost",
                share(host.allocation_ns),
                "in calls for memory: the driver's, or a recorded program's",
            ),
            host.allocation_error,
        ),
        metric("host_working", share(host.working_ns), "while the main thread worked"),
    ]
}

/// What the host did; each is `None` where the trace does not show it.
#[derive(Debug, Default)]
struct Host {
    data_loading_ns: Option<TotalNanos>,
    allocation_ns: Option<TotalNanos>,
    python_ns: Option<TotalNanos>,
    working_ns: Option<TotalNanos>,
    loading_error: Option<MetricError>,
    python_error: Option<MetricError>,
    allocation_error: Option<MetricError>,
}

impl Host {
    fn of(facts: &Facts) -> Host {
        match main_thread(facts.threads()) {
            Some(main) => {
                let spending = Spending::new(facts);
                let spent = |on: SpentOn| {
                    let row = spent_on(facts, &spending, on, None);
                    Some(row.map_or(0, |row| row.total_ns))
                };
                Host {
                    data_loading_ns: spent(SpentOn::DataLoading),
                    allocation_ns: spent(SpentOn::Allocation),
                    python_ns: python_ns(facts),
                    working_ns: Some(main.working_ns()),
                    ..Host::default()
                }
            }
            None => Host::observed(facts).unwrap_or_default(),
        }
    }

    /// The same of a recording: CPU time by samples, waits by states.
    fn observed(facts: &Facts) -> Option<Host> {
        let main = main_observed(facts)?;
        let spending = ObservedSpending::new(facts);
        let python = spending.python.get(&main).copied();
        let loading = spending.by_thread.get(&(main, SpentOn::DataLoading)).copied();
        let loading = loading.unwrap_or_default();
        let working = facts.cpu_time().track_ns[main.index()];
        // Others take the processor from whatever it does.
        let with_waiting = i128::from(working) + unplaced_waiting_ns(facts, main);
        let loading_ns =
            loading.cpu_ns * with_waiting / i128::from(working.max(1)) + loading.runnable_ns;
        let samples = SampleCounts::of(facts, main);
        let allocation = spending.total(SpentOn::Allocation);
        Some(Host {
            data_loading_ns: python.map(|_| loading_ns + loading.blocked_ns),
            loading_error: python.and_then(|_| error(loading, samples.of_main, with_waiting)),
            python_error: python.and_then(|of| error(of, samples.of_main, working.into())),
            allocation_error: error(allocation, samples.all, facts.cpu_time().total_ns()),
            allocation_ns: (facts.cpu_time().samples > 0).then_some(allocation.cpu_ns),
            python_ns: python.map(|of| of.cpu_ns),
            working_ns: Some(working.into()),
        })
    }
}

/// Samples of CPU time.
struct SampleCounts {
    of_main: u64,
    all: u64,
}

impl SampleCounts {
    fn of(facts: &Facts, main: TrackId) -> SampleCounts {
        let (samples, time) = (facts.trace().samples(), facts.cpu_time());
        let rows = samples.of_track(main).filter(|&row| Some(samples.event[row]) == time.event);
        SampleCounts { of_main: rows.count() as u64, all: time.samples }
    }
}

/// How far a part of a time may be off that so many of all samples show.
fn error(spent: ObservedSpent, all_samples: u64, whole_ns: TotalNanos) -> Option<MetricError> {
    let percent = share_error_percent(spent.samples, all_samples)?;
    let ns = (percent / 100.0 * whole_ns as f64) as TotalNanos;
    Some(MetricError { samples: spent.samples, ns })
}

/// How long a thread could have run and had no processor, where nothing says what it was doing.
fn unplaced_waiting_ns(facts: &Facts, track: TrackId) -> TotalNanos {
    let states = facts.trace().thread_states().iter_counted();
    let waits = states.filter(|state| state.track == track && state.stack == StackId::EMPTY);
    let waits = waits.filter(|state| matches!(state.state, ThreadState::Runnable(_)));
    waits.map(|state| i128::from(state.dur)).sum()
}

/// What the interpreter itself takes on the main thread.
fn python_ns(facts: &Facts) -> Option<TotalNanos> {
    let (trace, main) = (facts.trace(), main_thread(facts.threads())?);
    let is_python = |kind: SpanKind| kind == SpanKind::Python;
    if !trace.categories().rows().iter().any(|row| is_python(row.kind)) {
        return None;
    }
    let spans = trace.tracks().get(main.track).span_ids();
    let counts = |span: &_| is_python(trace.kind(*span)) && facts.waits().kind(*span).is_none();
    let self_times = spans.filter(counts);
    Some(self_times.map(|span| i128::from(facts.self_time().span_ns[span.index()])).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(sample: &mut Sample, name: &str, expected: Option<MetricValue>) {
        let trace = sample.finish();
        let rows = metrics(&Facts::new(&trace));
        let row = rows.iter().find(|row| row.name == name).expect("it is there");
        assert_eq!(row.value, expected, "{name}");
    }

    fn sample() -> Sample {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "a.py(1): main", 0, 100);
        sample.span("1", SpanKind::Annotation, "enumerate(DataLoader)#x", 10, 30);
        sample.span("1", SpanKind::Runtime, "cudaMalloc", 50, 5);
        sample.span("1", SpanKind::Python, "<built-in function sleep>", 60, 10);
        sample.work("7", SpanKind::Kernel, "mm", (80, 20), 5);
        sample
    }

    #[test]
    fn numbers_have_exact_meanings() {
        let share = |part| Some(MetricValue::Share(part, 100));
        check(&mut sample(), "gpu_utilization", share(20));
        check(&mut sample(), "data_loading_overhead", share(30));
        check(&mut sample(), "memory_allocation_cost", share(5));
        check(&mut sample(), "python_overhead", share(55));
        check(&mut sample(), "wall_time", Some(MetricValue::Nanos(100)));
    }

    #[test]
    fn what_a_trace_lacks_is_unknown_not_zero() {
        let mut host = Sample::default();
        host.span("1", SpanKind::Operator, "aten::mm", 0, 10);
        check(&mut host, "gpu_utilization", None);
        let mut host = Sample::default();
        host.span("1", SpanKind::Operator, "aten::mm", 0, 10);
        check(&mut host, "python_overhead", None);
    }
}
