//! What each phase and each step took: on the host, and on the GPU by its launches.
//!
//! On the host a phase lasts while a span that marks it is open, on any thread. On
//! the GPU it is the work launched in it, whenever that ran. Work outside any phase is
//! a row without one, so that the work of all rows is all work (I9).

use std::collections::{BTreeMap, HashMap};

use spanwise_model::{Nanos, SpanId, StrId};

use crate::base::cover::covered_ns;
use crate::gpu::usage::gpu_work;
use crate::training::steps::{Step, Steps};
use crate::{Batch, Facts, Phase, TotalNanos};

/// Phases in order of [`Phase`], what has none last; steps in order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseUse {
    pub phases: Vec<PhaseRow>,
    pub steps: Vec<StepRow>,
    /// GPU work launched in no step, also where there are no steps.
    pub outside_steps: GpuPart,
    pub work_ns: TotalNanos,
}

/// A part of the GPU's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuPart {
    /// While at least one piece of it ran; devices add up.
    pub busy_ns: TotalNanos,
    /// Sum over all pieces.
    pub work_ns: TotalNanos,
    pub launches: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseRow {
    /// `None` for work launched outside any phase, or before the recording.
    pub phase: Option<Phase>,
    /// In how many steps it occurs; what is outside of steps counts as one.
    pub steps: u64,
    /// Host time of the phase in each of them.
    pub wall: Option<Spread>,
    pub gpu: GpuPart,
    /// Of all steps together, where annotations have it.
    pub requests: Option<u64>,
    pub tokens: Option<u64>,
}

/// Total, middle and ends of several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    pub total_ns: TotalNanos,
    pub min_ns: TotalNanos,
    /// Of an even number of times, the lower of the two in the middle.
    pub median_ns: TotalNanos,
    pub max_ns: TotalNanos,
}

impl Spread {
    /// `None` of no times.
    pub fn of(mut times: Vec<TotalNanos>) -> Option<Self> {
        times.sort_unstable();
        Some(Spread {
            total_ns: times.iter().sum(),
            min_ns: *times.first()?,
            median_ns: times[(times.len() - 1) / 2],
            max_ns: *times.last()?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    /// As the profiler numbers it; serving steps are numbered from 0.
    pub number: i64,
    pub name: String,
    /// What the step is in all; `None` where its parts differ or are not known.
    pub phase: Option<Phase>,
    /// Since the recording began.
    pub start_ns: TotalNanos,
    pub wall_ns: TotalNanos,
    pub gpu: GpuPart,
    pub requests: Option<u64>,
    pub tokens: Option<u64>,
}

pub(crate) fn phase_use(facts: &Facts) -> PhaseUse {
    let steps = Steps::new(facts.trace());
    let batches = Steps::of_batches(facts.trace());
    let mut by_phase: BTreeMap<Key<Phase>, GpuPieces> = BTreeMap::new();
    let mut by_step: BTreeMap<Key<usize>, GpuPieces> = BTreeMap::new();
    let named = phases_by_name(facts);
    let spans = facts.trace().spans();
    for work in gpu_work(facts.trace()) {
        let call = spans.launch(work);
        let phase = facts.phases().of(work).or_else(|| named.get(&call?).copied());
        let step = call.and_then(|call| steps.row_at(spans.start(call)));
        by_phase.entry(Key(phase)).or_default().add(facts, work);
        by_step.entry(Key(step)).or_default().add(facts, work);
    }
    let outside_steps = by_step.remove(&Key(None)).map(GpuPieces::finish).unwrap_or_default();
    let mut walls = host_walls(facts, &steps);
    for &phase in walls.keys() {
        by_phase.entry(Key(Some(phase))).or_default();
    }
    let phase_row = |(Key(phase), gathered): (Key<Phase>, GpuPieces)| {
        let times = phase.and_then(|phase| walls.remove(&phase)).unwrap_or_default();
        let of_phase = batches.rows().iter().filter_map(|step| step.batch);
        let (requests, tokens) =
            sums(of_phase.filter(|batch| phase.is_some_and(|phase| batch.phase == phase)));
        let steps = times.len() as u64;
        let (wall, gpu) = (Spread::of(times), gathered.finish());
        PhaseRow { phase, steps, wall, gpu, requests, tokens }
    };
    PhaseUse {
        phases: by_phase.into_iter().map(phase_row).collect(),
        steps: step_rows(facts, &steps, &batches, by_step),
        outside_steps,
        work_ns: facts.gpu().work_ns,
    }
}

/// Sorts what is known before what is not.
#[derive(PartialEq, Eq)]
struct Key<T>(Option<T>);

impl<T: Ord> Ord for Key<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.is_none(), &self.0).cmp(&(other.0.is_none(), &other.0))
    }
}

impl<T: Ord> PartialOrd for Key<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Pieces of GPU work, while they are collected.
#[derive(Default)]
struct GpuPieces {
    /// By device.
    pieces: Vec<(StrId, Nanos, Nanos)>,
}

impl GpuPieces {
    fn add(&mut self, facts: &Facts, work: SpanId) {
        let (trace, spans) = (facts.trace(), facts.trace().spans());
        let device = trace.tracks().get(spans.track(work)).process;
        self.pieces.push((device, spans.start(work), spans.end(work)));
    }

    fn finish(mut self) -> GpuPart {
        self.pieces.sort_unstable();
        let length = |&(_, start, end): &(StrId, Nanos, Nanos)| i128::from(end) - i128::from(start);
        let devices = self.pieces.chunk_by(|a, b| a.0 == b.0);
        let covered = |device: &[(StrId, Nanos, Nanos)]| {
            covered_ns(device.iter().map(|&(_, start, end)| (start, end)))
        };
        GpuPart {
            busy_ns: devices.map(covered).sum(),
            work_ns: self.pieces.iter().map(length).sum(),
            launches: self.pieces.len() as u64,
        }
    }
}

/// Calls that launched attention made for one phase alone. A graph is one call, so
/// this gives the phase of all its kernels.
fn phases_by_name(facts: &Facts) -> HashMap<SpanId, Phase> {
    let known = facts.span_classes();
    let mut calls: HashMap<SpanId, Phase> = HashMap::new();
    for work in gpu_work(facts.trace()) {
        let Some(call) = facts.trace().spans().launch(work) else { continue };
        if facts.phases().of(work).is_some() {
            continue;
        }
        let Some(class) = known.of_span[work.index()] else { continue };
        let phase = match known.classes[class as usize].as_str() {
            "attention prefill" => Phase::Prefill,
            "attention decode" => Phase::Decode,
            _ => continue,
        };
        let known = calls.entry(call).or_insert(phase);
        if *known != phase {
            *known = Phase::Mixed;
        }
    }
    calls
}

/// Host time of each phase, step by step.
fn host_walls(facts: &Facts, steps: &Steps) -> BTreeMap<Phase, Vec<TotalNanos>> {
    let mut walls: BTreeMap<Phase, Vec<TotalNanos>> = BTreeMap::new();
    for ((phase, _), ns) in phase_walls(facts, steps) {
        walls.entry(phase).or_default().push(ns);
    }
    walls
}

/// How long each phase was open on the host, in each step by its row, and outside of steps.
pub(crate) fn phase_walls(
    facts: &Facts,
    steps: &Steps,
) -> BTreeMap<(Phase, Option<usize>), TotalNanos> {
    let (trace, spans) = (facts.trace(), facts.trace().spans());
    type Times = Vec<(Nanos, Nanos)>;
    let mut marked: BTreeMap<(Phase, Option<usize>), Times> = BTreeMap::new();
    for span in spans.ids().filter(|&span| trace.kind(span).is_on_stack()) {
        let Some(phase) = facts.phases().of(span) else { continue };
        let around = spans.parent(span).and_then(|parent| facts.phases().of(parent));
        if around != Some(phase) {
            let (start, end) = (spans.start(span), spans.end(span));
            marked.entry((phase, steps.row_at(start))).or_default().push((start, end));
        }
    }
    let covered = |mut times: Times| {
        times.sort_unstable();
        covered_ns(times)
    };
    marked.into_iter().map(|(key, times)| (key, covered(times))).collect()
}

/// Requests and tokens of several batches.
fn sums(batches: impl Iterator<Item = Batch>) -> (Option<u64>, Option<u64>) {
    let add = |sum: Option<u64>, more: Option<u64>| match more {
        None => sum,
        Some(more) => Some(sum.unwrap_or(0).saturating_add(more)),
    };
    batches.fold((None, None), |(requests, tokens), batch| {
        (add(requests, batch.requests()), add(tokens, batch.tokens()))
    })
}

/// The batches that begin in a step.
fn batches_in(steps: &Steps, batches: &Steps, at: usize) -> Vec<Batch> {
    let inside = batches.rows().iter().filter(|batch| steps.row_at(batch.start) == Some(at));
    inside.filter_map(|batch| batch.batch).collect()
}

fn common_phase(batches: &[Batch]) -> Option<Phase> {
    let first = batches.first()?.phase;
    batches.iter().all(|batch| batch.phase == first).then_some(first)
}

/// What each step is in all, by its batches; `None` where they differ or there are none.
pub(crate) fn step_phases(facts: &Facts, steps: &Steps) -> Vec<Option<Phase>> {
    let batches = Steps::of_batches(facts.trace());
    (0..steps.rows().len()).map(|at| common_phase(&batches_in(steps, &batches, at))).collect()
}

fn step_rows(
    facts: &Facts,
    steps: &Steps,
    batches: &Steps,
    mut by_step: BTreeMap<Key<usize>, GpuPieces>,
) -> Vec<StepRow> {
    let row = |(at, step): (usize, &Step)| {
        let inside = batches_in(steps, batches, at);
        let phase = common_phase(&inside);
        let (requests, tokens) = sums(inside.into_iter());
        StepRow {
            number: step.number,
            name: facts.trace().name(step.span).to_owned(),
            phase,
            start_ns: i128::from(step.start) - i128::from(facts.window().0),
            wall_ns: i128::from(step.end) - i128::from(step.start),
            gpu: by_step.remove(&Key(Some(at))).map(GpuPieces::finish).unwrap_or_default(),
            requests,
            tokens,
        }
    };
    steps.rows().iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    /// A step on the host from `start` to `start + 10` with a launch inside; its
    /// kernel runs long after.
    fn step(sample: &mut Sample, name: &str, start: i64, key: u64) {
        sample.span("1", SpanKind::Annotation, name, start, 10);
        sample.call("1", start + 2, 1, key);
        sample.work("7", SpanKind::Kernel, "k", (1000 + start, 4), key);
    }

    #[test]
    fn phases_count_steps_tokens_and_work_by_launch() {
        let mut sample = Sample::default();
        step(&mut sample, "execute_context_1(64)_generation_0(0)", 0, 1);
        step(&mut sample, "execute_context_0(0)_generation_2(2)", 20, 2);
        step(&mut sample, "execute_context_0(0)_generation_2(2)", 40, 3);
        sample.work("7", SpanKind::Kernel, "before", (900, 7), 99);
        let trace = sample.finish();
        let used = phase_use(&Facts::new(&trace));
        let rows: Vec<_> = used
            .phases
            .iter()
            .map(|row| (row.phase, row.steps, row.tokens, row.gpu.work_ns, row.gpu.launches))
            .collect();
        let (prefill, decode) = (Some(Phase::Prefill), Some(Phase::Decode));
        let expected =
            [(prefill, 1, Some(64), 4, 1), (decode, 2, Some(4), 8, 2), (None, 0, None, 7, 1)];
        assert_eq!(rows, expected);
        let steps: Vec<_> = used.steps.iter().map(|row| (row.number, row.phase)).collect();
        assert_eq!(steps, [(0, prefill), (1, decode), (2, decode)]);
        assert_eq!((used.outside_steps.work_ns, used.work_ns), (7, 19));
    }

    #[test]
    fn a_graph_of_decode_attention_is_decode() {
        let mut sample = Sample::default();
        sample.call("1", 0, 1, 1);
        sample.work("7", SpanKind::Kernel, "kernel_unified_attention_3d", (10, 5), 1);
        sample.work("7", SpanKind::Kernel, "nvjet_x", (20, 5), 1);
        let trace = sample.finish();
        let used = phase_use(&Facts::new(&trace));
        assert_eq!(used.phases.len(), 1);
        assert_eq!((used.phases[0].phase, used.phases[0].gpu.launches), (Some(Phase::Decode), 2));
    }

    #[test]
    fn the_middle_of_several_times() {
        let spread = Spread::of(vec![5, 1, 9, 3]).expect("some");
        assert_eq!(
            (spread.total_ns, spread.min_ns, spread.median_ns, spread.max_ns),
            (18, 1, 3, 9)
        );
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
