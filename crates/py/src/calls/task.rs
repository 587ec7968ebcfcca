//! Work that rests in between: generators and coroutines.
//!
//! Each period of work is a span of the thread that does it. At the end comes one record of
//! the whole, and for how long it was worked on.

use pyo3::exceptions::{PyGeneratorExit, PyStopAsyncIteration, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use spanwise_probe::raw;

use crate::spans::record_call;
use crate::sums::store::store;
use crate::sums::tally;

/// Stands between a generator, or what a coroutine's `__await__` gives, and who drives it.
#[pyclass(module = "spanwise._native")]
pub(crate) struct Parts {
    inner: Py<PyAny>,
    part: u64,
    whole: u64,
    /// The state and the time at which it began; not before the first step.
    began: Option<(u32, u64)>,
    active: u64,
    is_over: bool,
    /// It is driven through several awaitables, one after the other: an asynchronous
    /// generator. Who drives it says when it is over.
    is_repeated: bool,
}

#[pymethods]
impl Parts {
    #[new]
    #[pyo3(signature = (inner, part, whole, is_repeated = false))]
    fn new(inner: Py<PyAny>, part: u32, whole: u32, is_repeated: bool) -> Self {
        let (part, whole) = (u64::from(part) | raw::IS_PART, u64::from(whole));
        Parts { inner, part, whole, began: None, active: 0, is_over: false, is_repeated }
    }

    /// The same task, now driven through another iterator.
    fn over(this: Bound<'_, Self>, inner: Py<PyAny>) -> Bound<'_, Self> {
        this.borrow_mut().inner = inner;
        this
    }

    /// Says that it is over.
    #[pyo3(name = "finish")]
    fn finish_well(&mut self) {
        self.finish(None);
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(this: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        step(this, |inner| inner.call_method0("__next__"))
    }

    fn send(this: &Bound<'_, Self>, value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        step(this, |inner| inner.call_method1("send", (value,)))
    }

    #[pyo3(signature = (*raised))]
    fn throw(this: &Bound<'_, Self>, raised: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        step(this, |inner| inner.call_method1("throw", raised))
    }

    fn close(this: &Bound<'_, Self>) -> PyResult<()> {
        let closed = step(this, |inner| inner.call_method0("close"));
        let mut parts = this.borrow_mut();
        if !parts.is_repeated {
            parts.finish(None);
        }
        closed.map(drop)
    }
}

/// One period of work. The object is not borrowed meanwhile: what runs may come back to it,
/// and Python then says that it is running already.
fn step<'py>(
    this: &Bound<'py, Parts>,
    run: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let py = this.py();
    let inner = this.borrow().inner.clone_ref(py).into_bound(py);
    let tally = tally::of_site(this.borrow().part);
    // SAFETY: the interpreter's lock is held, and tallies are never freed.
    let open = unsafe {
        (*tally).calls += 1;
        record_call::begin(raw::here(), &*tally)
    };
    if let Some(open) = &open {
        this.borrow_mut().began.get_or_insert((open.state, open.start));
    }
    let result = run(&inner);
    let mut parts = this.borrow_mut();
    if let Some(open) = open {
        let start = open.start;
        let end = record_call::end(raw::here(), open, parts.part);
        parts.active += end.saturating_sub(start);
    }
    if let Err(error) = &result {
        let is_end = error.is_instance_of::<PyStopIteration>(py)
            || error.is_instance_of::<PyStopAsyncIteration>(py)
            || error.is_instance_of::<PyGeneratorExit>(py);
        let name = || error.get_type(py).name().map(|name| name.to_string());
        if !is_end {
            parts.finish(name().ok());
        } else if !parts.is_repeated {
            parts.finish(None);
        }
    }
    result.map(Bound::unbind)
}

impl Parts {
    /// Records the whole, once.
    fn finish(&mut self, exception: Option<String>) {
        let Some((state, start)) = self.began.filter(|_| !self.is_over) else { return };
        self.is_over = true;
        if state != raw::state() {
            return;
        }
        let end = raw::now(state);
        store().note_active(record_call::thread_id(), start, self.active);
        let mut word = self.whole;
        if let Some(name) = exception {
            word |= raw::HAS_FAILED;
            raw::record(state, [end, end, record_call::exception_site(&name)]);
        }
        raw::record(state, [start, end, word]);
    }
}
