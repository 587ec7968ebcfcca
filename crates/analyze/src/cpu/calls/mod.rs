//! Functions by their calls: how many, how long, and how long each one took.

mod latency;
mod pattern;
mod select;

use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, StrId, TrackKind};

pub use latency::{Bucket, CallDifference, Latency, SlowCall, latency};
pub use pattern::NamePattern;
pub use select::{CallSelection, select_calls};

use crate::cpu::self_time::on_stack_by_category;
use crate::{Facts, Percentiles, TotalNanos, hot_functions};

/// All calls of one function, on all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallsRow {
    pub name: String,
    /// While at least one call was open, summed over threads: a function that calls
    /// itself counts once.
    pub total_ns: TotalNanos,
    pub self_ns: TotalNanos,
    pub each: Percentiles,
}

/// Every function, most self time first.
pub fn calls(facts: &Facts) -> Vec<CallsRow> {
    let (trace, names) = (facts.trace(), facts.names());
    let mut lengths: BTreeMap<StrId, Vec<Nanos>> = BTreeMap::new();
    for span in calls_on_threads(facts) {
        let name = names.merged(trace.spans().name(span));
        lengths.entry(name).or_default().push(trace.spans().dur(span));
    }
    let mut rows: BTreeMap<String, CallsRow> = BTreeMap::new();
    for (name, lengths) in lengths {
        let name = names.text(name).into_owned();
        let each = Percentiles::of(lengths);
        rows.insert(name.clone(), CallsRow { name, total_ns: 0, self_ns: 0, each });
    }
    // Sums stand by name and kind there.
    for function in hot_functions(facts).rows {
        if let Some(row) = rows.get_mut(&function.name) {
            row.total_ns += function.total_ns;
            row.self_ns += function.self_ns;
        }
    }
    let mut rows: Vec<CallsRow> = rows.into_values().collect();
    rows.sort_by(|a, b| (b.self_ns, b.total_ns, &a.name).cmp(&(a.self_ns, a.total_ns, &b.name)));
    rows
}

/// What may stand in the call stack of a thread.
fn calls_on_threads(facts: &Facts) -> Vec<SpanId> {
    let trace = facts.trace();
    let on_stack = on_stack_by_category(trace);
    let threads = trace.tracks().rows().iter().filter(|track| track.kind == TrackKind::Thread);
    let spans = threads.flat_map(|track| track.span_ids());
    spans.filter(|&span| on_stack[trace.spans().category(span).index()]).collect()
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn calls_of_all_threads_are_counted_together() {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Other, "f", 0, 100).span("1", SpanKind::Other, "g", 10, 20);
        sample.span("1", SpanKind::Other, "g", 40, 30).span("2", SpanKind::Other, "g", 0, 50);
        let trace = sample.finish();
        let rows = calls(&Facts::new(&trace));
        let found: Vec<_> = rows
            .iter()
            .map(|row| (&*row.name, row.each.count, row.total_ns, row.self_ns, row.each.p50_ns))
            .collect();
        assert_eq!(found, [("g", 3, 100, 100, 30), ("f", 1, 100, 50, 100)]);
    }
}
