//! Whether something is recorded, and what: the one hub and the gates that calls check.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use spanwise_probe::raw::{self, Record};
use spanwise_probe::{Hub, HubOptions, Observer, SessionSummary};

use crate::spans::probes;
use crate::spans::record_call;
use crate::sums::store::store;

/// Sites above this level are not recorded; 0 while nothing is.
pub(crate) static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Which probes run before and after each span: bits of [`probes`].
pub(crate) static PROBES: AtomicU8 = AtomicU8::new(0);

/// How often the hub's thread takes records out, and samples memory where that is wanted.
const FLUSH_EVERY: Duration = Duration::from_millis(10);

/// Room for 10 ms of three million spans a second, which fits a processor's cache: memory that was
/// never touched costs more than the record.
const RECORDS_PER_THREAD: usize = 1 << 15;

/// Calls in a tight loop make ten million, and the hub's thread may not get a processor in time:
/// rings grow to 96 MiB.
const RECORDS_PER_THREAD_MAX: usize = 1 << 22;

static HUB: Mutex<Option<Hub>> = Mutex::new(None);

fn hub() -> MutexGuard<'static, Option<Hub>> {
    HUB.lock().unwrap_or_else(PoisonError::into_inner)
}

struct ToStore;

/// Processor time of the hub's thread, and records that were handed out, so far.
static WRITER_NS: AtomicU64 = AtomicU64::new(0);
static RECORDS: AtomicU64 = AtomicU64::new(0);

/// What the hub's thread has taken so far, in seconds, and for how many records.
pub(crate) fn writer_cost() -> (f64, u64) {
    let nanos = WRITER_NS.load(Ordering::Relaxed);
    (nanos as f64 / 1e9, RECORDS.load(Ordering::Relaxed))
}

impl Observer for ToStore {
    fn before_flush(&mut self) {
        WRITER_NS.store(probes::cpu_time_ns().unsigned_abs(), Ordering::Relaxed);
        if PROBES.load(Ordering::Relaxed) & probes::SAMPLES != 0
            && let Some((tick, mebibytes)) = probes::sample_memory()
        {
            store().sample(tick, mebibytes);
        }
    }

    fn see(&mut self, thread_id: u64, records: &[Record]) {
        RECORDS.fetch_add(records.len() as u64, Ordering::Relaxed);
        let mut store = store();
        records.iter().for_each(|&record| store.see(thread_id, record));
    }
}

/// Records at a level with probes; level 0 ends recording, unless files are to go on. What
/// came before is handed out first, so that it is counted by the rules of its time.
pub(crate) fn set_level(level: u8, probes: u8, keeps_files: bool) -> io::Result<()> {
    let mut hub = hub();
    LEVEL.store(0, Ordering::Relaxed);
    PROBES.store(probes, Ordering::Relaxed);
    if level == 0 && !keeps_files {
        drop(hub.take());
        return Ok(());
    }
    match &*hub {
        Some(hub) => hub.flush(),
        None => {
            let options = HubOptions {
                records_per_thread: RECORDS_PER_THREAD,
                records_per_thread_max: RECORDS_PER_THREAD_MAX,
                flush_every: FLUSH_EVERY,
            };
            *hub = Some(Hub::start(options, Box::new(ToStore))?);
        }
    }
    probes::prepare();
    LEVEL.store(level, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn flush() {
    if let Some(hub) = &*hub() {
        hub.flush();
    }
}

pub(crate) fn open_file(path: &Path) -> io::Result<u32> {
    match &*hub() {
        Some(hub) => hub.open_file(path),
        None => Err(io::Error::other("nothing is recorded")),
    }
}

pub(crate) fn close_file(number: u32) -> io::Result<SessionSummary> {
    match &*hub() {
        Some(hub) => hub.close_file(number),
        None => Err(io::Error::other("nothing is recorded")),
    }
}

/// Held from before a fork until after it, so that the child gets locks that are free.
static PAUSED: Mutex<Option<Paused>> = Mutex::new(None);

struct Paused {
    /// Before the hub, which it belongs to.
    _pause: Option<spanwise_probe::Pause<'static>>,
    hub: MutexGuard<'static, Option<Hub>>,
}

// SAFETY: the guards are made and dropped by the thread that forks, which in the child is the
// same one; nobody else takes them out.
unsafe impl Send for Paused {}

pub(crate) fn before_fork() {
    let hub = hub();
    let pause = hub.as_ref().map(|hub| {
        let pause = hub.pause();
        // SAFETY: the hub stays where it is while its guard is held, and that is kept beside
        // the pause and dropped after it.
        unsafe {
            std::mem::transmute::<spanwise_probe::Pause<'_>, spanwise_probe::Pause<'static>>(pause)
        }
    });
    let mut paused = PAUSED.lock().unwrap_or_else(PoisonError::into_inner);
    *paused = Some(Paused { _pause: pause, hub });
}

pub(crate) fn after_fork_in_parent() {
    drop(PAUSED.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// The child has no hub; what its parent recorded is its parent's.
pub(crate) fn after_fork_in_child() {
    LEVEL.store(0, Ordering::Relaxed);
    let paused = PAUSED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Paused { _pause, mut hub }) = paused {
        drop(_pause);
        // Its thread does not exist here, and its files must not be ended from here.
        std::mem::forget(hub.take());
    }
    record_call::forget_thread();
    probes::reopen();
    store().forget_parent();
}

/// The first time that was read: where ticks are counted from.
static BASE: OnceLock<(u64, i64)> = OnceLock::new();

/// From ticks to nanoseconds, as well as is known by now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    base: (u64, i64),
    ticks: u64,
    nanos: i64,
}

pub(crate) fn start_clock() {
    BASE.get_or_init(raw::clock_reading);
}

/// The rate that was worked out last: reading both clocks takes a microsecond.
static LAST_RATE: Mutex<Option<Rate>> = Mutex::new(None);

pub(crate) fn rate() -> Rate {
    let base = *BASE.get_or_init(raw::clock_reading);
    let mut last = LAST_RATE.lock().unwrap_or_else(PoisonError::into_inner);
    let since = raw::now_always().saturating_sub(base.0);
    // It gets better as time goes by: worked out anew when an eighth has been added.
    if let Some(known) = *last
        && known.ticks > since - since / 8
    {
        return known;
    }
    let now = raw::clock_reading();
    let ticks = now.0.saturating_sub(base.0).max(1);
    *last.insert(Rate { base, ticks, nanos: (now.1 - base.1).max(1) })
}

impl Rate {
    /// A duration in nanoseconds.
    pub(crate) fn nanos(&self, ticks: u64) -> i64 {
        let nanos = i128::from(ticks) * i128::from(self.nanos) / i128::from(self.ticks);
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }

    /// A time in nanoseconds on the monotonic clock.
    pub(crate) fn time(&self, tick: u64) -> i64 {
        let since = i128::from(tick) - i128::from(self.base.0);
        let nanos = since * i128::from(self.nanos) / i128::from(self.ticks);
        self.base.1.saturating_add(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// How many ticks so many seconds are; none for what is below zero.
    pub(crate) fn ticks(&self, seconds: f64) -> u64 {
        (seconds.max(0.0) * 1e9 * self.ticks as f64 / self.nanos as f64) as u64
    }

    pub(crate) fn seconds(&self, ticks: u64) -> f64 {
        self.nanos(ticks) as f64 / 1e9
    }

    pub(crate) fn time_seconds(&self, tick: u64) -> f64 {
        self.time(tick) as f64 / 1e9
    }
}
