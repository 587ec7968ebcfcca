//! What samples say of a call that was drawn from them, and of a time range.

use std::collections::BTreeMap;
use std::ops::Range;

use spanwise_model::{FrameId, Nanos, SpanId, SpanKind, StackId, StrId, Trace};

use super::by_stack::StackWeight;
use super::functions::{FunctionBy, SampledFunctions, event_name, frame_name, functions};
use crate::{CpuTime, TotalNanos};

/// Samples that were taken during a drawn call, with it on their stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SampledCall {
    /// What was mapped where the function is; empty where that is not known.
    pub mapping: StrId,
    /// Lines of the function that were executed, the most CPU time first.
    pub lines: Vec<SampledLine>,
    /// By event, in order of the trace's events.
    pub events: Vec<SampledEvent>,
    /// What these samples stand for; unknown where none of them stands for CPU time.
    pub cpu_ns: Option<TotalNanos>,
}

/// A line of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledLine {
    pub file: StrId,
    /// 0 where it is not known.
    pub line: u32,
    /// Samples of any event.
    pub samples: u64,
    pub cpu_ns: TotalNanos,
}

/// Samples of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledEvent {
    /// Row of the trace's events.
    pub event: u16,
    pub samples: u64,
    pub weight: i128,
}

/// The samples of a call that was drawn from samples; nothing for other spans.
pub fn sampled_call(trace: &Trace, time: &CpuTime, span: SpanId) -> Option<SampledCall> {
    if trace.kind(span) != SpanKind::Sampled {
        return None;
    }
    let (spans, samples) = (trace.spans(), trace.samples());
    let around = std::iter::successors(spans.parent(span), |&inner| spans.parent(inner));
    let outer = around.filter(|&outer| trace.kind(outer) == SpanKind::Sampled).count();
    let mut call = SampledCall::default();
    let mut lines: BTreeMap<(StrId, u32), (u64, TotalNanos)> = BTreeMap::new();
    let mut events: BTreeMap<u16, (u64, i128)> = BTreeMap::new();
    let frames = frames_of(trace, trace.name(span), outer);
    for row in rows_within(trace, spans.track(span).0, spans.start(span)..spans.end(span)) {
        let Some(frame) = frames[samples.stack[row] as usize] else { continue };
        let frame = trace.frames().get(frame);
        let event = events.entry(samples.event[row]).or_default();
        *event = (event.0 + 1, event.1 + i128::from(samples.weight[row]));
        let line = lines.entry((frame.file, frame.line)).or_default();
        line.0 += 1;
        if Some(samples.event[row]) == time.event {
            let ns = i128::from(time.sample_ns[row]);
            line.1 += ns;
            call.cpu_ns = Some(call.cpu_ns.unwrap_or(0) + ns);
        }
        if call.mapping == StrId::EMPTY {
            call.mapping = frame.mapping;
        }
    }
    call.lines = lines
        .into_iter()
        .map(|((file, line), (samples, cpu_ns))| SampledLine { file, line, samples, cpu_ns })
        .collect();
    call.lines.sort_by_key(|row| std::cmp::Reverse((row.cpu_ns, row.samples)));
    let event = |(event, (samples, weight))| SampledEvent { event, samples, weight };
    call.events = events.into_iter().map(event).collect();
    Some(call)
}

/// Samples of a track with times in a range.
fn rows_within(trace: &Trace, track: u32, window: Range<Nanos>) -> Range<usize> {
    let samples = trace.samples();
    let rows = samples.of_track(spanwise_model::TrackId(track));
    let times = &samples.time[rows.clone()];
    let first = rows.start + times.partition_point(|&time| time < window.start);
    let end = rows.start + times.partition_point(|&time| time < window.end);
    first..end.max(first)
}

/// By stack, the frame that a call stands for: at its depth, or else the outermost of its name.
fn frames_of(trace: &Trace, name: &str, outer: usize) -> Vec<Option<FrameId>> {
    let frames = (0..trace.frames().len() as u32).map(|frame| trace.frames().get(FrameId(frame)));
    let is_named: Vec<bool> = frames.map(|frame| frame_name(trace, &frame) == name).collect();
    let stacks = trace.stacks();
    let mut depths = vec![0_usize; stacks.len()];
    let mut at_depth: Vec<Option<FrameId>> = vec![None; stacks.len()];
    let mut outermost = at_depth.clone();
    // Callers stand before what they call.
    for stack in (1..stacks.len()).map(|stack| StackId(stack as u32)) {
        let (caller, at) = (stacks.parent(stack).index(), stack.index());
        let own = stacks.frame(stack).filter(|frame| is_named[frame.index()]);
        depths[at] = depths[caller] + 1;
        at_depth[at] = if depths[at] == outer + 1 { own } else { at_depth[caller] };
        outermost[at] = outermost[caller].or(own);
    }
    at_depth.into_iter().zip(outermost).map(|(at_depth, named)| at_depth.or(named)).collect()
}

/// CPU time of samples in a range of time, by function.
pub fn cpu_functions_within(
    trace: &Trace,
    time: &CpuTime,
    window: Range<Nanos>,
) -> SampledFunctions {
    let Some(event) = time.event else { return SampledFunctions::default() };
    let samples = trace.samples();
    let tracks = 0..trace.tracks().len() as u32;
    let rows = tracks.flat_map(|track| rows_within(trace, track, window.clone()));
    let of_event = rows.filter(|&row| samples.event[row] == event);
    let weight = |row: usize| StackWeight::new(time.sample_ns[row], time.count());
    let weights = of_event.map(|row| (StackId(samples.stack[row]), weight(row)));
    let found = functions(trace, weights, FunctionBy::Function);
    SampledFunctions {
        event: event_name(trace, event),
        unit: "ns".to_owned(),
        total: found.rows.iter().map(|row| row.own).sum(),
        ..found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::sample::Sample;

    const MS: i64 = 1_000_000;

    fn recorded() -> Arc<Trace> {
        let mut sample = Sample::default();
        let clock = sample.event("cpu-clock", "ns", Some(MS));
        let faults = sample.event("page-faults", "faults", None);
        for (time, stack) in [(0, &["main", "f"][..]), (1, &["main", "f", "f"]), (2, &["main"])] {
            sample.taken("1", "1", clock, MS, time * MS, stack);
        }
        sample.taken("1", "1", faults, 3, MS / 2, &["main", "f"]);
        sample.span("1", SpanKind::Sampled, "main", 0, 3 * MS);
        sample.span("1", SpanKind::Sampled, "f", 0, 2 * MS);
        sample.span("1", SpanKind::Python, "step", 0, MS);
        sample.finish()
    }

    #[test]
    fn a_drawn_call_has_the_samples_in_which_it_is() {
        let trace = recorded();
        let time = CpuTime::new(&trace);
        let call = |name: &str| {
            let span = trace.spans().ids().find(|&span| trace.name(span) == name);
            let call = sampled_call(&trace, &time, span.expect("a span"))?;
            let events: Vec<_> = call.events.iter().map(|row| (row.samples, row.weight)).collect();
            Some((call.cpu_ns.map(|ns| ns / i128::from(MS)), events, call.lines.len()))
        };
        assert_eq!(call("main"), Some((Some(3), vec![(3, 3_000_000), (1, 3)], 1)));
        assert_eq!(call("f"), Some((Some(2), vec![(2, 2_000_000), (1, 3)], 1)));
        assert_eq!(call("step"), None);
    }

    #[test]
    fn a_range_counts_the_samples_in_it() {
        let trace = recorded();
        let time = CpuTime::new(&trace);
        let found = cpu_functions_within(&trace, &time, MS..3 * MS);
        let rows: Vec<_> =
            found.rows.iter().map(|row| (&*row.name, row.own / i128::from(MS))).collect();
        assert_eq!((rows, found.samples), (vec![("main", 1), ("f", 1)], 2));
        assert_eq!(cpu_functions_within(&trace, &time, 3 * MS..5 * MS).samples, 0);
    }
}
