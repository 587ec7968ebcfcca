//! Frames of a stack become calls, callers first.

use spanwise_model::{Nanos, StrId};

use crate::stack::Node;
use crate::{FunctionId, ThreadKey};

/// One call of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub function: FunctionId,
    pub start: Nanos,
    pub end: Nanos,
    /// Its caller's place in the list.
    pub caller: Option<u32>,
    /// Compiled into its caller.
    pub is_inlined: bool,
    /// Drawn from samples, not recorded call by call.
    pub is_sampled: bool,
}

/// The calls of one thread, each behind its caller, siblings in order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCalls {
    pub thread: ThreadKey,
    pub calls: Vec<Call>,
    /// Where the recording broke, and what the recorder said.
    pub errors: Vec<(Nanos, StrId)>,
}

const NONE: u32 = u32::MAX;

/// Puts callers before what they called. Frames found late stand behind their callees
/// in `nodes`, so this is a walk over the tree, not over the list.
pub(crate) fn in_order(nodes: &[Node]) -> Vec<Call> {
    let mut first_child = vec![NONE; nodes.len()];
    let mut next_sibling = vec![NONE; nodes.len()];
    let mut roots = NONE;
    // Backwards, so that each list of siblings comes out in order.
    for (id, node) in nodes.iter().enumerate().rev() {
        if node.is_sentinel() {
            continue;
        }
        let caller = nodes.get(node.caller as usize).filter(|caller| !caller.is_sentinel());
        let first = match caller {
            Some(_) => &mut first_child[node.caller as usize],
            None => &mut roots,
        };
        next_sibling[id] = std::mem::replace(first, id as u32);
    }
    let mut calls: Vec<Call> = Vec::with_capacity(nodes.len());
    let mut open: Vec<(u32, u32)> = vec![(roots, NONE)];
    while let Some((id, caller)) = open.pop() {
        if id == NONE {
            continue;
        }
        let node = &nodes[id as usize];
        let place = calls.len() as u32;
        calls.push(Call {
            function: node.function,
            start: node.start,
            end: node.end,
            caller: (caller != NONE).then_some(caller),
            is_inlined: node.is_inlined,
            is_sampled: node.is_sampled,
        });
        open.push((next_sibling[id as usize], caller));
        open.push((first_child[id as usize], place));
    }
    calls
}
