//! What can go wrong between a question and its answer.

use std::io;
use std::path::{Path, PathBuf};

use spanwise_read::ReadError;

/// Something that could not be answered: a file that could not be read or written, or a
/// question that makes no sense here.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{}: {what}", path.display())]
    File { path: PathBuf, what: &'static str, source: io::Error },
    /// Says what was asked and what could be asked instead.
    #[error("{0}")]
    Asked(String),
}

impl AnswerError {
    pub(crate) fn file(path: &Path, what: &'static str, source: io::Error) -> Self {
        AnswerError::File { path: path.to_owned(), what, source }
    }
}
