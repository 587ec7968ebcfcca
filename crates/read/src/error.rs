//! What can go wrong when a file is opened: where, what, the value.

use std::io;
use std::path::PathBuf;

/// A file that could not be read as a trace at all.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub kind: ReadErrorKind,
}

/// Why a file could not be read as a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The system did not give its bytes.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Its content is of no format that is read here.
    #[error("byte {offset}: not a trace: {what} ({found})")]
    NotATrace {
        /// Where in the decompressed text, in bytes.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
        /// What was found instead.
        found: String,
    },
    /// Reading on would take more memory than may be used.
    #[error(
        "needs more memory than the limit of {}: {} were decompressed or decoded so far",
        megabytes(*memory_max), megabytes(*decompressed_bytes)
    )]
    TooLarge {
        /// What was decompressed or decoded so far.
        decompressed_bytes: u64,
        /// The limit, as [`set_memory_max`](crate::set_memory_max) or the machine gives it.
        memory_max: u64,
    },
    /// The trace was read, but not its index written; only [`write_index`](crate::write_index)
    /// fails for this.
    #[error("the index could not be written: {0}")]
    Index(io::Error),
}

/// As a person reads it; whole megabytes are precise enough here.
fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}
