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

use super::State;
use super::maps::Mapping;
use crate::perf::map::PerfMap;

/// The maps of processes, read when one is asked for.
#[derive(Debug, Default)]
pub(super) struct RuntimeMaps {
    beside: Option<PathBuf>,
    known: HashMap<i32, PerfMap>,
}

impl RuntimeMaps {
    pub(super) fn new(records: Option<&Path>) -> RuntimeMaps {
        let beside = records.and_then(Path::parent).map(Path::to_owned);
        RuntimeMaps { beside, known: HashMap::new() }
    }

    /// That beside the records; or where runtimes write them, if that was here.
    fn of(&mut self, pid: i32, is_from_here: bool) -> &PerfMap {
        let RuntimeMaps { beside, known } = self;
        known.entry(pid).or_insert_with(|| {
            let name = format!("perf-{pid}.map");
            let own = beside.as_ref().and_then(|beside| read_map(&beside.join(&name), |_| true));
            let from_tmp = || read_map(&Path::new("/tmp").join(&name), is_trusted);
            let text = own.or_else(|| if is_from_here { from_tmp() } else { None });
            PerfMap::read(&text.unwrap_or_default())
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
pub(super) fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

impl State<'_> {
    /// The name that a runtime has for code of its own, and whether it begins there.
    pub(super) fn runtime_name(
        &mut self,
        pid: i32,
        ip: u64,
        mapping: Option<&Mapping>,
    ) -> Option<(String, bool)> {
        let may_be = ip >> 63 == 0 && mapping.is_none_or(|mapping| is_anonymous(&mapping.path));
        let is_from_here = self.files.are_of_here();
        let map = may_be.then(|| self.runtime_maps.of(pid, is_from_here));
        let found = map.and_then(|map| map.find_entry(ip));
        found.map(|(name, is_entry)| (name.to_owned(), is_entry))
    }
}

/// Memory that is no file's, as the kernel tells it.
fn is_anonymous(path: &str) -> bool {
    let is_file = path.starts_with('/') && !path.starts_with("//") || path == "[vdso]";
    !is_file || path.starts_with("/memfd:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_map_and_that_beside_the_records_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("perf-7.map"), "10 10 f\n20 10 g\n").expect("writable");
        let mut maps = RuntimeMaps::new(Some(&folder.path().join("perf.data")));
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

    #[test]
    fn files_are_not_asked_a_runtime() {
        let check = |path, expected| assert_eq!(is_anonymous(path), expected, "{path}");
        check("//anon", true);
        check("[heap]", true);
        check("/memfd:code (deleted)", true);
        check("anon_inode:[x]", true);
        check("/bin/true", false);
        check("[vdso]", false);
    }
}
