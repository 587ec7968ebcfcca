//! Traces in Python: opened as the command line opens them, asked the same questions, their
//! columns handed over as Arrow arrays without a copy.
//!
//! Python's side gives the names, the documentation and the units; here is no loop over spans.
//! All that may take long runs on a thread of its own, so that other Python threads go on and
//! Ctrl-C is heard ([`worker`]).

mod answer;
mod compared;
mod convert;
mod error;
mod opened;
mod ranks;
mod shared;
mod tables;
mod viewer;
mod worker;

use pyo3::prelude::*;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<tables::table::Table>()?;
    module.add_class::<opened::Trace>()?;
    module.add_class::<compared::Comparison>()?;
    module.add_class::<ranks::Ranks>()?;
    module.add_class::<answer::Answer>()?;
    module.add_class::<viewer::Viewer>()?;
    module.add_function(wrap_pyfunction!(viewer::view_traces, module)?)?;
    module.add_function(wrap_pyfunction!(answer::trace_info, module)?)?;
    module.add_function(wrap_pyfunction!(answer::trace_fusion, module)?)?;
    module.add_function(wrap_pyfunction!(answer::trace_latency, module)?)?;
    module.add_function(wrap_pyfunction!(tables::concat::concat_tables, module)?)?;
    module.add_function(wrap_pyfunction!(tables::made::make_table, module)?)?;
    module.add_function(wrap_pyfunction!(tables::made::table_from_ipc, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::rank_tables, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::tag_table, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::trace_files, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::reduce_ranks, module)?)?;
    module.add_function(wrap_pyfunction!(opened::open_trace, module)?)?;
    module.add_function(wrap_pyfunction!(opened::section_names, module)?)?;
    module.add_function(wrap_pyfunction!(opened::classify, module)?)?;
    module.add_function(wrap_pyfunction!(opened::take_snapshot, module)?)?;
    module.add_function(wrap_pyfunction!(compared::compare_traces, module)?)?;
    module.add_function(wrap_pyfunction!(compared::compare_with_baseline, module)?)?;
    module.add_function(wrap_pyfunction!(compared::save_baseline, module)?)?;
    module.add_function(wrap_pyfunction!(convert::convert_trace, module)?)?;
    module.add_function(wrap_pyfunction!(convert::draw_flame, module)?)?;
    error::add_to(module)
}
