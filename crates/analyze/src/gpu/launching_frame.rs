//! Who launched GPU work: the line of Python and the operator around the call.

use std::collections::HashMap;

use spanwise_model::{NO_ROW, SpanId, StrId, Trace};

use crate::{Frames, Names};

/// The flows that autograd draws from a forward operator to its backward one.
const FORWARD_BACKWARD: &str = "fwdbwd";

/// How the launching line of GPU work is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The Python frame around the launching call.
    Python,
    /// Autograd's thread has no Python frames: the line whose operator is being
    /// differentiated.
    BackwardOf,
    /// The launching call is known, but no Python frame around it.
    NoPython,
    /// The trace holds no launching call: most often the work was launched before
    /// the recording began.
    NotRecorded,
}

/// A place in the program that launches GPU work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Launcher {
    pub origin: Origin,
    /// The Python frame, as the source names it.
    pub line: Option<String>,
    /// The innermost operator around the launching call.
    pub operator: Option<String>,
}

/// The same in the trace's own numbers: small, comparable, hashable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LauncherKey {
    pub(crate) origin: Origin,
    pub(crate) line: Option<StrId>,
    pub(crate) operator: Option<StrId>,
}

impl LauncherKey {
    pub(crate) fn named(self, names: &Names) -> Launcher {
        let text = |id: Option<StrId>| id.map(|id| names.text(id).into_owned());
        Launcher { origin: self.origin, line: text(self.line), operator: text(self.operator) }
    }
}

/// Finds the launcher of GPU work.
pub(crate) struct Launchers<'a> {
    trace: &'a Trace,
    frames: &'a Frames,
    names: &'a Names,
    forward: ForwardOperators,
}

/// From spans to the forward operator that the innermost backward operator around them
/// differentiates.
pub(crate) struct ForwardOperators {
    /// By span; empty where there is none at all.
    of: Vec<u32>,
}

impl ForwardOperators {
    /// One forward pass: a parent always stands before its children (I3).
    pub(crate) fn new(trace: &Trace) -> Self {
        let forward = forward_operators(trace);
        if forward.is_empty() {
            return ForwardOperators { of: Vec::new() };
        }
        let mut of = vec![NO_ROW; trace.spans().len()];
        for (row, &parent) in trace.spans().parent_column().iter().enumerate() {
            of[row] = match forward.get(&SpanId(row as u32)) {
                Some(forward) => forward.0,
                None if parent == NO_ROW => NO_ROW,
                None => of[parent as usize],
            };
        }
        ForwardOperators { of }
    }

    /// For a span in a backward operator, itself included.
    pub(crate) fn of(&self, span: SpanId) -> Option<SpanId> {
        self.of.get(span.index()).filter(|&&row| row != NO_ROW).map(|&row| SpanId(row))
    }
}

/// From backward operators to the forward ones that they differentiate.
fn forward_operators(trace: &Trace) -> HashMap<SpanId, SpanId> {
    let links = trace.links();
    let is_forward_backward = |category: u16| {
        trace.strings().get(trace.categories().get(category.into()).name) == FORWARD_BACKWARD
    };
    let arrows = links.iter().zip(links.category.iter());
    arrows
        .filter(|&(_, &category)| is_forward_backward(category))
        .map(|((from, to), _)| (to, from))
        .collect()
}

impl<'a> Launchers<'a> {
    pub(crate) fn new(trace: &'a Trace, frames: &'a Frames, names: &'a Names) -> Self {
        Launchers { trace, frames, names, forward: ForwardOperators::new(trace) }
    }

    pub(crate) fn of(&self, work: SpanId) -> LauncherKey {
        let Some(call) = self.trace.spans().launch(work) else {
            return LauncherKey { origin: Origin::NotRecorded, line: None, operator: None };
        };
        let name = |span: SpanId| self.names.merged(self.trace.spans().name(span));
        let operator = self.frames.operator(call).map(name);
        if let Some(line) = self.frames.line(call) {
            return LauncherKey { origin: Origin::Python, line: Some(name(line)), operator };
        }
        let forward = self.forward.of(call);
        match forward.and_then(|forward| self.frames.line(forward)) {
            Some(line) => {
                LauncherKey { origin: Origin::BackwardOf, line: Some(name(line)), operator }
            }
            None => LauncherKey { origin: Origin::NoPython, line: None, operator },
        }
    }
}
