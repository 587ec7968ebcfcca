//! Code that runtimes make while they run: names in `perf-PID.map`, which a runtime writes into the
//! folder `/tmp` that it sees, and the code itself in `jit-PID.dump`, which it maps.
//!
//! Copies go into the recording, so that they are those of the recorded process wherever and
//! whenever it is read. Anybody may write into `/tmp`: a file counts only if it belongs to the user
//! of its process, or to root. It is found through the process's own root folder, since it may run
//! in a container, the map by the number that the process knows itself by. No link is followed on
//! the way: it would lead to places of ours.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};

use spanwise_symbols::{JIT_DUMP_BYTES_MAX, JitMap, is_jit_dump, jit_dump_name};

use spanwise_files::Folder;

use super::processes::{self, Identity};
use crate::perf::records::Record;

/// The largest maps are those of browsers, some 50 MB.
const MAP_BYTES_MAX: u64 = 256 << 20;

/// Processes that run code of no file.
#[derive(Debug, Default)]
pub(crate) struct RuntimeMaps {
    makers: BTreeMap<i32, Option<Maker>>,
    /// Of processes that wrote one, or why it is not taken.
    dumps: BTreeMap<i32, io::Result<File>>,
}

/// A process that makes code, as it was when that was first seen.
#[derive(Debug)]
struct Maker {
    /// The folder for temporary files that it sees; open, so that it outlives the process.
    folder: File,
    identity: Identity,
}

/// What became of a map.
#[derive(Debug, PartialEq, Eq)]
enum Copied {
    Whole,
    /// It is longer than we keep.
    Cut,
    /// Somebody else has put it there.
    OfAnother(u32),
}

impl RuntimeMaps {
    pub(crate) fn note(&mut self, record: Record<'_>) {
        if let Some(pid) = record.mapped_anonymous() {
            self.add(pid);
        }
        if let Some((pid, path)) = record.mapped() {
            self.add_dump(pid, &path);
        }
    }

    /// A process has mapped this file: it may be its dump. Opened now, it outlives the process.
    pub(crate) fn add_dump(&mut self, pid: i32, path: &[u8]) {
        if str::from_utf8(path).is_ok_and(is_jit_dump) {
            self.dumps.entry(pid).or_insert_with(|| open_dump(pid, processes::path_of(path)));
        }
    }

    /// A process has memory with code of no file.
    pub(crate) fn add(&mut self, pid: i32) {
        self.makers.entry(pid).or_insert_with(|| Maker::of(pid));
    }

    /// Copies the maps and dumps of all of them; gives what is worth knowing about it.
    pub(crate) fn copy_to(&self, folder: &Folder) -> Vec<String> {
        let mut notes = self.copy_dumps_to(folder);
        for (pid, maker) in &self.makers {
            let Some(maker) = maker else { continue };
            match maker.copy_map(folder, &JitMap::file_name(*pid)) {
                Ok(Copied::Whole) => {}
                Ok(Copied::Cut) => notes.push(format!(
                    "the map of process {pid}'s own code is longer than {} MB, and was cut there",
                    MAP_BYTES_MAX >> 20
                )),
                Ok(Copied::OfAnother(user)) => notes.push(format!(
                    "perf-{}.map, which should name process {pid}'s own code, belongs to user \
                     {user} and not to the user of the process: it is not used",
                    maker.identity.own_pid
                )),
                // Most programs that make code write none.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => notes.push(format!(
                    "the map of process {pid}'s own code is not in the recording: {error}"
                )),
            }
        }
        notes
    }

    fn copy_dumps_to(&self, folder: &Folder) -> Vec<String> {
        let copy = |pid: i32, mut dump: &File| {
            // There may have been a snapshot before.
            dump.seek(SeekFrom::Start(0))?;
            copy_bounded(dump, folder.create_file(&jit_dump_name(pid))?, JIT_DUMP_BYTES_MAX)
        };
        let mut notes = Vec::new();
        for (&pid, dump) in &self.dumps {
            let copied = match dump {
                Ok(dump) => copy(pid, dump).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match copied {
                Ok(Copied::Cut) => notes.push(format!(
                    "the dump of process {pid}'s own code is longer than {} MB, and was cut there",
                    JIT_DUMP_BYTES_MAX >> 20
                )),
                Ok(_) => {}
                Err(error) => notes.push(format!(
                    "the dump of process {pid}'s own code is not in the recording: {error}"
                )),
            }
        }
        notes
    }
}

/// The dump of a process, by the path that it has there, if it belongs to its user or to root.
fn open_dump(pid: i32, path: &Path) -> io::Result<File> {
    let identity = processes::identity(pid).ok_or_else(|| io::Error::other("it has ended"))?;
    let root = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(Path::new("/proc").join(pid.to_string()).join("root"))?;
    open_trusted(root, path, identity.user)
}

/// A regular file below a folder, without any link on the way.
fn open_trusted(mut folder: File, path: &Path, user: u32) -> io::Result<File> {
    let parts = path.components().filter(|part| *part != Component::RootDir);
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { break };
        let flags = match parts.peek() {
            Some(_) => libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW,
            None => libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY,
        };
        let at = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let opened =
            OpenOptions::new().read(true).custom_flags(flags).open(Path::new(&at).join(name));
        folder = opened?;
        if parts.peek().is_some() {
            continue;
        }
        let metadata = folder.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        return match metadata.uid() {
            owner if owner == 0 || owner == user => Ok(folder),
            owner => Err(io::Error::other(format!(
                "it belongs to user {owner} and not to the user of the process"
            ))),
        };
    }
    Err(io::ErrorKind::InvalidInput.into())
}

impl Maker {
    /// `None` where it is gone already, or where one may not know.
    fn of(pid: i32) -> Option<Maker> {
        let identity = processes::identity(pid)?;
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(Path::new("/proc").join(pid.to_string()).join("root").join("tmp"))
            .ok()?;
        Some(Maker { folder, identity })
    }

    fn copy_map(&self, into: &Folder, name: &str) -> io::Result<Copied> {
        // A link would lead out of the folder, and a pipe would wait for somebody to write.
        let (folder, own_pid) = (self.folder.as_raw_fd(), self.identity.own_pid);
        let map = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(format!("/proc/self/fd/{folder}/{}", JitMap::file_name(own_pid)))?;
        let metadata = map.metadata()?;
        if ![0, self.identity.user].contains(&metadata.uid()) {
            return Ok(Copied::OfAnother(metadata.uid()));
        }
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        copy_bounded(map, into.create_file(name)?, MAP_BYTES_MAX)
    }
}

/// Copies at most so many bytes; who reads them passes over a line that is cut.
fn copy_bounded(from: impl Read, mut into: impl Write, most: u64) -> io::Result<Copied> {
    let mut from = from.take(most);
    let copied = io::copy(&mut from, &mut into)?;
    let is_whole = copied < most || from.into_inner().read(&mut [0])? == 0;
    Ok(if is_whole { Copied::Whole } else { Copied::Cut })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn maker(folder: &Path, user: u32) -> Maker {
        let identity = Identity { own_pid: 7, user };
        Maker { folder: File::open(folder).expect("a folder"), identity }
    }

    fn into(folder: &Path) -> Folder {
        Folder::open(folder).expect("a folder")
    }

    #[test]
    fn a_map_counts_if_it_is_of_the_processs_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let (map, copy) = (folder.path().join("perf-7.map"), folder.path().join("copy"));
        fs::write(&map, "10 10 f\n").expect("writable");
        let own = fs::metadata(&map).expect("there").uid();
        assert_eq!(
            maker(folder.path(), own).copy_map(&into(folder.path()), "copy").expect("copied"),
            Copied::Whole
        );
        assert_eq!(fs::read(&copy).expect("there"), b"10 10 f\n");
        fs::remove_file(&copy).expect("ours");
        if own == 0 {
            std::os::unix::fs::chown(&map, Some(4321), None).expect("root may");
            let found = maker(folder.path(), 1234)
                .copy_map(&into(folder.path()), "copy")
                .expect("examined");
            assert_eq!(found, Copied::OfAnother(4321));
            assert!(!copy.exists());
        }
    }

    #[test]
    fn what_is_no_file_is_not_waited_for_nor_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (map, copy) = (folder.path().join("perf-7.map"), folder.path().join("copy"));
        let own = fs::metadata(folder.path()).expect("there").uid();
        std::os::unix::fs::symlink("/etc/passwd", &map).expect("writable");
        assert!(maker(folder.path(), own).copy_map(&into(folder.path()), "copy").is_err());
        fs::remove_file(&map).expect("ours");
        let fifo = std::process::Command::new("mkfifo").arg(&map).status();
        if fifo.is_ok_and(|status| status.success()) {
            assert!(maker(folder.path(), own).copy_map(&into(folder.path()), "copy").is_err());
        }
        assert!(!copy.exists());
    }

    #[test]
    fn dumps_are_opened_without_links_and_of_the_processs_user_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("a/b")).expect("writable");
        fs::write(at("a/b/jit-7.dump"), "JiTD").expect("writable");
        std::os::unix::fs::symlink("b", at("a/link")).expect("writable");
        std::os::unix::fs::symlink("jit-7.dump", at("a/b/jit-8.dump")).expect("writable");
        fs::create_dir(at("a/b/jit-9.dump")).expect("writable");
        let own = fs::metadata(root.path()).expect("there").uid();
        let open = |path: &str, user| {
            let folder = File::open(root.path()).expect("a folder");
            open_trusted(folder, Path::new(path), user)
        };
        assert!(open("/a/b/jit-7.dump", own).is_ok());
        let others = ["/a/link/jit-7.dump", "/a/b/jit-8.dump", "/a/b/jit-9.dump", "/a/b/gone", "/"];
        for path in others {
            assert!(open(path, own).is_err(), "{path}");
        }
        if own == 0 {
            std::os::unix::fs::chown(at("a/b/jit-7.dump"), Some(4321), None).expect("root may");
            assert!(open("/a/b/jit-7.dump", 4321).is_ok());
            let refusal = open("/a/b/jit-7.dump", 1234).expect_err("of another").to_string();
            assert!(refusal.contains("belongs to user 4321"), "{refusal}");
        }
    }

    #[test]
    fn long_maps_are_cut() {
        let check = |text: &str, most, expected| {
            let mut copy = Vec::new();
            let copied = copy_bounded(text.as_bytes(), &mut copy, most).expect("copied");
            assert_eq!((copied, copy.len() as u64 <= most), (expected, true), "{text:?}");
        };
        check("1 1 a\n", 6, Copied::Whole);
        check("1 1 a\n", 100, Copied::Whole);
        check("1 1 a\n2 2 b\n", 6, Copied::Cut);
    }
}
