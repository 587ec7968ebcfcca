//! What threads of the host did when: working, or waiting, and for what.

use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, Trace, TrackId};

use crate::base::intervals::IntervalSet;
use crate::cpu::self_time::{innermost_pieces, takes_part};
use crate::{WaitClassifier, WaitKind};

/// When a thread worked and when it waited; the sets share no instant.
#[derive(Debug, Default)]
pub(crate) struct ThreadStates {
    /// Inside a span that does not wait.
    pub(crate) working: IntervalSet,
    /// Inside a call that waits for the GPU.
    pub(crate) in_sync: IntervalSet,
    /// Inside a call that waits for anything else.
    pub(crate) waiting: IntervalSet,
}

/// The states of all threads that launch GPU work.
#[derive(Debug)]
pub(crate) struct HostStates(BTreeMap<TrackId, ThreadStates>);

impl HostStates {
    pub(crate) fn new(trace: &Trace, waits: &WaitClassifier) -> Self {
        let spans = trace.spans();
        let calls = spans.ids().filter_map(|span| spans.launch(span));
        let mut launching: Vec<TrackId> = calls.map(|call| spans.track(call)).collect();
        launching.sort_unstable();
        launching.dedup();
        let takes_part = takes_part(trace);
        let states = launching
            .into_iter()
            .map(|track| (track, thread_states(trace, waits, track, &takes_part)));
        HostStates(states.collect())
    }

    pub(crate) fn of(&self, thread: TrackId) -> Option<&ThreadStates> {
        self.0.get(&thread)
    }
}

fn thread_states(
    trace: &Trace,
    waits: &WaitClassifier,
    thread: TrackId,
    takes_part: &[bool],
) -> ThreadStates {
    let (mut working, mut in_sync, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    innermost_pieces(trace, thread, takes_part, |span: SpanId, from: Nanos, to: Nanos| {
        let pieces = match waits.kind(span) {
            None => &mut working,
            Some(WaitKind::Gpu) => &mut in_sync,
            Some(_) => &mut waiting,
        };
        pieces.push((from, to));
    });
    ThreadStates {
        working: IntervalSet::new(working),
        in_sync: IntervalSet::new(in_sync),
        waiting: IntervalSet::new(waiting),
    }
}
