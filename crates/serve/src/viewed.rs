//! One trace that is shown, with what was computed about it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use spanwise_analyze::{Facts, Rows};
use spanwise_model::{
    Nanos, SpanId, SpanKind, StrId, Trace, TrackId, map_indices, threads_available,
};
use spanwise_write::short_name;

use crate::memory::{MemoryCounter, memory_counters};

/// A trace, as far as it was read; each update of one that grows makes a new `TraceView`.
pub struct TraceView {
    pub(crate) file: String,
    pub(crate) trace: Arc<Trace>,
    /// What was computed about it, for whatever is requested next.
    pub(crate) facts: Arc<Facts>,
    /// Which read of its file this is, counted from 0; numbers of spans are those of one read.
    pub(crate) read: i64,
    is_live: AtomicBool,
    /// One entry a track.
    rows: Vec<Rows>,
    memory: OnceLock<Vec<MemoryCounter>>,
    /// Short names of those that were asked for; `None` for names that are short already.
    labels: Mutex<HashMap<StrId, Option<Arc<str>>>>,
    pub(crate) report: OnceLock<String>,
}

/// Kernels that communicate are of a kind of their own for the page.
pub(crate) const COMMUNICATION: u8 = SpanKind::ALL.len() as u8;

/// The kinds of spans as the page knows them.
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    SpanKind::ALL.iter().map(|kind| kind.text()).chain(["communication"])
}

/// Has the columns that every viewport needs at hand, page by page: a mapped file is read when it
/// is first accessed, and the viewports of a zoom are all over it.
fn touch(trace: &Trace) {
    const SPANS_A_PAGE: usize = 1024;
    for span in trace.spans().ids().step_by(SPANS_A_PAGE) {
        std::hint::black_box((trace.spans().name(span), trace.spans().category(span)));
    }
}

impl TraceView {
    /// `file` is what people know it by.
    pub fn new(file: String, trace: impl Into<Arc<Trace>>) -> Self {
        TraceView::of_facts(file, Arc::new(Facts::new(&trace.into())))
    }

    /// A trace about which something is known already.
    pub fn of_facts(file: String, facts: Arc<Facts>) -> Self {
        let trace = facts.shared_trace();
        let tracks = trace.tracks().rows();
        let rows = map_indices(tracks.len(), threads_available(), |track| {
            Rows::of(&trace, &tracks[track])
        });
        touch(&trace);
        TraceView {
            file,
            rows,
            trace,
            facts,
            read: 0,
            is_live: AtomicBool::new(false),
            memory: OnceLock::new(),
            labels: Mutex::default(),
            report: OnceLock::new(),
        }
    }

    /// The same after its file has grown.
    pub(crate) fn read_again(&self, trace: Trace) -> Self {
        TraceView { read: self.read + 1, ..TraceView::new(self.file.clone(), trace) }
    }

    /// Whether there may be more of it later.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    pub(crate) fn set_live(&self, is_live: bool) {
        self.is_live.store(is_live, Ordering::Release);
    }

    pub(crate) fn rows(&self, track: TrackId) -> &Rows {
        &self.rows[track.index()]
    }

    pub(crate) fn memory(&self) -> &[MemoryCounter] {
        self.memory.get_or_init(|| memory_counters(&self.trace))
    }

    /// The times and values of a counter: those of memory are numbered behind the tracks.
    pub(crate) fn counter(&self, number: u32) -> Option<(&[Nanos], &[f64])> {
        let tracks = self.trace.tracks().len();
        if let Some(memory) = (number as usize).checked_sub(tracks) {
            return self.memory().get(memory).map(|it| (&*it.times, &*it.bytes));
        }
        let counters = self.trace.counters();
        let begin = counters.track.partition_point(|&row| row < number);
        let end = counters.track.partition_point(|&row| row <= number);
        Some((&counters.time[begin..end], &counters.value[begin..end]))
    }

    /// What to paint instead of each of these names, where that is shorter. Most names of a
    /// picture were in the one before it, too, and taking C++ names apart takes microseconds.
    pub(crate) fn labels(&self, names: impl Iterator<Item = StrId>) -> Vec<(StrId, Arc<str>)> {
        let mut known = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let label = |name: StrId| {
            let label = known.entry(name).or_insert_with(|| {
                match short_name(self.trace.strings().get(name)) {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(short) => Some(short.into()),
                }
            });
            label.clone().map(|label| (name, label))
        };
        names.filter_map(label).collect()
    }

    /// The kind of a span for the page: an index into [`kinds`].
    pub(crate) fn kind(&self, span: SpanId) -> u8 {
        match self.facts.is_communication(span) {
            true => COMMUNICATION,
            false => self.trace.kind(span) as u8,
        }
    }

    /// The page's times start here.
    pub(crate) fn zero(&self) -> Nanos {
        self.trace.window().map_or(0, |(from, _)| from)
    }

    /// A time of the trace for the page.
    pub(crate) fn to_page_time(&self, time: Nanos) -> i128 {
        i128::from(time) - i128::from(self.zero())
    }

    /// A time of the page for the trace.
    pub(crate) fn to_trace_time(&self, time: i64) -> Nanos {
        time.saturating_add(self.zero())
    }
}
