//! A file's bytes, mapped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap, mmap_anonymous, mprotect, munmap};

use crate::guard::Watch;

/// How a map is going to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// From its beginning to its end.
    InOrder,
    /// All of it, at once: pages are mapped now instead of one fault after another.
    Everywhere,
}

/// The bytes of a file as they are now, not copied.
///
/// Others may cut the file: what is gone reads as zeros then, and [`Mapping::is_cut`] says so.
/// They may also change it, so whoever reads must be ready for any bytes at any time.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// None where the bytes are a copy.
    watched: Option<Watch>,
}

// SAFETY: the memory is only read, and is unmapped once, by whoever drops this.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn of(file: &File, access: Access) -> io::Result<Mapping> {
        let len = len_of(file)?;
        if len == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an empty file"));
        }
        // SAFETY: a new map, wherever there is room; nothing else is touched.
        let start =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut mapping = Mapping { start, len, watched: None };
        mapping.watched = Watch::new(start.as_ptr() as usize, len);
        if mapping.watched.is_none() {
            return Mapping::copy_of(file);
        }
        mapping.advise(match access {
            Access::InOrder => Advice::Sequential,
            Access::Everywhere => Advice::LinuxPopulateRead,
        });
        Ok(mapping)
    }

    /// The bytes of a file as they are now, in memory of our own.
    pub fn copy_of(file: &File) -> io::Result<Mapping> {
        let len = len_of(file)?;
        let start = read_into_memory(file, len)?;
        Ok(Mapping { start, len, watched: None })
    }

    /// Whether something was read that the file no longer had.
    pub fn is_cut(&self) -> bool {
        self.watched.as_ref().is_some_and(Watch::is_cut)
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn advise(&self, advice: Advice) {
        // SAFETY: advice about a map of ours; neither kind changes what is in it. Should it fail,
        // reading works without.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len, advice) };
    }
}

fn len_of(file: &File) -> io::Result<usize> {
    usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// New memory, read only, with the bytes of a file; an error where it ends before that.
pub(crate) fn read_into_memory(file: &File, len: usize) -> io::Result<NonNull<u8>> {
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory, wherever there is room. A map of no bytes is refused, so one is asked
    // for at least.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), len.max(1), rights, MapFlags::PRIVATE) }?;
    let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: that many bytes were just mapped, and nobody else knows of them.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) };
    let read = file.read_exact_at(bytes, 0);
    // SAFETY: the slice is not used any more, and the memory is that of the map above.
    unsafe {
        if let Err(error) = read {
            munmap(start.as_ptr().cast(), len.max(1))?;
            return Err(error);
        }
        mprotect(start.as_ptr().cast(), len.max(1), MprotectFlags::READ)?;
    }
    Ok(start)
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: that many bytes are mapped as long as this lives, and can be read: those that
        // are gone from the file are zeros. Others may change them; see the type.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // First, so that nothing is put there once the place belongs to somebody else.
        self.watched = None;
        // SAFETY: the map is ours, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len.max(1)) };
    }
}
