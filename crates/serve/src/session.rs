//! All traces on view; what is still being written is read again as it grows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use spanwise_model::Trace;
use spanwise_query::{Database, QueryError};
use spanwise_report::{LiveTrace, LiveUpdate};

use crate::viewed::TraceView;

/// How often a session that grows is polled.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How many reads of a trace that grows are kept.
const READS_KEPT: usize = 3;
/// Reading a long session again takes its time: at most this part of all time is spent on it.
const READING_SHARE: u32 = 4;
/// How many queries may run at the same time. A browser has six connections to a server, so a page
/// whose queries are slow can still draw.
pub(crate) const QUERIES_MAX: usize = 4;

/// The traces that are open.
pub struct Session {
    /// The latest reads of each, the newest first: a page has numbers of spans from the read
    /// before for a short time.
    traces: Vec<RwLock<Vec<Arc<TraceView>>>>,
    /// Which of them grow.
    growing: Mutex<Vec<(usize, LiveTrace)>>,
    database: Mutex<Option<QueryTables>>,
    /// How many queries run.
    queries: AtomicUsize,
}

/// Tables of SQL, and the traces that they are made of.
struct QueryTables {
    traces: Vec<Arc<TraceView>>,
    database: Arc<Database>,
}

impl Session {
    pub fn new(traces: Vec<TraceView>) -> Self {
        let traces = traces.into_iter().map(|it| RwLock::new(vec![Arc::new(it)])).collect();
        Session {
            traces,
            growing: Mutex::default(),
            database: Mutex::new(None),
            queries: AtomicUsize::new(0),
        }
    }

    /// Says that one of the traces is a session which is still being written.
    #[must_use]
    pub fn follow(self, at: usize, live: LiveTrace) -> Self {
        self.set_live(at, true);
        unbroken(&self.growing).push((at, live));
        self
    }

    /// Says whether there may be more of one of the traces: by [`Session::renew`], or by what
    /// it [follows](Session::follow).
    pub fn set_live(&self, at: usize, is_live: bool) {
        if let Some(viewed) = self.trace(at) {
            viewed.set_live(is_live);
        }
    }

    /// Puts a newer trace in the place of one.
    pub fn renew(&self, at: usize, trace: Trace, is_live: bool) {
        let Some(before) = self.trace(at) else { return };
        let viewed = before.read_again(trace);
        viewed.set_live(is_live);
        let mut reads = self.traces[at].write().unwrap_or_else(PoisonError::into_inner);
        reads.insert(0, Arc::new(viewed));
        reads.truncate(READS_KEPT);
    }

    pub(crate) fn trace(&self, at: usize) -> Option<Arc<TraceView>> {
        self.trace_of_read(at, None)
    }

    /// The trace as it was at a read, or now where that is no longer known.
    pub(crate) fn trace_of_read(&self, at: usize, read: Option<i64>) -> Option<Arc<TraceView>> {
        let reads = self.traces.get(at)?.read().unwrap_or_else(PoisonError::into_inner);
        let known = reads.iter().find(|viewed| Some(viewed.read) == read);
        known.or(reads.first()).map(Arc::clone)
    }

    pub(crate) fn traces(&self) -> Vec<Arc<TraceView>> {
        (0..self.traces.len()).filter_map(|at| self.trace(at)).collect()
    }

    /// Reads what grows again and again, until it no longer does.
    pub(crate) fn keep_up(&self) {
        let mut growing = std::mem::take(&mut *unbroken(&self.growing));
        while !growing.is_empty() {
            let start = Instant::now();
            growing.retain_mut(|(at, live)| self.poll(*at, live));
            thread::sleep(POLL_EVERY.max(start.elapsed() * (READING_SHARE - 1)));
        }
    }

    /// Takes what is new of a trace; whether there may be more. One that can no longer be read
    /// stays as it was.
    fn poll(&self, at: usize, live: &mut LiveTrace) -> bool {
        let update = live.update().unwrap_or(LiveUpdate { trace: None, is_live: false });
        match update.trace {
            Some(trace) => self.renew(at, trace, update.is_live),
            None => self.set_live(at, update.is_live),
        }
        update.is_live
    }

    /// The tables of all traces, made when first asked for and when a trace has grown. Any number
    /// of queries may run on them at the same time.
    fn tables(&self) -> Result<Arc<Database>, QueryError> {
        let traces = self.traces();
        let mut slot = unbroken(&self.database);
        let is_same = |asked: &QueryTables| {
            asked.traces.iter().zip(&traces).all(|(before, now)| Arc::ptr_eq(before, now))
        };
        let asked = match slot.take().filter(is_same) {
            Some(asked) => asked,
            None => {
                let facts = traces.iter().map(|viewed| Arc::clone(&viewed.facts)).collect();
                QueryTables { traces, database: Arc::new(Database::of_facts(facts)?) }
            }
        };
        Ok(Arc::clone(&slot.insert(asked).database))
    }

    /// Asks the tables; nothing where too many queries run already.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&Database) -> Result<T, QueryError>,
    ) -> Option<Result<T, QueryError>> {
        let _place = QueryPlace::take(&self.queries)?;
        Some(self.tables().and_then(|database| question(&database)))
    }
}

/// One of the few queries that may run at the same time.
struct QueryPlace<'a>(&'a AtomicUsize);

impl<'a> QueryPlace<'a> {
    fn take(running: &'a AtomicUsize) -> Option<Self> {
        let is_free = |count: usize| (count < QUERIES_MAX).then_some(count + 1);
        running.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_free).ok()?;
        Some(QueryPlace(running))
    }
}

impl Drop for QueryPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a lock holds, also where a thread that had it has failed: nothing is left half done.
fn unbroken<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
