//! Resolves a path step by step, and holds on to the folder it leads to.
//!
//! The kernel would follow every link, whoever made it. Here a link counts only if it belongs to
//! root or to the user: others could lead a privileged process to any place.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, RawMode, Stat};
use rustix::fs::{fstat, fstatfs, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use crate::trust::{is_own_or_root, kind};

/// As many as the kernel follows.
const LINKS_MAX: u32 = 40;

/// Folders are made for their owner alone.
pub(crate) const FOLDER_MODE: RawMode = 0o700;

/// A folder, and the name of something in it that may or may not exist.
#[derive(Debug)]
pub(crate) struct PathEntry {
    pub(crate) folder: OwnedFd,
    pub(crate) name: OsString,
}

/// What to do about folders of a path that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Refuse,
    Make,
}

/// The folder at a path.
pub(crate) fn folder_at(path: &Path, missing: Missing) -> io::Result<OwnedFd> {
    let mut walk = Walk::new(path)?;
    walk.go(0, missing)?;
    // What was looked up can be opened by its own name.
    Ok(openat(&walk.at, c".", folder_flags(), Mode::empty())?)
}

/// The folder that the last part of a path is in; that part itself is not examined.
pub(crate) fn place_of(path: &Path) -> io::Result<PathEntry> {
    Walk::new(path)?.place()
}

/// The same, behind all links that the last part may lead through. A link that the kernel makes
/// up, such as those of `/proc/self/fd`, is left for the kernel to follow.
pub(crate) fn place_behind_links(path: &Path) -> io::Result<PathEntry> {
    let mut walk = Walk::new(path)?;
    loop {
        walk.go(1, Missing::Refuse)?;
        let Some(name) = walk.rest.front().cloned() else { return walk.place() };
        match handle_of(&walk.at, &name) {
            Ok((link, stat)) if kind(&stat) == FileType::Symlink && !is_made_up(&link)? => {
                walk.rest.pop_front();
                walk.follow(&link, &stat, &name)?;
            }
            Ok(_) | Err(Errno::NOENT) => return walk.place(),
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// A link of the file system in which the kernel shows processes.
pub(crate) fn is_made_up(link: impl AsFd) -> io::Result<bool> {
    Ok(fstatfs(link)?.f_type == PROC_SUPER_MAGIC)
}

/// A handle for something, whatever it is, without opening it.
fn handle_of(folder: &OwnedFd, name: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(folder, name, flags, Mode::empty())?;
    let stat = fstat(&found)?;
    Ok((found, stat))
}

struct Walk {
    at: OwnedFd,
    /// What is still to be looked up; `..` stands for itself.
    rest: VecDeque<OsString>,
    links_left: u32,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Walk> {
        if path.as_os_str().is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let at = start(path)?;
        Ok(Walk { at, rest: parts(path).collect(), links_left: LINKS_MAX })
    }

    /// Enters folders until `left` parts are left.
    fn go(&mut self, left: usize, missing: Missing) -> io::Result<()> {
        while self.rest.len() > left
            && let Some(name) = self.rest.pop_front()
        {
            self.enter(&name, missing)?;
        }
        Ok(())
    }

    fn place(mut self) -> io::Result<PathEntry> {
        self.go(1, Missing::Refuse)?;
        let name = self.rest.pop_front().filter(|name| name != "..");
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let folder = openat(&self.at, c".", folder_flags(), Mode::empty())?;
        Ok(PathEntry { folder, name })
    }

    fn enter(&mut self, name: &OsStr, missing: Missing) -> io::Result<()> {
        let found = match handle_of(&self.at, name) {
            Err(Errno::NOENT) if missing == Missing::Make => {
                match mkdirat(&self.at, name, Mode::from_raw_mode(FOLDER_MODE)) {
                    Ok(()) | Err(Errno::EXIST) => handle_of(&self.at, name),
                    Err(error) => Err(error),
                }
            }
            found => found,
        };
        let (found, stat) = found?;
        match kind(&stat) {
            FileType::Symlink if is_made_up(&found)? => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                self.at = openat(&self.at, name, flags, Mode::empty())?;
                Ok(())
            }
            FileType::Symlink => self.follow(&found, &stat, name),
            FileType::Directory => {
                self.at = found;
                Ok(())
            }
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn follow(&mut self, link: &OwnedFd, stat: &Stat, name: &OsStr) -> io::Result<()> {
        let target = readlinkat(link, c"", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if !is_own_or_root(stat.st_uid) {
            let name = PathBuf::from(name);
            return Err(io::Error::other(ForeignLink { name, owner: stat.st_uid, target }));
        }
        self.links_left = self.links_left.checked_sub(1).ok_or(Errno::LOOP)?;
        if target.is_absolute() {
            self.at = start(&target)?;
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            self.rest.push_front(part);
        }
        Ok(())
    }
}

fn start(path: &Path) -> io::Result<OwnedFd> {
    let first = if path.is_absolute() { c"/" } else { c"." };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, first, flags, Mode::empty())?)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// A link that somebody else made.
#[derive(Debug)]
struct ForeignLink {
    name: PathBuf,
    owner: u32,
    target: PathBuf,
}

impl fmt::Display for ForeignLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is a symbolic link of user {} and is not followed; name the place it leads to \
             ({}) if you trust it",
            self.name.display(),
            self.owner,
            self.target.display()
        )
    }
}

impl std::error::Error for ForeignLink {}
