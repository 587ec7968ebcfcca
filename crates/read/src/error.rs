//! What can go wrong when a file is opened: where, what, the value.

use std::io;
use std::path::PathBuf;

/// A file that could not be read as a trace at all.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct ReadError {
    pub path: PathBuf,
    pub kind: ReadErrorKind,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadErrorKind {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("byte {offset}: not a trace: {what} ({found})")]
    NotATrace { offset: u64, what: &'static str, found: String },
    /// Reading on would take more memory than may be used.
    #[error(
        "needs more memory than the limit of {}: {} were decompressed so far",
        megabytes(*memory_max), megabytes(*decompressed_bytes)
    )]
    TooLarge { decompressed_bytes: u64, memory_max: u64 },
    #[error("the index could not be written: {0}")]
    Index(io::Error),
}

/// As a person reads it; whole megabytes are precise enough here.
fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}
