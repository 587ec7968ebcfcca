//! Thread states: running, waiting for a processor, blocked, and on what.

use std::ops::Range;

use crate::{BlockedOn, Column, NO_ROW, Nanos, StackId, ThreadState, TrackId};

/// The lock of a state that is no wait for a lock, or whose lock is not known.
pub const NO_LOCK: u64 = 0;

/// A state as its reader found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateRow {
    /// Its start.
    pub start: Nanos,
    /// Its duration.
    pub dur: Nanos,
    /// The track it is on.
    pub track: TrackId,
    /// Where the thread ran, or ran last.
    pub cpu: u16,
    /// The state.
    pub state: ThreadState,
    /// Where the thread stood meanwhile; empty where that was not recorded.
    pub stack: StackId,
    /// Who ended the wait, where that was recorded.
    pub waker: Option<TrackId>,
    /// Where the waker stood then; empty where that was not recorded.
    pub waker_stack: StackId,
    /// The address of the awaited lock, or [`NO_LOCK`].
    pub lock: u64,
    /// How many rows behind this one (or before it, below 0) the state stands whose stack was
    /// sampled for this one, too; 0 where nobody sampled one for it. Of short waits recorders
    /// take a stack now and then, which stands for those that came before it.
    pub stand_in: i32,
}

/// The states of all threads. Rows ascend by (track, start); those of a track do not overlap.
#[derive(Debug, Clone, Default)]
pub struct ThreadStates {
    /// Start times.
    pub start: Column<i64>,
    /// Durations.
    pub dur: Column<i64>,
    /// Tracks: [`crate::TrackId`].
    pub track: Column<u32>,
    /// Processors; [`crate::NO_CPU`] if unknown.
    pub cpu: Column<u16>,
    /// [`ThreadState::code`].
    pub state: Column<u16>,
    /// Stacks: [`crate::StackId`].
    pub stack: Column<u32>,
    /// Row numbers of tracks; [`NO_ROW`] where the waker is not known.
    pub waker: Column<u32>,
    /// Stacks of the wakers.
    pub waker_stack: Column<u32>,
    /// Addresses of locks; [`NO_LOCK`] if none.
    pub lock: Column<u64>,
    /// Distances in rows, within a track.
    pub stand_in: Column<i32>,
}

impl ThreadStates {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// The rows of a track.
    pub fn of_track(&self, track: TrackId) -> Range<usize> {
        let first = self.track.partition_point(|&other| other < track.0);
        first..first + self.track[first..].partition_point(|&other| other == track.0)
    }

    /// The state of a row.
    pub fn state(&self, row: usize) -> ThreadState {
        ThreadState::from_code(self.state[row]).unwrap_or(ThreadState::Unrecorded)
    }

    /// One row.
    pub fn get(&self, row: usize) -> StateRow {
        let waker = self.waker[row];
        StateRow {
            start: self.start[row],
            dur: self.dur[row],
            track: TrackId(self.track[row]),
            cpu: self.cpu[row],
            state: self.state(row),
            stack: StackId(self.stack[row]),
            waker: (waker != NO_ROW).then_some(TrackId(waker)),
            waker_stack: StackId(self.waker_stack[row]),
            lock: self.lock[row],
            stand_in: self.stand_in[row],
        }
    }

    /// A state as sums count it: where nobody recorded why the thread waited, for the reason
    /// and at the stack of the wait that was sampled in its place. Times are its own.
    pub fn counted(&self, row: usize) -> StateRow {
        let own = self.get(row);
        if own.stand_in == 0 {
            return own;
        }
        let sampled = row.wrapping_add_signed(own.stand_in as isize);
        let state = match (own.state, self.state(sampled)) {
            (ThreadState::Blocked(BlockedOn::Unknown), state @ ThreadState::Blocked(_)) => state,
            (state, _) => state,
        };
        StateRow { state, stack: StackId(self.stack[sampled]), stand_in: 0, ..own }
    }

    /// All states as sums count them.
    pub fn iter_counted(&self) -> impl ExactSizeIterator<Item = StateRow> + '_ {
        (0..self.len()).map(|row| self.counted(row))
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = StateRow> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }
}

impl FromIterator<StateRow> for ThreadStates {
    /// Takes rows in their final order.
    fn from_iter<T: IntoIterator<Item = StateRow>>(rows: T) -> Self {
        let rows: Vec<StateRow> = rows.into_iter().collect();
        ThreadStates {
            start: rows.iter().map(|row| row.start).collect(),
            dur: rows.iter().map(|row| row.dur).collect(),
            track: rows.iter().map(|row| row.track.0).collect(),
            cpu: rows.iter().map(|row| row.cpu).collect(),
            state: rows.iter().map(|row| row.state.code()).collect(),
            stack: rows.iter().map(|row| row.stack.0).collect(),
            waker: rows.iter().map(|row| row.waker.map_or(NO_ROW, |track| track.0)).collect(),
            waker_stack: rows.iter().map(|row| row.waker_stack.0).collect(),
            lock: rows.iter().map(|row| row.lock).collect(),
            stand_in: rows.iter().map(|row| row.stand_in).collect(),
        }
    }
}
