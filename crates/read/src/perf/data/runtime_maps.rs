//! Names of code that runtimes made: each process may have written a map of its own,
//! `perf-PID.map`, which lies in `/tmp`, or beside the records where somebody put it there.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

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
            let folders = beside.clone().into_iter().chain(is_from_here.then(|| "/tmp".into()));
            let paths = folders.map(|folder| folder.join(format!("perf-{pid}.map")));
            let text = paths.filter(|path| path.is_file()).find_map(|path| fs::read(path).ok());
            PerfMap::read(&text.unwrap_or_default())
        })
    }
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
