//! Where readings of interpreters go: into a file at once, or into memory until they are saved.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::samples::HEAD;
use super::{Counts, Readings};

/// The file in the folder of a recording.
const FILE: &str = "python.samples";

#[derive(Debug)]
pub(crate) struct PythonLog {
    pub(crate) counts: Counts,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// The file, which is made with the first readings.
    File {
        folder: PathBuf,
        file: Option<File>,
    },
    Memory(Kept),
}

/// The latest readings, and what stays true.
#[derive(Debug, Default)]
struct Kept {
    facts: Vec<u8>,
    stacks: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    bytes_max: usize,
}

impl PythonLog {
    pub(crate) fn to_file(folder: &Path) -> PythonLog {
        let place = Place::File { folder: folder.to_owned(), file: None };
        PythonLog { counts: Counts::default(), place }
    }

    pub(crate) fn to_memory(bytes_max: usize) -> PythonLog {
        let place = Place::Memory(Kept { bytes_max, ..Kept::default() });
        PythonLog { counts: Counts::default(), place }
    }

    pub(crate) fn add(&mut self, readings: Readings) -> io::Result<()> {
        self.counts.stacks += readings.counts.stacks;
        self.counts.torn += readings.counts.torn;
        match &mut self.place {
            Place::Memory(kept) => kept.add(readings),
            Place::File { folder, file } => {
                if readings.facts.is_empty() && readings.stacks.is_empty() {
                    return Ok(());
                }
                let file = match file {
                    Some(file) => file,
                    None => file.insert(create(folder)?),
                };
                let mut bytes = readings.facts;
                readings.stacks.iter().for_each(|(_, stack)| bytes.extend(stack));
                file.write_all(&bytes)?;
            }
        }
        Ok(())
    }

    /// Writes what is in memory to a folder, from a time on, and forgets the stacks.
    pub(crate) fn save(&mut self, folder: &Path, from: u64) -> io::Result<()> {
        let Place::Memory(kept) = &mut self.place else { return Ok(()) };
        if kept.facts.is_empty() {
            return Ok(());
        }
        kept.bytes = 0;
        let mut bytes = kept.facts.clone();
        let stacks = kept.stacks.drain(..).filter(|(time, _)| *time >= from);
        stacks.for_each(|(_, stack)| bytes.extend(stack));
        create(folder)?.write_all(&bytes)
    }
}

impl Kept {
    fn add(&mut self, readings: Readings) {
        self.facts.extend(readings.facts);
        for (time, stack) in readings.stacks {
            self.bytes += stack.len();
            self.stacks.push_back((time, stack));
        }
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.stacks.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }
}

fn create(folder: &Path) -> io::Result<File> {
    let path = folder.join(FILE);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(HEAD)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(facts: &str, stacks: &[(u64, &str)]) -> Readings {
        let stacks = stacks.iter().map(|(time, stack)| (*time, stack.as_bytes().to_vec()));
        Readings {
            facts: facts.as_bytes().to_vec(),
            stacks: stacks.collect(),
            ..Readings::default()
        }
    }

    #[track_caller]
    fn check(log: &mut PythonLog, from: u64, expected: Option<&str>) {
        let folder = tempfile::tempdir().expect("a folder");
        log.save(folder.path(), from).expect("writable");
        let found = std::fs::read(folder.path().join(FILE)).ok();
        let expected = expected.map(|text| [HEAD, text.as_bytes()].concat());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_latest_are_kept_and_facts_outlive_them() {
        let mut log = PythonLog::to_memory(4);
        check(&mut log, 0, None);
        log.add(readings("F", &[(1, "aa"), (2, "bb"), (3, "cc")])).expect("memory");
        log.add(readings("G", &[(4, "dd")])).expect("memory");
        check(&mut log, 0, Some("FGccdd"));
        log.add(readings("", &[(5, "ee"), (6, "ff")])).expect("memory");
        check(&mut log, 6, Some("FGff"));
    }

    #[test]
    fn a_file_is_made_where_there_is_something_to_say() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = PythonLog::to_file(folder.path());
        log.add(readings("", &[])).expect("nothing to do");
        assert!(!folder.path().join(FILE).exists());
        log.add(readings("F", &[(1, "a")])).expect("writable");
        log.add(readings("", &[(2, "b")])).expect("writable");
        let found = std::fs::read(folder.path().join(FILE)).expect("a file");
        assert_eq!(found, [HEAD.as_slice(), b"Fab"].concat());
    }
}
