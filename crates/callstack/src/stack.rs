//! The call stack of one thread, and everything that ever stood on it.
//!
//! A frame is a node that knows its caller and never changes its place. Below the lowest
//! known frame lies a *sentinel*: a caller that must exist but has not been seen. When a
//! return shows who it was, the sentinel becomes that frame and a new sentinel is put
//! below it, which corrects the roots of all earlier stacks at once.
//!
//! Recorders stamp many events with one time. Calls that share a time are spread evenly
//! up to the next one; returns take no time.

use spanwise_model::Nanos;

use crate::FunctionId;

/// A caller not yet seen.
const SENTINEL: FunctionId = FunctionId(u32::MAX);

/// The caller of a sentinel.
const NO_NODE: u32 = u32::MAX;

/// How far up a frame is searched for. Real stacks are shallower; it bounds the time that
/// a recording without a single matching return can take.
const SEARCH_MAX: usize = 2048;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) function: FunctionId,
    pub(crate) caller: u32,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    /// What is below was interrupted, and goes on when this is left.
    pub(crate) is_interrupt: bool,
    pub(crate) is_inlined: bool,
    pub(crate) is_sampled: bool,
    /// Nobody below has called it, but the kernel: a signal handler.
    pub(crate) is_from_outside: bool,
    /// A handler has returned to it, so that it makes the kernel go back to what was
    /// interrupted.
    pub(crate) is_restorer: bool,
}

impl Node {
    pub(crate) fn is_sentinel(&self) -> bool {
        self.function == SENTINEL
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Begin(u32),
    End(u32),
}

#[derive(Debug)]
pub(crate) struct Stack {
    nodes: Vec<Node>,
    leaf: u32,
    /// Since when everything is known without a gap.
    since: Nanos,
    /// Changes that happened at `pending_time`, and wait for the next time to be spread.
    pending: Vec<Change>,
    pending_time: Nanos,
}

impl Stack {
    pub(crate) fn new(since: Nanos) -> Self {
        let mut stack =
            Stack { nodes: Vec::new(), leaf: 0, since, pending: Vec::new(), pending_time: since };
        stack.leaf = stack.add(SENTINEL, NO_NODE, since);
        stack
    }

    fn add(&mut self, function: FunctionId, caller: u32, time: Nanos) -> u32 {
        let (start, end) = (time, time);
        self.nodes.push(Node {
            function,
            caller,
            start,
            end,
            is_interrupt: false,
            is_inlined: false,
            is_sampled: false,
            is_from_outside: false,
            is_restorer: false,
        });
        (self.nodes.len() - 1) as u32
    }

    fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    /// The latest time that something changed at.
    pub(crate) fn changed(&self) -> Nanos {
        self.pending_time
    }

    /// The innermost function, where it is known.
    #[inline]
    pub(crate) fn leaf(&self) -> Option<FunctionId> {
        let leaf = self.node(self.leaf);
        (!leaf.is_sentinel()).then_some(leaf.function)
    }

    /// The frame of the innermost function, to come back to.
    pub(crate) fn leaf_frame(&self) -> u32 {
        self.leaf
    }

    pub(crate) fn leaf_is_interrupt(&self) -> bool {
        self.node(self.leaf).is_interrupt
    }

    pub(crate) fn leaf_is_from_outside(&self) -> bool {
        self.node(self.leaf).is_from_outside
    }

    pub(crate) fn leaf_is_restorer(&self) -> bool {
        self.node(self.leaf).is_restorer
    }

    /// The caller of the innermost function, where it is known.
    pub(crate) fn caller(&self) -> Option<FunctionId> {
        self.frames().nth(1).map(|node| node.function)
    }

    /// The known frames, innermost first.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Node> {
        let known = |id: u32| Some(self.node(id)).filter(|node| !node.is_sentinel());
        std::iter::successors(known(self.leaf), move |node| known(node.caller))
    }

    /// How many frames lie above the nearest one that `is_wanted`, `skip` of them at least,
    /// not searching beyond one that `is_barrier`.
    pub(crate) fn find(
        &self,
        skip: usize,
        is_wanted: impl Fn(&Node) -> bool,
        is_barrier: impl Fn(&Node) -> bool,
    ) -> Option<usize> {
        for (distance, node) in self.frames().take(SEARCH_MAX).enumerate() {
            if distance >= skip && is_wanted(node) {
                return Some(distance);
            }
            if is_barrier(node) {
                return None;
            }
        }
        None
    }

    pub(crate) fn push(&mut self, function: FunctionId, time: Nanos) {
        self.leaf = self.add(function, self.leaf, time);
        self.queue(Change::Begin(self.leaf), time);
    }

    pub(crate) fn push_interrupt(&mut self, function: FunctionId, time: Nanos) {
        self.push(function, time);
        self.nodes[self.leaf as usize].is_interrupt = true;
    }

    pub(crate) fn push_from_outside(&mut self, function: FunctionId, time: Nanos) {
        self.push(function, time);
        self.nodes[self.leaf as usize].is_from_outside = true;
    }

    /// A handler returns to what the kernel has put there.
    pub(crate) fn replace_with_restorer(&mut self, function: FunctionId, time: Nanos) {
        self.replace(function, time);
        self.nodes[self.leaf as usize].is_restorer = true;
    }

    /// Puts a frame on the stack that was already there when it was seen: calls of that
    /// time do not share it with others.
    pub(crate) fn push_found(&mut self, function: FunctionId, time: Nanos) {
        if time != self.pending_time {
            self.flush(time);
        }
        self.leaf = self.add(function, self.leaf, time);
    }

    /// The same for a frame that a sample showed.
    pub(crate) fn push_sampled(&mut self, function: FunctionId, is_inlined: bool, time: Nanos) {
        self.push_found(function, time);
        let node = &mut self.nodes[self.leaf as usize];
        (node.is_inlined, node.is_sampled) = (is_inlined, true);
    }

    /// Leaves the innermost `count` frames, or as many as are known.
    pub(crate) fn pop(&mut self, count: usize, time: Nanos) {
        for _ in 0..count {
            let leaf = *self.node(self.leaf);
            if leaf.is_sentinel() {
                return;
            }
            self.queue(Change::End(self.leaf), time);
            self.leaf = leaf.caller;
        }
    }

    /// Leaves everything above a frame, if it is still on the stack.
    pub(crate) fn pop_to(&mut self, frame: u32, time: Nanos) -> bool {
        let mut id = self.leaf;
        let mut count = 0;
        while id != frame {
            if self.node(id).is_sentinel() || count == SEARCH_MAX {
                return false;
            }
            id = self.node(id).caller;
            count += 1;
        }
        self.pop(count, time);
        true
    }

    pub(crate) fn pop_all(&mut self, time: Nanos) {
        self.pop(usize::MAX, time);
    }

    /// One function goes on as another: a tail call.
    pub(crate) fn replace(&mut self, function: FunctionId, time: Nanos) {
        let Node { is_interrupt, is_from_outside, .. } = *self.node(self.leaf);
        self.pop(1, time);
        self.push(function, time);
        let leaf = &mut self.nodes[self.leaf as usize];
        (leaf.is_interrupt, leaf.is_from_outside) = (is_interrupt, is_from_outside);
    }

    /// Learns who the unseen caller was. Nothing but the sentinel may be on the stack.
    pub(crate) fn discover(&mut self, function: FunctionId) {
        debug_assert!(self.node(self.leaf).is_sentinel());
        let below = self.add(SENTINEL, NO_NODE, self.since);
        let found = &mut self.nodes[self.leaf as usize];
        (found.function, found.caller, found.start) = (function, below, self.since);
    }

    /// Leaves everything; what comes next has nothing to do with what was.
    pub(crate) fn restart(&mut self, time: Nanos) {
        self.pop_all(time);
        self.flush(time);
        self.since = time;
        self.leaf = self.add(SENTINEL, NO_NODE, time);
    }

    /// Everything that ever stood on the stack.
    pub(crate) fn finish(mut self, time: Nanos) -> Vec<Node> {
        self.pop_all(time);
        self.flush(time);
        self.nodes
    }

    fn queue(&mut self, change: Change, time: Nanos) {
        if time != self.pending_time {
            self.flush(time);
        }
        self.pending.push(change);
    }

    /// Spreads what happened at one time over the time until the next. Where that is time outside
    /// of what was recorded, it belongs to what is there: what came before has no more of it
    /// than keeps it apart.
    fn flush(&mut self, until: Nanos) {
        let begun = self.pending.iter().filter_map(|change| match change {
            Change::Begin(id) => Some(*id),
            Change::End(_) => None,
        });
        let is_outside = begun.clone().next_back().is_some_and(|id| {
            let node = self.node(id);
            node.function.is_outside() && !node.is_interrupt
        });
        let mut begins = begun.count() as Nanos;
        let total = until.saturating_sub(self.pending_time).max(0);
        let mut used = 0;
        for change in self.pending.drain(..) {
            let stamp = self.pending_time + used;
            match change {
                Change::Begin(id) => {
                    self.nodes[id as usize].start = stamp;
                    let share = (total - used) / begins;
                    used += if is_outside && begins > 1 { share.min(1) } else { share };
                    begins -= 1;
                }
                Change::End(id) => self.nodes[id as usize].end = stamp,
            }
        }
        self.pending_time = self.pending_time.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: FunctionId = FunctionId(10);
    const G: FunctionId = FunctionId(11);

    /// Function, start and end of all that is known.
    fn spans(stack: Stack, end: Nanos) -> Vec<(FunctionId, Nanos, Nanos)> {
        let nodes = stack.finish(end).into_iter().filter(|node| !node.is_sentinel());
        nodes.map(|node| (node.function, node.start, node.end)).collect()
    }

    #[test]
    fn calls_of_one_time_are_spread_and_returns_are_free() {
        let mut stack = Stack::new(0);
        stack.push(F, 10);
        stack.push(G, 10);
        stack.pop(1, 10);
        stack.push(G, 10);
        stack.pop(1, 19);
        assert_eq!(spans(stack, 30), [(F, 10, 30), (G, 13, 16), (G, 16, 19)]);
    }

    #[test]
    fn time_outside_is_not_shared() {
        let mut stack = Stack::new(0);
        stack.push(F, 10);
        stack.push(FunctionId::SYSCALL, 10);
        stack.pop(1, 110);
        assert_eq!(spans(stack, 120), [(F, 10, 120), (FunctionId::SYSCALL, 11, 110)]);
    }

    #[test]
    fn a_caller_seen_late_was_there_since_the_beginning() {
        let mut stack = Stack::new(5);
        stack.discover(F);
        stack.pop(1, 9);
        stack.discover(G);
        assert_eq!(spans(stack, 12), [(F, 5, 9), (G, 5, 12)]);
    }

    #[test]
    fn a_restart_forgets_what_was_below() {
        let mut stack = Stack::new(0);
        stack.push(F, 1);
        stack.restart(4);
        stack.discover(G);
        assert_eq!(spans(stack, 6), [(F, 1, 4), (G, 4, 6)]);
    }
}
