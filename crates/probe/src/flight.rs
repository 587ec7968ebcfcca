//! A flight recorder: the latest moments stay in memory until someone asks for them.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crate::Saved;
use crate::clock::{self, Moment};
use crate::ring::{Room, WhenFull};
use crate::session::Turn;
use crate::writer::Writer;

/// Records into memory alone, until it is dropped. Snapshots save the latest records of each
/// thread. There is one at a time, and no session beside it.
#[derive(Debug)]
pub struct FlightRecorder {
    turn: Turn,
    began: Moment,
}

impl FlightRecorder {
    /// Keeps the latest records of each thread, 24 bytes each; their number is rounded up to
    /// a power of two.
    pub fn start(records_per_thread: usize) -> io::Result<Self> {
        let turn = Turn::take(Room::fixed(records_per_thread), WhenFull::DropOldest)?;
        let began = clock::moment(turn.state);
        clock::turn_on(turn.state);
        Ok(FlightRecorder { turn, began })
    }

    /// Saves what is there while recording goes on. The next snapshot begins where this one
    /// ended. The file appears whole or not at all, for its owner alone; nothing but a regular
    /// file is replaced.
    pub fn snapshot(&mut self, path: impl AsRef<Path>) -> io::Result<Saved> {
        let path = path.as_ref();
        if self.turn.is_of_parent() {
            return Err(io::Error::other("a forked process has no flight recorder"));
        }
        check_replaceable(path)?;
        let (making, file) = create_beside(path)?;
        let write = || -> io::Result<(u64, u64)> {
            let counts = Writer::new(file, self.turn.state, self.began)?.end()?;
            check_replaceable(path)?;
            fs::rename(&making, path)?;
            Ok(counts)
        };
        let written = write();
        let (records, dropped) = written.inspect_err(|_| {
            // What cannot be finished is of no use.
            let _ = fs::remove_file(&making);
        })?;
        Ok(Saved { path: path.to_owned(), records, dropped })
    }
}

/// A device, a pipe or a link is no file that a snapshot may take the place of.
fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let what = format!("{}: what is there is not a regular file", path.display());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a new file in the same folder. Nobody can foresee its name, and what has it already is
/// neither opened nor followed.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let random = RandomState::new().build_hasher().finish();
    let making = path.with_file_name(format!(".spanwise-making-{random:016x}"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&making)?;
    Ok((making, file))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_replaced() {
        let folder = std::env::temp_dir().join(format!("flight-{}", std::process::id()));
        fs::create_dir(&folder).expect("writable");
        let check = |name: &str, expected: bool| {
            assert_eq!(check_replaceable(&folder.join(name)).is_ok(), expected, "{name}");
        };
        fs::write(folder.join("file"), "").expect("writable");
        std::os::unix::fs::symlink("file", folder.join("link")).expect("writable");
        std::os::unix::fs::symlink("/dev/null", folder.join("device")).expect("writable");
        check("absent", true);
        check("file", true);
        check("link", false);
        check("device", false);
        check(".", false);
        let (one, other) = (create_beside(&folder.join("file")), create_beside(&folder));
        let [one, other] = [one, other].map(|made| made.expect("made").0);
        assert_ne!(one.file_name(), other.file_name());
        fs::remove_file(other).expect("ours");
        fs::remove_dir_all(&folder).expect("ours");
    }
}
