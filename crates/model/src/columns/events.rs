//! The smaller tables: moments, counter values, arrows between spans.

use crate::{Column, SpanId};

/// Events without a length. Rows ascend by (track, time, file order).
#[derive(Debug, Clone)]
pub struct Instants {
    pub time: Column<i64>,
    pub name: Column<u32>,
    pub category: Column<u16>,
    pub track: Column<u32>,
    pub offset: Column<u64>,
}

impl Instants {
    pub fn len(&self) -> usize {
        self.time.len()
    }

    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }
}

/// Values of counters. Rows ascend by (track, time, file order).
#[derive(Debug, Clone)]
pub struct Counters {
    pub time: Column<i64>,
    pub track: Column<u32>,
    pub value: Column<f64>,
}

impl Counters {
    pub fn len(&self) -> usize {
        self.time.len()
    }

    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }
}

/// Arrows from span to span that the source drew as flows. Which call launched
/// which GPU work is not here but in [`crate::Spans::launch`].
#[derive(Debug, Clone)]
pub struct Links {
    pub from: Column<u32>,
    pub to: Column<u32>,
    /// The flow's category, such as `fwdbwd`.
    pub category: Column<u16>,
}

impl Links {
    pub fn len(&self) -> usize {
        self.from.len()
    }

    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (SpanId, SpanId)> {
        self.from.iter().zip(self.to.iter()).map(|(&from, &to)| (SpanId(from), SpanId(to)))
    }
}
