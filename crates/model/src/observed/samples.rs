//! Samples: stacks seen at an instant, weighted by the event that took them.

use std::ops::Range;

use arrow_buffer::ArrowNativeType;

use crate::{Column, Nanos, StackId, StrId, TrackId};

/// The time of a sample whose source has no times.
pub const NO_TIME: Nanos = Nanos::MIN;

/// The processor of a sample or a state, if unknown.
pub const NO_CPU: u16 = u16::MAX;

/// An event that takes samples: a clock, or a counter that overflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SampleEvent {
    /// As its source calls it, such as `cpu-clock` or `page-faults`.
    pub name: StrId,
    /// What weights count: `ns`, `cycles`, `faults`, `samples` …
    pub unit: StrId,
    /// The CPU time that passes between two samples of a running thread, where the event is
    /// taken at a steady rate and that is known. Of events such as page faults it is unknown:
    /// how many there are says nothing about time.
    pub interval_ns: Option<Nanos>,
}

/// All events, few.
#[derive(Debug, Clone, Default)]
pub struct SampleEvents {
    rows: Vec<SampleEvent>,
}

impl SampleEvents {
    /// From its rows.
    pub fn new(rows: Vec<SampleEvent>) -> Self {
        SampleEvents { rows }
    }

    /// All rows.
    pub fn rows(&self) -> &[SampleEvent] {
        &self.rows
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// A sample as its reader found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRow {
    /// [`NO_TIME`] where the source has none.
    pub time: Nanos,
    /// The track it is on.
    pub track: TrackId,
    /// The processor, or [`crate::NO_CPU`].
    pub cpu: u16,
    /// The stack.
    pub stack: StackId,
    /// Row of the events.
    pub event: u16,
    /// In the unit of the event, never in another one (I11).
    pub weight: i64,
}

/// All samples. Rows ascend by (track, time, file order).
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Times.
    pub time: Column<i64>,
    /// Tracks: [`crate::TrackId`].
    pub track: Column<u32>,
    /// Processors; [`crate::NO_CPU`] if unknown.
    pub cpu: Column<u16>,
    /// Stacks: [`crate::StackId`].
    pub stack: Column<u32>,
    /// Rows of the events.
    pub event: Column<u16>,
    /// Weights, in the unit of their event (I11).
    pub weight: Column<i64>,
}

impl Samples {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// The rows of a track.
    pub fn of_track(&self, track: TrackId) -> Range<usize> {
        let first = self.track.partition_point(|&other| other < track.0);
        first..first + self.track[first..].partition_point(|&other| other == track.0)
    }

    /// One row.
    pub fn get(&self, row: usize) -> SampleRow {
        SampleRow {
            time: self.time[row],
            track: TrackId(self.track[row]),
            cpu: self.cpu[row],
            stack: StackId(self.stack[row]),
            event: self.event[row],
            weight: self.weight[row],
        }
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SampleRow> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// Samples in the order in which a reader finds them, a column each: recordings hold millions.
#[derive(Debug, Clone, Default)]
pub struct SampleRows {
    time: Vec<i64>,
    track: Vec<u32>,
    cpu: Vec<u16>,
    stack: Vec<u32>,
    event: Vec<u16>,
    weight: Vec<i64>,
}

impl SampleRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Adds a sample.
    pub fn push(&mut self, row: SampleRow) {
        self.time.push(row.time);
        self.track.push(row.track.0);
        self.cpu.push(row.cpu);
        self.stack.push(row.stack.0);
        self.event.push(row.event);
        self.weight.push(row.weight);
    }

    /// Thread and time of the samples of an event, as they came.
    pub fn times(&self, event: u16) -> impl Iterator<Item = (TrackId, Nanos)> + '_ {
        let rows = self.track.iter().zip(&self.time).zip(&self.event);
        rows.filter(move |(_, of)| **of == event).map(|((track, time), _)| (TrackId(*track), *time))
    }

    /// Gives every row other numbers of its track, its stack and its event.
    pub fn renumber(
        &mut self,
        track: impl Fn(TrackId) -> TrackId,
        stack: impl Fn(StackId) -> StackId,
        event: impl Fn(u16) -> u16,
    ) {
        self.track.iter_mut().for_each(|id| *id = track(TrackId(*id)).0);
        self.stack.iter_mut().for_each(|id| *id = stack(StackId(*id)).0);
        self.event.iter_mut().for_each(|number| *number = event(*number));
    }

    /// Adds rows that come after these.
    pub fn append(&mut self, mut later: SampleRows) {
        if self.is_empty() {
            *self = later;
            return;
        }
        self.time.append(&mut later.time);
        self.track.append(&mut later.track);
        self.cpu.append(&mut later.cpu);
        self.stack.append(&mut later.stack);
        self.event.append(&mut later.event);
        self.weight.append(&mut later.weight);
    }

    /// The table, in its order. One column after the other, so that there are never two of all.
    pub(crate) fn finish(self) -> Samples {
        let order = self.order();
        let SampleRows { time, track, cpu, stack, event, weight } = self;
        Samples {
            time: ordered(time, order.as_deref()),
            track: ordered(track, order.as_deref()),
            cpu: ordered(cpu, order.as_deref()),
            stack: ordered(stack, order.as_deref()),
            event: ordered(event, order.as_deref()),
            weight: ordered(weight, order.as_deref()),
        }
    }

    /// The rows by track and time, those of one time as they came; `None` where they are so.
    fn order(&self) -> Option<Vec<u32>> {
        let key = |row: usize| (self.track[row], self.time[row]);
        if (1..self.len()).all(|row| key(row - 1) <= key(row)) {
            return None;
        }
        let tracks = self.track.iter().max().map_or(0, |&last| last as usize + 1);
        // Where the rows of each track begin: recordings are in order of time, most of them.
        let mut next = vec![0_u32; tracks + 1];
        self.track.iter().for_each(|&track| next[track as usize + 1] += 1);
        (0..tracks).for_each(|track| next[track + 1] += next[track]);
        let starts = next.clone();
        let mut order = vec![0_u32; self.len()];
        for (row, &track) in self.track.iter().enumerate() {
            let place = &mut next[track as usize];
            order[*place as usize] = row as u32;
            *place += 1;
        }
        for range in starts.windows(2) {
            let rows = &mut order[range[0] as usize..range[1] as usize];
            let time = |row: &u32| self.time[*row as usize];
            if !rows.is_sorted_by_key(time) {
                rows.sort_by_key(time);
            }
        }
        Some(order)
    }
}

fn ordered<T: ArrowNativeType>(values: Vec<T>, order: Option<&[u32]>) -> Column<T> {
    match order {
        Some(order) => order.iter().map(|&row| values[row as usize]).collect::<Vec<T>>().into(),
        None => values.into(),
    }
}

impl FromIterator<SampleRow> for SampleRows {
    fn from_iter<T: IntoIterator<Item = SampleRow>>(rows: T) -> Self {
        let mut all = SampleRows::default();
        rows.into_iter().for_each(|row| all.push(row));
        all
    }
}
