//! Files for records, made where others may write as well.
//!
//! What somebody else has put at the place of a file, such as a link to one of ours, is neither
//! opened nor followed: a file is made under a name that nobody can foresee, and renamed, both in
//! the folder that was looked up once.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;

use super::folder::Folder;

/// Makes a new file at this path, for its owner alone, in the place of a regular file that may be
/// there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let (new, file) = NewFile::create(path)?;
    new.keep()?;
    Ok(file)
}

/// A file that is being made, and goes unless it is kept.
pub(crate) struct NewFile {
    folder: Folder,
    making: OsString,
    name: OsString,
    is_kept: bool,
}

impl NewFile {
    /// Makes a file beside the one that it may take the place of. Nobody can foresee its name,
    /// and what has it already is neither opened nor followed.
    pub(crate) fn create(path: &Path) -> io::Result<(NewFile, File)> {
        let (folder, name) = Folder::around(path)?;
        check_replaceable(&folder, &name)?;
        let random = RandomState::new().build_hasher().finish();
        let making = OsString::from(format!(".spanwise-making-{random:016x}"));
        let file = folder.create(&making)?;
        Ok((NewFile { folder, making, name, is_kept: false }, file))
    }

    /// Gives it its name.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        check_replaceable(&self.folder, &self.name)?;
        self.folder.rename(&self.making, &self.name)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // An incomplete file is of no use.
            let _ = self.folder.remove(&self.making);
        }
    }
}

/// A device, a pipe or a link is no file that another may take the place of.
fn check_replaceable(folder: &Folder, name: &OsString) -> io::Result<()> {
    match folder.kind_of(name)? {
        Some(kind) if !kind.is_file() => {
            let what = format!("{}: what is there is not a regular file", name.display());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
        }
        _ => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

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
            assert_eq!(NewFile::create(&path).is_ok(), expected, "{name}");
            assert_eq!(create(&path).is_ok(), expected, "{name}");
        };
        check("absent", true);
        check("file", true);
        check("link", false);
        check("device", false);
        check("..", false);
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
        let made = [(); 2].map(|()| NewFile::create(&folder.join("file")).expect("made").0);
        assert_ne!(made[0].making, made[1].making);
    }
}
