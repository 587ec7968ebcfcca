//! What is worked out of samples and states for tables, and the table of thread states.

use std::sync::{Arc, OnceLock};

use spanwise_analyze::{CpuByStack, CpuTime, cpu_by_stack, frame_name};
use spanwise_model::{
    BlockedOn, FrameKind, NO_CPU, NO_LOCK, Nanos, RunnableSince, StackId, ThreadState, Trace,
    TrackId,
};

use super::parts::{Len, known, number, relation, text, trace};
use super::{QueriedTrace, Traces, int};
use crate::dictionary::NO_TEXT;
use crate::relation::{Ascending, Column, Relation};

/// The numbers of the first rows of a trace among those of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FirstRows {
    event: usize,
    frame: usize,
    stack: usize,
    state: usize,
}

impl FirstRows {
    pub(super) fn behind(self, trace: &Trace) -> Self {
        FirstRows {
            event: self.event + trace.sample_events().len(),
            frame: self.frame + trace.frames().len(),
            stack: self.stack + stack_rows(trace),
            state: self.state + trace.thread_states().len(),
        }
    }
}

/// Rows of the table of stacks: the empty one is no row, but null where others refer to it.
pub(super) fn stack_rows(trace: &Trace) -> usize {
    trace.stacks().len().saturating_sub(1)
}

/// What tables need of samples; nothing is worked out before somebody asks for it.
pub(super) struct SampleLookups {
    first: FirstRows,
    by_stack: OnceLock<CpuByStack>,
    depths: OnceLock<Vec<u32>>,
}

impl SampleLookups {
    pub(super) fn new(first: FirstRows) -> Self {
        SampleLookups { first, by_stack: OnceLock::new(), depths: OnceLock::new() }
    }
}

impl QueriedTrace {
    fn cpu(&self) -> &CpuTime {
        self.facts.cpu_time()
    }

    /// CPU time by stack; nothing where no samples stand for it.
    pub(super) fn cpu_by_stack(&self) -> Option<&CpuByStack> {
        self.cpu().event?;
        Some(self.observed.by_stack.get_or_init(|| cpu_by_stack(&self.trace, self.cpu())))
    }

    /// The CPU time that a sample stands for, if its event is the one that does.
    pub(super) fn sample_cpu_ns(&self, row: usize) -> Option<Nanos> {
        let cpu = self.cpu();
        (Some(self.trace.samples().event[row]) == cpu.event).then(|| cpu.sample_ns[row])
    }

    pub(super) fn track_cpu_ns(&self, track: TrackId) -> Option<Nanos> {
        if self.trace.samples().is_empty() && self.trace.thread_states().is_empty() {
            return None;
        }
        let ns = self.cpu().track_ns[track.index()];
        (ns > 0 || self.has_states(track)).then_some(ns)
    }

    /// Without states nobody knows of time between samples.
    pub(super) fn no_sample_ns(&self, track: TrackId) -> Option<Nanos> {
        self.has_states(track).then(|| of_track(&self.cpu().no_sample, track))
    }

    /// The same of time in which the kernel switched threads.
    pub(super) fn switching_ns(&self, track: TrackId) -> Option<Nanos> {
        self.has_states(track).then(|| of_track(&self.cpu().switching, track))
    }

    fn has_states(&self, track: TrackId) -> bool {
        !self.trace.thread_states().of_track(track).is_empty()
    }

    /// How many frames each stack has.
    pub(super) fn stack_depth(&self, stack: StackId) -> u32 {
        let make = || {
            let stacks = self.trace.stacks();
            let mut depths = vec![0; stacks.len()];
            for stack in 1..stacks.len() {
                depths[stack] = depths[stacks.parent(StackId(stack as u32)).index()] + 1;
            }
            depths
        };
        self.observed.depths.get_or_init(make)[stack.index()]
    }

    pub(super) fn event_id(&self, event: u16) -> i64 {
        (self.observed.first.event + usize::from(event)) as i64
    }

    pub(super) fn frame_id(&self, frame: u32) -> i64 {
        (self.observed.first.frame + frame as usize) as i64
    }

    pub(super) fn stack_id(&self, stack: StackId) -> Option<i64> {
        let row = stack.index().checked_sub(1)?;
        Some((self.observed.first.stack + row) as i64)
    }
}

impl Traces {
    /// The functions of a stack by its number among all, outermost first. Nothing where there is
    /// no such stack; cut short once `bytes_max` is passed.
    pub(crate) fn call_stack(&self, id: usize, bytes_max: usize) -> Option<Vec<String>> {
        let at = self.of_row(id, |opened| opened.observed.first.stack)?;
        // Traces without stacks begin where the next one does, which has the row.
        let opened = &self.traces[at];
        let stack = id - opened.observed.first.stack;
        if stack >= stack_rows(&opened.trace) {
            return None;
        }
        let trace = &opened.trace;
        let (mut names, mut bytes) = (Vec::new(), 0);
        for frame in trace.stacks().frames(StackId(stack as u32 + 1)) {
            let name = frame_name(trace, &trace.frames().get(frame));
            bytes += name.len() + 1;
            names.push(name);
            if bytes > bytes_max {
                break;
            }
        }
        names.reverse();
        Some(names)
    }
}

/// All words that stand in these tables and in no trace.
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    let since = [RunnableSince::Woken, RunnableSince::Preempted, RunnableSince::Created];
    let states = since.map(ThreadState::Runnable).into_iter();
    let states = states.chain(BlockedOn::ALL.map(ThreadState::Blocked));
    let states = states.chain([ThreadState::Running, ThreadState::Unrecorded]);
    let of_states = states.flat_map(|state| [Some(state.text()), state.reason()]).flatten();
    of_states.chain(FrameKind::ALL.map(FrameKind::text))
}

/// The words of states by their codes.
struct StateWords {
    state: Vec<u32>,
    reason: Vec<u32>,
}

impl StateWords {
    fn new(traces: &Traces) -> Self {
        let find = |word: Option<&str>| word.and_then(|word| traces.texts.find(word));
        let codes = 0..ThreadState::CODES;
        let states = codes.map(ThreadState::from_code);
        let words = |of: fn(ThreadState) -> Option<&'static str>| {
            let word = |state: Option<ThreadState>| find(state.and_then(of)).unwrap_or(NO_TEXT);
            states.clone().map(word).collect()
        };
        let (state, reason) = (words(|state| Some(state.text())), words(ThreadState::reason));
        StateWords { state, reason }
    }
}

pub(super) fn thread_states(traces: &Arc<Traces>) -> Relation {
    let len: Len = |opened| opened.trace.thread_states().len();
    let columns = state_columns(traces, len);
    let runs = traces.traces.iter().flat_map(|opened| {
        let (first, states) = (opened.observed.first.state, opened.trace.thread_states());
        runs_of_tracks(opened, first, |track| states.of_track(track))
    });
    let column = columns.iter().position(|column| column.name == "start").unwrap_or(0);
    let ascending = Some(Ascending { column, runs: runs.collect() });
    let about = "when each thread ran, could have run, or was blocked, and on what";
    Relation { ascending, ..relation(traces, "thread_states", about, len, columns) }
}

/// The rows of each track, which ascend by time.
pub(super) fn runs_of_tracks(
    opened: &QueriedTrace,
    first: usize,
    of_track: impl Fn(TrackId) -> std::ops::Range<usize>,
) -> Vec<std::ops::Range<usize>> {
    let tracks = (0..opened.trace.tracks().len() as u32).map(TrackId);
    let rows = tracks.map(of_track).filter(|rows| !rows.is_empty());
    rows.map(|rows| first + rows.start..first + rows.end).collect()
}

fn state_columns(traces: &Arc<Traces>, len: Len) -> Vec<Column> {
    let words = Arc::new(StateWords::new(traces));
    let reasons = Arc::clone(&words);
    let mut columns = vec![
        int("id", "its number", |row| Some(row as i64)),
        trace(traces, len),
        number(traces, len, "start", "nanoseconds since the trace began", |opened, row| {
            opened.since_start(opened.trace.thread_states().start[row])
        }),
        number(traces, len, "dur", "its length in nanoseconds", |opened, row| {
            opened.trace.thread_states().dur[row]
        }),
        number(traces, len, "end", "start + dur", |opened, row| {
            let states = opened.trace.thread_states();
            opened.since_start(states.start[row].saturating_add(states.dur[row]))
        }),
        number(traces, len, "track", "id in tracks", |opened, row| {
            opened.track(opened.trace.thread_states().track[row])
        }),
        known(traces, len, "cpu", "the processor it ran on, or ran on last", |opened, row| {
            let cpu = opened.trace.thread_states().cpu[row];
            (cpu != NO_CPU).then(|| cpu.into())
        }),
        text(traces, len, "state", "running, runnable, blocked, unrecorded", move |opened, row| {
            words.state[usize::from(opened.trace.thread_states().counted(row).state.code())]
        }),
        text(
            traces,
            len,
            "wait_reason",
            "of blocked: what for; of runnable: woken, preempted, created",
            move |opened, row| {
                let state = opened.trace.thread_states().counted(row).state;
                reasons.reason[usize::from(state.code())]
            },
        ),
        number(traces, len, "idle", "1 for waits for something to do", |opened, row| {
            let state = opened.trace.thread_states().counted(row).state;
            matches!(state, ThreadState::Blocked(on) if on.is_idle()).into()
        }),
    ];
    columns.extend(wait_columns(traces, len));
    columns
}

/// Where a thread waited, and who ended that.
fn wait_columns(traces: &Arc<Traces>, len: Len) -> Vec<Column> {
    vec![
        known(traces, len, "stack", "id in stacks: where it was meanwhile", |opened, row| {
            opened.stack_id(opened.trace.thread_states().counted(row).stack)
        }),
        known(
            traces,
            len,
            "stack_from",
            "id of the wait whose stack and reason were sampled in place of its own",
            |opened, row| {
                let distance = opened.trace.thread_states().stand_in[row];
                let sampled = row.wrapping_add_signed(distance as isize);
                (distance != 0).then(|| (opened.observed.first.state + sampled) as i64)
            },
        ),
        known(traces, len, "waker", "id in tracks of the thread that ended it", |opened, row| {
            let waker = opened.trace.thread_states().get(row).waker;
            waker.map(|track| opened.track(track.0))
        }),
        known(traces, len, "waker_stack", "id in stacks: where the waker was", |opened, row| {
            opened.stack_id(opened.trace.thread_states().get(row).waker_stack)
        }),
        known(traces, len, "lock", "the address of the lock it waited for", |opened, row| {
            let lock = opened.trace.thread_states().lock[row];
            (lock != NO_LOCK).then_some(lock as i64)
        }),
    ]
}

/// The time of a track among rows that are in order of tracks.
fn of_track(rows: &[(TrackId, Nanos)], track: TrackId) -> Nanos {
    rows.binary_search_by_key(&track, |row| row.0).map_or(0, |at| rows[at].1)
}
