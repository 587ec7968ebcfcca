//! What one run, or one step of a run, shows: figures with names that compare.

use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, SpanKind, StrId, TrackKind};

use crate::cpu::self_time::{innermost_pieces, takes_part};
use crate::gpu::usage::gpu_work;
use crate::training::steps::Steps;
use crate::{
    BreakdownRow, Facts, MetricValue, Phase, TotalNanos, breakdown, hottest_functions, metrics,
};

/// A figure that traces show.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Feature {
    pub group: FeatureGroup,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeatureGroup {
    /// One of [`metrics`]: shares in percent.
    Share,
    /// A time of the whole run or step.
    Time,
    /// While a phase lasted on the host.
    Phase,
    /// GPU work launched in a phase.
    PhaseWork,
    /// GPU work of a class.
    Class,
    /// GPU work of a name.
    Work(SpanKind),
    /// Self time of a function on all threads.
    Function(SpanKind),
}

impl FeatureGroup {
    /// Whether what does not occur took no time. A metric that is absent is unknown.
    pub(crate) fn absent_is_zero(self) -> bool {
        !matches!(self, FeatureGroup::Share | FeatureGroup::Time)
    }

    pub fn is_time(self) -> bool {
        self != FeatureGroup::Share
    }
}

/// One run or step with all its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The number of the step, in a table of steps.
    pub step: Option<i64>,
    pub window_ns: TotalNanos,
    /// Nanoseconds, or percent for [`FeatureGroup::Share`].
    pub features: BTreeMap<Feature, f64>,
}

impl Observation {
    fn add(&mut self, group: FeatureGroup, name: impl Into<String>, value: f64) {
        *self.features.entry(Feature { group, name: name.into() }).or_default() += value;
    }

    fn add_ns(&mut self, group: FeatureGroup, name: impl Into<String>, ns: TotalNanos) {
        self.add(group, name, ns as f64);
    }
}

/// What a whole run shows.
pub fn observe_run(facts: &Facts) -> Observation {
    let window_ns = facts.window_ns();
    let mut seen = Observation { step: None, window_ns, features: BTreeMap::new() };
    for metric in metrics(facts) {
        match metric.value {
            Some(MetricValue::Nanos(ns)) => seen.add_ns(FeatureGroup::Time, metric.name, ns),
            Some(MetricValue::Share(part, whole)) if whole > 0 => {
                let percent = 100.0 * part as f64 / whole as f64;
                seen.add(FeatureGroup::Share, metric.name, percent);
            }
            _ => {}
        }
    }
    for row in &facts.phase_use().phases {
        let Some(phase) = row.phase else { continue };
        if let Some(wall) = &row.wall {
            seen.add_ns(FeatureGroup::Phase, phase.text(), wall.total_ns);
        }
        seen.add_ns(FeatureGroup::PhaseWork, phase.text(), row.gpu.work_ns);
    }
    for row in &facts.class_use().rows {
        seen.add_ns(FeatureGroup::Class, &*row.class, row.total_ns);
    }
    for row in &facts.gpu().work {
        seen.add_ns(FeatureGroup::Work(row.kind), &*row.name, row.total_ns);
    }
    for row in hottest_functions(facts).rows {
        seen.add_ns(FeatureGroup::Function(row.kind), row.name, row.self_ns);
    }
    seen
}

/// What each step shows: host time inside it, and the GPU work launched in it. Empty
/// where the trace marks no steps.
pub fn observe_steps(facts: &Facts) -> Vec<Observation> {
    let steps = Steps::new(facts.trace());
    let mut seen: Vec<Observation> = steps
        .rows()
        .iter()
        .map(|step| {
            let window_ns = i128::from(step.end) - i128::from(step.start);
            let mut seen =
                Observation { step: Some(step.number), window_ns, features: BTreeMap::new() };
            seen.add_ns(FeatureGroup::Time, "wall_time", window_ns);
            seen
        })
        .collect();
    add_breakdown(facts, &mut seen);
    add_work(facts, &steps, &mut seen);
    add_functions(facts, &steps, &mut seen);
    seen
}

type Part = fn(&BreakdownRow) -> TotalNanos;

/// The parts of each step's time on the GPUs; several GPUs add up.
fn add_breakdown(facts: &Facts, seen: &mut [Observation]) {
    const PARTS: [(&str, Part); 4] = [
        ("gpu_compute", |row| row.compute_ns),
        ("gpu_exposed_communication", |row| row.exposed_communication_ns),
        ("gpu_exposed_copy", |row| row.exposed_copy_ns),
        ("gpu_idle", |row| row.idle_ns),
    ];
    for row in breakdown(facts) {
        let Some(number) = row.step else { continue };
        if let Some(seen) = seen.iter_mut().find(|seen| seen.step == Some(number)) {
            for (name, part) in PARTS {
                seen.add_ns(FeatureGroup::Time, name, part(&row));
            }
        }
    }
}

/// What one step launched, by what it is.
#[derive(Default)]
struct StepWork {
    names: BTreeMap<(SpanKind, StrId), TotalNanos>,
    classes: BTreeMap<u32, TotalNanos>,
    phases: BTreeMap<Phase, TotalNanos>,
}

fn add_work(facts: &Facts, steps: &Steps, seen: &mut [Observation]) {
    let (trace, spans) = (facts.trace(), facts.trace().spans());
    let classes = facts.span_classes();
    let mut sums: Vec<StepWork> = seen.iter().map(|_| StepWork::default()).collect();
    for work in gpu_work(trace) {
        let Some(row) = spans.launch(work).and_then(|call| steps.row_at(spans.start(call))) else {
            continue;
        };
        let (sum, ns) = (&mut sums[row], i128::from(spans.dur(work)));
        let name = facts.names().merged(spans.name(work));
        *sum.names.entry((trace.kind(work), name)).or_default() += ns;
        if let Some(class) = classes.of_span[work.index()] {
            *sum.classes.entry(class).or_default() += ns;
        }
        if let Some(phase) = facts.phases().of(work) {
            *sum.phases.entry(phase).or_default() += ns;
        }
    }
    for (seen, sum) in seen.iter_mut().zip(sums) {
        for ((kind, name), ns) in sum.names {
            seen.add_ns(FeatureGroup::Work(kind), facts.names().text(name), ns);
        }
        for (class, ns) in sum.classes {
            let class = classes.classes[class as usize].as_str();
            seen.add_ns(FeatureGroup::Class, class, ns);
        }
        for (phase, ns) in sum.phases {
            seen.add_ns(FeatureGroup::PhaseWork, phase.text(), ns);
        }
    }
}

/// Self time inside each step; a function that spans several is cut at their ends.
fn add_functions(facts: &Facts, steps: &Steps, seen: &mut [Observation]) {
    let trace = facts.trace();
    let takes_part = takes_part(trace);
    let mut sums: Vec<BTreeMap<(SpanKind, StrId), TotalNanos>> =
        seen.iter().map(|_| BTreeMap::new()).collect();
    let mut add = |span: SpanId, from: Nanos, to: Nanos| {
        let mut row = steps.rows().partition_point(|step| step.end <= from);
        while let Some(step) = steps.rows().get(row).filter(|step| step.start < to) {
            let name = facts.names().merged(trace.spans().name(span));
            let sum = sums[row].entry((trace.kind(span), name)).or_default();
            *sum += i128::from(to.min(step.end)) - i128::from(from.max(step.start));
            row += 1;
        }
    };
    for (thread, track) in trace.tracks().iter() {
        if track.kind == TrackKind::Thread {
            innermost_pieces(trace, thread, &takes_part, &mut add);
        }
    }
    for (seen, sum) in seen.iter_mut().zip(sums) {
        for ((kind, name), ns) in sum {
            seen.add_ns(FeatureGroup::Function(kind), facts.names().text(name), ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    fn sample() -> Sample {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "a.py(1): train", 0, 100);
        sample.span("1", SpanKind::Annotation, "ProfilerStep#4", 10, 40);
        sample.span("1", SpanKind::Annotation, "ProfilerStep#5", 50, 40);
        sample.span("1", SpanKind::Operator, "aten::mm", 45, 2);
        sample.call("1", 46, 1, 1);
        sample.work("7", SpanKind::Kernel, "sgemm", (60, 20), 1);
        // On another thread, across both steps and beyond.
        sample.span("2", SpanKind::Python, "b.py(2): load", 5, 90);
        sample
    }

    #[track_caller]
    fn check(seen: &Observation, group: FeatureGroup, name: &str, expected: Option<f64>) {
        let feature = Feature { group, name: name.to_owned() };
        assert_eq!(seen.features.get(&feature).copied(), expected, "{name}");
    }

    #[test]
    fn steps_have_the_time_inside_and_the_work_launched_inside() {
        let trace = sample().finish();
        let steps = observe_steps(&Facts::new(&trace));
        assert_eq!(steps.iter().map(|seen| seen.step).collect::<Vec<_>>(), [Some(4), Some(5)]);
        let python = FeatureGroup::Function(SpanKind::Python);
        for seen in &steps {
            check(seen, python, "b.py(2): load", Some(40.0));
            check(seen, FeatureGroup::Time, "wall_time", Some(40.0));
            check(seen, python, "a.py(1): train", None);
        }
        check(&steps[0], FeatureGroup::Function(SpanKind::Operator), "aten::mm", Some(1.0));
        check(&steps[0], FeatureGroup::Work(SpanKind::Kernel), "sgemm", Some(20.0));
        check(&steps[0], FeatureGroup::Class, "gemm", Some(20.0));
        check(&steps[1], FeatureGroup::Class, "gemm", None);
        check(&steps[1], FeatureGroup::Time, "gpu_compute", Some(20.0));
        check(&steps[1], FeatureGroup::Time, "gpu_idle", Some(20.0));
    }

    #[test]
    fn runs_have_metrics_classes_kernels_and_functions() {
        let trace = sample().finish();
        let seen = observe_run(&Facts::new(&trace));
        check(&seen, FeatureGroup::Time, "wall_time", Some(100.0));
        check(&seen, FeatureGroup::Share, "gpu_utilization", Some(20.0));
        check(&seen, FeatureGroup::Class, "gemm", Some(20.0));
        check(&seen, FeatureGroup::Work(SpanKind::Kernel), "sgemm", Some(20.0));
        check(&seen, FeatureGroup::Function(SpanKind::Python), "a.py(1): train", Some(20.0));
    }
}
