//! The frames of a profile as a tree of widths.

use spanwise_model::{Profile, StackId};

/// A stack of a flame graph: a rectangle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// Row of [`Profile::stack_parents`].
    pub(crate) stack: StackId,
    pub(crate) depth: usize,
    /// Where it begins in the whole, counted in values.
    pub(crate) start: i128,
    pub(crate) total: i128,
    pub(crate) own: i128,
}

/// What was spent in each stack, and in it with all above it.
pub(crate) struct StackSums {
    pub(crate) own: Vec<i128>,
    pub(crate) total: Vec<i128>,
}

impl StackSums {
    pub(crate) fn of(profile: &Profile, value: usize) -> Self {
        let own = own_values(profile, value);
        let mut total = own.clone();
        // Children stand behind their parents: one backward pass sums them up.
        for stack in (1..total.len()).rev() {
            total[profile.stack_parents[stack] as usize] += total[stack];
        }
        StackSums { own, total }
    }
}

/// All stacks under which something was spent, parents first; and the sum.
///
/// Values below 0, of a difference, are taken as 0: a width cannot be negative.
pub(crate) fn nodes(profile: &Profile, value: usize) -> (Vec<Node>, i128) {
    let StackSums { own, total } = StackSums::of(profile, value);
    let sum = total.first().copied().unwrap_or(0);
    let mut nodes = Vec::new();
    let mut start = vec![0i128; total.len()];
    let mut depth = vec![0usize; total.len()];
    // Where the next child of each stack begins. Children come in canonical order.
    let mut next: Vec<i128> = vec![own.first().copied().unwrap_or(0); total.len()];
    for stack in 1..total.len() {
        if total[stack] == 0 {
            continue;
        }
        let parent = profile.stack_parents[stack] as usize;
        start[stack] = next[parent];
        next[parent] += total[stack];
        next[stack] = start[stack] + own[stack];
        depth[stack] = if parent == 0 { 0 } else { depth[parent] + 1 };
        nodes.push(Node {
            stack: StackId(stack as u32),
            depth: depth[stack],
            start: start[stack],
            total: total[stack],
            own: own[stack],
        });
    }
    (nodes, sum)
}

fn own_values(profile: &Profile, value: usize) -> Vec<i128> {
    let mut own = vec![0i128; profile.stack_parents.len()];
    for (row, sample) in profile.samples.iter().enumerate() {
        own[sample.stack.index()] += i128::from(profile.values_of(row)[value].max(0));
    }
    own
}
