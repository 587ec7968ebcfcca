//! Folders of recordings, made under names that are not taken.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use spanwise_files::Folder;
use spanwise_recording::FOLDER_ENDING;

use crate::CaptureError;

/// File systems have names of 255 bytes; so much of a program's leaves room for a number and the
/// ending.
const PROGRAM_BYTES_MAX: usize = 200;

/// Folders of one recorder: each of a name that nobody has yet.
#[derive(Debug)]
pub(crate) struct Folders {
    /// Without the usual ending, and that ending where it is used.
    base: PathBuf,
    ending: &'static str,
    next: u32,
}

impl Folders {
    /// In this folder, named after the program: `NAME`, `NAME-2`, `NAME-3` …
    pub(crate) fn of_program(command: &[String]) -> Folders {
        let program = Path::new(command.first().map_or("", String::as_str));
        let name = program.file_name().and_then(OsStr::to_str).unwrap_or("program");
        let name = &name[..name.floor_char_boundary(PROGRAM_BYTES_MAX)];
        Folders { base: name.into(), ending: FOLDER_ENDING, next: 1 }
    }

    /// As somebody wants it; what is there already is not touched.
    pub(crate) fn named(folder: &Path) -> Result<Folders, CaptureError> {
        if folder.exists() {
            let there = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(cannot(folder, there));
        }
        let name = folder.as_os_str().as_bytes();
        let (base, ending) = match name.strip_suffix(FOLDER_ENDING.as_bytes()) {
            Some(base) => (OsStr::from_bytes(base), FOLDER_ENDING),
            None => (folder.as_os_str(), ""),
        };
        Ok(Folders { base: base.into(), ending, next: 1 })
    }

    /// Makes the next. Copies of stacks may hold anything: it is for its owner alone.
    pub(crate) fn create(&mut self) -> Result<Folder, CaptureError> {
        loop {
            let mut name = self.base.clone().into_os_string();
            if self.next > 1 {
                name.push(format!("-{}", self.next));
            }
            name.push(self.ending);
            self.next += 1;
            let folder = PathBuf::from(name);
            match Folder::create_new(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map_err(|error| cannot(&folder, error)),
            }
        }
    }
}

pub(crate) fn cannot(path: &Path, error: io::Error) -> CaptureError {
    CaptureError::io(format!("{}: cannot be written", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_taken_twice() {
        let beside = tempfile::tempdir().expect("a folder");
        let check = |named: &str, expected: [&str; 2]| {
            let mut folders = Folders::named(&beside.path().join(named)).expect("not there");
            for expected in expected {
                let folder = folders.create().expect("writable");
                assert_eq!(folder.path(), beside.path().join(expected));
            }
            assert!(Folders::named(&beside.path().join(named)).is_err());
        };
        check("a.spanwise-recording", ["a.spanwise-recording", "a-2.spanwise-recording"]);
        check("b", ["b", "b-2"]);
        let mut folders = Folders::of_program(&["/bin/a".to_owned()]);
        folders.base = beside.path().join(&folders.base);
        let folder = folders.create().expect("writable");
        assert_eq!(folder.path(), beside.path().join("a-3.spanwise-recording"));
    }

    #[test]
    fn long_names_of_programs_are_cut() {
        let beside = tempfile::tempdir().expect("a folder");
        let check = |program: &str, expected: &str| {
            let mut folders = Folders::of_program(&[program.to_owned()]);
            folders.base = beside.path().join(&folders.base);
            let folder = folders.create().expect("writable");
            let name = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
            assert_eq!(name, format!("{expected}.spanwise-recording"));
        };
        check(&"x".repeat(240), &"x".repeat(200));
        check(&"x".repeat(255), &format!("{}-2", "x".repeat(200)));
        check(&"é".repeat(127), &"é".repeat(100));
    }
}
