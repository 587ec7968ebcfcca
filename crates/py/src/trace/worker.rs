//! Long work on another thread, while Python goes on.
//!
//! The calling thread waits without Python's lock, checks for signals now and then, and reports
//! how far the work is. After Ctrl-C it returns at once; the work goes on behind to where it
//! ends, since readers cannot be stopped in the middle, and what it gives is dropped.

use std::io;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How much of all is done.
#[derive(Default)]
pub(super) struct Done {
    done: AtomicU64,
    total: AtomicU64,
}

impl Done {
    pub(super) fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

/// What is done on a thread, and what then hands over what came out.
type Job = Box<dyn FnOnce() -> Delivery + Send>;
type Delivery = Box<dyn FnOnce()>;

/// Threads that wait for more work. A new one for each piece would get one of the C library's
/// arenas after the other where a program has many threads, as workers of Ray do, and each arena
/// keeps what was freed there: 500 MB for traces that need 30.
static WAITING: Mutex<Waiting> = Mutex::new(Waiting { process: 0, threads: Vec::new() });
/// More than these end when their work is done.
const WAITING_MAX: usize = 8;

struct Waiting {
    /// Threads do not follow into a process that was forked.
    process: u32,
    threads: Vec<Sender<Job>>,
}

/// Does a job on a thread that waits, or on a new one.
fn start(job: Job) -> io::Result<()> {
    let job = match waiting_thread() {
        None => job,
        Some(thread) => match thread.send(job) {
            Ok(()) => return Ok(()),
            Err(SendError(job)) => job,
        },
    };
    thread::Builder::new().name("spanwise".to_owned()).spawn(|| serve(job)).map(drop)
}

fn waiting_thread() -> Option<Sender<Job>> {
    // Not waited for: in a process that was forked, its holder may be gone.
    let mut waiting = WAITING.try_lock().ok()?;
    if waiting.process != process::id() {
        // Whom they lead to is not here; nobody may be woken.
        std::mem::forget(std::mem::take(&mut waiting.threads));
        waiting.process = process::id();
    }
    waiting.threads.pop()
}

/// Job after job, as long as there is room among those that wait.
fn serve(mut job: Job) {
    loop {
        let deliver = job();
        let (sender, receiver) = channel();
        // Before the result is out: who asks again at once finds this thread.
        wait_for_more(sender);
        deliver();
        match receiver.recv() {
            Ok(next) => job = next,
            Err(_) => return,
        }
    }
}

fn wait_for_more(thread: Sender<Job>) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    if waiting.process == process::id() && waiting.threads.len() < WAITING_MAX {
        waiting.threads.push(thread);
    }
}

/// Does the work; `progress` is called with bytes done and bytes in all.
pub(super) fn work<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Done) -> T + Send + 'static,
) -> PyResult<T> {
    let done = Arc::new(Done::default());
    let (sender, receiver) = channel();
    let shared = Arc::clone(&done);
    start(Box::new(move || {
        let result = job(&shared);
        // Nobody may be waiting any more.
        Box::new(move || drop(sender.send(result)))
    }))?;
    let receiver = Mutex::new(receiver);
    loop {
        let got = py.detach(|| match receiver.lock() {
            Ok(receiver) => receiver.recv_timeout(SIGNAL_CHECK_INTERVAL),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match got {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                let what = "spanwise ended its work unexpectedly; this is a bug of spanwise";
                return Err(PyRuntimeError::new_err(what));
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
        if let Some(progress) = progress {
            let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
            progress.call1((load(&done.done), load(&done.total)))?;
        }
    }
}
