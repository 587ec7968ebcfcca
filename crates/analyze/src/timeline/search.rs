//! What people ask of a timeline: where is it, what is in this range.

use std::collections::BTreeMap;

use spanwise_model::{NO_ROW, Nanos, SpanId, StrId, Trace, TrackKind};

use crate::TotalNanos;
use crate::cpu::self_time::self_time_within;

/// What spans of one name amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameUse {
    pub name: StrId,
    /// Whether it is the work of a GPU.
    pub is_on_gpu: bool,
    pub count: u64,
    /// Time of threads that belongs to no inner span; of GPU work, all of its time.
    pub own_ns: TotalNanos,
}

/// What was done inside `[from, to)`, by name: on threads first, the costliest first.
pub fn range_use(trace: &Trace, range: (Nanos, Nanos)) -> Vec<NameUse> {
    let (from, to) = range;
    let spans = trace.spans();
    let mut by_name: BTreeMap<(bool, StrId), (u64, TotalNanos)> = BTreeMap::new();
    let mut add = |is_on_gpu: bool, span: SpanId, ns: Nanos| {
        let known = by_name.entry((is_on_gpu, spans.name(span))).or_default();
        *known = (known.0 + 1, known.1 + TotalNanos::from(ns));
    };
    for (id, track) in trace.tracks().iter() {
        match track.kind {
            TrackKind::Thread => {
                for (span, ns) in self_time_within(trace, id, (from, to)) {
                    add(false, span, ns);
                }
            }
            TrackKind::GpuStream => {
                for span in track.span_ids().filter(|&span| trace.kind(span).is_gpu_work()) {
                    let (start, end) = (spans.start(span).max(from), spans.end(span).min(to));
                    if start < end {
                        add(true, span, end - start);
                    }
                }
            }
            TrackKind::Async | TrackKind::Counter | TrackKind::Profiler => {}
        }
    }
    let row = |((is_on_gpu, name), (count, own_ns))| NameUse { name, is_on_gpu, count, own_ns };
    let mut rows: Vec<NameUse> = by_name.into_iter().map(row).collect();
    rows.sort_by_key(|row| (row.is_on_gpu, std::cmp::Reverse(row.own_ns), row.name));
    rows
}

/// The time of a span that belongs to none inside it; of GPU work, all of it.
pub fn span_self_ns(trace: &Trace, span: SpanId) -> Nanos {
    let spans = trace.spans();
    let track = spans.track(span);
    if trace.tracks().get(track).kind != TrackKind::Thread {
        return spans.dur(span);
    }
    let inside = self_time_within(trace, track, (spans.start(span), spans.end(span)));
    inside.into_iter().find(|&(other, _)| other == span).map_or(0, |(_, ns)| ns)
}

/// Spans whose name holds a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchHit {
    /// How many there are.
    pub count: u64,
    /// By name, the costliest first.
    pub names: Vec<FoundName>,
    /// The first of them, in order of time.
    pub spans: Vec<SpanId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundName {
    pub name: StrId,
    pub count: u64,
    pub total_ns: TotalNanos,
    pub first: SpanId,
}

/// Spans that can be seen in `[from, to)` and whose name holds `text`; letter case is ignored.
pub fn find_named(
    trace: &Trace,
    text: &str,
    window: (Nanos, Nanos),
    spans_max: usize,
) -> SearchHit {
    let (from, to) = window;
    let spans = trace.spans();
    let wanted = text.to_lowercase();
    let strings = trace.strings();
    let matches =
        (0..strings.len() as u32).map(|id| strings.get(StrId(id)).to_lowercase().contains(&wanted));
    let matches: Vec<bool> = matches.collect();
    let mut by_name: BTreeMap<u32, FoundName> = BTreeMap::new();
    let mut found = SearchHit::default();
    for (row, &name) in spans.name_column().iter().enumerate() {
        let span = SpanId(row as u32);
        if !matches[name as usize] || spans.start(span) >= to || spans.end(span) < from {
            continue;
        }
        found.count += 1;
        found.spans.push(span);
        let new = FoundName { name: StrId(name), count: 0, total_ns: 0, first: span };
        let known = by_name.entry(name).or_insert(new);
        known.count += 1;
        known.total_ns += TotalNanos::from(spans.dur(span));
        if spans.start(span) < spans.start(known.first) {
            known.first = span;
        }
    }
    found.spans.sort_by_key(|&span| (spans.start(span), span));
    found.spans.truncate(spans_max);
    found.names = by_name.into_values().collect();
    found.names.sort_by_key(|row| (std::cmp::Reverse(row.total_ns), row.name));
    found
}

/// Which GPU work each call launched.
#[derive(Debug, Clone, Default)]
pub struct LaunchedWork(Vec<(SpanId, SpanId)>);

impl LaunchedWork {
    pub fn of(trace: &Trace) -> Self {
        let launches = trace.spans().launch_column().iter().enumerate();
        let pairs = launches.filter(|&(_, &launch)| launch != NO_ROW);
        let pairs = pairs.map(|(work, &launch)| (SpanId(launch), SpanId(work as u32)));
        let mut pairs: Vec<(SpanId, SpanId)> = pairs.collect();
        pairs.sort_unstable();
        LaunchedWork(pairs)
    }

    /// Calls that began inside a span or are it, with the work that they launched.
    pub fn under(&self, trace: &Trace, span: SpanId) -> &[(SpanId, SpanId)] {
        let spans = trace.spans();
        let rows = trace.tracks().get(spans.track(span)).rows();
        let behind = &spans.start_column()[span.index() + 1..rows.end];
        let inside = behind.partition_point(|&start| start < spans.end(span));
        let last = SpanId(span.0 + inside as u32);
        let begin = self.0.partition_point(|&(launch, _)| launch < span);
        let end = self.0.partition_point(|&(launch, _)| launch <= last);
        &self.0[begin..end]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    /// An operator that launches two kernels, and one outside of it.
    fn sample() -> Arc<Trace> {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Operator, "aten::mm", 10, 50);
        sample.call("1", 20, 5, 1);
        sample.call("1", 30, 5, 2);
        sample.call("1", 70, 5, 3);
        for (start, correlation) in [(40, 1), (60, 2), (90, 3)] {
            sample.work("7", SpanKind::Kernel, "Gemm", (start, 15), correlation);
        }
        sample.finish()
    }

    fn named(trace: &Arc<Trace>, name: &str) -> Vec<SpanId> {
        trace.spans().ids().filter(|&span| trace.name(span) == name).collect()
    }

    #[test]
    fn work_is_found_under_the_operator_that_launched_it() {
        let trace = sample();
        let launched = LaunchedWork::of(&trace);
        let starts = |span: SpanId| -> Vec<i64> {
            let work = launched.under(&trace, span).iter();
            work.map(|&(_, work)| trace.spans().start(work)).collect()
        };
        assert_eq!(starts(named(&trace, "aten::mm")[0]), [40, 60]);
        let calls = named(&trace, "cudaLaunchKernel");
        assert_eq!(starts(calls[2]), [90]);
        assert_eq!(starts(named(&trace, "Gemm")[0]), [0_i64; 0]);
    }

    #[test]
    fn a_range_counts_what_lies_in_it() {
        let trace = sample();
        let name =
            |row: &NameUse| (trace.strings().get(row.name), row.is_on_gpu, row.count, row.own_ns);
        let rows = range_use(&trace, (22, 95));
        assert_eq!(
            rows.iter().map(name).collect::<Vec<_>>(),
            [("aten::mm", false, 1, 30), ("cudaLaunchKernel", false, 3, 13), ("Gemm", true, 3, 35),]
        );
        assert_eq!(span_self_ns(&trace, named(&trace, "aten::mm")[0]), 40);
        assert_eq!(span_self_ns(&trace, named(&trace, "Gemm")[0]), 15);
    }

    #[test]
    fn names_are_found_by_a_part_of_them() {
        let trace = sample();
        let found = find_named(&trace, "GEM", (0, 80), 1);
        assert_eq!((found.count, found.spans.len(), found.names.len()), (2, 1, 1));
        assert_eq!((found.names[0].count, found.names[0].total_ns), (2, 30));
        assert_eq!(trace.spans().start(found.names[0].first), 40);
        assert_eq!(find_named(&trace, "nothing", (0, 80), 1), SearchHit::default());
    }
}
