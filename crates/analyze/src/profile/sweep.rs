//! Walks time slices of threads: who was on the stack, for how long.
//!
//! The stack at an instant is every span open then, in row order. Spans mostly nest
//! and then the innermost ends first; where one below it ends earlier it is taken
//! out of the middle and the stacks above it are made anew.
//!
//! Recordings overlap like that here and there. Where thousands of spans overlap, stacks made
//! anew would cost the square of their number: past a limit in proportion to the trace, a span
//! stands only on those that enclose it. Such spans are not each other's callers anyway. Every
//! instant still belongs to the span that began last, so sums stay the same (I9).

use std::ops::Range;

use spanwise_model::{NO_ROW, Nanos, ProfileBuilder, RowId, SpanId, StackId, Trace, TrackId};

use super::frames::{FrameTable, made_up};
use super::labels::{Context, Labels};
use super::memory::Allocated;
use super::time_slices::TimeSlice;
use super::{ProfileOptions, VALUE_TYPES, value};
use crate::cpu::self_time::is_asynchronous;
use crate::cpu::waits::WaitMarks;
use crate::training::phase::PhaseMarks;
use crate::training::steps::Steps;
use crate::{Names, Phase};

/// Spans open at once beyond this number have no stack of their own: no program
/// calls so deep, and a hostile trace must not cost the square of its size.
pub(super) const DEPTH_MAX: usize = 1024;

/// Where a launching call stood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) stack: StackId,
    pub(crate) context: Context,
}

/// Launching calls among some rows.
pub(crate) struct Launches {
    rows: Range<usize>,
    by_row: Vec<u32>,
    pub(super) launches: Vec<Launch>,
}

impl Launches {
    fn new(rows: Range<usize>) -> Self {
        Launches { by_row: vec![NO_ROW; rows.len()], rows, launches: Vec::new() }
    }

    pub(crate) fn get(&self, call: SpanId) -> Option<Launch> {
        let at = call.index().checked_sub(self.rows.start)?;
        self.launches.get(*self.by_row.get(at)? as usize).copied()
    }

    fn add(&mut self, call: SpanId, launch: Launch) {
        self.by_row[call.index() - self.rows.start] = self.launches.len() as u32;
        self.launches.push(launch);
    }
}

/// What every walk needs to know, found once.
pub(super) struct SweepContext<'a> {
    pub(super) trace: &'a Trace,
    pub(super) options: &'a ProfileOptions,
    pub(super) names: &'a Names,
    /// In order of (thread, time).
    pub(super) allocations: &'a [Allocated],
    pub(super) steps: Steps,
    /// For each category whether its spans may stand on a stack.
    pub(super) on_stack: Vec<bool>,
    /// Rows whose stack someone will ask for.
    pub(super) wanted: Vec<bool>,
    /// From the row of a backward operator to that of its forward one; or empty.
    pub(super) forward: Vec<u32>,
}

impl SweepContext<'_> {
    /// So many stacks are made anew. In recordings it is one for a few spans.
    pub(super) fn remade_max(&self) -> usize {
        16 * self.trace.spans().len() + 4096
    }

    /// Whether a span may stand on a stack.
    pub(super) fn takes_part(&self, span: SpanId) -> bool {
        self.on_stack[self.trace.spans().category(span).index()]
            && !is_asynchronous(self.trace, span)
    }

    /// The allocations of a thread in a time range, in order of time.
    fn allocations(&self, thread: TrackId, time: Range<Nanos>) -> &[Allocated] {
        let before = |at: Nanos| {
            self.allocations.partition_point(|row| (row.thread, row.time) < (thread, at))
        };
        let last = match time.end {
            Nanos::MAX => self.allocations.partition_point(|row| row.thread <= thread),
            end => before(end),
        };
        &self.allocations[before(time.start).min(last)..last]
    }
}

/// What came of walking some time slices.
pub(super) struct Walked {
    pub(super) builder: ProfileBuilder,
    pub(super) launches: Launches,
    /// Spans without a stack of their own, since [`DEPTH_MAX`] others were open.
    pub(super) deep: u64,
    /// Stacks made anew, and spans that stand only on those that enclose them.
    pub(super) remade: usize,
    pub(super) enclosed: u64,
}

/// Adds wall time, calls and allocations of time slices that stand in order of their rows;
/// says where launches among these `rows` stood.
pub(super) fn walk(ground: &SweepContext, slices: &[TimeSlice], rows: Range<usize>) -> Walked {
    let mut sweep = Sweep {
        ground,
        builder: ProfileBuilder::new(&VALUE_TYPES, value::WALL),
        frames: FrameTable::new(ground.trace, ground.names, ground.options),
        labels: Labels::new(ground.trace, ground.options.rank),
        phases: PhaseMarks::new(ground.trace),
        waits: WaitMarks::new(ground.trace),
        step: (None, 0..0),
        found: Launches::new(rows),
        deep: 0,
        remade: 0,
        enclosed: 0,
        is_by_enclosing: false,
    };
    for slice in slices {
        sweep.walk(slice);
    }
    let Sweep { builder, found: launches, deep, remade, enclosed, .. } = sweep;
    Walked { builder, launches, deep, remade, enclosed }
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
    /// The step in which time was last credited to it, and the row that got it.
    credited: Option<(Option<i64>, RowId)>,
}

struct Sweep<'a> {
    ground: &'a SweepContext<'a>,
    builder: ProfileBuilder,
    frames: FrameTable<'a>,
    labels: Labels<'a>,
    phases: PhaseMarks<'a>,
    waits: WaitMarks<'a>,
    /// The step that was last asked for, and when that answer holds.
    step: (Option<i64>, Range<Nanos>),
    found: Launches,
    deep: u64,
    remade: usize,
    enclosed: u64,
    /// Too many stacks were made anew: from here on a span stands on those that enclose it.
    is_by_enclosing: bool,
}

/// The state of one thread's walk.
struct Walk {
    thread: TrackId,
    /// Where stacks hold what encloses a span, those that ended lie here until they come to
    /// the top.
    open: Vec<Open>,
    /// Then those that the next span may lie in; each ends no later than the one below it.
    around: Vec<Open>,
    reached: Nanos,
    /// The latest end among spans beyond [`DEPTH_MAX`].
    deep_end: Nanos,
}

impl Sweep<'_> {
    fn walk(&mut self, slice: &TimeSlice) {
        let ground = self.ground;
        let spans = ground.trace.spans();
        let mut walk = Walk {
            thread: slice.thread,
            open: Vec::new(),
            around: Vec::new(),
            reached: slice.time.start,
            deep_end: Nanos::MIN,
        };
        for &row in &slice.open {
            let open = self.entered(&mut walk, SpanId(row));
            walk.open.push(open);
        }
        let allocations = ground.allocations(slice.thread, slice.time.clone());
        let mut allocations = allocations.iter().peekable();
        for span in slice.rows.clone().map(SpanId) {
            if !ground.takes_part(span) {
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
        self.advance(&mut walk, slice.time.end);
    }

    fn push(&mut self, walk: &mut Walk, span: SpanId) {
        let spans = self.ground.trace.spans();
        let (start, end) = (spans.start(span), spans.end(span));
        let depth = if self.is_by_enclosing { walk.around.len() } else { walk.open.len() };
        if depth == DEPTH_MAX && walk.around.last().is_none_or(|around| around.end >= end) {
            walk.deep_end = walk.deep_end.max(end);
            self.deep += 1;
            return;
        }
        let mut open = self.entered(walk, span);
        let (step, _) = self.step_at(start);
        let context = context(walk, &open, step);
        if self.ground.wanted[span.index()] {
            let context = Context { is_waiting: None, ..context };
            self.found.add(span, Launch { stack: open.stack, context });
        }
        let row = self.row(open.stack, context);
        self.builder.add_to(row, value::SAMPLES, 1);
        if end > start {
            open.credited = Some((step, row));
            walk.open.push(open);
        }
    }

    /// The entry of a span that begins now.
    fn entered(&mut self, walk: &mut Walk, span: SpanId) -> Open {
        if !self.is_by_enclosing {
            return self.opened(walk.open.last(), span);
        }
        self.enclosed += 1;
        let end = self.ground.trace.spans().end(span);
        while walk.around.pop_if(|around| around.end < end).is_some() {}
        let open = self.opened(walk.around.last(), span);
        walk.around.push(open);
        open
    }

    /// The entry of a span on top of `below`.
    fn opened(&mut self, below: Option<&Open>, span: SpanId) -> Open {
        let end = self.ground.trace.spans().end(span);
        let mut stack = below.map_or(StackId::EMPTY, |below| below.stack);
        if let Some(forward) = self.forward_stack(span) {
            stack = forward;
        }
        if let Some(frame) = self.frames.of(&mut self.builder, span) {
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
            credited: None,
        }
    }

    /// The stack of the forward operator, marked, for a backward one.
    fn forward_stack(&mut self, span: SpanId) -> Option<StackId> {
        let forward = *self.ground.forward.get(span.index()).filter(|&&row| row != NO_ROW)?;
        let launch = self.found.get(SpanId(forward))?;
        let mark = made_up(&mut self.builder, "[backward of]");
        Some(self.builder.push(launch.stack, mark))
    }

    /// The step that an instant lies in, and until when that answer holds.
    fn step_at(&mut self, time: Nanos) -> (Option<i64>, Nanos) {
        if !self.step.1.contains(&time) {
            let (step, until) = self.ground.steps.at(time);
            self.step = (step, time..until);
        }
        (self.step.0, self.step.1.end)
    }

    /// The row of a stack. A client will show it: one without frames would count unseen.
    fn row(&mut self, stack: StackId, context: Context) -> RowId {
        let labels = self.labels.of(&mut self.builder, context);
        let mut stack = stack;
        if stack == StackId::EMPTY {
            let root = made_up(&mut self.builder, "[no such frame open]");
            stack = self.builder.push(StackId::EMPTY, root);
        }
        self.builder.row(stack, labels)
    }

    /// Credits the time up to `until` and closes what ends by then.
    fn advance(&mut self, walk: &mut Walk, until: Nanos) {
        while let Some(&top) = walk.open.last() {
            let first_end = if self.is_by_enclosing { top.end } else { top.first_end };
            let stop = first_end.min(until);
            if stop > walk.reached {
                self.credit(walk, top, stop);
            }
            if first_end > until {
                return;
            }
            if top.end == first_end {
                walk.open.pop();
            } else {
                self.close_below(walk, first_end);
            }
        }
        self.credit_deep(walk, until);
        walk.reached = walk.reached.max(until);
    }

    /// Takes a span that ended out of the middle of the stack.
    fn close_below(&mut self, walk: &mut Walk, end: Nanos) {
        let ended = walk.open.iter().rposition(|open| open.end == end);
        let ended = ended.expect("first_end is the end of an open span");
        self.remade += walk.open.len() - ended;
        if self.remade > self.ground.remade_max() {
            return self.by_enclosing(walk);
        }
        walk.open.remove(ended);
        for at in ended..walk.open.len() {
            let below = at.checked_sub(1).map(|below| walk.open[below]);
            walk.open[at] = self.opened(below.as_ref(), SpanId(walk.open[at].row));
        }
    }

    /// From here on a span stands on those that enclose it; so do those that are open.
    fn by_enclosing(&mut self, walk: &mut Walk) {
        self.is_by_enclosing = true;
        for at in 0..walk.open.len() {
            let span = SpanId(walk.open[at].row);
            walk.open[at] = self.entered(walk, span);
        }
    }

    /// Gives the time that was reached until `to` to the top of the stack, or to what
    /// stands for it.
    fn credit(&mut self, walk: &mut Walk, open: Open, to: Nanos) {
        let mut credited = open.credited;
        while walk.reached < to {
            let (step, holds_until) = self.step_at(walk.reached);
            let stop = to.min(holds_until);
            let row = match credited {
                Some((last, row)) if last == step => row,
                _ => self.row(open.stack, context(walk, &open, step)),
            };
            credited = Some((step, row));
            self.builder.add_to(row, value::WALL, stop - walk.reached);
            walk.reached = stop;
        }
        if let Some(top) = walk.open.last_mut() {
            top.credited = credited;
        }
    }

    /// Time in which only spans beyond the depth limit were open.
    fn credit_deep(&mut self, walk: &mut Walk, until: Nanos) {
        let stop = walk.deep_end.min(until);
        if stop <= walk.reached || walk.reached == Nanos::MIN {
            return;
        }
        let frame = made_up(&mut self.builder, "[deeper than 1024 spans]");
        let stack = self.builder.push(StackId::EMPTY, frame);
        self.credit(walk, nothing_open(stack, stop), stop);
    }

    fn allocation(&mut self, walk: &mut Walk, allocated: Allocated) {
        let time = allocated.time;
        self.advance(walk, time);
        let open = walk.open.last().copied();
        let open = open.unwrap_or_else(|| nothing_open(StackId::EMPTY, time));
        let (step, _) = self.step_at(time);
        let of = Context { memory: Some(allocated.of), ..context(walk, &open, step) };
        let row = self.row(open.stack, of);
        allocated.add(&mut self.builder, row);
    }
}

/// What stands for the top of an empty stack.
fn nothing_open(stack: StackId, end: Nanos) -> Open {
    Open { row: NO_ROW, end, first_end: end, stack, phase: None, is_waiting: false, credited: None }
}

fn context(walk: &Walk, open: &Open, step: Option<i64>) -> Context {
    Context {
        thread: Some(walk.thread),
        stream: None,
        step,
        phase: open.phase,
        is_waiting: Some(open.is_waiting),
        memory: None,
    }
}
