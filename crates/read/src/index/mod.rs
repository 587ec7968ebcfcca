//! The index: a trace's columns in a folder beside it, mapped on the next open.
//!
//! A folder holds one Arrow IPC file a table, which other tools open as they are,
//! and a manifest that says which source it belongs to, where each column lies and
//! what each file's checksum is. We find our columns by the manifest, not by
//! Arrow's own footer: fewer things to believe in a file that may be damaged. A
//! folder is made under another name and swapped in by one rename, so a reader
//! sees a whole index or none.

mod folder;
pub(crate) mod forge;
mod manifest;
mod tables;

use std::path::{Path, PathBuf};

use spanwise_model::{Summary, Trace};

use crate::source::LazyText;
use manifest::{Identity, Manifest};

/// Why an index was not used. Never fatal: the source is read instead.
pub(crate) type Refusal = String;

/// Opens the index of `source`, if there is one that fits and is whole.
pub(crate) fn open(source: &Path, threads: usize) -> Result<Trace, Refusal> {
    // A second look, in case another process swapped the folder under our hands.
    open_once(source, threads).or_else(|_| open_once(source, threads))
}

fn open_once(source: &Path, threads: usize) -> Result<Trace, Refusal> {
    let (folder, manifest) = find(source)?;
    let args = LazyText::new(source);
    let bytes_of = |file_name: &str| tables::map_table(&folder, file_name);
    tables::read(bytes_of, manifest, Box::new(args), threads)
}

/// Only the summary, from the manifest.
pub(crate) fn summary(source: &Path) -> Result<Summary, Refusal> {
    find(source).map(|(_, manifest)| manifest.summary)
}

/// The first folder with a manifest that belongs to this very source.
fn find(source: &Path) -> Result<(PathBuf, Manifest), Refusal> {
    let identity = Identity::of(source).map_err(|error| error.to_string())?;
    let mut refusal = "there is none".to_owned();
    for folder in folder::candidates(source) {
        match Manifest::load(&folder.join(manifest::FILE_NAME)) {
            Ok(manifest) if manifest.source == identity => return Ok((folder, manifest)),
            Ok(_) => refusal = "it belongs to another state of the file".to_owned(),
            Err(_) if !folder.exists() => {}
            Err(reason) => refusal = reason,
        }
    }
    Err(refusal)
}

/// What was the state of a source before it was read.
pub(crate) struct Before(Identity);

/// Remembers the state of a source. An index is only written for the state that
/// was there before reading began: what changed meanwhile must not be indexed.
pub(crate) fn before_reading(source: &Path) -> std::io::Result<Before> {
    Identity::of(source).map(Before)
}

/// Writes the index of `trace`, which was read from `source`; says where it is.
pub(crate) fn write(source: &Path, before: Before, trace: &Trace) -> std::io::Result<PathBuf> {
    if Identity::of(source)? != before.0 {
        return Err(std::io::Error::other("the trace changed while it was read"));
    }
    let mut last_error = None;
    for target in folder::candidates(source) {
        let written = folder::replace(&target, |folder| {
            let tables = tables::write(folder, trace)?;
            let manifest = Manifest {
                version: manifest::VERSION,
                source: before.0.clone(),
                summary: trace.summary(),
                tables,
            };
            manifest.store(&folder.join(manifest::FILE_NAME))
        });
        match written {
            Ok(()) => return Ok(target),
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.unwrap_or_else(|| std::io::Error::other("no place to write an index")))
}
