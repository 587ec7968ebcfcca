//! Files become traces.
//!
//! ```
//! use spanwise_read::{OpenOptions, open};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("trace.json");
//! # std::fs::write(&path, r#"[{"ph": "X", "name": "load", "ts": 1, "dur": 2, "tid": 7}]"#)?;
//! let trace = open(&path, &OpenOptions::default())?;
//! for span in trace.spans().ids() {
//!     println!("{}: {} ns", trace.name(span), trace.spans().dur(span));
//! }
//! # assert_eq!(trace.spans().len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`open`] recognizes a file by its content, reads it (or the index beside it)
//! and gives a [`Trace`] with notices, or an error with a place: never a panic,
//! never a silent drop, and memory that is bounded by the input (I6). What was repaired or
//! lost is in [`Trace::notices`]. Other entry points:
//!
//! - [`summary`] reads an index without its columns, [`write_index`] writes one.
//! - [`open_profile`] opens pprof, speedscope and collapsed stacks.
//! - [`open_perf`] opens the text of `perf script` with what the text lacks: maps of code that a
//!   runtime made, and several files as one trace.
//! - [`SessionFollower`] follows a session that a program is still writing.
//! - [`open_measurements`] reads a table of what was measured beside traces.
//! - [`set_memory_max`] limits the memory of this process for all of them.

#![warn(missing_docs)]

use std::io;
use std::path::{Path, PathBuf};

use input::{Compression, LazyText, Stream, WAVE_BYTES};
use json::{BLOCK_BYTES, Effort};
use spanwise_files::FileBytes;
use spanwise_model::{NO_OFFSET, NoticeKind, SourceInfo, Summary, Trace, threads_available};
pub use spanwise_recording::is_recording;
use spanwise_recording::{records_file, torch_traces};

mod assembly;
mod binary;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod input;
mod json;
mod measurements;
mod perf;
mod profile;
mod recorded;

pub use binary::session::SessionFollower;
pub use error::{ReadError, ReadErrorKind};
pub use input::memory::{memory_left, set_memory_max};
pub use measurements::{MeasurementsError, open_measurements};
pub use perf::{PerfOptions, open_perf, replay_perf};
pub use profile::{NotAProfile, ProfileFile, open_profile, open_profile_file};
pub use recorded::torch::TORCH_CLOCK_PROPERTY;

/// Whether to use the index beside a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IndexUse {
    /// Map a valid index; otherwise read the source and write one.
    #[default]
    ReadOrWrite,
    /// Read the source; neither read nor write an index.
    Ignore,
}

/// Called now and then with bytes done and bytes in all.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Called with what is no error, but good to know; such as why an index is not used.
pub type Notes<'a> = &'a (dyn Fn(&str) + Sync);

/// How to open a trace. Name what differs, and take the rest from the default: more will come.
///
/// ```
/// use spanwise_read::{IndexUse, OpenOptions, open};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("trace.json");
/// # std::fs::write(&path, r#"[{"ph": "X", "name": "load", "ts": 1, "dur": 2, "tid": 7}]"#)?;
/// let progress = |done: u64, total: u64| eprintln!("{done} of {total} bytes");
/// let options = OpenOptions {
///     index: IndexUse::Ignore,
///     progress: Some(&progress),
///     ..OpenOptions::default()
/// };
/// let trace = open(&path, &options)?;
/// assert_eq!(trace.spans().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct OpenOptions<'a> {
    /// Whether to use the index beside the trace.
    pub index: IndexUse,
    /// How many threads may work; 0 for one per core.
    pub threads: usize,
    /// Called while the source is read, from any thread.
    pub progress: Option<Progress<'a>>,
    /// Python functions that were read beside samples are identified by their current line,
    /// not by their first line; an index does not know these lines, so none is used or written.
    pub has_python_lines: bool,
    /// Called with what is no error, but good to know.
    pub notes: Option<Notes<'a>>,
}

/// How the bytes of a file are come by.
type OpenBytes = fn(&Path) -> io::Result<FileBytes>;

/// Opens a trace from its index, or from its source.
///
/// An index that is damaged, old or of another file is passed over and, where
/// possible, written anew. That it cannot be written is no reason to fail.
pub fn open(path: &Path, options: &OpenOptions<'_>) -> Result<Trace, ReadError> {
    match torch_traces(path).as_slice() {
        [] => {
            let file = records_file(path);
            open_file(&file, bytes_of(path, &file), options)
        }
        traces => recorded::torch::open(path, traces, options),
    }
}

/// What somebody named may be a pipe, but not what lies in a folder.
fn bytes_of(named: &Path, file: &Path) -> OpenBytes {
    if named == file { input::open_named } else { FileBytes::open_regular }
}

fn open_file(
    path: &Path,
    open_bytes: OpenBytes,
    options: &OpenOptions<'_>,
) -> Result<Trace, ReadError> {
    if options.index == IndexUse::Ignore || options.has_python_lines {
        return read_source(path, open_bytes, options).map_err(|kind| error_at(path, kind));
    }
    if let Ok(trace) = index::open(path, options.thread_count()) {
        return Ok(trace);
    }
    index::why_not_trusted(path).iter().for_each(|why| options.note(why));
    let before = index::before_reading(path);
    let trace = read_source(path, open_bytes, options).map_err(|kind| error_at(path, kind))?;
    if let Ok(before) = before {
        let written = index::write(path, before, &trace);
        written.notes.iter().for_each(|note| options.note(note));
    }
    Ok(trace)
}

fn error_at(path: &Path, kind: ReadErrorKind) -> ReadError {
    ReadError { path: path.to_owned(), kind }
}

/// Reads the source itself.
fn read_source(
    path: &Path,
    open_bytes: OpenBytes,
    options: &OpenOptions<'_>,
) -> Result<Trace, ReadErrorKind> {
    let bytes = open_bytes(path)?;
    let mut info = SourceInfo::default();
    let problem = recorded::clock::add_clock(path, &mut info);
    let trace =
        assembly::restored_states::with_states(read_bytes(path, bytes.clone(), info, options)?);
    bytes.check_whole()?;
    let Some(problem) = problem else { return Ok(trace) };
    Ok(trace.with_metadata(|_, notices| {
        notices.add(NoticeKind::TooDamaged, NO_OFFSET, problem.as_bytes());
    }))
}

fn read_bytes(
    path: &Path,
    bytes: FileBytes,
    info: SourceInfo,
    options: &OpenOptions<'_>,
) -> Result<Trace, ReadErrorKind> {
    let threads = options.thread_count();
    let compression = Compression::detect(bytes.as_ref());
    let total = bytes.as_ref().len() as u64;
    let effort = Effort { threads, progress: options.progress, total, block_bytes: BLOCK_BYTES };
    let info = SourceInfo { compression: compression.name().to_owned(), ..info };
    if let Some(records) = binary::detect(path, &bytes, compression, options)? {
        return binary::read(records, bytes, compression, effort, info);
    }
    match compression {
        Compression::None => {
            let args = LazyText::ready(path, bytes.clone());
            json::read_text(bytes.as_ref(), effort, info, args)
        }
        _ => {
            let args = LazyText::expecting(path, bytes.state());
            json::read_stream(Stream::new(bytes, compression, WAVE_BYTES)?, effort, info, args)
        }
    }
}

/// Only what [`Trace::summary`] says; from an index without touching a column.
///
/// ```
/// use spanwise_read::{OpenOptions, summary};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("trace.json");
/// # std::fs::write(&path, r#"[{"ph": "X", "name": "load", "ts": 1, "dur": 2, "tid": 7}]"#)?;
/// let summary = summary(&path, &OpenOptions::default())?;
/// assert_eq!(summary.spans, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn summary(path: &Path, options: &OpenOptions<'_>) -> Result<Summary, ReadError> {
    if options.index == IndexUse::ReadOrWrite
        && !options.has_python_lines
        && torch_traces(path).is_empty()
        && let Ok(summary) = index::summary(&records_file(path))
    {
        return Ok(summary);
    }
    open(path, options).map(|trace| trace.summary())
}

/// Reads the source and writes its index anew; says where it is.
pub fn write_index(path: &Path, options: &OpenOptions<'_>) -> Result<PathBuf, ReadError> {
    // What PyTorch has recorded has an index of its own.
    for trace in torch_traces(path) {
        write_index(&trace, options)?;
    }
    let named = path;
    let path = &*records_file(named);
    let write = || -> Result<PathBuf, ReadErrorKind> {
        let before = index::before_reading(path)?;
        let trace = read_source(path, bytes_of(named, path), options)?;
        let written = index::write(path, before, &trace);
        written.notes.iter().for_each(|note| options.note(note));
        written.place.map_err(ReadErrorKind::Index)
    };
    write().map_err(|kind| error_at(path, kind))
}

impl OpenOptions<'_> {
    fn note(&self, text: &str) {
        if let Some(notes) = self.notes {
            notes(text);
        }
    }

    fn thread_count(&self) -> usize {
        match self.threads {
            0 => threads_available(),
            threads => threads,
        }
    }
}
