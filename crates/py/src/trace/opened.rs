//! Opening traces, and the questions that they answer.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyKeyError, PyUserWarning};
use pyo3::prelude::*;
use spanwise_analyze::ClassRules;
use spanwise_model::{MergedClock, on_one_thread};
use spanwise_read::{IndexUse, OpenOptions};
use spanwise_report::{ReportError, ReportRequest, SECTIONS, open_as_one, report, report_sections};
use spanwise_write::{Document, Format, Section, Style, Top};

use super::error::{asked, of_report};
use super::shared::SharedTrace;
use super::worker::work;
use crate::trace::tables::table::{Table, of_arrow};
use crate::trace::tables::{columns, rows};

/// A trace that was opened, or several on one timeline.
#[pyclass(frozen, module = "spanwise._native")]
pub(crate) struct Trace {
    pub(super) held: Arc<SharedTrace>,
    /// Not every part says when it was recorded: each begins at zero.
    #[pyo3(get)]
    starts_aligned: bool,
}

/// Opens traces as one; `progress` is called now and then with bytes done and bytes in all.
#[pyfunction]
#[pyo3(signature = (paths, use_index, threads, progress = None))]
pub(crate) fn open_trace(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    use_index: bool,
    threads: usize,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Trace> {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&notes);
    let opened = work(py, progress, move |done| {
        let progress = |now, total| done.set(now, total);
        let note =
            |text: &str| noted.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
        let index = if use_index { IndexUse::ReadOrWrite } else { IndexUse::Ignore };
        let options = OpenOptions {
            index,
            threads,
            progress: Some(&progress),
            has_python_lines: false,
            notes: Some(&note),
        };
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let merged = match threads {
            1 => on_one_thread(|| open_as_one(&paths, &options))?,
            _ => open_as_one(&paths, &options)?,
        };
        let held = Arc::new(SharedTrace::new(merged.trace, names.join(", "), threads == 1));
        Ok::<_, ReportError>(Trace {
            held,
            starts_aligned: merged.clock == MergedClock::StartsAligned,
        })
    })?;
    for note in notes.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let note = CString::new(note).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &note, 2)?;
    }
    opened.map_err(|error| of_report(&error))
}

/// The sections of a report on a trace: key, method, a few words.
#[pyfunction]
pub(crate) fn section_names() -> Vec<(&'static str, &'static str, &'static str)> {
    SECTIONS.iter().map(|def| (def.key, def.method, def.about)).collect()
}

/// The class of a kernel by its name and that of the operator around it, which may be empty.
#[pyfunction]
pub(crate) fn classify(kernel: &str, operator: &str) -> String {
    ClassRules::standard().class_of(kernel, operator).to_owned()
}

/// Asks a spanwise that watches this program to save the time before, with a number.
#[pyfunction]
pub(crate) fn take_snapshot(number: u64) {
    spanwise_probe::take_snapshot_with_arg(number);
}

pub(super) fn rows_shown(top: Option<usize>) -> Top {
    top.map_or(Top::All, Top::First)
}

/// The names of a document's tables, in order.
pub(super) fn sections_of(document: &Document) -> Vec<&'static str> {
    document.sections.iter().map(|section| section.key).collect()
}

/// The table of this name.
pub(super) fn section_of(document: &Document, key: &str) -> PyResult<Table> {
    let found = document.sections.iter().find(|section| section.key == key);
    let missing =
        || asked(&format!("no table {key}; there are {}", sections_of(document).join(", ")));
    table_of(found.ok_or_else(missing)?)
}

/// The table of a section, for programs.
pub(super) fn table_of(section: &Section) -> PyResult<Table> {
    let batch = rows::batch(section.table()).map_err(of_arrow)?;
    Ok(Table::titled(batch, &section.title, section.left_out))
}

pub(super) fn text_of(document: &Document, width: usize, format: Format) -> String {
    let mut out = Vec::new();
    // A vector takes everything.
    let _ = document.write(format, Style { color: false, width }, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[pymethods]
impl Trace {
    #[getter]
    fn file(&self) -> &str {
        &self.held.file
    }

    /// First and last nanosecond; `None` where nothing was recorded.
    #[getter]
    fn window(&self) -> Option<(i64, i64)> {
        self.held.trace().window()
    }

    #[getter]
    fn format(&self) -> &str {
        &self.held.trace().info().format
    }

    /// What to add to a time to get nanoseconds since 1970, where the trace says so.
    #[getter]
    fn base_time_ns(&self) -> Option<i64> {
        self.held.trace().info().base_time_ns
    }

    fn counts(&self) -> (usize, usize, usize, usize) {
        let trace = self.held.trace();
        let (spans, instants) = (trace.spans().len(), trace.instants().len());
        (spans, instants, trace.counters().len(), trace.links().len())
    }

    /// A table of the trace, by name.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        if let Some(batch) = self.held.gathered(name) {
            return Ok(Table::new(batch));
        }
        // Views are made at once; what has to be gathered is kept.
        if !columns::GATHERED.contains(&name) {
            let found = self.held.ask(|facts| columns::table(facts, name));
            let batch = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
            return batch.map(Table::new).map_err(of_arrow);
        }
        let (held, wanted) = (Arc::clone(&self.held), name.to_owned());
        let found = work(py, None, move |_| held.ask(|facts| columns::table(facts, &wanted)))?;
        let batch = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let batch = batch.map_err(of_arrow)?;
        self.held.keep(name, &batch);
        Ok(Table::new(batch))
    }

    /// A section of the report, all rows or the first `top`.
    #[pyo3(signature = (key, top = None))]
    fn section(&self, py: Python<'_>, key: String, top: Option<usize>) -> PyResult<Table> {
        let unknown = key.clone();
        let sections = self.sections_of(py, vec![key], top)?;
        match sections.first() {
            Some(section) => table_of(section),
            None => Err(asked(&format!("no section {unknown}"))),
        }
    }

    /// Report sections as text; the usual ones where none is named.
    fn report(
        &self,
        py: Python<'_>,
        named: Vec<String>,
        top: Option<usize>,
        width: usize,
        format: &str,
    ) -> PyResult<String> {
        let held = Arc::clone(&self.held);
        let format = format.to_owned();
        work(py, None, move |_| {
            let document = held.ask(|facts| {
                report(&ReportRequest::new(facts, &held.file, rows_shown(top), &named))
            });
            written(&document, "Report", width, &format)
        })?
    }
}

/// A document in a format; its title is for pages.
pub(super) fn written(
    document: &Document,
    title: &str,
    width: usize,
    format: &str,
) -> PyResult<String> {
    match format {
        "text" => Ok(text_of(document, width, Format::Text)),
        "json" => Ok(text_of(document, width, Format::Json)),
        "csv" => Ok(text_of(document, width, Format::Csv)),
        "html" => {
            let mut out = Vec::new();
            let _ = document.write_html(title, &mut out);
            Ok(String::from_utf8_lossy(&out).into_owned())
        }
        other => Err(asked(&format!("no format {other}; there are text, json, csv and html"))),
    }
}

impl Trace {
    fn sections_of(
        &self,
        py: Python<'_>,
        named: Vec<String>,
        top: Option<usize>,
    ) -> PyResult<Vec<Section>> {
        let held = Arc::clone(&self.held);
        work(py, None, move |_| {
            held.ask(|facts| {
                report_sections(&ReportRequest::new(facts, &held.file, rows_shown(top), &named))
            })
        })
    }
}
