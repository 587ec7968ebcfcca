//! Files for records, made where others may write as well.
//!
//! What somebody else has put at the place of a file, such as a link to one of ours, is neither
//! opened nor followed: a file is made under a name that nobody can foresee, and renamed.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// Makes a new file at this path, for its owner alone, in the place of a regular file that may be
/// there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    check_replaceable(path)?;
    let (making, file) = create_beside(path)?;
    let placed = check_replaceable(path).and_then(|()| fs::rename(&making, path));
    placed.inspect_err(|_| {
        // It would be left over.
        let _ = fs::remove_file(&making);
    })?;
    Ok(file)
}

/// A device, a pipe or a link is no file that another may take the place of.
pub(crate) fn check_replaceable(path: &Path) -> io::Result<()> {
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
pub(crate) fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
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
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder that is gone after the test.
    struct TemporaryFolder(PathBuf);

    impl TemporaryFolder {
        fn new(name: &str) -> TemporaryFolder {
            let name = format!("spanwise-create-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).expect("writable");
            TemporaryFolder(folder)
        }
    }

    impl Drop for TemporaryFolder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("ours");
        }
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let TemporaryFolder(folder) = &TemporaryFolder::new("replaced");
        fs::write(folder.join("file"), "").expect("writable");
        symlink("file", folder.join("link")).expect("writable");
        symlink("/dev/null", folder.join("device")).expect("writable");
        let check = |name: &str, expected: bool| {
            let path = folder.join(name);
            assert_eq!(check_replaceable(&path).is_ok(), expected, "{name}");
            assert_eq!(create(&path).is_ok(), expected, "{name}");
        };
        check("absent", true);
        check("file", true);
        check("link", false);
        check("device", false);
        check(".", false);
        let left = fs::read_dir(folder).expect("ours").count();
        assert_eq!(left, 4, "nothing else is left there");
    }

    #[test]
    fn what_a_link_leads_to_stays_and_a_file_of_several_names_too() {
        let TemporaryFolder(folder) = &TemporaryFolder::new("links");
        let (own, link, hard) = (folder.join("own"), folder.join("link"), folder.join("hard"));
        fs::write(&own, "mine").expect("writable");
        symlink(&own, &link).expect("writable");
        fs::hard_link(&own, &hard).expect("writable");
        assert!(create(&link).is_err());
        let mode = create(&hard).and_then(|file| file.metadata()).expect("made").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert_eq!(fs::read(&own).expect("there"), b"mine");
    }

    #[test]
    fn names_cannot_be_foreseen() {
        let TemporaryFolder(folder) = &TemporaryFolder::new("names");
        let made = [(); 2].map(|()| create_beside(&folder.join("file")).expect("made").0);
        assert_ne!(made[0], made[1]);
    }
}
