//! Folders for a while, in the system's folder for temporary files.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::folder::{Folder, unforeseen};
use crate::trust::is_own;

/// A folder for its owner alone, of a name that nobody can foresee; taken away at the end.
///
/// It is locked, so that others can detect whether its process still runs.
#[derive(Debug)]
pub struct TemporaryFolder(Option<Folder>);

impl TemporaryFolder {
    pub fn create(beginning: &str) -> io::Result<Self> {
        TemporaryFolder::create_in(&std::env::temp_dir(), beginning)
    }

    pub fn create_in(parent: &Path, beginning: &str) -> io::Result<Self> {
        let parent = Folder::open(parent)?;
        if !parent.is_safe_for_own()? {
            return Err(io::Error::other(format!(
                "{}: others may exchange what is in this folder; let TMPDIR name another one",
                parent.path().display()
            )));
        }
        let folder = unforeseen(|ending| {
            let folder = parent.create_folder(format!("{beginning}{ending}").as_ref())?;
            match folder.lock()? {
                true => Ok(folder),
                // Somebody is just checking whether it is in use: another one, then.
                false => Err(io::ErrorKind::AlreadyExists.into()),
            }
        })?;
        Ok(TemporaryFolder(Some(folder)))
    }

    pub fn folder(&self) -> &Folder {
        self.0.as_ref().expect("taken when it is dropped")
    }

    pub fn path(&self) -> &Path {
        self.folder().path()
    }

    /// Takes away the folders of processes of this user that ended without doing so.
    pub fn remove_abandoned(beginning: &str) {
        TemporaryFolder::remove_abandoned_in(&std::env::temp_dir(), beginning);
    }

    pub fn remove_abandoned_in(parent: &Path, beginning: &str) {
        let Ok(parent) = Folder::open(parent) else { return };
        let is_ours = |name: &OsStr| name.as_bytes().starts_with(beginning.as_bytes());
        for name in parent.names().unwrap_or_default().iter().filter(|name| is_ours(name)) {
            let Ok(folder) = parent.open_folder(name) else { continue };
            let is_own = folder.owner().is_ok_and(is_own);
            if is_own && folder.is_private().unwrap_or(false) && folder.lock().unwrap_or(false) {
                // What cannot be removed now may be later.
                let _ = folder.remove_all();
            }
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take() {
            // Should it fail, the next start or the system's own cleaning takes it.
            let _ = folder.remove_all();
        }
    }
}
