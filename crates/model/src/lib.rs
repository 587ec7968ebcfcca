//! The data model of spanwise: a frozen, columnar [`Trace`], and a [`Profile`].
//!
//! A trace has spans, instant events, counters, links, samples and thread states, a table each:
//!
//! ```
//! use spanwise_model::Trace;
//!
//! fn total_ns(trace: &Trace, name: &str) -> i64 {
//!     let spans = trace.spans();
//!     spans.ids().filter(|&span| trace.name(span) == name).map(|span| spans.dur(span)).sum()
//! }
//! ```
//!
//! Readers fill [`Batch`]es, and a [`TraceBuilder`] joins them:
//!
//! ```
//! use spanwise_model::*;
//!
//! let mut batch = Batch::default();
//! let thread = batch.track(TrackKind::Thread, "7", "8");
//! let category = batch.category("cpu_op", SpanKind::Operator);
//! for (name, start, dur) in [("outer", 0, 100), ("inner", 20, 30)] {
//!     let name = batch.string(name);
//!     let row = SpanRow { start, dur, key: NO_KEY, offset: NO_OFFSET, name, category };
//!     batch.push_span(thread, row);
//! }
//! batch.seal();
//!
//! let mut builder = TraceBuilder::new(1);
//! builder.push(batch);
//! let trace = builder.finish(SourceInfo::default(), None);
//! let inner = trace.spans().ids().last().expect("two spans");
//! assert_eq!(trace.name(inner), "inner");
//! assert_eq!(trace.spans().parent(inner).map(|outer| trace.name(outer)), Some("outer"));
//! ```
//!
//! A profile has values by stack, without times:
//!
//! ```
//! use spanwise_model::*;
//!
//! let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")], 0);
//! let name = builder.string("main");
//! let frame = ProfileFrame { name, group: StrId::EMPTY, file: StrId::EMPTY, line: 0 };
//! let frame = builder.frame(frame);
//! let stack = builder.push(StackId::EMPTY, frame);
//! let labels = builder.labels(Vec::new());
//! builder.add(stack, labels, 0, 1000);
//! assert_eq!(builder.finish().totals(), [1000]);
//! ```
//!
//! Columns are plain Arrow buffers, so that analyses, the mapped index and PyArrow use the same
//! bytes.
//!
//! Invariants, cited by number throughout the project (ARCHITECTURE.md has them
//! all): I2 columns of a table have one length; I3 spans of a track ascend by
//! (start, longest first, file order) and `parent < self`; I4 every string is
//! stored once; I5 a finished trace never changes; I11 a sample's weight stays in the
//! unit of its event.

#![warn(missing_docs)]

mod base;
mod build;
mod columns;
mod live;
mod observed;
mod profile;
mod trace;

pub use base::effort::{count_effort, effort};
pub use base::hash::{QuickHasher, QuickMap, QuickState};
pub use base::parallel::{
    both, for_each_index, map_indices, map_items, on_one_thread, threads_available,
};
pub use build::batch::{
    AsyncPhase, AsyncRow, Batch, CounterRow, FlowPhase, FlowRow, InstantRow, LinkRow, NO_KEY,
    NO_OFFSET, PairRow, SpanRow, TrackLabel,
};
pub use build::builder::TraceBuilder;
pub use build::check::Violation;
pub use build::merge::{MergePart, MergedClock, MergedTrace, merge, starts_on_one_clock};
pub use build::pairing::{Pairing, pair_nested};
pub use build::select::{Selection, select};
pub use columns::args::{ArgValue, ArgsSource, pick_from};
pub use columns::category::{Categories, Category, CategoryId, SpanKind};
pub use columns::events::{Counters, Instants, Links};
pub use columns::info::{
    BOOT_PROPERTY, BrakedCalls, BrakedLevel, CountedCalls, Device, SourceInfo,
};
pub use columns::measurements::{MeasuredRow, Measurements};
pub use columns::notice::{Notice, NoticeKind, Notices};
pub use columns::spans::{SpanId, Spans};
pub use columns::strings::{StrId, Strings, StringsBuilder, hash_bytes};
pub use columns::summary::{CategorySummary, Summary, TrackSummary};
pub use columns::thread_state::{
    AwaitedLock, BlockedOn, LOCK_WAIT_CATEGORY, MIGRATION_CATEGORY, RunnableSince, ThreadState,
    WAKEUP_CATEGORY,
};
pub use columns::tracks::{Track, TrackId, TrackKind, Tracks};
pub use live::{LiveCounter, LiveMark, LiveSession, LiveSpans, LiveThread};
pub use observed::{
    Frame, FrameId, FrameKind, Frames, NO_CPU, NO_LOCK, NO_TIME, ObservedRows, ObservedTables,
    SampleEvent, SampleEvents, SampleRow, SampleRows, Samples, Stacks, StateRow, ThreadStates,
};
pub use profile::{
    Label, LabelValue, Profile, ProfileBuilder, ProfileFrame, RowId, Sample, StackId, ValueType,
};
pub use trace::{Parts, Trace};

/// A point in time or a length of time, in whole nanoseconds.
///
/// A trace has one clock; zero is wherever the source put it
/// ([`SourceInfo::base_time_ns`] leads to the calendar).
pub type Nanos = i64;

/// A contiguous, aligned, little-endian column in Arrow's layout, owned or mapped.
pub type Column<T> = arrow_buffer::ScalarBuffer<T>;

/// Stands for "none" in columns of row numbers.
pub const NO_ROW: u32 = u32::MAX;
