//! Who launched GPU work: the line of Python and the operator around the call.

use std::collections::HashMap;

use spanwise_model::{CategoryId, SpanId, StrId, Trace};

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
    pub(crate) fn named(self, names: &Names<'_>) -> Launcher {
        let text = |id: Option<StrId>| id.map(|id| names.text(id).into_owned());
        Launcher { origin: self.origin, line: text(self.line), operator: text(self.operator) }
    }
}

/// Finds the launcher of GPU work.
pub(crate) struct Launchers<'a> {
    trace: &'a Trace,
    frames: &'a Frames,
    names: &'a Names<'a>,
    /// From a backward operator to its forward one. Looked up only.
    forward: HashMap<SpanId, SpanId>,
}

/// From backward operators to the forward ones that they differentiate.
pub(crate) fn forward_operators(trace: &Trace) -> HashMap<SpanId, SpanId> {
    let links = trace.links();
    let is_forward_backward = |category: u16| {
        trace.strings().get(trace.categories().get(CategoryId(category)).name) == FORWARD_BACKWARD
    };
    let arrows = links.iter().zip(links.category.iter());
    arrows
        .filter(|&(_, &category)| is_forward_backward(category))
        .map(|((from, to), _)| (to, from))
        .collect()
}

impl<'a> Launchers<'a> {
    pub(crate) fn new(trace: &'a Trace, frames: &'a Frames, names: &'a Names<'a>) -> Self {
        Launchers { trace, frames, names, forward: forward_operators(trace) }
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
        let forward = self.ancestors(call).find_map(|span| self.forward.get(&span));
        match forward.and_then(|&forward| self.frames.line(forward)) {
            Some(line) => {
                LauncherKey { origin: Origin::BackwardOf, line: Some(name(line)), operator }
            }
            None => LauncherKey { origin: Origin::NoPython, line: None, operator },
        }
    }

    fn ancestors(&self, span: SpanId) -> impl Iterator<Item = SpanId> {
        std::iter::successors(Some(span), |&span| self.trace.spans().parent(span))
    }
}
