//! Errors as Python exceptions: where, what, the value found.

use std::error::Error;
use std::path::Path;

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use spanwise_read::{ReadError, ReadErrorKind};
use spanwise_report::ReportError;

create_exception!(
    spanwise,
    TraceError,
    PyValueError,
    "A file that is no trace, or a question that cannot be asked of it; says where and what."
);

pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TraceError", module.py().get_type::<TraceError>())
}

pub(super) fn of_read(error: &ReadError) -> PyErr {
    match &error.kind {
        ReadErrorKind::Io(io) | ReadErrorKind::Index(io) => of_io(&error.path, io),
        ReadErrorKind::TooLarge { .. } => TraceError::new_err(format!(
            "{error}; if you trust the file, set SPANWISE_MAX_MEMORY to a larger number of bytes"
        )),
        _ => TraceError::new_err(error.to_string()),
    }
}

pub(super) fn of_report(error: &ReportError) -> PyErr {
    match error {
        ReportError::Read(read) => of_read(read),
        ReportError::File { path, source, .. } => of_io(path, source),
        ReportError::Request(_) => asked(&whole(error)),
    }
}

pub(super) fn asked(what: &str) -> PyErr {
    TraceError::new_err(what.to_owned())
}

/// `OSError` makes `FileNotFoundError` and its kin of the number by itself.
fn of_io(path: &Path, error: &std::io::Error) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        let text = format!("{}: {error}", path.display());
        return std::io::Error::new(error.kind(), text).into();
    };
    // "No such file or directory (os error 2)": Python says the number itself.
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((number, text, path.display().to_string()))
}

/// An error with all that led to it.
fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}
