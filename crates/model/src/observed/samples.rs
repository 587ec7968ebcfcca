//! Samples: stacks seen at an instant, weighted by the event that took them.

use std::ops::Range;

use crate::{Column, Nanos, StackId, StrId, TrackId};

/// The time of a sample whose source has no times.
pub const NO_TIME: Nanos = Nanos::MIN;

/// The processor of a sample or a state whose source does not tell.
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
    pub fn new(rows: Vec<SampleEvent>) -> Self {
        SampleEvents { rows }
    }

    pub fn rows(&self) -> &[SampleEvent] {
        &self.rows
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// A sample as its reader found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRow {
    /// [`NO_TIME`] where the source has none.
    pub time: Nanos,
    pub track: TrackId,
    pub cpu: u16,
    pub stack: StackId,
    /// Row of the events.
    pub event: u16,
    /// In the unit of the event, never in another one (I11).
    pub weight: i64,
}

/// All samples. Rows ascend by (track, time, file order).
#[derive(Debug, Clone, Default)]
pub struct Samples {
    pub time: Column<i64>,
    pub track: Column<u32>,
    pub cpu: Column<u16>,
    pub stack: Column<u32>,
    pub event: Column<u16>,
    pub weight: Column<i64>,
}

impl Samples {
    pub fn len(&self) -> usize {
        self.time.len()
    }

    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// The rows of a track.
    pub fn of_track(&self, track: TrackId) -> Range<usize> {
        let first = self.track.partition_point(|&other| other < track.0);
        first..first + self.track[first..].partition_point(|&other| other == track.0)
    }

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

    pub fn iter(&self) -> impl ExactSizeIterator<Item = SampleRow> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }
}

impl FromIterator<SampleRow> for Samples {
    /// Takes rows in their final order.
    fn from_iter<T: IntoIterator<Item = SampleRow>>(rows: T) -> Self {
        let rows: Vec<SampleRow> = rows.into_iter().collect();
        Samples {
            time: rows.iter().map(|row| row.time).collect(),
            track: rows.iter().map(|row| row.track.0).collect(),
            cpu: rows.iter().map(|row| row.cpu).collect(),
            stack: rows.iter().map(|row| row.stack.0).collect(),
            event: rows.iter().map(|row| row.event).collect(),
            weight: rows.iter().map(|row| row.weight).collect(),
        }
    }
}
