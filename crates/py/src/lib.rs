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
mod calls;
mod core;
mod spans;
mod sums;
mod trace;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    core::start_clock();
    spans::probes::reopen();
    module.add("ProfiledFunction", calls::wrapper::make_type(py)?)?;
    module.add("Span", spans::span::make_type(py)?)?;
    module.add_class::<calls::task::Parts>()?;
    module.add_class::<spans::token::Token>()?;
    module.add_function(wrap_pyfunction!(spans::token::begin, module)?)?;
    module.add_function(wrap_pyfunction!(spans::token::add_past, module)?)?;
    module.add_function(wrap_pyfunction!(spans::token::ticks, module)?)?;
    module.add_function(wrap_pyfunction!(spans::token::peak_since, module)?)?;
    module.add_function(wrap_pyfunction!(calls::patch::patch, module)?)?;
    module.add_function(wrap_pyfunction!(calls::patch::share_version, module)?)?;
    module.add_function(wrap_pyfunction!(calls::patch::forget_patched, module)?)?;
    module.add_function(wrap_pyfunction!(calls::patch::counted_calls, module)?)?;
    module.add_function(wrap_pyfunction!(calls::patch::unpatch, module)?)?;
    module.add_function(wrap_pyfunction!(spans::token::begin_trial, module)?)?;
    module.add_function(wrap_pyfunction!(spans::token::cost_of_record, module)?)?;
    module.add_function(wrap_pyfunction!(spans::token::add_past_ticks, module)?)?;
    module.add_function(wrap_pyfunction!(spans::token::seconds, module)?)?;
    module.add_function(wrap_pyfunction!(sums::tally::tallies, module)?)?;
    module.add_function(wrap_pyfunction!(sums::tally::set_mode, module)?)?;
    module.add_function(wrap_pyfunction!(sums::tally::reset_modes, module)?)?;
    module.add_function(wrap_pyfunction!(sums::tally::watch, module)?)?;
    module.add_function(wrap_pyfunction!(calls::watch::set_watch_callbacks, module)?)?;
    trace::add_to(module)?;
    answers::add_to(module)
}
