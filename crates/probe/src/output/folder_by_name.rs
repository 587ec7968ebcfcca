//! The folder of a file by its name, where systems have no better.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder that the last part of a path is in, and that part.
    pub(crate) fn around(path: &Path) -> io::Result<(Folder, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        Ok((Folder { path: path.parent().unwrap_or(Path::new("")).to_owned() }, name))
    }

    /// Makes a file for its owner alone; an error where there is anything of that name.
    pub(crate) fn create(&self, name: &OsStr) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(self.path.join(name))
    }

    /// What has that name, if anything; links are not followed.
    pub(crate) fn kind_of(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        match fs::symlink_metadata(self.path.join(name)) {
            Ok(found) => Ok(Some(found.file_type())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn rename(&self, name: &OsStr, new: &OsStr) -> io::Result<()> {
        fs::rename(self.path.join(name), self.path.join(new))
    }

    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}
