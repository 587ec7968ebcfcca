//! Two sides set against each other.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use spanwise_analyze::{CompareBy, CompareOptions, CompareSeries, Facts, Phase, baseline_text};
use spanwise_report::{
    ChangeRule, ReportError, check_changes, compare_sides, read_baseline, side, write_output,
};
use spanwise_write::{CompareView, Document, compare_document};

use super::error::{asked, of_report};
use super::opened::{Trace, rows_shown, section_of, sections_of, written};
use super::shared::SharedTrace;
use super::worker::work;
use crate::trace::tables::table::Table;

/// What changed: tables for programs, a text for people, rules for a build.
#[pyclass(frozen, module = "spanwise._native")]
pub(crate) struct Comparison {
    comparison: Arc<spanwise_analyze::Comparison>,
    document: Arc<Document>,
}

/// How to compare: by what, which phase, which steps, with stacks.
type CompareRequest = (String, Option<String>, Option<(i64, i64)>, bool);

fn options(request: CompareRequest) -> PyResult<CompareOptions> {
    let (by, phase, steps, with_stacks) = request;
    let by_text = by.replace('_', "-");
    let by = CompareBy::parse(&by_text).ok_or_else(|| asked(&format!("by: nothing named {by}")))?;
    let known = |name: &String| {
        let names: Vec<&str> = Phase::ALL.iter().map(|phase| phase.text()).collect();
        let what = format!("phase: nothing named {name}; there are {}", names.join(", "));
        Phase::parse(name).ok_or_else(|| asked(&what))
    };
    let phase = phase.as_ref().map(known).transpose()?;
    Ok(CompareOptions { by, phase, steps, with_stacks })
}

/// One side: series of all its traces.
fn series(
    side_of: &[Arc<SharedTrace>],
    options: &CompareOptions,
) -> Result<Vec<CompareSeries>, ReportError> {
    let one = |held: &Arc<SharedTrace>| held.ask(|facts| side(facts, &held.file, options));
    side_of.iter().map(one).collect()
}

/// Compares the traces of two sides; `view` is how many rows, and whether also those without
/// a change.
#[pyfunction]
pub(crate) fn compare_traces(
    py: Python<'_>,
    base: Vec<Py<Trace>>,
    other: Vec<Py<Trace>>,
    chosen: CompareRequest,
    view: (Option<usize>, bool),
) -> PyResult<Comparison> {
    let options = options(chosen)?;
    let (base, other) = (held(&base), held(&other));
    let done = work(py, None, move |_| {
        let sides = [series(&base, &options)?, series(&other, &options)?];
        Ok(compared(sides, [base.first(), other.first()], &options, view))
    })?;
    done.map_err(|error: ReportError| of_report(&error))
}

/// Compares traces with what `save_baseline` has written.
#[pyfunction]
pub(crate) fn compare_with_baseline(
    py: Python<'_>,
    baseline: PathBuf,
    other: Vec<Py<Trace>>,
    view: (Option<usize>, bool),
) -> PyResult<Comparison> {
    let other = held(&other);
    let done = work(py, None, move |_| {
        let (base, options) = read_baseline(&baseline)?;
        let sides = [base, series(&other, &options)?];
        Ok(compared(sides, [None, other.first()], &options, view))
    })?;
    done.map_err(|error: ReportError| of_report(&error))
}

/// Writes what traces contribute to a comparison to a small file; gives its steps.
#[pyfunction]
pub(crate) fn save_baseline(
    py: Python<'_>,
    traces: Vec<Py<Trace>>,
    chosen: CompareRequest,
    path: PathBuf,
) -> PyResult<usize> {
    let options = options(chosen)?;
    let traces = held(&traces);
    let done = work(py, None, move |_| {
        let series = series(&traces, &options)?;
        let text = baseline_text(&series, &options);
        write_output(&path, |out| out.write_all(text.as_bytes()))?;
        Ok(series.iter().map(CompareSeries::step_count).sum())
    })?;
    done.map_err(|error: ReportError| of_report(&error))
}

fn held(traces: &[Py<Trace>]) -> Vec<Arc<SharedTrace>> {
    traces.iter().map(|trace| Arc::clone(&trace.get().held)).collect()
}

fn compared(
    [base, other]: [Vec<CompareSeries>; 2],
    firsts: [Option<&Arc<SharedTrace>>; 2],
    options: &CompareOptions,
    view: (Option<usize>, bool),
) -> Comparison {
    let (top, shows_same) = view;
    let compare = |firsts: [Option<&Facts>; 2]| compare_sides([&base, &other], firsts, options);
    let (comparison, unsaid) = match firsts {
        [Some(base), Some(other)] => {
            base.ask(|base| other.ask(|other| compare([Some(base), Some(other)])))
        }
        _ => compare([None, None]),
    };
    let view = CompareView { top: rows_shown(top), shows_same, shows_stacks: options.with_stacks };
    let mut document = compare_document(&comparison, view);
    document.hints.extend(unsaid.map(str::to_owned));
    Comparison { comparison: Arc::new(comparison), document: Arc::new(document) }
}

#[pymethods]
impl Comparison {
    /// The names of its tables, in order.
    fn sections(&self) -> Vec<&'static str> {
        sections_of(&self.document)
    }

    fn section(&self, key: &str) -> PyResult<Table> {
        section_of(&self.document, key)
    }

    /// The verdict about a whole step: slower, faster, same, inconclusive.
    #[getter]
    fn verdict(&self) -> &'static str {
        self.comparison.wall.verdict.text()
    }

    /// Nanoseconds of a step on both sides.
    #[getter]
    fn step_ns(&self) -> (i128, i128) {
        (self.comparison.wall.base.step_ns(), self.comparison.wall.other.step_ns())
    }

    /// Each rule, what was found, and whether the build may go on.
    fn check(&self, rules: Vec<String>) -> PyResult<Vec<(String, String, bool)>> {
        let parsed: Result<Vec<ChangeRule>, _> =
            rules.iter().map(|text| ChangeRule::parse(text)).collect();
        let rows = parsed.and_then(|rules| check_changes(&rules, &self.comparison));
        let rows = rows.map_err(|error| of_report(&error))?;
        Ok(rows.into_iter().map(|row| (row.rule, row.found, row.holds)).collect())
    }

    fn report(&self, width: usize, format: &str) -> PyResult<String> {
        written(&self.document, "Comparison", width, format)
    }
}
