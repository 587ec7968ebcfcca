//! What a session that still goes on looks like at one moment: sums, no rows of a trace.
//!
//! A trace holds every span and never changes; whoever watches a program wants neither. These
//! are plain rows, made anew at each look.

use crate::Nanos;

/// A session, as far as it has been read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveSession {
    pub process_id: u32,
    pub program: String,
    /// Whether the session's end is written; else it goes on, or its program was ended.
    pub has_ended: bool,
    /// Nanoseconds on the monotonic clock: when the session began, and the latest that is known.
    pub began: Nanos,
    pub until: Nanos,
    /// What `began` is in nanoseconds since 1970.
    pub began_calendar_ns: i64,
    pub bytes: u64,
    /// Bytes at the end that are no whole chunk, yet.
    pub unread_bytes: u64,
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
    pub name: String,
    pub count: u64,
    pub total_ns: i128,
    /// Without what other spans on the thread took meanwhile; none for tasks.
    pub self_ns: i128,
    pub max_ns: Nanos,
    /// When the last one ended.
    pub last: Nanos,
    /// The same since the look before.
    pub new_count: u64,
    pub new_total_ns: i128,
    pub new_self_ns: i128,
}

/// One thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveThread {
    pub id: u64,
    pub name: String,
    pub spans: u64,
    /// Time in which some span was open, of spans that have ended.
    pub busy_ns: i128,
    pub new_busy_ns: i128,
    pub dropped: u64,
    /// When its last record was made.
    pub last: Nanos,
}

/// A moment that the program marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMark {
    pub name: String,
    pub time: Nanos,
    pub thread_id: u64,
}

/// A value over time.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveCounter {
    pub name: String,
    pub last_value: f64,
    pub min: f64,
    pub max: f64,
    pub count: u64,
    pub last: Nanos,
}
