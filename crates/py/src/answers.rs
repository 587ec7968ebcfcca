//! The functions that the Python side calls.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use spanwise_probe::{Site, SiteKind, raw};

use crate::calls::patch;
use crate::calls::target::OfMethods;
use crate::calls::wrapper;
use crate::core::{self, Rate};
use crate::spans::probes;
use crate::spans::record_call;
use crate::spans::span;
use crate::spans::values::Quantity;
use crate::sums::store::{Audience, Meaning, Operation, SiteFacts, Subscriber, Sums, store};
use crate::sums::tally;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(define, module)?)?;
    module.add_function(wrap_pyfunction!(wrap, module)?)?;
    module.add_function(wrap_pyfunction!(make_span, module)?)?;
    module.add_function(wrap_pyfunction!(is_on, module)?)?;
    module.add_function(wrap_pyfunction!(subscribe, module)?)?;
    module.add_function(wrap_pyfunction!(unsubscribe, module)?)?;
    module.add_function(wrap_pyfunction!(clear, module)?)?;
    module.add_function(wrap_pyfunction!(set_current_manager, module)?)?;
    module.add_function(wrap_pyfunction!(set_level, module)?)?;
    module.add_function(wrap_pyfunction!(flush, module)?)?;
    module.add_function(wrap_pyfunction!(open_file, module)?)?;
    module.add_function(wrap_pyfunction!(close_file, module)?)?;
    module.add_function(wrap_pyfunction!(operations, module)?)?;
    module.add_function(wrap_pyfunction!(sums, module)?)?;
    module.add_function(wrap_pyfunction!(memory, module)?)?;
    module.add_function(wrap_pyfunction!(writer_cost, module)?)?;
    module.add_function(wrap_pyfunction!(mark, module)?)?;
    module.add_function(wrap_pyfunction!(set_gpu_function, module)?)?;
    module.add_function(wrap_pyfunction!(before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork_in_parent, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork_in_child, module)?)?;
    module.add("MEMORY", probes::MEMORY)?;
    module.add("CPU_TIME", probes::CPU_TIME)?;
    module.add("GPU", probes::GPU)?;
    module.add("IO", probes::IO)?;
    module.add("SAMPLES", probes::SAMPLES)
}

/// Who gets what a site records: a manager, a subscriber, names; 0 and `None` for all.
type ForWhom = (u32, u32, Option<Vec<String>>);

/// Makes a site; gives its number.
#[pyfunction]
#[pyo3(signature = (meaning, text, place, name, component, for_whom))]
fn define(
    meaning: &str,
    text: &str,
    place: (&str, u32),
    name: u32,
    component: u32,
    for_whom: ForWhom,
) -> PyResult<u32> {
    let (meaning, kind) = match meaning {
        "operation" => (Meaning::Operation, SiteKind::Span),
        "generator" => (Meaning::Generator, SiteKind::Task),
        "generator part" => (Meaning::GeneratorPart, SiteKind::Span),
        "coroutine" => (Meaning::Coroutine, SiteKind::Task),
        "coroutine part" => (Meaning::CoroutinePart, SiteKind::Span),
        other => return Err(PyValueError::new_err(format!("no meaning {other:?}"))),
    };
    let (manager, subscriber, names) = for_whom;
    let audience = Audience { manager, subscriber, names };
    let number = Site::leak(kind, text, place.0, place.1).number();
    store().define(number, SiteFacts { meaning, name, component, audience });
    Ok(number)
}

/// Makes a callable of the type [`wrapper`].
#[pyfunction]
#[pyo3(signature = (class, function, site, level, of_methods = None))]
fn wrap(
    class: &Bound<'_, PyAny>,
    function: &Bound<'_, PyAny>,
    site: u32,
    level: u8,
    of_methods: Option<OfMethods<'_>>,
) -> PyResult<Py<PyAny>> {
    wrapper::wrap(class, function, site, level, of_methods)
}

#[pyfunction]
fn make_span(class: &Bound<'_, PyAny>, site: u32, level: u8) -> PyResult<Py<PyAny>> {
    span::make(class, site, level)
}

/// Whether sites of a level are recorded now.
#[pyfunction]
fn is_on(level: u8) -> bool {
    record_call::is_on(level)
}

/// Adds or changes a subscriber; what is recorded already is counted by the old rules. One
/// without a name sums up what any profiler of the manager gets.
#[pyfunction]
fn subscribe(number: u32, manager: u32, name: String, is_active: bool, operations_max: usize) {
    bring_in();
    let mut store = store();
    let subscriber = store.subscribers.entry(number).or_default();
    subscriber.manager = manager;
    subscriber.is_whole = name.is_empty();
    subscriber.name = name;
    subscriber.is_active = is_active;
    subscriber.operations_max = operations_max;
}

#[pyfunction]
fn unsubscribe(number: u32) {
    // Removed first, dropped when the store is free again: it may be large.
    let removed = store().subscribers.remove(&number);
    drop(removed);
}

#[pyfunction]
fn clear(number: u32) {
    bring_in();
    if let Some(subscriber) = store().subscribers.get_mut(&number) {
        subscriber.clear();
    }
}

#[pyfunction]
fn set_current_manager(manager: u32) {
    bring_in();
    store().current_manager = manager;
}

#[pyfunction]
fn set_level(py: Python<'_>, level: u8, probes: u8, keeps_files: bool) -> PyResult<()> {
    tally::hand_over();
    let done = py.detach(|| core::set_level(level, probes, keeps_files));
    patch::switch_all();
    done.map_err(PyErr::from)
}

/// Has the store know all that was recorded so far.
fn bring_in() {
    core::flush();
    tally::hand_over();
}

#[pyfunction]
fn flush() {
    bring_in();
}

#[pyfunction]
fn open_file(path: PathBuf) -> PyResult<u32> {
    Ok(core::open_file(&path)?)
}

/// Ends a file: how many records are in it, and how many there was no room for.
#[pyfunction]
fn close_file(number: u32) -> PyResult<(u64, u64)> {
    let saved = core::close_file(number)?;
    Ok((saved.records, saved.dropped))
}

/// Resident memory of the process in MiB.
#[pyfunction]
fn memory() -> Option<f64> {
    probes::memory()
}

#[pyfunction]
fn set_gpu_function(function: Option<Py<PyAny>>) {
    probes::set_gpu_function(function);
}

#[pyfunction]
fn before_fork() {
    core::before_fork();
}

#[pyfunction]
fn after_fork_in_parent() {
    core::after_fork_in_parent();
}

#[pyfunction]
fn after_fork_in_child() {
    core::after_fork_in_child();
    tally::forget_parent();
    patch::switch_all();
}

/// What the thread that writes has taken so far, in seconds, and for how many records.
#[pyfunction]
fn writer_cost() -> (f64, u64) {
    core::writer_cost()
}

/// Writes an instant with this text to the files; kept for good, so not for each call.
#[pyfunction]
fn mark(text: &str) {
    let state = raw::state();
    if state != raw::OFF {
        let site = Site::leak(SiteKind::Mark, text, "", 0);
        let now = raw::now(state);
        raw::record(state, [now, now, u64::from(site.number())]);
    }
}

/// The operations of a subscriber from a number on, as dictionaries, and the number of the next.
#[pyfunction]
fn operations(py: Python<'_>, subscriber: u32, from: u64) -> PyResult<(Bound<'_, PyList>, u64)> {
    bring_in();
    let (kept, next): (Vec<Operation>, u64) = match store().subscribers.get(&subscriber) {
        Some(known) => {
            let rows = known.all.count - known.all.without_row;
            let gone = rows - known.operations.len() as u64;
            let skip = usize::try_from(from.saturating_sub(gone)).unwrap_or(usize::MAX);
            (known.operations.iter().skip(skip).cloned().collect(), rows)
        }
        None => (Vec::new(), from),
    };
    let rate = core::rate();
    let list = PyList::empty(py);
    for operation in kept {
        list.append(row(py, &operation, &rate)?)?;
    }
    Ok((list, next))
}

fn row<'py>(py: Python<'py>, operation: &Operation, rate: &Rate) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("site", operation.site as u32)?;
    row.set_item("thread_id", operation.thread_id)?;
    row.set_item("start_tick", operation.start)?;
    row.set_item("start_time", rate.time_seconds(operation.start))?;
    row.set_item("end_time", rate.time_seconds(operation.end))?;
    row.set_item("duration", rate.seconds(operation.ticks))?;
    row.set_item("active", operation.active_ticks.map(|ticks| rate.seconds(ticks)))?;
    row.set_item("has_failed", operation.site & raw::HAS_FAILED != 0)?;
    row.set_item("exception", record_call::exception_name(operation.exception))?;
    row.set_item("args_count", operation.site >> 32 & raw::ARGUMENTS_MAX)?;
    row.set_item("kwargs_count", operation.site >> 46 & raw::ARGUMENTS_MAX)?;
    let Some(values) = &operation.values else { return Ok(row) };
    row.set_item("memory_before", values.before(Quantity::Memory))?;
    row.set_item("memory_after", values.after(Quantity::Memory))?;
    row.set_item("memory_peak", values.peak())?;
    row.set_item("gpu_memory_before", values.before(Quantity::GpuMemory))?;
    row.set_item("gpu_memory_after", values.after(Quantity::GpuMemory))?;
    row.set_item("gpu_utilization", values.after(Quantity::GpuBusy))?;
    row.set_item("cpu_time", values.delta(Quantity::CpuTime).map(|nanos| nanos / 1e9))?;
    row.set_item("bytes_read", values.delta(Quantity::BytesRead))?;
    row.set_item("bytes_written", values.delta(Quantity::BytesWritten))?;
    Ok(row)
}

/// Sums of a subscriber: count, seconds of all, seconds covered, least, most, failed, by hand,
/// how many have no row, and of how many the time is estimated.
type SumsRow = (u64, f64, f64, f64, f64, u64, u64, u64, u64);

fn sums_row(sums: &Sums, rate: &Rate) -> SumsRow {
    let seconds = |ticks| rate.seconds(ticks);
    let Sums { count, failed, by_hand, ticks, covered, min, max, .. } = *sums;
    let (least, most) = (seconds(min), seconds(max));
    let (without_row, estimated) = (sums.without_row, sums.estimated);
    let covered = seconds(covered);
    (count, seconds(ticks), covered, least, most, failed, by_hand, without_row, estimated)
}

/// All that is known of a subscriber's operations without the operations: the sums of all, by
/// name and component, by component; memory and GPU memory gained.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a tuple for Python to take apart")]
fn sums(subscriber: u32) -> (SumsRow, Vec<((u32, u32), SumsRow)>, Vec<(u32, SumsRow)>, (f64, f64)) {
    bring_in();
    let rate = core::rate();
    let nobody = Subscriber::default();
    let store = store();
    let known = store.subscribers.get(&subscriber).unwrap_or(&nobody);
    let by_name = known.by_name.iter().map(|(&key, sums)| (key, sums_row(sums, &rate)));
    let by_component = known.by_component.iter().map(|(&key, sums)| (key, sums_row(sums, &rate)));
    (
        sums_row(&known.all, &rate),
        by_name.collect(),
        by_component.collect(),
        (known.memory_delta, known.gpu_memory_delta),
    )
}
