//! Calls that Python is notified of before and after, so that it can record them in depth.
//!
//! A site is watched for as long as its next call is waited for: the others pay nothing for it.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// What is called before a watched call, with its site, and after it, with what that gave.
static CALLBACKS: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();

/// Sets what to call. The first ones stay.
#[pyfunction]
pub(crate) fn set_watch_callbacks(py: Python<'_>, before: Py<PyAny>, after: Py<PyAny>) {
    // Set once: who comes later is the same module, imported anew.
    let _ = CALLBACKS.set(py, (before, after));
}

/// Python's own account of a call that goes on.
pub(crate) struct Around(Option<Py<PyAny>>);

/// A watched call is about to begin. What is raised is of no account.
pub(crate) fn before(site: u64) -> Around {
    Python::attach(|py| {
        let around = CALLBACKS.get(py).map(|(before, _)| before.call1(py, (site as u32,)));
        Around(around.and_then(Result::ok))
    })
}

impl Around {
    /// It has ended; what it has raised stays as it is.
    pub(crate) fn end(self) {
        Python::attach(|py| {
            let raised = PyErr::take(py);
            if let (Some(around), Some((_, after))) = (self.0, CALLBACKS.get(py)) {
                drop(after.call1(py, (around,)));
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}
