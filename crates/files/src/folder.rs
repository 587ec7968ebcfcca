//! A folder by its descriptor: whatever happens to its name, what is written goes into it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RawMode, RenameFlags};
use rustix::fs::{flock, fstat, mkdirat, openat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::regular;
use crate::trust::{is_own, is_own_or_root, kind, mode, stranger};
use crate::walk::{FOLDER_MODE, Missing, PathEntry, folder_at, folder_flags, place_of};

/// What may hold secrets is for its owner alone.
pub(crate) const PRIVATE_MODE: RawMode = 0o600;

/// Deeper folders are not ours.
const DEPTH_MAX: u32 = 16;

/// How often a name that nobody can foresee is tried.
const NAMES_MAX: u32 = 16;

/// A folder that is open.
///
/// Its path is where it was when it was opened, for messages and for whoever searches for it later.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// A file that is being made, and goes unless it is kept.
#[derive(Debug)]
pub struct NewFile<'f> {
    folder: &'f Folder,
    name: String,
    file: File,
    is_kept: bool,
}

impl Folder {
    /// A folder that was looked up already.
    pub(crate) fn of_place(fd: OwnedFd) -> Folder {
        Folder { fd, path: PathBuf::new() }
    }

    /// Opens a folder. Links on the way count if they are of root or of the user.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Folder { fd: folder_at(path, Missing::Refuse)?, path: path.to_owned() })
    }

    /// Opens a folder that is no link itself; on the way there, any link is followed. For reading
    /// alone: who may have put it there is to be asked of what was opened.
    pub fn open_to_read(path: &Path) -> io::Result<Folder> {
        Ok(Folder { fd: openat(CWD, path, folder_flags(), Mode::empty())?, path: path.to_owned() })
    }

    /// Opens a folder, and makes those that are not there, for their owner alone.
    pub fn open_or_create(path: &Path) -> io::Result<Folder> {
        Ok(Folder { fd: folder_at(path, Missing::Make)?, path: path.to_owned() })
    }

    /// Makes a folder for its owner alone; an error where there is anything of that name.
    pub fn create_new(path: &Path) -> io::Result<Folder> {
        let PathEntry { folder, name } = place_of(path)?;
        create_in(&folder, &name, path.to_owned())
    }

    /// Makes a folder in this one.
    pub fn create_folder(&self, name: &OsStr) -> io::Result<Folder> {
        create_in(&self.fd, name, self.path.join(name))
    }

    /// Makes a folder of a name that nobody can foresee.
    pub fn create_unforeseen(&self, beginning: &OsStr) -> io::Result<Folder> {
        unforeseen(|ending| {
            let mut name = beginning.to_owned();
            name.push(ending);
            self.create_folder(&name)
        })
    }

    /// Opens a folder in this one, if it is no link.
    pub fn open_folder(&self, name: &OsStr) -> io::Result<Folder> {
        let fd = openat(&self.fd, name, folder_flags(), Mode::empty())?;
        Ok(Folder { fd, path: self.path.join(name) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path that leads here as long as this is open, wherever the folder goes. Other processes
    /// of the same user may use it as well.
    pub fn lasting_path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd()).into()
    }

    pub fn owner(&self) -> io::Result<u32> {
        Ok(fstat(&self.fd)?.st_uid)
    }

    /// Why somebody else may have put something here; `None` where nobody could.
    pub fn stranger(&self) -> io::Result<Option<String>> {
        stranger(&self.fd)
    }

    /// Makes a file for its owner alone; an error where there is anything of that name.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        self.create_with(name, Mode::from_raw_mode(PRIVATE_MODE))
    }

    pub(crate) fn create_with(&self, name: &str, mode: Mode) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = openat(&self.fd, name, flags | OFlags::CLOEXEC, mode)?;
        Ok(File::from(fd))
    }

    /// Makes a file of a name that nobody can foresee.
    pub fn new_file(&self) -> io::Result<NewFile<'_>> {
        self.new_file_with(Mode::from_raw_mode(PRIVATE_MODE))
    }

    pub(crate) fn new_file_with(&self, mode: Mode) -> io::Result<NewFile<'_>> {
        unforeseen(|ending| {
            let name = format!(".spanwise-making-{ending}");
            let file = self.create_with(&name, mode)?;
            Ok(NewFile { folder: self, name, file, is_kept: false })
        })
    }

    /// Writes a file in the place of one that may be there.
    pub fn replace_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.new_file()?;
        file.write_all(bytes)?;
        file.keep_as(name.as_ref())
    }

    /// Opens a file, if it is one: no link, no pipe, no device.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        regular::open_in(&self.fd, name.as_ref())
    }

    /// Opens a file that nobody else could have written.
    pub fn open_trusted_file(&self, name: &str) -> io::Result<File> {
        let file = self.open_file(name)?;
        match stranger(&file)? {
            None => Ok(file),
            Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
        }
    }

    /// The file's content, if it is a regular one and no longer than that.
    pub fn read_file(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        regular::read_all(self.open_file(name)?, bytes_max)
    }

    /// The names of all that is in here, sorted.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// How long ago something in here was last changed, if it is of this user.
    pub fn own_age(&self, name: &OsStr) -> Option<Duration> {
        let stat = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let changed = Duration::from_secs(u64::try_from(stat.st_mtime).ok()?);
        let now = std::time::UNIX_EPOCH.elapsed().ok()?;
        is_own(stat.st_uid).then(|| now.saturating_sub(changed))
    }

    /// Whether a name in here is that of this very folder.
    pub fn is_name_of(&self, name: &OsStr, folder: &Folder) -> bool {
        let there = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        there.is_ok_and(|there| fstat(&folder.fd).is_ok_and(|it| identity(it) == identity(there)))
    }

    /// Gives something in here another name, unless that is taken.
    pub fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE)?)
    }

    /// Exchanges two names.
    pub fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        Ok(renameat_with(&self.fd, one, &self.fd, other, RenameFlags::EXCHANGE)?)
    }

    /// Gives something in here another name; an empty folder or a file of that name goes.
    pub fn rename_over(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Moves a file of another folder here, unless its name is taken.
    pub fn take_file(&self, from: &Folder, name: &str) -> io::Result<()> {
        let moved = renameat_with(&from.fd, name, &self.fd, name, RenameFlags::NOREPLACE);
        match moved {
            // The two may be on different disks, or the file system cannot do it.
            Err(Errno::XDEV | Errno::INVAL) => {
                let mut into = self.create_file(name)?;
                io::copy(&mut from.open_file(name)?, &mut into)?;
                Ok(unlinkat(&from.fd, name, AtFlags::empty())?)
            }
            other => Ok(other?),
        }
    }

    /// Marks this folder as in use until it is dropped; false where another process has.
    pub(crate) fn lock(&self) -> io::Result<bool> {
        match flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether others may exchange what this user has put here.
    pub(crate) fn is_safe_for_own(&self) -> io::Result<bool> {
        let stat = fstat(&self.fd)?;
        let is_shared = mode(&stat).intersects(Mode::WGRP | Mode::WOTH);
        let is_sticky = Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX);
        Ok(is_own_or_root(stat.st_uid) && (!is_shared || is_sticky))
    }

    pub(crate) fn is_private(&self) -> io::Result<bool> {
        let stat = fstat(&self.fd)?;
        Ok(is_own(stat.st_uid) && !mode(&stat).intersects(Mode::RWXG | Mode::RWXO))
    }

    /// Takes away what is in here.
    pub fn remove_content(&self) -> io::Result<()> {
        remove_content(&self.fd, DEPTH_MAX)
    }

    /// Takes away a file, or a folder with all that is in it.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        remove_one(&self.fd, name, DEPTH_MAX)
    }

    /// Takes away what is in here, and the folder itself where it still has its name.
    pub fn remove_all(&self) -> io::Result<()> {
        self.remove_content()?;
        let PathEntry { folder, name } = place_of(&self.path)?;
        let (here, there) = (fstat(&self.fd)?, statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?);
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino) {
            return Err(io::Error::other("the folder has been exchanged"));
        }
        Ok(unlinkat(&folder, &name, AtFlags::REMOVEDIR)?)
    }
}

impl NewFile<'_> {
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The file keeps this name, in the place of a regular file that may have it.
    pub fn keep_as(mut self, name: &OsStr) -> io::Result<()> {
        match statat(&self.folder.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Ok(stat) if kind(&stat) == FileType::RegularFile => {}
            Ok(_) => return Err(io::Error::other("what is there is not a regular file")),
            Err(error) => return Err(error.into()),
        }
        renameat(&self.folder.fd, &self.name, &self.folder.fd, name)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Write for NewFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            // What is not finished is of no use; somebody may have taken it away.
            let _ = unlinkat(&self.folder.fd, &self.name, AtFlags::empty());
        }
    }
}

/// Between making and opening, somebody could put another folder there: only one of our own that
/// is empty counts. Its mode does not, since some file systems have the same for all.
fn create_in(parent: &OwnedFd, name: &OsStr, path: PathBuf) -> io::Result<Folder> {
    mkdirat(parent, name, Mode::from_raw_mode(FOLDER_MODE))?;
    let fd = openat(parent, name, folder_flags(), Mode::empty())?;
    let folder = Folder { fd, path };
    let owner = folder.owner()?;
    if !is_own(owner) || !folder.names()?.is_empty() {
        let what = format!("a folder that was just made belongs to user {owner} or is not empty");
        return Err(io::Error::other(what));
    }
    Ok(folder)
}

/// Tries random endings until nothing has that name.
pub(crate) fn unforeseen<T>(make: impl Fn(&str) -> io::Result<T>) -> io::Result<T> {
    for _ in 0..NAMES_MAX {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        match make(&format!("{:016x}", u64::from_ne_bytes(random))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn remove_content(folder: &OwnedFd, depth_left: u32) -> io::Result<()> {
    let mut first_error = None;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if let Err(error) = remove_one(folder, name, depth_left) {
            first_error.get_or_insert(error);
        }
    }
    first_error.map_or(Ok(()), Err)
}

fn remove_one(folder: &OwnedFd, name: &OsStr, depth_left: u32) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        // Another process was quicker.
        Err(Errno::NOENT) => return Ok(()),
        other => return Ok(other?),
    }
    let depth_left = depth_left.checked_sub(1).ok_or(Errno::NOTEMPTY)?;
    remove_content(&openat(folder, name, folder_flags(), Mode::empty())?, depth_left)?;
    match unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
