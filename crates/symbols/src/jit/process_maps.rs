//! Names of code that runtimes made: each process may have written a map of its own,
//! `perf-PID.map`, which lies beside the records, where our recorder copies it to, or in `/tmp`;
//! and a dump with the code itself, which is copied as well.
//!
//! Anybody may write into `/tmp`. A map there counts only if it belongs to root or to the user who
//! reads it: whose process it was is not known any more. Records may lie there, too: what is beside
//! them counts also if it belongs to the owner of the folder.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::dump::{JIT_DUMP_BYTES_MAX, jit_dump_name};
use super::map::JitMap;

/// The maps of processes, read when one is asked for.
#[derive(Debug, Default)]
pub struct JitMaps {
    beside: Option<RecordsFolder>,
    known: HashMap<i32, JitMap>,
}

impl JitMaps {
    pub fn new(beside: Option<&Path>) -> JitMaps {
        let beside = beside.and_then(|beside| {
            let beside = if beside.as_os_str().is_empty() { Path::new(".") } else { beside };
            let owner = fs::metadata(beside).ok()?.uid();
            Some(RecordsFolder { folder: beside.to_owned(), owner })
        });
        JitMaps { beside, known: HashMap::new() }
    }

    /// That beside the records; or where runtimes write them, if that was here.
    pub fn of(&mut self, pid: i32, is_from_here: bool) -> &JitMap {
        let JitMaps { beside, known } = self;
        known.entry(pid).or_insert_with(|| {
            let name = JitMap::file_name(pid);
            let own = beside.as_ref().and_then(|beside| read_beside(beside, &name, MAP_BYTES_MAX));
            let from_tmp = || read(&Path::new("/tmp").join(&name), MAP_BYTES_MAX, is_trusted);
            let text = own.or_else(|| if is_from_here { from_tmp() } else { None });
            JitMap::read(&text.unwrap_or_default())
        })
    }

    /// The copy of a process's dump that is beside the records, and its name.
    pub fn copied_dump(&self, pid: i32) -> Option<(String, Vec<u8>)> {
        let name = jit_dump_name(pid);
        let dump = read_beside(self.beside.as_ref()?, &name, JIT_DUMP_BYTES_MAX)?;
        Some((name, dump))
    }
}

/// The folder that the records are in, and whose it is.
#[derive(Debug)]
struct RecordsFolder {
    folder: PathBuf,
    owner: u32,
}

/// The largest maps are those of browsers, some 50 MB.
const MAP_BYTES_MAX: u64 = 256 << 20;

fn read_beside(beside: &RecordsFolder, name: &str, bytes_max: u64) -> Option<Vec<u8>> {
    read(&beside.folder.join(name), bytes_max, |user| user == beside.owner || is_trusted(user))
}

/// A file, if it is a regular one of an owner who may say such things, up to a length.
fn read(path: &Path, bytes_max: u64, is_trusted: impl Fn(u32) -> bool) -> Option<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).ok()?;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || !is_trusted(metadata.uid()) {
        return None;
    }
    let mut text = Vec::new();
    file.take(bytes_max).read_to_end(&mut text).ok()?;
    Some(text)
}

/// What root or the user says.
pub(crate) fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_map_and_that_beside_the_records_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("perf-7.map"), "10 10 f\n20 10 g\n").expect("writable");
        let mut maps = JitMaps::new(Some(folder.path()));
        let mut check = |pid, ip, expected| assert_eq!(maps.of(pid, true).find_entry(ip), expected);
        check(7, 0x10, Some(("f", true)));
        check(7, 0x2f, Some(("g", false)));
        check(7, 0x30, None);
        check(8, 0x10, None);
    }

    #[test]
    fn maps_in_tmp_count_if_they_are_of_root_or_of_the_reader() {
        let folder = tempfile::tempdir().expect("a folder");
        let map = folder.path().join("perf-7.map");
        fs::write(&map, "10 10 f\n").expect("writable");
        assert!(read(&map, 100, is_trusted).is_some());
        let beside = RecordsFolder { folder: folder.path().to_owned(), owner: 4321 };
        if std::os::unix::fs::chown(&map, Some(65534), None).is_ok() {
            assert!(read(&map, 100, is_trusted).is_none());
            assert!(read_beside(&beside, "perf-7.map", 100).is_none());
            let beside = RecordsFolder { folder: folder.path().to_owned(), owner: 65534 };
            assert!(read_beside(&beside, "perf-7.map", 100).is_some());
        }
        fs::remove_file(&map).expect("ours");
        std::os::unix::fs::symlink("/dev/zero", &map).expect("writable");
        assert!(read(&map, 100, |_| true).is_none());
        assert!(read_beside(&beside, "perf-7.map", 100).is_none());
    }

    #[test]
    fn a_copied_dump_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("jit-7.dump"), "JiTD and more").expect("writable");
        let maps = JitMaps::new(Some(folder.path()));
        let copied = maps.copied_dump(7).expect("it is there");
        assert_eq!(copied, ("jit-7.dump".to_owned(), b"JiTD and more".to_vec()));
        assert_eq!(maps.copied_dump(8), None);
        assert_eq!(JitMaps::new(None).copied_dump(7), None);
        let file = fs::File::create(folder.path().join("perf-9.map")).expect("writable");
        file.set_len(100).expect("writable");
        assert_eq!(
            read(&folder.path().join("perf-9.map"), 10, |_| true).map(|it| it.len()),
            Some(10)
        );
    }
}
