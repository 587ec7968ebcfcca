//! A file that somebody named for a result.
//!
//! A regular file appears whole or not at all: it is written under another name and renamed.
//! Pipes, devices and what is open already (`/dev/stdout`, `/dev/fd/63`) are written to, and
//! never replaced. Own links are followed, and those of others refused.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, statat};
use rustix::io::Errno;

use crate::folder::{Folder, PRIVATE_MODE};
use crate::trust::{is_own_or_root, kind, mode};
use crate::walk::{PathEntry, place_behind_links};

/// What others may do with a new file is for the user's mask to say.
const SHARED_MODE: u32 = 0o666;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputSummary {
    pub bytes: u64,
    /// It went where this process prints to.
    pub is_stdout: bool,
}

/// Writes to the file, pipe or device of that name.
pub fn write_output(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<OutputSummary> {
    let place = place_behind_links(path)?;
    match statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => replace(place, None, write),
        Err(error) => Err(error.into()),
        Ok(stat) => match kind(&stat) {
            FileType::RegularFile => replace(place, Some(&stat), write),
            FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
            // One that the kernel makes up: what it leads to is open somewhere.
            FileType::Symlink => write_through(&place, OFlags::empty(), write),
            _ => write_through(&place, OFlags::NOFOLLOW, write),
        },
    }
}

fn replace(
    place: PathEntry,
    old: Option<&Stat>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<OutputSummary> {
    let folder = Folder::of_place(place.folder);
    // In a folder of somebody else nobody but us is to read what we leave there.
    let is_foreign = !is_own_or_root(folder.owner()?);
    let file = folder.new_file_with(Mode::from_raw_mode(match is_foreign {
        true => PRIVATE_MODE,
        false => SHARED_MODE,
    }))?;
    if let Some(old) = old.filter(|_| !is_foreign) {
        fchmod(file.file(), mode(old))?;
    }
    let mut out = Counting { out: BufWriter::new(file), bytes: 0 };
    write(&mut out)?;
    let file = out.out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.keep_as(&place.name)?;
    Ok(OutputSummary { bytes: out.bytes, is_stdout: false })
}

fn write_through(
    place: &PathEntry,
    flags: OFlags,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<OutputSummary> {
    // A handle shows what it is without waiting for the other end of a pipe.
    let handle = OFlags::PATH | OFlags::CLOEXEC | flags;
    let what = fstat(openat(&place.folder, &place.name, handle, Mode::empty())?)?;
    let file = match already_open(place, &what) {
        Some(file) => file,
        None => {
            let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC | flags;
            openat(&place.folder, &place.name, flags, Mode::empty())?
        }
    };
    if !is_same(&what, &fstat(&file)) {
        return Err(io::Error::other("it was exchanged while it was opened"));
    }
    let mut out = Counting { out: BufWriter::new(File::from(file)), bytes: 0 };
    write(&mut out)?;
    out.flush()?;
    let is_stdout = is_same(&what, &fstat(rustix::stdio::stdout()));
    Ok(OutputSummary { bytes: out.bytes, is_stdout })
}

/// The descriptor that a name such as that of `/proc/self/fd/1` stands for: sockets cannot be
/// opened anew, and files that are written to by others as well go on where those stopped.
fn already_open(place: &PathEntry, what: &Stat) -> Option<OwnedFd> {
    let number: i32 = place.name.to_str()?.parse().ok().filter(|number| *number >= 0)?;
    // SAFETY: makes a new descriptor, or fails where the number is of none.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: the descriptor was just made, and nobody else has it.
    let copy = (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })?;
    is_same(what, &fstat(&copy)).then_some(copy)
}

fn is_same(one: &Stat, other: &Result<Stat, Errno>) -> bool {
    let is_it = |other: &Stat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
    other.as_ref().is_ok_and(is_it)
}

struct Counting<Out> {
    out: Out,
    bytes: u64,
}

impl<Out: Write> Write for Counting<Out> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
