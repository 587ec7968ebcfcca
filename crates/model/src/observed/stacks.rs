//! Stacks: who called whom, every stack once.

use crate::{Column, FrameId, StackId, count_effort};

/// All stacks as a tree: a stack is its caller's stack and one more frame.
///
/// Row 0 is the empty stack, its own parent and without a frame; every other parent stands
/// before its children, so one forward pass visits callers first.
#[derive(Debug, Clone)]
pub struct Stacks {
    /// Rows of the callers.
    pub parent: Column<u32>,
    /// The innermost frame. Of row 0 it means nothing.
    pub frame: Column<u32>,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks { parent: vec![0].into(), frame: vec![0].into() }
    }
}

impl Stacks {
    /// How many there are, the empty one included.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// True where there is none but the empty one.
    pub fn is_empty(&self) -> bool {
        self.len() <= 1
    }

    /// The stack of the caller.
    pub fn parent(&self, stack: StackId) -> StackId {
        count_effort(1);
        StackId(self.parent[stack.index()])
    }

    /// The innermost frame; none of the empty stack.
    pub fn frame(&self, stack: StackId) -> Option<FrameId> {
        count_effort(1);
        (stack != StackId::EMPTY).then(|| FrameId(self.frame[stack.index()]))
    }

    /// The frames, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut next = stack;
        std::iter::from_fn(move || {
            let frame = self.frame(next)?;
            next = self.parent(next);
            Some(frame)
        })
    }
}
