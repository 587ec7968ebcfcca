//! How long each thread ran, was blocked, and waited for a processor.
//!
//! Read from the states of threads; of threads without states, what samples say of running.

use std::collections::BTreeMap;

use spanwise_model::{
    BlockedOn, MIGRATION_CATEGORY, RunnableSince, StateRow, ThreadState, Trace, Track, TrackId,
    TrackKind,
};

use crate::{Facts, TotalNanos};

/// One thread. The times add up to all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuRow {
    pub track: TrackId,
    pub process: String,
    pub thread: String,
    pub running_ns: TotalNanos,
    pub blocked_ns: BTreeMap<BlockedOn, TotalNanos>,
    /// It could have run, and had no processor. Unknown where no wake-up was recorded and it
    /// was never preempted: then the end of a wait and the time after it are one. Also unknown
    /// where none was seen and a part of its time was not recorded.
    pub runnable_ns: Option<TotalNanos>,
    /// It may have run or not: an event is missing.
    pub unrecorded_ns: TotalNanos,
    /// How often it left its processor of its own accord …
    pub voluntary: u64,
    /// … and how often it had to.
    pub involuntary: u64,
    /// How often it came back to another processor.
    pub migrations: u64,
}

impl OffCpuRow {
    pub fn blocked_total_ns(&self) -> TotalNanos {
        self.blocked_ns.values().sum()
    }

    /// How long it was blocked for this reason; unknown where none is on record and time whose
    /// reason is not known may hold some.
    pub fn blocked_on(&self, on: BlockedOn) -> Option<TotalNanos> {
        let recorded = self.blocked_ns.get(&on).copied();
        let may_be_another = |other: &BlockedOn| match other {
            BlockedOn::Unknown => true,
            BlockedOn::Futex => waits_for_futex(on),
            BlockedOn::Io => waits_for_device(on),
            _ => false,
        };
        let is_hidden = self.unrecorded_ns > 0 || self.blocked_ns.keys().any(may_be_another);
        recorded.or((!is_hidden).then_some(0))
    }

    /// How long it was blocked for any reason; unknown where nothing of that is on record and a
    /// part of its time is not.
    pub fn blocked_in_all(&self) -> Option<TotalNanos> {
        let is_hidden = self.blocked_ns.is_empty() && self.unrecorded_ns > 0;
        (!is_hidden).then(|| self.blocked_total_ns())
    }

    /// All that is known of the thread.
    pub fn known_ns(&self) -> TotalNanos {
        let runnable = self.runnable_ns.unwrap_or(0);
        self.running_ns + self.blocked_total_ns() + runnable + self.unrecorded_ns
    }
}

/// Every thread of which switches were recorded, the one that ran longest first.
pub fn off_cpu(facts: &Facts) -> Vec<OffCpuRow> {
    let trace = facts.trace();
    let states = trace.thread_states();
    if states.is_empty() {
        return Vec::new();
    }
    let migrations = migrations(trace);
    let has_wakeups = has_wakeups(trace);
    let mut rows = Vec::new();
    for (id, track) in trace.tracks().iter().filter(|(_, row)| row.kind == TrackKind::Thread) {
        let mut row = empty_row(trace, id, track);
        row.migrations = migrations.get(&id).copied().unwrap_or(0);
        row.runnable_ns = has_wakeups.then_some(0);
        let mut before = None;
        for state in states.of_track(id).map(|at| states.counted(at)) {
            row.add(&state);
            row.count(&state, before);
            before = Some(state);
        }
        if row.unrecorded_ns > 0 {
            row.runnable_ns = row.runnable_ns.filter(|&ns| ns > 0);
        }
        if before.is_some() {
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.running_ns), row.track));
    rows
}

impl OffCpuRow {
    fn add(&mut self, state: &StateRow) {
        let ns = i128::from(state.dur);
        match state.state {
            ThreadState::Running => self.running_ns += ns,
            ThreadState::Unrecorded => self.unrecorded_ns += ns,
            ThreadState::Blocked(on) => *self.blocked_ns.entry(on).or_default() += ns,
            ThreadState::Runnable(_) => *self.runnable_ns.get_or_insert(0) += ns,
        }
    }

    /// Counts how the thread left its processor: a wait for a processor that follows on
    /// another wait is no leaving.
    fn count(&mut self, state: &StateRow, before: Option<StateRow>) {
        let is_after_wait = before.is_some_and(|before| {
            matches!(before.state, ThreadState::Blocked(_))
                && before.start + before.dur == state.start
        });
        match state.state {
            ThreadState::Running | ThreadState::Unrecorded => {}
            ThreadState::Runnable(RunnableSince::Created) => {}
            ThreadState::Runnable(RunnableSince::Preempted) => self.involuntary += 1,
            ThreadState::Runnable(RunnableSince::Woken) if is_after_wait => {}
            ThreadState::Runnable(RunnableSince::Woken) | ThreadState::Blocked(_) => {
                self.voluntary += 1;
            }
        }
    }
}

/// Waits that are one kind to the kernel: for a futex.
fn waits_for_futex(on: BlockedOn) -> bool {
    use BlockedOn::{Barrier, Condition, Gil, Join, Lock, Mutex, Parked, ReadWriteLock, Semaphore};
    matches!(
        on,
        Mutex | Condition | Join | Semaphore | ReadWriteLock | Barrier | Gil | Lock | Parked
    )
}

/// Waits for a device or a file.
fn waits_for_device(on: BlockedOn) -> bool {
    use BlockedOn::{DiskRead, DiskWrite, Fsync, PageFault, Pipe, Socket, Terminal};
    matches!(on, Fsync | DiskRead | DiskWrite | PageFault | Socket | Pipe | Terminal)
}

/// True where somebody recorded when threads could run again.
pub(crate) fn has_wakeups(trace: &Trace) -> bool {
    let woken = ThreadState::Runnable(RunnableSince::Woken).code();
    trace.thread_states().state.contains(&woken)
}

/// How often the threads changed their processor.
fn migrations(trace: &Trace) -> BTreeMap<TrackId, u64> {
    let categories = trace.categories().rows();
    let is_migration = |category: u16| {
        let row = categories.get(usize::from(category));
        row.is_some_and(|row| trace.strings().get(row.name) == MIGRATION_CATEGORY)
    };
    let is_one: Vec<bool> = (0..categories.len() as u16).map(is_migration).collect();
    let mut counts = BTreeMap::new();
    let instants = trace.instants();
    for (&category, &track) in instants.category.iter().zip(instants.track.iter()) {
        if is_one[usize::from(category)] {
            *counts.entry(TrackId(track)).or_default() += 1;
        }
    }
    counts
}

fn empty_row(trace: &Trace, id: TrackId, track: &Track) -> OffCpuRow {
    OffCpuRow {
        track: id,
        process: process_name(trace, track),
        thread: thread_name(trace, track),
        running_ns: 0,
        blocked_ns: BTreeMap::new(),
        runnable_ns: None,
        unrecorded_ns: 0,
        voluntary: 0,
        involuntary: 0,
        migrations: 0,
    }
}

fn process_name(trace: &Trace, track: &Track) -> String {
    let text = |id| trace.strings().get(id);
    match text(track.process_name) {
        "" => text(track.process).to_owned(),
        name => format!("{name} {}", text(track.process)),
    }
}

/// The name of a thread with its number, since pools name all of theirs alike.
pub(crate) fn thread_name(trace: &Trace, track: &Track) -> String {
    let text = |id| trace.strings().get(id);
    match text(track.thread_name) {
        "" => format!("thread {}", text(track.thread)),
        name if name.contains(text(track.thread)) => name.to_owned(),
        name => format!("{name} {}", text(track.thread)),
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[test]
    fn states_of_a_thread_add_up_and_switches_are_counted() {
        let mut sample = Sample::default();
        let blocked = ThreadState::Blocked(BlockedOn::Mutex);
        let runnable = ThreadState::Runnable;
        sample.state("7", runnable(RunnableSince::Created), 0, 5);
        sample.state("7", ThreadState::Running, 5, 7);
        sample.state("7", blocked, 12, 8);
        sample.state("7", runnable(RunnableSince::Woken), 20, 6);
        sample.state("7", ThreadState::Running, 26, 14);
        sample.state("7", runnable(RunnableSince::Preempted), 40, 10);
        sample.state("7", ThreadState::Running, 50, 10);
        sample.state("7", ThreadState::Unrecorded, 60, 3);
        let trace = sample.finish();
        let rows = off_cpu(&Facts::new(&trace));
        let [row] = &rows[..] else { panic!("one thread, not {}", rows.len()) };
        assert_eq!(row.running_ns, 7 + 14 + 10);
        assert_eq!(row.blocked_ns, BTreeMap::from([(BlockedOn::Mutex, 8)]));
        assert_eq!((row.runnable_ns, row.unrecorded_ns), (Some(5 + 6 + 10), 3));
        assert_eq!((row.voluntary, row.involuntary), (1, 1));
        assert_eq!(row.known_ns(), 63);
    }

    #[test]
    fn a_wait_for_a_processor_is_unknown_where_nobody_recorded_wake_ups() {
        let mut sample = Sample::default();
        sample.state("7", ThreadState::Running, 0, 5);
        sample.state("7", ThreadState::Blocked(BlockedOn::Sleep), 5, 5);
        let trace = sample.finish();
        assert_eq!(off_cpu(&Facts::new(&trace))[0].runnable_ns, None);
    }

    #[test]
    fn a_reason_that_was_not_seen_is_unknown_where_time_without_a_reason_may_hold_it() {
        let row_with = |states: &[ThreadState]| {
            let mut sample = Sample::default();
            for (at, &state) in states.iter().enumerate() {
                sample.state("7", state, 10 * at as i64, 10);
            }
            off_cpu(&Facts::new(&sample.finish())).remove(0)
        };
        let blocked = ThreadState::Blocked;
        let check = |states: &[ThreadState], on: BlockedOn, expected: Option<TotalNanos>| {
            assert_eq!(row_with(states).blocked_on(on), expected, "{states:?}: {on:?}");
        };
        let all = [ThreadState::Running, blocked(BlockedOn::Sleep)];
        check(&all, BlockedOn::Sleep, Some(10));
        check(&all, BlockedOn::Mutex, Some(0));
        let missing = [&all[..], &[ThreadState::Unrecorded]].concat();
        check(&missing, BlockedOn::Sleep, Some(10));
        check(&missing, BlockedOn::Mutex, None);
        let unknown = [&all[..], &[blocked(BlockedOn::Unknown)]].concat();
        check(&unknown, BlockedOn::Fsync, None);
        let futex = [&all[..], &[blocked(BlockedOn::Futex)]].concat();
        check(&futex, BlockedOn::Gil, None);
        check(&futex, BlockedOn::Fsync, Some(0));
        let io = [&all[..], &[blocked(BlockedOn::Io)]].concat();
        check(&io, BlockedOn::Fsync, None);
        check(&io, BlockedOn::Gil, Some(0));
    }

    #[test]
    fn nothing_is_said_of_waits_of_a_thread_that_was_not_recorded_all_the_time() {
        let mut sample = Sample::default();
        sample.state("7", ThreadState::Running, 0, 5);
        sample.state("7", ThreadState::Unrecorded, 5, 5);
        sample.state("8", ThreadState::Running, 0, 4);
        sample.state("8", ThreadState::Runnable(RunnableSince::Woken), 4, 2);
        let trace = sample.finish();
        let rows = off_cpu(&Facts::new(&trace));
        let waits = |row: &OffCpuRow| (row.blocked_in_all(), row.runnable_ns);
        assert_eq!(rows.iter().map(waits).collect::<Vec<_>>(), [(None, None), (Some(0), Some(2))]);
    }

    #[test]
    fn threads_without_switches_have_no_row() {
        let mut sample = Sample::default();
        sample.span("7", SpanKind::LockWait, "[mutex 0x40]", 10, 20);
        let trace = sample.finish();
        assert_eq!(off_cpu(&Facts::new(&trace)), []);
    }
}
