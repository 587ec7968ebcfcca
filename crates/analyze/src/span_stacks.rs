//! Every call of a thread as a sample: what stood on its stack, and how long it ran by itself.
//!
//! A stack is a function and the stack that called it, numbered once for the whole trace. The
//! weight of a sample is the self time of the call, so the weights of a thread add up to the time
//! that its spans cover (I9). In a recording of stacks by a clock, samples in a row with the same
//! stack are one call already, and one sample here.

use std::collections::HashMap;

use spanwise_model::{Nanos, SpanId, StrId, TrackKind};

use crate::Facts;

/// All samples of a trace, by span, and the stacks that they have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    pub rows: Vec<SampleRow>,
    /// Callers stand before what they call.
    pub stacks: Vec<StackRow>,
}

/// One call of a thread that ran by itself for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRow {
    pub span: SpanId,
    pub weight_ns: Nanos,
    /// Row of the stacks; its innermost function is the call itself.
    pub stack: u32,
    /// The line of Python that it ran under, as its name says.
    pub line: Option<StrId>,
}

/// A function, and the stack that called it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackRow {
    pub caller: Option<u32>,
    pub name: StrId,
    /// Functions in it; 1 for the outermost alone.
    pub depth: u32,
}

pub fn samples(facts: &Facts<'_>) -> Samples {
    let (trace, names) = (facts.trace(), facts.names());
    let spans = trace.spans();
    let mut found = Samples::default();
    let mut numbers: HashMap<(Option<u32>, StrId), u32> = HashMap::new();
    // A parent stands before its children (I3).
    let mut stack_of: Vec<u32> = Vec::with_capacity(spans.len());
    for span in spans.ids() {
        let caller = spans.parent(span).map(|parent| stack_of[parent.index()]);
        let name = names.merged(spans.name(span));
        let stack = *numbers.entry((caller, name)).or_insert_with(|| {
            let depth = 1 + caller.map_or(0, |caller| found.stacks[caller as usize].depth);
            found.stacks.push(StackRow { caller, name, depth });
            found.stacks.len() as u32 - 1
        });
        stack_of.push(stack);
        let weight_ns = facts.self_time().span_ns[span.index()];
        let is_thread = trace.tracks().get(spans.track(span)).kind == TrackKind::Thread;
        if weight_ns > 0 && is_thread {
            let line = facts.frames().line(span).map(|line| names.merged(spans.name(line)));
            found.rows.push(SampleRow { span, weight_ns, stack, line });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::sample::Sample;

    /// Calls of one thread as (name, start, length); samples as "outer;inner weight".
    #[track_caller]
    fn check(calls: &[(&str, i64, i64)], expected: &[&str]) {
        let mut sample = Sample::default();
        for &(name, start, length) in calls {
            sample.span("1", SpanKind::Python, name, start, length);
        }
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let found = samples(&facts);
        let text = |row: &SampleRow| {
            let mut functions = Vec::new();
            let mut at = Some(row.stack);
            while let Some(stack) = at.map(|at| found.stacks[at as usize]) {
                functions.insert(0, facts.names().text(stack.name).into_owned());
                assert_eq!(stack.caller.is_none(), stack.depth == 1);
                at = stack.caller;
            }
            assert_eq!(found.stacks[row.stack as usize].depth as usize, functions.len());
            format!("{} {}", functions.join(";"), row.weight_ns)
        };
        assert_eq!(found.rows.iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn weights_are_self_times() {
        check(&[("a", 0, 10), ("b", 2, 3), ("b", 6, 1)], &["a 6", "a;b 3", "a;b 1"]);
    }

    #[test]
    fn what_never_ran_by_itself_is_a_caller_only() {
        check(&[("a", 0, 10), ("b", 0, 10), ("a", 20, 5)], &["a;b 10", "a 5"]);
    }

    #[test]
    fn equal_stacks_are_one() {
        let mut sample = Sample::default();
        for start in 0..50 {
            sample.span("1", SpanKind::Python, "f", start * 10, 5);
        }
        let trace = sample.finish();
        let found = samples(&Facts::new(&trace));
        assert_eq!((found.rows.len(), found.stacks.len()), (50, 1));
    }
}
