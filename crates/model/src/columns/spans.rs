//! Every timed interval of a trace, one row each.
//!
//! Rows stand track by track; inside a track they ascend by (start, longest
//! first, file order), so a parent always precedes its children: one forward pass
//! visits callers first, one backward pass sums children into them (I3). Spans of
//! a track may overlap without nesting, and in real traces they do.

use crate::{CategoryId, Column, NO_ROW, Nanos, StrId, TrackId, count_effort};

/// Row number of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u32);

impl SpanId {
    /// The id as an index of a column.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The columns of all spans; each has one entry per span (I2).
#[derive(Debug, Clone)]
pub struct Spans {
    pub(crate) start: Column<i64>,
    pub(crate) dur: Column<i64>,
    pub(crate) name: Column<u32>,
    pub(crate) category: Column<u16>,
    pub(crate) track: Column<u32>,
    pub(crate) parent: Column<u32>,
    pub(crate) launch: Column<u32>,
    pub(crate) offset: Column<u64>,
}

impl Spans {
    /// Number of spans.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// All spans, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = SpanId> + ExactSizeIterator + use<> {
        (0..self.len() as u32).map(SpanId)
    }

    /// The start of a span.
    pub fn start(&self, span: SpanId) -> Nanos {
        count_effort(1);
        self.start[span.index()]
    }

    /// The duration of a span.
    pub fn dur(&self, span: SpanId) -> Nanos {
        count_effort(1);
        self.dur[span.index()]
    }

    /// The first nanosecond after the span. The builder ensures that it exists.
    pub fn end(&self, span: SpanId) -> Nanos {
        count_effort(1);
        self.start[span.index()] + self.dur[span.index()]
    }

    /// The name of a span.
    pub fn name(&self, span: SpanId) -> StrId {
        count_effort(1);
        StrId(self.name[span.index()])
    }

    /// The category of a span.
    pub fn category(&self, span: SpanId) -> CategoryId {
        count_effort(1);
        self.category[span.index()].into()
    }

    /// The track of a span.
    pub fn track(&self, span: SpanId) -> TrackId {
        count_effort(1);
        TrackId(self.track[span.index()])
    }

    /// The innermost span of the same track that was open when this one began.
    pub fn parent(&self, span: SpanId) -> Option<SpanId> {
        count_effort(1);
        row(self.parent[span.index()])
    }

    /// The runtime call that launched this GPU work, where the trace holds it.
    pub fn launch(&self, span: SpanId) -> Option<SpanId> {
        count_effort(1);
        row(self.launch[span.index()])
    }

    /// Where the event stands in the source text ([`crate::ArgsSource`]).
    pub fn offset(&self, span: SpanId) -> u64 {
        count_effort(1);
        self.offset[span.index()]
    }

    /// Start times.
    pub fn start_column(&self) -> &Column<i64> {
        &self.start
    }

    /// Durations.
    pub fn dur_column(&self) -> &Column<i64> {
        &self.dur
    }

    /// Names: [`StrId`].
    pub fn name_column(&self) -> &Column<u32> {
        &self.name
    }

    /// Categories: [`CategoryId`].
    pub fn category_column(&self) -> &Column<u16> {
        &self.category
    }

    /// Tracks: [`TrackId`].
    pub fn track_column(&self) -> &Column<u32> {
        &self.track
    }

    /// Row numbers; [`NO_ROW`] for "no parent".
    pub fn parent_column(&self) -> &Column<u32> {
        &self.parent
    }

    /// Row numbers; [`NO_ROW`] for "no launch known".
    pub fn launch_column(&self) -> &Column<u32> {
        &self.launch
    }

    /// Offsets in the source text.
    pub fn offset_column(&self) -> &Column<u64> {
        &self.offset
    }

    /// Takes columns as an index holds them; [`crate::Trace::from_parts`] checks them.
    #[expect(clippy::too_many_arguments, reason = "one argument a column, all of other names")]
    pub fn from_columns(
        start: Column<i64>,
        dur: Column<i64>,
        name: Column<u32>,
        category: Column<u16>,
        track: Column<u32>,
        parent: Column<u32>,
        launch: Column<u32>,
        offset: Column<u64>,
    ) -> Self {
        Spans { start, dur, name, category, track, parent, launch, offset }
    }
}

fn row(value: u32) -> Option<SpanId> {
    (value != NO_ROW).then_some(SpanId(value))
}
