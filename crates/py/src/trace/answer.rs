//! Answers that have several tables: what a trace is, which kernels became which, how long calls
//! of a function take.

use std::sync::Arc;

use pyo3::prelude::*;
use spanwise_analyze::NamePattern;
use spanwise_write::Document;

use super::error::asked;
use super::opened::{Trace, rows_shown, section_of, sections_of, written};
use super::worker::work;
use crate::trace::tables::table::Table;

/// Tables for programs, a text for people.
#[pyclass(frozen, module = "spanwise._native")]
pub(crate) struct Answer {
    title: &'static str,
    document: Document,
}

#[pymethods]
impl Answer {
    /// The names of its tables, in order.
    fn sections(&self) -> Vec<&'static str> {
        sections_of(&self.document)
    }

    fn section(&self, key: &str) -> PyResult<Table> {
        section_of(&self.document, key)
    }

    fn report(&self, width: usize, format: &str) -> PyResult<String> {
        written(&self.document, self.title, width, format)
    }
}

/// What a trace is: `spanwise info`.
#[pyfunction]
pub(crate) fn trace_info(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    top: Option<usize>,
) -> PyResult<Answer> {
    let held = Arc::clone(&trace.get().held);
    work(py, None, move |_| {
        let summary = held.trace().summary();
        let document = spanwise_write::info_document(&held.file, &summary, rows_shown(top));
        Answer { title: "Trace", document }
    })
}

/// Which kernels of one trace do the work of which of another: `spanwise compare --kernels`.
#[pyfunction]
pub(crate) fn trace_fusion(
    py: Python<'_>,
    base: &Bound<'_, Trace>,
    other: &Bound<'_, Trace>,
    layers: bool,
    top: Option<usize>,
) -> PyResult<Answer> {
    let sides = [base, other].map(|side| Arc::clone(&side.get().held));
    work(py, None, move |_| {
        let [base, other] = &sides;
        let top = rows_shown(top);
        let files = [base.file.as_str(), other.file.as_str()];
        let document = base.ask(|before| {
            other.ask(|after| match layers {
                true => {
                    let view = spanwise_analyze::layer_view(before, after, before.rules());
                    spanwise_write::fusion_layers_document(files, &view, top)
                }
                false => {
                    let found = spanwise_analyze::fusion(before, after, before.rules());
                    spanwise_write::fusion_document(files, &found, top)
                }
            })
        });
        Answer { title: "Fusion", document }
    })
}

/// How long the calls of a function take, and what is different in the slowest:
/// `spanwise report --function`.
#[pyfunction]
pub(crate) fn trace_latency(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    name: String,
    slowest: usize,
) -> PyResult<Answer> {
    let held = Arc::clone(&trace.get().held);
    work(py, None, move |_| {
        let found =
            held.ask(|facts| spanwise_analyze::latency(facts, &NamePattern::new(&name), slowest));
        let missing = || asked(&format!("{}: no call of {name}", held.file));
        let latency = found.ok_or_else(missing)?;
        let sections = vec![
            spanwise_report::latency_section(&latency),
            spanwise_report::histogram_section(&latency, false),
            spanwise_report::slowest_section(&latency),
        ];
        Ok(Answer { title: "Calls", document: Document { sections, ..Document::default() } })
    })?
}
