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
mod observed;
mod tables;

use std::io;
use std::path::{Path, PathBuf};

use spanwise_files::{FileState, Folder};
use spanwise_model::{Summary, Trace};

use crate::input::LazyText;
use folder::IndexLocation;
use manifest::{Identity, Manifest};

/// Why an index was not used. Never fatal: the source is read instead.
pub(crate) type Refusal = String;

/// Opens the index of `source`, if there is one that fits, is whole, and was written by this
/// user or by root.
pub(crate) fn open(source: &Path, threads: usize) -> Result<Trace, Refusal> {
    // A second attempt, in case another process swapped the folder meanwhile.
    open_once(source, threads).or_else(|_| open_once(source, threads))
}

fn open_once(source: &Path, threads: usize) -> Result<Trace, Refusal> {
    let (folder, manifest) = find(source)?;
    let Identity { bytes, modified, .. } = manifest.source;
    let args = LazyText::expecting(source, Some(FileState { bytes, modified }));
    let bytes_of = |file_name: &str| tables::freeze_table(&folder, file_name);
    tables::read(bytes_of, manifest, Box::new(args), threads)
}

/// Only the summary, from the manifest.
pub(crate) fn summary(source: &Path) -> Result<Summary, Refusal> {
    find(source).map(|(_, manifest)| manifest.summary)
}

/// The first folder with a manifest that belongs to this very source.
fn find(source: &Path) -> Result<(Folder, Manifest), Refusal> {
    let identity = Identity::of(source).map_err(|error| error.to_string())?;
    let mut refusal = "there is none".to_owned();
    for place in folder::candidates(source) {
        let Ok(folder) = Folder::open_to_read(&place.folder) else { continue };
        match load(&folder) {
            Ok(manifest) if manifest.source == identity => return Ok((folder, manifest)),
            Ok(_) => refusal = "it belongs to another state of the file".to_owned(),
            Err(reason) => refusal = reason,
        }
    }
    Err(refusal)
}

fn load(folder: &Folder) -> Result<Manifest, Refusal> {
    let stranger = folder.stranger().map_err(|error| error.to_string())?;
    match stranger {
        Some(why) => Err(why),
        None => Manifest::load(folder),
    }
}

/// Why existing indexes were not even examined, in words for whoever may change that.
pub(crate) fn why_not_trusted(source: &Path) -> Vec<String> {
    let why = |place: IndexLocation| {
        let folder = Folder::open_to_read(&place.folder).ok()?;
        let file = || folder.open_trusted_file(manifest::FILE_NAME).err();
        let file = || file().filter(|error| error.kind() == io::ErrorKind::PermissionDenied);
        let why = folder.stranger().ok()?.or_else(|| file().map(|error| error.to_string()))?;
        Some(format!(
            "{}: this index is not used, since {why}: somebody else may have written it. The \
             trace itself is read. To be rid of this note, delete the index, or, if you trust it, \
             make it yours (chown -R) and let nobody else write it (chmod -R go-w)",
            place.folder.display()
        ))
    };
    folder::candidates(source).into_iter().filter_map(why).collect()
}

/// What was the state of a source before it was read.
pub(crate) struct Before(Identity);

/// Remembers the state of a source. An index is only written for the state that
/// was there before reading began: what changed meanwhile must not be indexed.
pub(crate) fn before_reading(source: &Path) -> io::Result<Before> {
    Identity::of(source).map(Before)
}

/// Where an index was written, and what is worth knowing about it.
pub(crate) struct IndexOutcome {
    pub(crate) place: io::Result<PathBuf>,
    pub(crate) notes: Vec<String>,
}

/// Writes the index of `trace`, which was read from `source`.
pub(crate) fn write(source: &Path, before: Before, trace: &Trace) -> IndexOutcome {
    let failed = |error| IndexOutcome { place: Err(error), notes: Vec::new() };
    match Identity::of(source) {
        Ok(now) if now == before.0 => {}
        Ok(_) => return failed(io::Error::other("the trace changed while it was read")),
        Err(error) => return failed(error),
    }
    let mut occupied = None;
    let mut place = Err(io::Error::other("no place to write an index"));
    for target in folder::candidates(source) {
        let written = folder::replace(&target, |folder| {
            let tables = tables::write(folder, trace)?;
            let manifest = Manifest {
                version: manifest::VERSION,
                source: before.0.clone(),
                summary: trace.summary(),
                tables,
            };
            manifest.store(folder)
        });
        match written {
            Ok(()) => {
                place = Ok(target.folder);
                break;
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::AlreadyExists {
                    occupied.get_or_insert_with(|| target.folder.clone());
                }
                place = Err(error);
            }
        }
    }
    let note = |occupied: PathBuf| {
        let occupied = occupied.display();
        match &place {
            Ok(place) => format!(
                "{occupied} is not an index of spanwise and is left alone; the index is in {}",
                place.display()
            ),
            Err(_) => format!(
                "{occupied} is not an index of spanwise and is left alone; no index was written"
            ),
        }
    };
    let notes = occupied.map(note).into_iter().collect();
    IndexOutcome { place, notes }
}
