//! Which part of a step work belongs to: the marks that spans set.
//!
//! One place for training (forward, backward, optimizer) and serving (prefill,
//! decode). The phase of GPU work is that of its launch: what the host did when the
//! kernel ran is another matter.

use serde::Deserialize;
use spanwise_model::{SpanId, SpanKind, Trace};

use crate::Batch;

/// A part of a training or serving step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Reading prompts.
    Prefill,
    /// Making tokens.
    Decode,
    /// Both in one batch.
    Mixed,
    /// A step of a serving engine without requests.
    Idle,
    /// A step of image or video generation.
    Diffusion,
    /// Recording graphs for later.
    Capture,
    Forward,
    Backward,
    Optimizer,
    DataLoader,
}

impl Phase {
    pub const ALL: [Phase; 10] = [
        Phase::Prefill,
        Phase::Decode,
        Phase::Mixed,
        Phase::Idle,
        Phase::Diffusion,
        Phase::Capture,
        Phase::Forward,
        Phase::Backward,
        Phase::Optimizer,
        Phase::DataLoader,
    ];

    /// The phase of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Phase::ALL.into_iter().find(|phase| phase.text() == text)
    }

    pub fn text(self) -> &'static str {
        match self {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
            Phase::Mixed => "mixed",
            Phase::Idle => "idle",
            Phase::Diffusion => "diffusion",
            Phase::Capture => "capture",
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Optimizer => "optimizer",
            Phase::DataLoader => "dataloader",
        }
    }
}

/// What the name and the kind of a span say about the phase inside it.
fn phase_mark(kind: SpanKind, name: &str) -> Option<Phase> {
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
                "prefill" => Some(Phase::Prefill),
                "decode" => Some(Phase::Decode),
                _ => Batch::parse(name).map(|batch| batch.phase),
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

/// The phase of every span of a thread; GPU work has that of its launch.
pub struct Phases(Vec<Option<Phase>>);

impl Phases {
    /// One forward pass: a parent always stands before its children (I3).
    pub(crate) fn new(trace: &Trace) -> Self {
        let spans = trace.spans();
        let mut marks = PhaseMarks::new(trace);
        let mut phases: Vec<Option<Phase>> = vec![None; spans.len()];
        for span in spans.ids() {
            let around = spans.parent(span).and_then(|parent| phases[parent.index()]);
            phases[span.index()] = marks.inside(span, around);
        }
        for work in spans.ids().filter(|&span| trace.kind(span).is_gpu_work()) {
            phases[work.index()] = spans.launch(work).and_then(|call| phases[call.index()]);
        }
        Phases(phases)
    }

    pub fn of(&self, span: SpanId) -> Option<Phase> {
        self.0[span.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;

    /// Nested spans, outermost first, and a launch inside them.
    #[track_caller]
    fn check(stack: &[(SpanKind, &str)], expected: Option<Phase>) {
        let mut sample = Sample::default();
        for (depth, &(kind, name)) in stack.iter().enumerate() {
            sample.span("1", kind, name, depth as i64, 100 - 2 * depth as i64);
        }
        sample.call("1", 50, 1, 7);
        sample.work("7", SpanKind::Kernel, "k", (500, 10), 7);
        let trace = sample.finish();
        let work = trace.spans().ids().find(|&span| trace.kind(span) == SpanKind::Kernel);
        assert_eq!(Phases::new(&trace).of(work.expect("a kernel")), expected);
    }

    #[test]
    fn work_has_the_phase_of_its_launch() {
        use SpanKind::{Annotation, Operator, Python};
        check(&[(Annotation, "execute_context_1(64)_generation_0(0)")], Some(Phase::Prefill));
        check(&[(Annotation, "decode"), (Python, "nn.Module: Linear_0")], Some(Phase::Decode));
        check(&[(Python, "nn.Module: Linear_0")], Some(Phase::Forward));
        check(&[(Annotation, "## forward ##")], Some(Phase::Forward));
        let backward = "autograd::engine::evaluate_function: MmBackward0";
        check(&[(Operator, backward), (Python, "nn.Module: Linear_0")], Some(Phase::Backward));
        check(&[(Operator, "aten::mm")], None);
        check(&[(Python, "prefill")], None);
    }
}
