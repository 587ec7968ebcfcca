//! Long work on a thread of its own, while Python goes on.
//!
//! The calling thread waits without Python's lock, looks for signals now and then, and tells
//! how far the work is. After Ctrl-C it returns at once; the work goes on behind to where it
//! ends, since readers cannot be stopped in the middle, and what it gives is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

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

/// Does the work; `tell` is called with bytes done and bytes in all.
pub(super) fn work<T: Send + 'static>(
    py: Python<'_>,
    tell: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Done) -> T + Send + 'static,
) -> PyResult<T> {
    let done = Arc::new(Done::default());
    let (sender, receiver) = channel();
    let shared = Arc::clone(&done);
    thread::Builder::new().name("spanwise".to_owned()).spawn(move || {
        // Nobody may be waiting any more.
        let _ = sender.send(job(&shared));
    })?;
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let got = py.detach(|| match receiver.lock() {
            Ok(receiver) => receiver.recv_timeout(BETWEEN_LOOKS),
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
        if let Some(tell) = tell {
            let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
            tell.call1((load(&done.done), load(&done.total)))?;
        }
    }
}
