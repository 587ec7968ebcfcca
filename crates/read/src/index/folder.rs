//! Where indexes live, and how one replaces another in a single step.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// What the name of a trace's index ends with.
const SUFFIX: &str = ".spanwise";

/// A half-made folder this old has no writer any more.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// Where the index of a trace may be: beside it, else in the user's cache.
pub(super) fn candidates(source: &Path) -> Vec<PathBuf> {
    let Some(name) = source.file_name() else { return Vec::new() };
    let mut folder_name = name.to_owned();
    folder_name.push(SUFFIX);
    let beside = source.with_file_name(&folder_name);
    let Some(cache) = cache_folder() else { return vec![beside] };
    let full = fs::canonicalize(source).unwrap_or_else(|_| source.to_owned());
    let hash = spanwise_model::hash_bytes(full.as_os_str().as_encoded_bytes());
    let cached = cache.join(format!("{hash:016x}")).join(folder_name);
    vec![beside, cached]
}

fn cache_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let root = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(root.join("spanwise"))
}

/// Fills a new folder and puts it in the place of `target` by one rename.
///
/// Killed at any moment, this leaves the old folder or the new one, and at worst
/// a half-made one under another name, which a later call removes.
pub(super) fn replace(target: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let is_cache = cache_folder().is_some_and(|cache| parent.starts_with(cache));
    if is_cache {
        fs::create_dir_all(parent)?;
    }
    if fs::symlink_metadata(target).is_ok_and(|metadata| metadata.is_file()) {
        return Err(io::Error::other("a file of that name is in the way"));
    }
    remove_abandoned(target, parent);
    let making = making_name(target);
    fs::create_dir(&making)?;
    let done = fill(&making).and_then(|()| swap_in(&making, target));
    if done.is_err() {
        let _ = fs::remove_dir_all(&making);
    }
    done
}

/// A name of its own for each writer, also for two in one process.
fn making_name(target: &Path) -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".making-{}-{}", std::process::id(), now.as_nanos()));
    target.with_file_name(name)
}

fn swap_in(making: &Path, target: &Path) -> io::Result<()> {
    if renameat_with(CWD, making, CWD, target, RenameFlags::NOREPLACE).is_ok() {
        return Ok(());
    }
    if renameat_with(CWD, making, CWD, target, RenameFlags::EXCHANGE).is_ok() {
        return fs::remove_dir_all(making);
    }
    // File systems without either: for a moment there is no index, never a wrong one.
    if fs::symlink_metadata(target).is_ok_and(|metadata| metadata.is_dir()) {
        let mut old = making.as_os_str().to_owned();
        old.push("-old");
        fs::rename(target, &old)?;
        let _ = fs::remove_dir_all(&old);
    }
    fs::rename(making, target)
}

fn remove_abandoned(target: &Path, parent: &Path) {
    let Some(name) = target.file_name() else { return };
    let prefix = format!("{}.making-", name.to_string_lossy());
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_making = entry.file_name().to_string_lossy().starts_with(&prefix);
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        if is_making && age.is_some_and(|age| age > ABANDONED_AFTER) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
