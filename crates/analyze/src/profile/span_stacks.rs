//! Self time of threads by stack of spans, of traces that a program annotated itself.
//!
//! A stack is a name and the stack around it, numbered once for the whole trace. Self times of
//! a thread add up to the time that its spans cover (I9). Spans that were drawn from samples
//! take no part: what samples say is in the trace's own samples and stacks.

use std::collections::HashMap;

use spanwise_model::{Nanos, SpanKind, StrId, TrackKind};

use crate::Facts;

/// A name, and the stack of names around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanStack {
    /// Row of the stack around it.
    pub parent: Option<u32>,
    pub name: StrId,
    /// Names in it; 1 for the outermost alone.
    pub depth: u32,
    /// Spans of threads with this stack.
    pub count: u64,
    /// Time of these spans that no inner one has.
    pub own_ns: Nanos,
}

/// All stacks of the spans of threads; parents stand before children.
pub fn span_stacks(facts: &Facts) -> Vec<SpanStack> {
    let (trace, names) = (facts.trace(), facts.names());
    let spans = trace.spans();
    let mut rows: Vec<SpanStack> = Vec::new();
    let mut numbers: HashMap<(Option<u32>, StrId), u32> = HashMap::new();
    // A parent stands before its children (I3).
    let mut stack_of: Vec<Option<u32>> = vec![None; spans.len()];
    let threads = trace.tracks().iter().filter(|(_, track)| track.kind == TrackKind::Thread);
    for span in threads.flat_map(|(_, track)| track.span_ids()) {
        let parent = spans.parent(span).and_then(|parent| stack_of[parent.index()]);
        if trace.kind(span) == SpanKind::Sampled {
            stack_of[span.index()] = parent;
            continue;
        }
        let name = names.merged(spans.name(span));
        let stack = *numbers.entry((parent, name)).or_insert_with(|| {
            let depth = 1 + parent.map_or(0, |parent| rows[parent as usize].depth);
            rows.push(SpanStack { parent, name, depth, count: 0, own_ns: 0 });
            rows.len() as u32 - 1
        });
        stack_of[span.index()] = Some(stack);
        let row = &mut rows[stack as usize];
        row.count += 1;
        row.own_ns = row.own_ns.saturating_add(facts.self_time().span_ns[span.index()]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    /// Spans of one thread as (name, kind, start, length); stacks as "outer;inner count self".
    #[track_caller]
    fn check(spans: &[(&str, SpanKind, i64, i64)], expected: &[&str]) {
        let mut sample = Sample::default();
        for &(name, kind, start, length) in spans {
            sample.span("1", kind, name, start, length);
        }
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let rows = span_stacks(&facts);
        let text = |row: &SpanStack| {
            let parents = std::iter::successors(Some(row), |row| Some(&rows[row.parent? as usize]));
            let mut names: Vec<_> =
                parents.map(|row| facts.names().text(row.name).into_owned()).collect();
            assert_eq!(row.depth as usize, names.len());
            names.reverse();
            format!("{} {} {}", names.join(";"), row.count, row.own_ns)
        };
        assert_eq!(rows.iter().map(text).collect::<Vec<_>>(), expected);
    }

    const PYTHON: SpanKind = SpanKind::Python;

    #[test]
    fn times_are_self_times_and_equal_stacks_are_one() {
        check(
            &[("a", PYTHON, 0, 10), ("b", PYTHON, 2, 3), ("b", PYTHON, 6, 1)],
            &["a 1 6", "a;b 2 4"],
        );
        check(
            &[("a", PYTHON, 0, 10), ("b", PYTHON, 0, 10), ("a", PYTHON, 20, 5)],
            &["a 2 5", "a;b 1 10"],
        );
    }

    #[test]
    fn calls_drawn_from_samples_are_left_out() {
        let sampled = SpanKind::Sampled;
        check(
            &[("main", sampled, 0, 20), ("step", PYTHON, 5, 10), ("f", sampled, 6, 2)],
            &["step 1 10"],
        );
    }
}
