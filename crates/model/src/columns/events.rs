//! The smaller tables: instant events, counter values, links between spans.

use crate::{Column, SpanId};

/// Events without a length. Rows ascend by (track, time, file order).
#[derive(Debug, Clone)]
pub struct Instants {
    /// Times.
    pub time: Column<i64>,
    /// Names: [`crate::StrId`].
    pub name: Column<u32>,
    /// Categories: [`crate::CategoryId`].
    pub category: Column<u16>,
    /// Tracks: [`crate::TrackId`].
    pub track: Column<u32>,
    /// Offset in the source text.
    pub offset: Column<u64>,
}

impl Instants {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }
}

/// Values of counters. Rows ascend by (track, time, file order).
#[derive(Debug, Clone)]
pub struct Counters {
    /// Times.
    pub time: Column<i64>,
    /// Tracks: [`crate::TrackId`].
    pub track: Column<u32>,
    /// Values.
    pub value: Column<f64>,
}

impl Counters {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }
}

/// Links from span to span: flows of the source. Which call launched
/// which GPU work is in [`crate::Spans::launch`] instead.
#[derive(Debug, Clone)]
pub struct Links {
    /// Rows of spans: where links start.
    pub from: Column<u32>,
    /// Rows of spans: where links end.
    pub to: Column<u32>,
    /// The flow's category, such as `fwdbwd`.
    pub category: Column<u16>,
}

impl Links {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.from.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// The spans that each link connects.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (SpanId, SpanId)> {
        self.from.iter().zip(self.to.iter()).map(|(&from, &to)| (SpanId(from), SpanId(to)))
    }
}
