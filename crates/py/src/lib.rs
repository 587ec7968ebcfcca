//! The native half of the Python package `spanwise`: spans of Python programs, and traces.
//!
//! [`trace`] opens traces, asks the questions of the command line and hands columns over.
//!
//! Calls are recorded by `spanwise-probe` into the rings of their threads; the hub's thread
//! hands them to session files and to the store, which profilers of the Python side ask. What
//! a profiler is, and what it makes of the figures, is the Python side's business.
//!
//! Locks: the hub's before the store's; none while Python code runs.

mod answers;
mod core;
mod hot;
mod numbers;
mod patch;
mod probes;
mod span;
mod store;
mod tally;
mod target;
mod task;
mod token;
mod trace;
mod union;
mod values;
mod version;
mod watch;
mod wrapper;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    core::start_clock();
    probes::reopen();
    module.add("ProfiledFunction", wrapper::make_type(py)?)?;
    module.add("Span", span::make_type(py)?)?;
    module.add_class::<task::Parts>()?;
    module.add_class::<token::Token>()?;
    module.add_function(wrap_pyfunction!(token::begin, module)?)?;
    module.add_function(wrap_pyfunction!(token::add_past, module)?)?;
    module.add_function(wrap_pyfunction!(token::ticks, module)?)?;
    module.add_function(wrap_pyfunction!(token::peak_since, module)?)?;
    module.add_function(wrap_pyfunction!(patch::patch, module)?)?;
    module.add_function(wrap_pyfunction!(patch::share_version, module)?)?;
    module.add_function(wrap_pyfunction!(patch::forget_patched, module)?)?;
    module.add_function(wrap_pyfunction!(patch::counted_calls, module)?)?;
    module.add_function(wrap_pyfunction!(patch::unpatch, module)?)?;
    module.add_function(wrap_pyfunction!(token::begin_trial, module)?)?;
    module.add_function(wrap_pyfunction!(token::cost_of_record, module)?)?;
    module.add_function(wrap_pyfunction!(token::add_past_ticks, module)?)?;
    module.add_function(wrap_pyfunction!(token::seconds, module)?)?;
    module.add_function(wrap_pyfunction!(tally::tallies, module)?)?;
    module.add_function(wrap_pyfunction!(tally::set_mode, module)?)?;
    module.add_function(wrap_pyfunction!(tally::reset_modes, module)?)?;
    module.add_function(wrap_pyfunction!(tally::watch, module)?)?;
    module.add_function(wrap_pyfunction!(watch::tell_of_watched, module)?)?;
    trace::add_to(module)?;
    answers::add_to(module)
}
