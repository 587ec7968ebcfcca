//! Where indexes live, and how one replaces another in a single step.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
    let making = make_aside(target)?;
    let done = fill(&making).and_then(|()| swap_in(&making, target));
    if done.is_err() {
        let _ = fs::remove_dir_all(&making);
    }
    done
}

/// Makes a folder of its own for each writer, also for two threads of one process, and
/// for two processes that have the same number in their containers.
fn make_aside(target: &Path) -> io::Result<PathBuf> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".making-{}-", std::process::id()));
    loop {
        let mut name = name.clone();
        name.push(MADE.fetch_add(1, Ordering::Relaxed).to_string());
        let aside = target.with_file_name(name);
        match fs::create_dir(&aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| aside),
        }
    }
}

fn swap_in(making: &Path, target: &Path) -> io::Result<()> {
    if renameat_with(CWD, making, CWD, target, RenameFlags::NOREPLACE).is_ok() {
        return Ok(());
    }
    if renameat_with(CWD, making, CWD, target, RenameFlags::EXCHANGE).is_ok() {
        // The new one is in its place; what is left of the old one goes with the abandoned.
        let _ = fs::remove_dir_all(making);
        return Ok(());
    }
    swap_in_by_two(making, target)
}

/// For file systems that can do neither: for a moment there is no index, never a wrong one.
fn swap_in_by_two(making: &Path, target: &Path) -> io::Result<()> {
    let mut old = making.as_os_str().to_owned();
    old.push("-old");
    loop {
        // Fails where there is none, or where another writer moves it away at this moment.
        if fs::rename(target, &old).is_ok() {
            let _ = fs::remove_dir_all(&old).or_else(|_| fs::remove_file(&old));
        }
        match fs::rename(making, target) {
            // Another writer was quicker to fill the place.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            other => return other,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers that replace one folder at a time of their own choosing all succeed, and
    /// leave one whole folder and nothing else.
    #[track_caller]
    fn check_race(swap: fn(&Path, &Path) -> io::Result<()>) {
        let parent = tempfile::tempdir().expect("a folder");
        let target = parent.path().join("trace.spanwise");
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let making = make_aside(&target).expect("a name of its own");
                        fs::write(making.join("table"), b"whole").expect("writable");
                        swap(&making, &target).expect("swapped");
                    }
                });
            }
        });
        assert_eq!(fs::read(target.join("table")).expect("there"), b"whole");
        assert_eq!(fs::read_dir(parent.path()).expect("readable").count(), 1);
    }

    #[test]
    fn writers_do_not_disturb_each_other() {
        check_race(swap_in);
        check_race(swap_in_by_two);
    }
}
