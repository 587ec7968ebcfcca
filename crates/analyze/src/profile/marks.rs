//! Marks that spans set: steps, phases, waiting.

use spanwise_model::{Nanos, SpanId, SpanKind, Trace};

use super::Phase;

/// What the name and the kind of a span say about the phase inside it.
pub(crate) fn phase_mark(kind: SpanKind, name: &str) -> Option<Phase> {
    let begins = |prefix: &str| name.starts_with(prefix);
    match kind {
        SpanKind::Annotation | SpanKind::Operator | SpanKind::Other => {
            if begins("Optimizer.") {
                return Some(Phase::Optimizer);
            }
            if begins("enumerate(DataLoader)#") {
                return Some(Phase::DataLoader);
            }
            if begins("autograd::engine::evaluate_function") {
                return Some(Phase::Backward);
            }
            match name.trim_matches(|c: char| c == '#' || c == ' ') {
                "forward" => Some(Phase::Forward),
                "backward" => Some(Phase::Backward),
                "optimizer" => Some(Phase::Optimizer),
                _ => None,
            }
        }
        SpanKind::Python if begins("nn.Module: ") => Some(Phase::Forward),
        SpanKind::Python if begins("torch/_tensor.py(") && name.ends_with(": backward") => {
            Some(Phase::Backward)
        }
        _ => None,
    }
}

/// Marks by name, found once a name.
pub(crate) struct PhaseMarks<'a> {
    trace: &'a Trace,
    by_name: Vec<Option<(SpanKind, Option<Phase>)>>,
}

impl<'a> PhaseMarks<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        PhaseMarks { trace, by_name: vec![None; trace.strings().len()] }
    }

    /// The phase inside a span, given that around it. A module's forward frame says
    /// nothing inside another phase: recomputation belongs to the backward pass.
    pub(crate) fn inside(&mut self, span: SpanId, around: Option<Phase>) -> Option<Phase> {
        let kind = self.trace.kind(span);
        let slot = &mut self.by_name[self.trace.spans().name(span).index()];
        let mark = match *slot {
            Some((seen, mark)) if seen == kind => mark,
            _ => phase_mark(kind, self.trace.name(span)),
        };
        *slot = Some((kind, mark));
        match (mark, around) {
            (None, around) => around,
            (Some(Phase::Forward), Some(around)) => Some(around),
            (mark, _) => mark,
        }
    }
}

/// The steps of a profiling run, one after the other.
pub(crate) struct Steps(Vec<(Nanos, Nanos, i64)>);

const STEP: &str = "ProfilerStep#";

impl Steps {
    pub(crate) fn new(trace: &Trace) -> Self {
        let strings = trace.strings();
        let numbers: Vec<Option<i64>> = (0..strings.len() as u32)
            .map(|id| strings.get(spanwise_model::StrId(id)).strip_prefix(STEP)?.parse().ok())
            .collect();
        let spans = trace.spans();
        let mut steps: Vec<(Nanos, Nanos, i64)> = spans
            .ids()
            .filter(|&span| trace.kind(span).is_on_stack())
            .filter_map(|span| {
                let number = numbers[spans.name(span).index()]?;
                Some((spans.start(span), spans.end(span), number))
            })
            .collect();
        steps.sort_unstable();
        // One after the other: where two overlap, the first keeps the time.
        let mut reached = Nanos::MIN;
        steps.retain_mut(|(start, end, _)| {
            *start = (*start).max(reached);
            reached = reached.max(*end);
            start < end
        });
        Steps(steps)
    }

    /// From, to and number of each, in order of time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Nanos, Nanos, i64)> {
        self.0.iter().copied()
    }

    /// The step that a moment lies in, and until when that answer holds.
    pub(crate) fn at(&self, time: Nanos) -> (Option<i64>, Nanos) {
        let next = self.0.partition_point(|step| step.0 <= time);
        match next.checked_sub(1).map(|at| self.0[at]) {
            Some((_, end, number)) if time < end => (Some(number), end),
            _ => (None, self.0.get(next).map_or(Nanos::MAX, |step| step.0)),
        }
    }
}
