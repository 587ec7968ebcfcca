//! The bytes of a file, mapped or owned, shared by whoever reads them.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::{Access, Frozen, Mapping, open_regular, open_unlinked};

/// The bytes of a file.
#[derive(Clone)]
pub enum FileBytes {
    Mapped(Arc<MappedFile>),
    /// Of a pipe or another file that cannot be mapped.
    Owned(Arc<Vec<u8>>),
}

impl FileBytes {
    /// Of a file that is held open, to see later whether it has changed.
    pub fn of_open(file: File) -> io::Result<Self> {
        FileBytes::map(file, Holding::Open)
    }

    /// A regular file that something else led to, such as the program that was recorded.
    pub fn open_regular(path: &Path) -> io::Result<Self> {
        FileBytes::map(open_regular(path)?, Holding::Closed)
    }

    /// A regular file in the folder of a recording; a link there is not followed.
    pub fn open_beside(path: &Path) -> io::Result<Self> {
        FileBytes::of_open(open_unlinked(path)?)
    }

    fn map(file: File, holding: Holding) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(FileBytes::Owned(Arc::default()));
        }
        // To copy a gigabyte takes half a second: who reads copes with whatever is there.
        let map = Mapping::of(&file, Access::InOrder)?;
        let state = match holding {
            Holding::Open => Some((FileState::of(&file.metadata()?), file)),
            Holding::Closed => None,
        };
        Ok(FileBytes::Mapped(Arc::new(MappedFile { map: Some(Map::Changing(map)), state })))
    }

    pub fn frozen(frozen: Frozen) -> Self {
        FileBytes::Mapped(Arc::new(MappedFile { map: Some(Map::Frozen(frozen)), state: None }))
    }

    /// Whether something was read that the file no longer had.
    pub fn is_cut(&self) -> bool {
        let FileBytes::Mapped(file) = self else { return false };
        matches!(&file.map, Some(Map::Changing(map)) if map.is_cut())
    }

    /// An error where the file was cut while it was read.
    pub fn check_whole(&self) -> io::Result<()> {
        match self.is_cut() {
            true => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file was cut short while it was read",
            )),
            false => Ok(()),
        }
    }

    /// What the file is now is not what was opened.
    pub fn has_changed(&self) -> bool {
        let FileBytes::Mapped(file) = self else { return false };
        let now = |(before, file): &(FileState, File)| match file.metadata() {
            Ok(now) => FileState::of(&now) != *before,
            Err(_) => true,
        };
        self.is_cut() || file.state.as_ref().is_some_and(now)
    }

    pub fn state(&self) -> Option<FileState> {
        let FileBytes::Mapped(file) = self else { return None };
        file.state.as_ref().map(|(state, _)| *state)
    }
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> Self {
        FileBytes::Owned(Arc::new(bytes))
    }
}

impl AsRef<[u8]> for FileBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            FileBytes::Mapped(map) => map.as_ref().as_ref(),
            FileBytes::Owned(bytes) => bytes,
        }
    }
}

/// Whether a file is held open, to see later whether it has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holding {
    Open,
    Closed,
}

/// What shows that a file has changed: its length, and when that was (seconds, nanoseconds).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    pub bytes: u64,
    pub modified: (i64, i64),
}

impl FileState {
    fn of(metadata: &Metadata) -> FileState {
        FileState { bytes: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }
}

enum Map {
    Changing(Mapping),
    Frozen(Frozen),
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        match self {
            Map::Changing(map) => map.as_ref(),
            Map::Frozen(map) => map.as_ref(),
        }
    }
}

/// A file in memory, released on another thread than its last user's: to unmap a
/// gigabyte page by page takes as long as a tenth of reading it.
pub struct MappedFile {
    map: Option<Map>,
    state: Option<(FileState, File)>,
}

/// Less is soon unmapped.
const UNMAPPED_BEHIND_MIN: usize = 16 << 20;

impl Drop for MappedFile {
    fn drop(&mut self) {
        let is_long = |map: &Map| map.as_ref().len() >= UNMAPPED_BEHIND_MIN;
        let Some(map) = self.map.take().filter(is_long) else { return };
        // Where no thread is to be had, the map is dropped with the closure, here.
        drop(std::thread::Builder::new().spawn(move || drop(map)));
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        self.map.as_ref().map(AsRef::as_ref).unwrap_or_default()
    }
}
