//! Walks each thread through time: who was on the stack, for how long.
//!
//! The stack at a moment is every span open then, in row order. Spans mostly nest
//! and then the innermost ends first; where one below it ends earlier it is taken
//! out of the middle and the stacks above it are made anew.

use spanwise_model::{
    ArgValue, CategoryId, NO_ROW, Nanos, ProfileBuilder, SpanId, StackId, Trace, Track, TrackId,
    TrackKind, WAKEUP_CATEGORY,
};

use super::frames::{FrameTable, made_up};
use super::labels::{Context, Labels};
use super::memory::Allocated;
use super::{Backward, ProfileOptions, value};
use crate::phase::PhaseMarks;
use crate::self_time::takes_part;
use crate::steps::Steps;
use crate::{Phase, Waits};

/// Spans open at once beyond this number have no stack of their own: no program
/// calls so deep, and a hostile trace must not cost the square of its size.
const DEPTH_MAX: usize = 1024;

/// Where a launching call stood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) stack: StackId,
    pub(crate) context: Context,
}

/// Launching calls by row.
pub(crate) struct Launches {
    by_row: Vec<u32>,
    launches: Vec<Launch>,
}

impl Launches {
    pub(crate) fn get(&self, call: SpanId) -> Option<Launch> {
        self.launches.get(self.by_row[call.index()] as usize).copied()
    }
}

/// Adds wall time, calls and allocations of all threads; says where launches stood.
pub(crate) fn threads<'a>(
    trace: &'a Trace,
    options: &'a ProfileOptions,
    allocations: &'a [Allocated],
    builder: &mut ProfileBuilder,
) -> Launches {
    let spans = trace.spans();
    let mut wanted = vec![false; spans.len()];
    for &launch in spans.launch_column().iter().filter(|&&launch| launch != NO_ROW) {
        wanted[launch as usize] = true;
    }
    let mut forward = Vec::new();
    if options.backward == Backward::ForwardStack {
        forward = vec![NO_ROW; spans.len()];
        let links = trace.links();
        for ((from, to), &category) in links.iter().zip(links.category.iter()) {
            let name = trace.categories().get(CategoryId(category)).name;
            if trace.strings().get(name) == WAKEUP_CATEGORY {
                continue;
            }
            wanted[from.index()] = true;
            forward[to.index()] = from.0;
        }
    }
    let mut sweep = Sweep {
        trace,
        allocations,
        builder,
        frames: FrameTable::new(trace, options),
        labels: Labels::new(trace, options.rank),
        phases: PhaseMarks::new(trace),
        waits: Waits::new(trace),
        // A server runs thousands of batches: a label for each would make the profile as
        // large as the trace. The phase tells them apart.
        steps: Steps::of_profiler(trace),
        takes_part: takes_part(trace),
        wanted,
        forward,
        found: Launches { by_row: vec![NO_ROW; spans.len()], launches: Vec::new() },
    };
    // Forward operators first: backward ones may ask for their stacks.
    let mut tracks: Vec<(TrackId, &Track)> =
        trace.tracks().iter().filter(|(_, track)| track.kind == TrackKind::Thread).collect();
    let is_target = |track: &Track| {
        !sweep.forward.is_empty() && track.rows().any(|row| sweep.forward[row] != NO_ROW)
    };
    tracks.sort_by_key(|(_, track)| is_target(track));
    for (id, track) in tracks {
        sweep.thread(id, track);
    }
    sweep.found
}

/// A span on the stack.
#[derive(Clone, Copy)]
struct Open {
    row: u32,
    end: Nanos,
    /// The earliest end among this one and all below it.
    first_end: Nanos,
    stack: StackId,
    phase: Option<Phase>,
    is_waiting: bool,
}

struct Sweep<'a, 'b> {
    trace: &'a Trace,
    /// In order of (thread, time).
    allocations: &'a [Allocated],
    builder: &'b mut ProfileBuilder,
    frames: FrameTable<'a>,
    labels: Labels<'a>,
    phases: PhaseMarks<'a>,
    waits: Waits,
    steps: Steps,
    takes_part: Vec<bool>,
    /// Rows whose stack someone will ask for.
    wanted: Vec<bool>,
    /// From the row of a backward operator to that of its forward one; or empty.
    forward: Vec<u32>,
    found: Launches,
}

/// The state of one thread's walk.
struct Walk {
    thread: TrackId,
    open: Vec<Open>,
    reached: Nanos,
    /// The latest end among spans beyond [`DEPTH_MAX`].
    deep_end: Nanos,
}

impl<'a> Sweep<'a, '_> {
    fn thread(&mut self, thread: TrackId, track: &Track) {
        let spans = self.trace.spans();
        let (open, reached, deep_end) = (Vec::new(), Nanos::MIN, Nanos::MIN);
        let mut walk = Walk { thread, open, reached, deep_end };
        let mut allocations = self.allocations(thread).iter().peekable();
        for span in track.span_ids() {
            if !self.takes_part[span.index()] {
                continue;
            }
            let start = spans.start(span);
            while let Some(&row) = allocations.next_if(|row| row.time < start) {
                self.allocation(&mut walk, row);
            }
            self.advance(&mut walk, start);
            self.push(&mut walk, span);
        }
        for &row in allocations {
            self.allocation(&mut walk, row);
        }
        self.advance(&mut walk, Nanos::MAX);
    }

    fn push(&mut self, walk: &mut Walk, span: SpanId) {
        let spans = self.trace.spans();
        let (start, end) = (spans.start(span), spans.end(span));
        if walk.open.len() == DEPTH_MAX {
            walk.deep_end = walk.deep_end.max(end);
            return;
        }
        let open = self.opened(walk.open.last(), span);
        let (step, _) = self.steps.at(start);
        let context = self.context(walk, &open, step);
        if self.wanted[span.index()] {
            self.found.by_row[span.index()] = self.found.launches.len() as u32;
            let context = Context { is_waiting: None, ..context };
            self.found.launches.push(Launch { stack: open.stack, context });
        }
        let labels = self.labels.of(self.builder, context);
        let stack = self.rooted(open.stack);
        self.builder.add(stack, labels, value::SAMPLES, 1);
        if end > start {
            walk.open.push(open);
        }
    }

    /// The entry of a span on top of `below`.
    fn opened(&mut self, below: Option<&Open>, span: SpanId) -> Open {
        let end = self.trace.spans().end(span);
        let mut stack = below.map_or(StackId::EMPTY, |below| below.stack);
        if let Some(forward) = self.forward_stack(span) {
            stack = forward;
        }
        if let Some(frame) = self.frames.of(self.builder, span) {
            stack = self.builder.push(stack, frame);
        }
        Open {
            row: span.0,
            end,
            first_end: below.map_or(end, |below| below.first_end.min(end)),
            stack,
            phase: self.phases.inside(span, below.and_then(|below| below.phase)),
            is_waiting: below.is_some_and(|below| below.is_waiting)
                || self.waits.kind(span).is_some(),
        }
    }

    /// The stack of the forward operator, marked, for a backward one.
    fn forward_stack(&mut self, span: SpanId) -> Option<StackId> {
        let forward = *self.forward.get(span.index()).filter(|&&row| row != NO_ROW)?;
        let launch = self.found.get(SpanId(forward))?;
        let mark = made_up(self.builder, "[backward of]");
        Some(self.builder.push(launch.stack, mark))
    }

    fn context(&self, walk: &Walk, open: &Open, step: Option<i64>) -> Context {
        Context {
            thread: Some(walk.thread),
            stream: None,
            step,
            phase: open.phase,
            is_waiting: Some(open.is_waiting),
            memory: None,
        }
    }

    /// A stack that a client will show: one without frames would count unseen.
    fn rooted(&mut self, stack: StackId) -> StackId {
        if stack != StackId::EMPTY {
            return stack;
        }
        let root = made_up(self.builder, "[no such frame open]");
        self.builder.push(StackId::EMPTY, root)
    }

    /// Credits the time up to `until` and closes what ends by then.
    fn advance(&mut self, walk: &mut Walk, until: Nanos) {
        while let Some(&top) = walk.open.last() {
            let stop = top.first_end.min(until);
            if stop > walk.reached {
                self.credit(walk, &top, walk.reached, stop);
                walk.reached = stop;
            }
            if top.first_end > until {
                return;
            }
            if top.end == top.first_end {
                walk.open.pop();
            } else {
                self.close_below(walk, top.first_end);
            }
        }
        self.credit_deep(walk, until);
        walk.reached = walk.reached.max(until);
    }

    /// Takes a span that ended out of the middle of the stack.
    fn close_below(&mut self, walk: &mut Walk, end: Nanos) {
        let ended = walk.open.iter().position(|open| open.end == end);
        let ended = ended.expect("first_end is the end of an open span");
        walk.open.remove(ended);
        for at in ended..walk.open.len() {
            let below = at.checked_sub(1).map(|below| walk.open[below]);
            walk.open[at] = self.opened(below.as_ref(), SpanId(walk.open[at].row));
        }
    }

    fn credit(&mut self, walk: &Walk, open: &Open, from: Nanos, to: Nanos) {
        let stack = self.rooted(open.stack);
        let mut from = from;
        while from < to {
            let (step, holds_until) = self.steps.at(from);
            let stop = to.min(holds_until);
            let context = self.context(walk, open, step);
            let labels = self.labels.of(self.builder, context);
            self.builder.add(stack, labels, value::WALL, stop - from);
            from = stop;
        }
    }

    /// Time in which only spans beyond the depth limit were open.
    fn credit_deep(&mut self, walk: &mut Walk, until: Nanos) {
        let stop = walk.deep_end.min(until);
        if stop <= walk.reached || walk.reached == Nanos::MIN {
            return;
        }
        let frame = made_up(self.builder, "[deeper than 1024 spans]");
        let stack = self.builder.push(StackId::EMPTY, frame);
        let (row, end) = (NO_ROW, stop);
        let open = Open { row, end, first_end: end, stack, phase: None, is_waiting: false };
        self.credit(walk, &open, walk.reached, stop);
    }

    /// The allocations of a thread, in order of time.
    fn allocations(&self, thread: TrackId) -> &'a [Allocated] {
        let first = self.allocations.partition_point(|row| row.thread < thread);
        let after = self.allocations.partition_point(|row| row.thread <= thread);
        &self.allocations[first..after]
    }

    fn allocation(&mut self, walk: &mut Walk, allocated: Allocated) {
        let time = allocated.time;
        self.advance(walk, time);
        let open = match walk.open.last() {
            Some(&open) => open,
            None => {
                let stack = StackId::EMPTY;
                let (row, end) = (NO_ROW, time);
                Open { row, end, first_end: end, stack, phase: None, is_waiting: false }
            }
        };
        let context = Context {
            memory: Some(allocated.of),
            ..self.context(walk, &open, self.steps.at(time).0)
        };
        let labels = self.labels.of(self.builder, context);
        let stack = self.rooted(open.stack);
        allocated.add(self.builder, stack, labels);
    }
}

/// The value of a whole-number argument.
pub(crate) fn integer_arg(args: &[(String, ArgValue)], key: &str) -> Option<i64> {
    args.iter().find(|(name, _)| name == key)?.1.as_i64()
}
