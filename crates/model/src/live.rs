//! The state of a session that is still running: sums, not the rows of a trace.
//!
//! A trace contains every span and never changes; to watch a program, neither is wanted. These
//! are plain rows, new for each update.

use crate::Nanos;

/// A session, as far as it has been read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveSession {
    /// Process id.
    pub process_id: u32,
    /// Name of the program.
    pub program: String,
    /// Whether the session's end is written; else it goes on, or its program was ended.
    pub has_ended: bool,
    /// Nanoseconds on the monotonic clock: when the session began, and the latest that is known.
    pub began: Nanos,
    /// The latest time that is known.
    pub until: Nanos,
    /// What `began` is in nanoseconds since 1970.
    pub began_calendar_ns: i64,
    /// Bytes read so far.
    pub bytes: u64,
    /// Bytes at the end that are no whole chunk, yet.
    pub unread_bytes: u64,
    /// Records read so far.
    pub records: u64,
    /// Records that threads had no room for.
    pub dropped: u64,
    /// Chunks and records that make no sense.
    pub damaged: u64,
    /// The longest self time first.
    pub spans: Vec<LiveSpans>,
    /// Coroutines and other work that is not on one thread; the longest first.
    pub tasks: Vec<LiveSpans>,
    /// The busiest first.
    pub threads: Vec<LiveThread>,
    /// The latest first.
    pub marks: Vec<LiveMark>,
    /// By name.
    pub counters: Vec<LiveCounter>,
}

/// All spans of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveSpans {
    /// Its name.
    pub name: String,
    /// Number of spans that ended.
    pub count: u64,
    /// Their total duration.
    pub total_ns: i128,
    /// Without what other spans on the thread took meanwhile; none for tasks.
    pub self_ns: i128,
    /// Their longest duration.
    pub max_ns: Nanos,
    /// When the last one ended.
    pub last: Nanos,
    /// Count since the previous update.
    pub new_count: u64,
    /// Total duration since the previous update.
    pub new_total_ns: i128,
    /// Self time since the previous update.
    pub new_self_ns: i128,
}

/// One thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveThread {
    /// Thread id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Number of spans that ended.
    pub spans: u64,
    /// Time in which some span was open, of spans that have ended.
    pub busy_ns: i128,
    /// The same since the previous update.
    pub new_busy_ns: i128,
    /// Records that were lost.
    pub dropped: u64,
    /// When its last record was made.
    pub last: Nanos,
}

/// An instant event that the program recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMark {
    /// Its name.
    pub name: String,
    /// When it happened.
    pub time: Nanos,
    /// Thread id.
    pub thread_id: u64,
}

/// A value over time.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveCounter {
    /// Its name.
    pub name: String,
    /// The latest value.
    pub last_value: f64,
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
    /// Number of values.
    pub count: u64,
    /// When the latest value was recorded.
    pub last: Nanos,
}
