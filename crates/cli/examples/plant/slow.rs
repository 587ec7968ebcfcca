//! A trace in which one operator takes longer.
//!
//! On the GPU its kernels are stretched, and work behind them on their stream begins when
//! they end, if it began earlier. On the host time is put in where a call of the operator
//! ends: everything later moves. Kernels also vary from step to step, by seeded noise.

use std::sync::Arc;

use anyhow::{Context, ensure};
use spanwise_analyze::Facts;
use spanwise_model::{
    ArgValue, ArgsSource, Instants, Nanos, Parts, SpanId, SpanKind, Spans, Trace, TrackKind,
};

use super::noise::Chance;

/// What to make slower, and by how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) operator: &'a str,
    pub(crate) percent: f64,
    pub(crate) is_on_host: bool,
    /// How much kernels of a step vary together.
    pub(crate) noise_percent: f64,
    pub(crate) seed: u64,
}

/// Arguments are those of the trace that was slowed.
struct Borrowed(Arc<Trace>);

impl ArgsSource for Borrowed {
    fn args(&self, offset: u64) -> Result<Vec<(String, ArgValue)>, String> {
        self.0.args_at(offset)
    }
}

pub(crate) fn slowed(trace: &Arc<Trace>, plan: &Plan<'_>) -> anyhow::Result<Trace> {
    let spans = trace.spans();
    let pauses = if plan.is_on_host { pauses(trace, plan) } else { Vec::new() };
    let (starts, durs) = (moved_starts(trace, &pauses), moved_durs(trace, plan, &pauses)?);
    let starts = queued(trace, starts, &durs);
    let spans = Spans::from_columns(
        starts.into(),
        durs.into(),
        spans.name_column().clone(),
        spans.category_column().clone(),
        spans.track_column().clone(),
        spans.parent_column().clone(),
        spans.launch_column().clone(),
        spans.offset_column().clone(),
    );
    let times: Vec<Nanos> =
        trace.instants().time.iter().map(|&time| moved(&pauses, time)).collect();
    let parts = Parts {
        strings: trace.strings().clone(),
        categories: trace.categories().clone(),
        tracks: trace.tracks().clone(),
        spans,
        instants: Instants { time: times.into(), ..trace.instants().clone() },
        counters: trace.counters().clone(),
        links: trace.links().clone(),
        observed: trace.observed().clone(),
        info: trace.info().clone(),
        notices: trace.notices().clone(),
        args: Some(Box::new(Borrowed(Arc::clone(trace)))),
    };
    Trace::from_parts(parts).context("the slowed trace is sound")
}

/// Moments at which time is put in, ascending, with how much is put in up to there.
fn pauses(trace: &Arc<Trace>, plan: &Plan<'_>) -> Vec<(Nanos, Nanos)> {
    let spans = trace.spans();
    let is_asked = |&span: &SpanId| {
        trace.kind(span) == SpanKind::Operator && trace.name(span) == plan.operator
    };
    let mut ends: Vec<(Nanos, Nanos)> =
        spans.ids().filter(is_asked).map(|span| (spans.end(span), spans.dur(span))).collect();
    ends.sort_unstable();
    let mut sum = 0.0;
    for end in &mut ends {
        sum += end.1 as f64 * plan.percent / 100.0;
        end.1 = sum as Nanos;
    }
    ends
}

/// Where a moment lies once time was put in. The pause belongs to the span that ends there.
fn moved(pauses: &[(Nanos, Nanos)], time: Nanos) -> Nanos {
    let before = pauses.partition_point(|pause| pause.0 <= time);
    time + before.checked_sub(1).map_or(0, |at| pauses[at].1)
}

fn moved_starts(trace: &Arc<Trace>, pauses: &[(Nanos, Nanos)]) -> Vec<Nanos> {
    let spans = trace.spans();
    spans.ids().map(|span| moved(pauses, spans.start(span))).collect()
}

fn moved_durs(
    trace: &Arc<Trace>,
    plan: &Plan<'_>,
    pauses: &[(Nanos, Nanos)],
) -> anyhow::Result<Vec<Nanos>> {
    let spans = trace.spans();
    let facts = Facts::new(trace);
    let mut chance = Chance::new(plan.seed);
    let (mut call_before, mut factor, mut found) = (None, 1.0, 0);
    let step = |span: SpanId| {
        let around = std::iter::successors(spans.launch(span), |&span| spans.parent(span));
        around.filter(|&span| trace.name(span).starts_with("ProfilerStep#")).last()
    };
    let mut dur = |span: SpanId| {
        let (start, end) = (spans.start(span), spans.end(span));
        if !trace.kind(span).is_gpu_work() {
            return moved(pauses, end) - moved(pauses, start);
        }
        // Work is in order of time: one factor a step.
        let step = step(span);
        if step != call_before {
            call_before = step;
            factor = 1.0 + chance.normal() * plan.noise_percent / 100.0;
        }
        let operator = spans.launch(span).and_then(|call| facts.frames().operator(call));
        let is_asked = operator.is_some_and(|operator| trace.name(operator) == plan.operator);
        found += u64::from(is_asked);
        let slower = if is_asked && !plan.is_on_host { plan.percent / 100.0 } else { 0.0 };
        (spans.dur(span) as f64 * factor * (1.0 + slower)).round() as Nanos
    };
    let durs: Vec<Nanos> = spans.ids().map(&mut dur).collect();
    ensure!(found > 0 || plan.is_on_host, "{}: launches nothing in this trace", plan.operator);
    ensure!(!pauses.is_empty() || !plan.is_on_host, "{}: is not called", plan.operator);
    Ok(durs)
}

/// Work on a stream begins when what was before it ends.
fn queued(trace: &Arc<Trace>, mut starts: Vec<Nanos>, durs: &[Nanos]) -> Vec<Nanos> {
    for (_, track) in trace.tracks().iter().filter(|(_, row)| row.kind == TrackKind::GpuStream) {
        let mut free = Nanos::MIN;
        for span in track.span_ids() {
            if trace.kind(span).is_gpu_work() {
                let start = &mut starts[span.index()];
                *start = (*start).max(free);
                free = *start + durs[span.index()];
            }
        }
    }
    starts
}
