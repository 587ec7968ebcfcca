//! Reading files that lie beside others, which archives and other people may have put there: only
//! regular files, never through a link, and no more than there can be.
//!
//! A pipe would wait for somebody to write, and `/dev/zero` would never end. What a path names is
//! checked after it was opened: before, it may still be exchanged.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, stat};
use rustix::io::Errno;

use crate::trust::kind;

const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a file, if it is one: no pipe, no device. A link to a file is followed.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before it is opened as well: whoever waits at the other end of a pipe is not disturbed.
    check(&stat(path)?)?;
    checked(openat(CWD, path, FLAGS, Mode::empty())?)
}

/// Opens a file, if it is one: no link, no pipe, no device.
pub fn open_unlinked(path: &Path) -> io::Result<File> {
    match openat(CWD, path, FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::LOOP) => Err(not_regular("a symbolic link")),
        opened => checked(opened?),
    }
}

/// The content of a regular file that is no link, if it is no longer than that.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_all(open_unlinked(path)?, bytes_max)
}

/// The content of what somebody named, a pipe included, if it is no longer than that.
pub fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?, bytes_max)
}

pub(crate) fn open_in(folder: &OwnedFd, name: &Path) -> io::Result<File> {
    match openat(folder, name, FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::LOOP) => Err(not_regular("a symbolic link")),
        opened => checked(opened?),
    }
}

fn checked(file: OwnedFd) -> io::Result<File> {
    check(&fstat(&file)?)?;
    Ok(File::from(file))
}

fn check(stat: &Stat) -> io::Result<()> {
    let what = match kind(stat) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(io::ErrorKind::IsADirectory.into()),
        FileType::Fifo => "a pipe",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    Err(not_regular(what))
}

fn not_regular(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"))
}

pub(crate) fn read_all(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // What is as long as that may be longer: one byte more decides.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {bytes_max} bytes"),
        )),
        false => Ok(bytes),
    }
}
