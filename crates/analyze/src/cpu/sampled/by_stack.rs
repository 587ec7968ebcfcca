//! What samples say of each stack: CPU time of its innermost frame, and of all it called.

use std::collections::HashMap;

use spanwise_model::{FrameId, FrameKind, Nanos, StackId, Stacks, StrId, Trace};

use crate::CpuTime;

/// CPU time by stack; a column each, one entry per stack of the trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuByStack {
    /// While nothing else stood on top of it.
    pub own_ns: Vec<Nanos>,
    /// The same with all stacks above it.
    pub total_ns: Vec<Nanos>,
    /// Samples with exactly this stack; nothing where a source has sums of them alone.
    pub samples: Option<Vec<u64>>,
    /// The function stands further out in the stack, too: totals of functions leave it out.
    pub is_recursive: Vec<bool>,
}

/// Divides CPU time among stacks. Two frames are of one function by their names, mapping and
/// kind.
pub fn cpu_by_stack(trace: &Trace, time: &CpuTime) -> CpuByStack {
    let (stacks, samples) = (trace.stacks(), trace.samples());
    let mut own = vec![StackWeight::default(); stacks.len()];
    for row in (0..samples.len()).filter(|&row| Some(samples.event[row]) == time.event) {
        let weight = StackWeight::new(time.sample_ns[row], time.count());
        own[samples.stack[row] as usize].add(weight);
    }
    let all = with_called(stacks, &own);
    let functions = functions_of_frames(trace);
    let mut is_recursive = vec![true; stacks.len()];
    for stack in outermost_of_each(trace, &functions.of_frame, functions.count) {
        is_recursive[stack.index()] = false;
    }
    is_recursive[StackId::EMPTY.index()] = false;
    let nanos = |sum: &StackWeight| Nanos::try_from(sum.weight).unwrap_or(Nanos::MAX);
    CpuByStack {
        own_ns: own.iter().map(nanos).collect(),
        total_ns: all.iter().map(nanos).collect(),
        samples: (time.samples > 0).then(|| own.iter().map(|sum| sum.samples).collect()),
        is_recursive,
    }
}

/// Functions by number.
struct FrameFunctions {
    of_frame: Vec<u32>,
    count: usize,
}

fn functions_of_frames(trace: &Trace) -> FrameFunctions {
    let mut numbers: HashMap<(StrId, StrId, FrameKind), u32> = HashMap::new();
    let frames = (0..trace.frames().len() as u32).map(|frame| trace.frames().get(FrameId(frame)));
    let of_frame = frames.map(|frame| {
        let next = numbers.len() as u32;
        *numbers.entry((frame.function, frame.mapping, frame.kind)).or_insert(next)
    });
    let of_frame = of_frame.collect();
    FrameFunctions { of_frame, count: numbers.len() }
}

/// What samples of one stack amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StackWeight {
    pub(super) weight: i128,
    pub(super) samples: u64,
}

impl StackWeight {
    pub(super) fn new(weight: i64, samples: u64) -> Self {
        StackWeight { weight: weight.into(), samples }
    }

    pub(super) fn add(&mut self, other: StackWeight) {
        self.weight += other.weight;
        self.samples += other.samples;
    }
}

/// The weights of stacks with those of all that they called.
pub(super) fn with_called(stacks: &Stacks, own: &[StackWeight]) -> Vec<StackWeight> {
    // Callers stand before what they call, so this adds up from the innermost on.
    let mut all = own.to_vec();
    for stack in (1..stacks.len()).rev() {
        let parent = stacks.parent(StackId(stack as u32)).index();
        let below = all[stack];
        all[parent].add(below);
    }
    all
}

/// Stacks whose innermost row does not stand further out in them already: what calls itself
/// counts once.
pub(super) fn outermost_of_each(trace: &Trace, row_of: &[u32], rows: usize) -> Vec<StackId> {
    let stacks = trace.stacks();
    // Children of each stack, one behind the other.
    let mut first = vec![0_u32; stacks.len() + 1];
    for stack in 1..stacks.len() {
        first[stacks.parent(StackId(stack as u32)).index() + 1] += 1;
    }
    for stack in 0..stacks.len() {
        first[stack + 1] += first[stack];
    }
    let mut next = first.clone();
    let mut children = vec![0_u32; stacks.len()];
    for stack in 1..stacks.len() {
        let place = &mut next[stacks.parent(StackId(stack as u32)).index()];
        children[*place as usize] = stack as u32;
        *place += 1;
    }
    let of = |stack: u32| first[stack as usize] as usize..first[stack as usize + 1] as usize;
    let row = |stack: u32| stacks.frame(StackId(stack)).map(|frame| row_of[frame.index()] as usize);
    let mut open = vec![0_u32; rows];
    let mut found = Vec::new();
    // A stack is left when it comes up the second time.
    let mut todo: Vec<(u32, bool)> = children[of(0)].iter().map(|&stack| (stack, false)).collect();
    while let Some((stack, is_left)) = todo.pop() {
        let Some(row) = row(stack) else { continue };
        if is_left {
            open[row] -= 1;
            continue;
        }
        if open[row] == 0 {
            found.push(StackId(stack));
        }
        open[row] += 1;
        todo.push((stack, true));
        todo.extend(children[of(stack)].iter().map(|&child| (child, false)));
    }
    found
}
