//! The folder of a file by its descriptor: whatever happens to names on the way, what is made
//! goes into the folder that was looked up once.
//!
//! Links on the way count if they belong to root or to this process's user: others could lead a
//! privileged program to any place. The same rules as in `spanwise-files`, which this crate must
//! not need; elsewhere than on Linux, names are all there is (`folder_by_name.rs`).

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_uint};
use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Longer targets of links are none that the kernel makes.
const TARGET_MAX: usize = 4096;

/// Of the kernel's `fcntl.h`.
mod flag {
    use std::ffi::c_int;

    pub(super) const WRITE: c_int = 1;
    pub(super) const CREATE: c_int = 0o100;
    pub(super) const EXCLUSIVE: c_int = 0o200;
    pub(super) const CLOSE_ON_EXEC: c_int = 0o2_000_000;
    /// A handle, whatever it is of.
    pub(super) const PATH: c_int = 0o10_000_000;
    pub(super) const NO_FOLLOW: c_int =
        if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };
}

unsafe extern "C" {
    fn openat(folder: c_int, name: *const c_char, flags: c_int, ...) -> c_int;
    fn readlinkat(folder: c_int, name: *const c_char, target: *mut c_char, len: usize) -> isize;
    fn renameat(from: c_int, name: *const c_char, to: c_int, new: *const c_char) -> c_int;
    fn unlinkat(folder: c_int, name: *const c_char, flags: c_int) -> c_int;
    fn geteuid() -> c_uint;
}

/// What relative names are looked up in.
const WORKING_FOLDER: c_int = -100;

#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
}

impl Folder {
    /// The folder that the last part of a path is in, and that part.
    pub(crate) fn around(path: &Path) -> io::Result<(Folder, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let around = path.parent().unwrap_or(Path::new(""));
        let mut at = start(around)?;
        let mut rest: VecDeque<OsString> = parts(around).collect();
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            let found = open(at.as_raw_fd(), &part, flag::PATH | flag::NO_FOLLOW)?;
            let meta = found.metadata()?;
            if !meta.file_type().is_symlink() {
                at = found.into();
                continue;
            }
            if is_made_up(&meta) {
                at = open(at.as_raw_fd(), &part, flag::PATH)?.into();
                continue;
            }
            links += 1;
            let (owner, target) = (meta.uid(), target(&found)?);
            if !is_own_or_root(owner) {
                let (part, target) = (part.display(), target.display());
                return Err(io::Error::other(format!(
                    "{part} is a symbolic link of user {owner} and is not followed; name the \
                     place it leads to ({target}) if you trust it"
                )));
            }
            if links > LINKS_MAX {
                return Err(io::Error::other(format!("more than {LINKS_MAX} symbolic links")));
            }
            if target.is_absolute() {
                at = start(&target)?;
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(part);
            }
        }
        Ok((Folder { fd: at }, name))
    }

    /// Makes a file for its owner alone; an error where there is anything of that name.
    pub(crate) fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = flag::WRITE | flag::CREATE | flag::EXCLUSIVE | flag::NO_FOLLOW;
        open(self.fd.as_raw_fd(), name, flags)
    }

    /// What has that name, if anything; links are not followed.
    pub(crate) fn kind_of(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        match open(self.fd.as_raw_fd(), name, flag::PATH | flag::NO_FOLLOW) {
            Ok(found) => Ok(Some(found.metadata()?.file_type())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn rename(&self, name: &OsStr, new: &OsStr) -> io::Result<()> {
        let (fd, name, new) = (self.fd.as_raw_fd(), text(name)?, text(new)?);
        // SAFETY: both names end with a zero, and live on.
        succeeded(unsafe { renameat(fd, name.as_ptr(), fd, new.as_ptr()) })
    }

    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let (fd, name) = (self.fd.as_raw_fd(), text(name)?);
        // SAFETY: the name ends with a zero, and lives on.
        succeeded(unsafe { unlinkat(fd, name.as_ptr(), 0) })
    }
}

fn start(path: &Path) -> io::Result<OwnedFd> {
    let first = if path.is_absolute() { "/" } else { "." };
    Ok(open(WORKING_FOLDER, first.as_ref(), flag::PATH)?.into())
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn open(folder: c_int, name: &OsStr, flags: c_int) -> io::Result<File> {
    const PRIVATE_MODE: c_uint = 0o600;
    let name = text(name)?;
    // SAFETY: the name ends with a zero, and lives on.
    let fd = unsafe { openat(folder, name.as_ptr(), flags | flag::CLOSE_ON_EXEC, PRIVATE_MODE) };
    succeeded(fd)?;
    // SAFETY: it was just opened, and nobody else has it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// A link of the file system in which the kernel shows processes: what it leads to is open.
fn is_made_up(link: &Metadata) -> bool {
    fs::symlink_metadata("/proc/self").is_ok_and(|own| own.dev() == link.dev())
}

/// Where a link leads to that is held by a handle: nobody can exchange it meanwhile.
fn target(link: &File) -> io::Result<PathBuf> {
    let mut target = vec![0_u8; TARGET_MAX];
    let (fd, len) = (link.as_raw_fd(), target.len());
    // SAFETY: at most as many bytes are written as there are.
    let len = unsafe { readlinkat(fd, c"".as_ptr(), target.as_mut_ptr().cast(), len) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    target.truncate(len);
    Ok(OsString::from_vec(target).into())
}

fn text(name: &OsStr) -> io::Result<CString> {
    Ok(CString::new(name.as_bytes())?)
}

fn succeeded(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn is_own_or_root(owner: u32) -> bool {
    // SAFETY: it only gives a number.
    owner == 0 || owner == unsafe { geteuid() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn own_links_are_followed() {
        let root = std::env::temp_dir().join(format!("spanwise-folder-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).expect("writable");
        symlink("a/b", root.join("relative")).expect("writable");
        symlink(root.join("relative"), root.join("absolute")).expect("writable");
        symlink("loop", root.join("loop")).expect("writable");
        let check = |path: &str, expected: bool| {
            let made = Folder::around(&root.join(path));
            let made = made.and_then(|(folder, name)| folder.create(&name));
            assert_eq!(made.is_ok(), expected, "{path}: {made:?}");
            if made.is_ok() {
                fs::remove_file(root.join("a/b/file")).expect("it is there");
            }
        };
        check("a/b/file", true);
        check("relative/file", true);
        check("absolute/file", true);
        check("absolute/../b/./file", true);
        let open = File::open(root.join("a/b")).expect("a folder");
        check(&format!("/proc/self/fd/{}/file", open.as_raw_fd()), true);
        check("loop/file", false);
        check("nowhere/file", false);
        fs::write(root.join("a/b/file"), "").expect("writable");
        check("a/b/file/file", false);
        fs::remove_dir_all(&root).expect("ours");
    }
}
