//! What can go wrong between a request and its result.

use std::io;
use std::path::{Path, PathBuf};

use spanwise_read::ReadError;

/// A file that could not be read or written, or a request that makes no sense here.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{}: {what}", path.display())]
    File { path: PathBuf, what: &'static str, source: io::Error },
    /// Names what was requested and what could be instead.
    #[error("{0}")]
    Request(String),
}

impl ReportError {
    pub(crate) fn file(path: &Path, what: &'static str, source: io::Error) -> Self {
        ReportError::File { path: path.to_owned(), what, source }
    }
}
