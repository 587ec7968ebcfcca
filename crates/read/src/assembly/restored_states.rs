//! Thread states of traces that a recording was converted to.
//!
//! Formats of traces have no states of threads. What we write into them keeps each state as a
//! span of a category of its own, with a name that says which ([`ThreadState::span_name`]); the
//! stack is what is around it, and an arrow says who ended a wait. Here they become states
//! again, so that answers are the same as for the recording itself.

use std::collections::HashMap;

use spanwise_model::{
    AwaitedLock, Frame, FrameKind, NO_CPU, NO_LOCK, Nanos, ObservedRows, SpanId, SpanKind, StackId,
    StateRow, ThreadState, Trace, TrackId, WAKEUP_CATEGORY,
};

/// The trace with thread states, restored from the spans that stand for them.
pub(crate) fn with_states(trace: Trace) -> Trace {
    let kinds = trace.categories().rows();
    let is_state =
        |row: &spanwise_model::Category| matches!(row.kind, SpanKind::OffCpu | SpanKind::LockWait);
    if !trace.thread_states().is_empty() || !kinds.iter().any(is_state) {
        return trace;
    }
    let mut restored =
        StateRestorer { trace: &trace, wakers: wakers(&trace), rows: Default::default() };
    for (track, _) in trace.tracks().iter() {
        restored.track(track);
    }
    let rows = restored.rows;
    trace.with_observed(rows)
}

/// Who ended the wait that a span stands for.
fn wakers(trace: &Trace) -> HashMap<SpanId, SpanId> {
    let links = trace.links();
    let is_wakeup = |category: u16| {
        let category = trace.categories().get(category.into());
        trace.strings().get(category.name) == WAKEUP_CATEGORY
    };
    let arrows = links.iter().zip(links.category.iter());
    arrows.filter(|&(_, &category)| is_wakeup(category)).map(|((from, to), _)| (to, from)).collect()
}

struct StateRestorer<'a> {
    trace: &'a Trace,
    wakers: HashMap<SpanId, SpanId>,
    rows: ObservedRows,
}

impl StateRestorer<'_> {
    fn track(&mut self, track: TrackId) {
        let (trace, spans) = (self.trace, self.trace.spans());
        let mut found: Vec<StateRow> = Vec::new();
        let mut waits: Vec<StateRow> = Vec::new();
        let (mut first, mut last) = (Nanos::MAX, Nanos::MIN);
        for span in trace.tracks().get(track).span_ids() {
            (first, last) = (first.min(spans.start(span)), last.max(spans.end(span)));
            match trace.kind(span) {
                SpanKind::OffCpu => {
                    let state = ThreadState::from_span_name(trace.name(span));
                    found.extend(state.map(|state| self.state(track, span, state)));
                }
                SpanKind::LockWait => waits.extend(self.lock_wait(track, span)),
                _ => {}
            }
        }
        // Without switches, a call for a lock is all that is known of the wait.
        if found.is_empty() {
            return self.push_apart(waits);
        }
        let mut with_running = Vec::with_capacity(2 * found.len() + 1);
        let mut reached = first;
        for state in found {
            if reached < state.start {
                with_running.push(running(track, reached, state.start));
            }
            reached = reached.max(state.start + state.dur);
            with_running.push(state);
        }
        if reached < last {
            with_running.push(running(track, reached, last));
        }
        self.push_apart(with_running);
    }

    /// Adds states that do not overlap; a damaged file may hold others.
    fn push_apart(&mut self, states: Vec<StateRow>) {
        let mut reached = Nanos::MIN;
        for state in states {
            if state.start >= reached && state.dur > 0 {
                reached = state.start + state.dur;
                self.rows.states.push(state);
            }
        }
    }

    fn state(&mut self, track: TrackId, span: SpanId, state: ThreadState) -> StateRow {
        let (trace, spans) = (self.trace, self.trace.spans());
        let around: Vec<SpanId> =
            std::iter::successors(spans.parent(span), |&span| spans.parent(span)).collect();
        let lock = around.iter().find_map(|&span| lock_of(trace, span));
        let waker = [&[span], &*around].concat().iter().find_map(|span| {
            let is_wait = matches!(trace.kind(*span), SpanKind::OffCpu | SpanKind::LockWait);
            self.wakers.get(span).copied().filter(|_| is_wait)
        });
        let is_blocked = matches!(state, ThreadState::Blocked(_));
        let waker = waker.filter(|_| is_blocked);
        StateRow {
            start: spans.start(span),
            dur: spans.dur(span),
            track,
            cpu: NO_CPU,
            state,
            stack: self.stack(&around),
            waker: waker.map(|waker| spans.track(waker)),
            waker_stack: waker.map_or(StackId::EMPTY, |waker| self.stack_around(waker)),
            lock: lock.and_then(|lock| lock.address).filter(|_| is_blocked).unwrap_or(NO_LOCK),
            stand_in: 0,
        }
    }

    fn lock_wait(&mut self, track: TrackId, span: SpanId) -> Option<StateRow> {
        let lock = lock_of(self.trace, span)?;
        let row = self.state(track, span, ThreadState::Blocked(lock.on));
        Some(StateRow { lock: lock.address.unwrap_or(NO_LOCK), ..row })
    }

    fn stack_around(&mut self, span: SpanId) -> StackId {
        let spans = self.trace.spans();
        let around: Vec<SpanId> =
            std::iter::successors(spans.parent(span), |&span| spans.parent(span)).collect();
        self.stack(&around)
    }

    /// The stack of spans, innermost first, as far as they are calls.
    fn stack(&mut self, around: &[SpanId]) -> StackId {
        let trace = self.trace;
        let mut stack = StackId::EMPTY;
        for &span in around.iter().rev() {
            let category = trace.categories().get(trace.spans().category(span));
            let kind = match (category.kind, trace.strings().get(category.name)) {
                (SpanKind::OffCpu | SpanKind::LockWait, _) => continue,
                (_, "sampled_kernel" | "os_kernel") => FrameKind::Kernel,
                (SpanKind::Python, _) | (_, "sampled_python") => FrameKind::Python,
                _ => FrameKind::Native,
            };
            let is_inlined = trace.strings().get(category.name) == "sampled_inlined";
            let function = trace.spans().name(span);
            let frame = Frame { function, kind, is_inlined, ..Frame::default() };
            let frame = self.rows.frame(frame);
            stack = self.rows.stack(stack, frame);
        }
        stack
    }
}

fn lock_of(trace: &Trace, span: SpanId) -> Option<AwaitedLock> {
    let is_wait = trace.kind(span) == SpanKind::LockWait;
    AwaitedLock::from_span_name(trace.name(span)).filter(|_| is_wait)
}

fn running(track: TrackId, start: Nanos, end: Nanos) -> StateRow {
    StateRow {
        start,
        dur: end - start,
        track,
        cpu: NO_CPU,
        state: ThreadState::Running,
        stack: StackId::EMPTY,
        waker: None,
        waker_stack: StackId::EMPTY,
        lock: NO_LOCK,
        stand_in: 0,
    }
}
