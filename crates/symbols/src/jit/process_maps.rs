//! Names of code that runtimes made: each process may have written a map of its own,
//! `perf-PID.map`, which lies beside the records, where our recorder copies it to, or in `/tmp`.
//!
//! Anybody may write into `/tmp`. A map there counts only if it belongs to root or to the user who
//! reads it: whose process it was is not known any more.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::map::JitMap;

/// The maps of processes, read when one is asked for.
#[derive(Debug, Default)]
pub struct JitMaps {
    beside: Option<PathBuf>,
    known: HashMap<i32, JitMap>,
}

impl JitMaps {
    pub fn new(beside: Option<&Path>) -> JitMaps {
        JitMaps { beside: beside.map(Path::to_owned), known: HashMap::new() }
    }

    /// That beside the records; or where runtimes write them, if that was here.
    pub fn of(&mut self, pid: i32, is_from_here: bool) -> &JitMap {
        let JitMaps { beside, known } = self;
        known.entry(pid).or_insert_with(|| {
            let name = JitMap::file_name(pid);
            let own = beside.as_ref().and_then(|beside| read_map(&beside.join(&name), |_| true));
            let from_tmp = || read_map(&Path::new("/tmp").join(&name), is_trusted);
            let text = own.or_else(|| if is_from_here { from_tmp() } else { None });
            JitMap::read(&text.unwrap_or_default())
        })
    }
}

/// The largest maps are those of browsers, some 50 MB.
const MAP_BYTES_MAX: u64 = 256 << 20;

/// A map, if it is a regular file of an owner who may say such things.
fn read_map(path: &Path, is_trusted: impl Fn(u32) -> bool) -> Option<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).ok()?;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || !is_trusted(metadata.uid()) {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAP_BYTES_MAX).read_to_end(&mut text).ok()?;
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
        assert!(read_map(&map, is_trusted).is_some());
        if std::os::unix::fs::chown(&map, Some(65534), None).is_ok() {
            assert!(read_map(&map, is_trusted).is_none());
            assert!(read_map(&map, |_| true).is_some());
        }
        fs::remove_file(&map).expect("ours");
        std::os::unix::fs::symlink("/dev/zero", &map).expect("writable");
        assert!(read_map(&map, |_| true).is_none());
    }
}
