//! Files beside the kernel's records: written at once, or kept in memory until they are saved.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use spanwise_files::Folder;
use spanwise_recording::SideFile;

/// Records for such a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SideRecords {
    /// What stays true, such as names.
    pub(crate) facts: Vec<u8>,
    /// What is of a time; ascending, except for small differences.
    pub(crate) timed: Vec<(u64, Vec<u8>)>,
}

impl SideRecords {
    fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.timed.is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct SideLog {
    file: SideFile,
    place: LogTarget,
}

#[derive(Debug)]
enum LogTarget {
    /// The file, which is made with the first records.
    File {
        folder: Arc<Folder>,
        open: Option<File>,
    },
    Memory(RecentRecords),
}

/// The latest records, and what stays true.
#[derive(Debug, Default)]
struct RecentRecords {
    facts: Vec<u8>,
    timed: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    bytes_max: usize,
}

impl SideLog {
    pub(crate) fn to_file(file: SideFile, folder: &Arc<Folder>) -> SideLog {
        SideLog { file, place: LogTarget::File { folder: Arc::clone(folder), open: None } }
    }

    pub(crate) fn to_memory(file: SideFile, bytes_max: usize) -> SideLog {
        SideLog {
            file,
            place: LogTarget::Memory(RecentRecords { bytes_max, ..RecentRecords::default() }),
        }
    }

    pub(crate) fn add(&mut self, records: SideRecords) -> io::Result<()> {
        match &mut self.place {
            LogTarget::Memory(kept) => kept.add(records),
            LogTarget::File { .. } if records.is_empty() => {}
            LogTarget::File { folder, open } => {
                let open = match open {
                    Some(open) => open,
                    None => open.insert(create(self.file, folder)?),
                };
                let mut bytes = records.facts;
                records.timed.iter().for_each(|(_, record)| bytes.extend(record));
                open.write_all(&bytes)?;
            }
        }
        Ok(())
    }

    /// Writes what is in memory to a folder, from a time on, and forgets what has a time.
    pub(crate) fn save(&mut self, folder: &Folder, from: u64) -> io::Result<()> {
        let LogTarget::Memory(kept) = &mut self.place else { return Ok(()) };
        if kept.facts.is_empty() {
            return Ok(());
        }
        kept.bytes = 0;
        let mut bytes = kept.facts.clone();
        let timed = kept.timed.drain(..).filter(|(time, _)| *time >= from);
        timed.for_each(|(_, record)| bytes.extend(record));
        create(self.file, folder)?.write_all(&bytes)
    }
}

impl RecentRecords {
    fn add(&mut self, records: SideRecords) {
        self.facts.extend(records.facts);
        for (time, record) in records.timed {
            self.bytes += record.len();
            self.timed.push_back((time, record));
        }
        // The latest stays, however large it is.
        while self.bytes > self.bytes_max && self.timed.len() > 1 {
            let Some((_, oldest)) = self.timed.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }
}

fn create(file: SideFile, folder: &Folder) -> io::Result<File> {
    let mut open = folder.create_file(file.name)?;
    open.write_all(file.head)?;
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: SideFile = SideFile { name: "side", head: b"0123456789abcdef" };

    fn records(facts: &str, timed: &[(u64, &str)]) -> SideRecords {
        let timed = timed.iter().map(|(time, record)| (*time, record.as_bytes().to_vec()));
        SideRecords { facts: facts.as_bytes().to_vec(), timed: timed.collect() }
    }

    #[track_caller]
    fn check(log: &mut SideLog, from: u64, expected: Option<&str>) {
        let folder = tempfile::tempdir().expect("a folder");
        log.save(&Folder::open(folder.path()).expect("there"), from).expect("writable");
        let found = std::fs::read(folder.path().join(FILE.name)).ok();
        let expected = expected.map(|text| [FILE.head, text.as_bytes()].concat());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_latest_are_kept_and_facts_outlive_them() {
        let mut log = SideLog::to_memory(FILE, 4);
        check(&mut log, 0, None);
        log.add(records("F", &[(1, "aa"), (2, "bb"), (3, "cc")])).expect("memory");
        log.add(records("G", &[(4, "dd")])).expect("memory");
        check(&mut log, 0, Some("FGccdd"));
        log.add(records("", &[(5, "ee"), (6, "ff")])).expect("memory");
        check(&mut log, 6, Some("FGff"));
    }

    #[test]
    fn a_file_is_made_where_there_is_something_to_say() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log =
            SideLog::to_file(FILE, &Arc::new(Folder::open(folder.path()).expect("there")));
        log.add(records("", &[])).expect("nothing to do");
        assert!(!folder.path().join(FILE.name).exists());
        log.add(records("F", &[(1, "a")])).expect("writable");
        log.add(records("", &[(2, "b")])).expect("writable");
        let found = std::fs::read(folder.path().join(FILE.name)).expect("a file");
        assert_eq!(found, [FILE.head.as_slice(), b"Fab"].concat());
    }
}
