//! Where spans happen: threads, GPU streams, counters, asynchronous lanes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{SpanId, StrId, count_effort};

/// Number of a track in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub u32);

impl TrackId {
    /// The id as an index of a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a track contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum TrackKind {
    /// A thread of a process.
    Thread = 0,
    /// A stream of a GPU: `process` is the device, `thread` the stream.
    GpuStream,
    /// Work that belongs to no thread; its spans overlap freely.
    Async,
    /// A counter's values over time.
    Counter,
    /// Rows that a profiler keeps for itself.
    Profiler,
}

impl TrackKind {
    /// All values, in the order of their numbers.
    pub const ALL: [TrackKind; 5] = [
        TrackKind::Thread,
        TrackKind::GpuStream,
        TrackKind::Async,
        TrackKind::Counter,
        TrackKind::Profiler,
    ];

    /// The word for it in tables, in the index and in the viewer.
    pub const fn text(self) -> &'static str {
        match self {
            TrackKind::Thread => "thread",
            TrackKind::GpuStream => "gpu_stream",
            TrackKind::Async => "async",
            TrackKind::Counter => "counter",
            TrackKind::Profiler => "profiler",
        }
    }
}

/// One track. `process` and `thread` are the source's own ids, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// What it is.
    pub kind: TrackKind,
    /// Id of the process.
    pub process: StrId,
    /// Id of the thread.
    pub thread: StrId,
    /// Name of the process; empty if unknown.
    pub process_name: StrId,
    /// Name of the thread; empty if unknown.
    pub thread_name: StrId,
    /// Lower stands higher in a picture.
    pub sort_index: i64,
    /// Its rows in [`crate::Spans`].
    pub spans: Range<u32>,
}

/// All tracks of a trace, in order of first use.
#[derive(Debug, Clone, Default)]
pub struct Tracks(pub(crate) Vec<Track>);

impl Tracks {
    /// From its rows.
    pub fn new(rows: Vec<Track>) -> Self {
        Tracks(rows)
    }

    /// The track of an id.
    pub fn get(&self, id: TrackId) -> &Track {
        count_effort(1);
        &self.0[id.index()]
    }

    /// Number of tracks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no tracks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All rows.
    pub fn rows(&self) -> &[Track] {
        count_effort(self.len());
        &self.0
    }

    /// All tracks with their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TrackId, &Track)> {
        count_effort(self.len());
        self.0.iter().enumerate().map(|(index, track)| (TrackId(index as u32), track))
    }
}

impl Track {
    /// The spans of the track, in order.
    pub fn span_ids(&self) -> impl DoubleEndedIterator<Item = SpanId> + ExactSizeIterator + use<> {
        self.spans.clone().map(SpanId)
    }

    /// The same rows as a range into the columns of [`crate::Spans`].
    pub fn rows(&self) -> Range<usize> {
        self.spans.start as usize..self.spans.end as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_in_order_and_are_named_as_they_are_stored() {
        for (at, kind) in TrackKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(kind.text().replace('_', ""), format!("{kind:?}").to_lowercase());
        }
    }
}
