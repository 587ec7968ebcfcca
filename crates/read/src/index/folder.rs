//! Where indexes live, and how one replaces another in a single step.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spanwise_files::{Folder, is_own, is_own_or_root};

use super::manifest;

/// What the name of a trace's index ends with.
const SUFFIX: &str = ".spanwise";

/// What half-made folders are called, behind the name of the index.
const MAKING: &str = ".making-";

/// A half-made folder this old has no writer any more.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// Where an index may be.
pub(super) struct IndexLocation {
    pub(super) folder: PathBuf,
    is_cache: bool,
}

/// Where the index of a trace may be: beside it, else in the user's cache.
pub(super) fn candidates(source: &Path) -> Vec<IndexLocation> {
    let Some(name) = source.file_name() else { return Vec::new() };
    let mut folder_name = name.to_owned();
    folder_name.push(SUFFIX);
    let beside = IndexLocation { folder: source.with_file_name(&folder_name), is_cache: false };
    let Some(cache) = cache_folder() else { return vec![beside] };
    let full = fs::canonicalize(source).unwrap_or_else(|_| source.to_owned());
    let hash = spanwise_model::hash_bytes(full.as_os_str().as_encoded_bytes());
    let cached = cache.join(format!("{hash:016x}")).join(folder_name);
    vec![beside, IndexLocation { folder: cached, is_cache: true }]
}

fn cache_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let root = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(root.join("spanwise"))
}

/// Fills a new folder and puts it in the place of `target` by one rename.
///
/// Killed at any time, this leaves the old folder or the new one, and at worst
/// a half-made one under another name, which a later call removes. What is there and is no index
/// stays: that is [`io::ErrorKind::AlreadyExists`].
pub(super) fn replace(
    target: &IndexLocation,
    fill: impl FnOnce(&Folder) -> io::Result<()>,
) -> io::Result<()> {
    let (parent, name) = (target.folder.parent(), target.folder.file_name());
    let (Some(parent), Some(name)) = (parent, name) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = match target.is_cache {
        true => Folder::open_or_create(parent)?,
        false => Folder::open(parent)?,
    };
    // Whoever owns the folder could exchange what is written there, and would have to live with
    // files of ours.
    let owner = parent.owner()?;
    if !is_own(owner) && (target.is_cache || !is_own_or_root(owner)) {
        return Err(io::Error::other(format!("the folder belongs to user {owner}")));
    }
    if what_is_at(&parent, name) == There::Other {
        return Err(occupied());
    }
    remove_abandoned(&parent, name);
    let mut beginning = name.to_owned();
    beginning.push(MAKING);
    let making = parent.create_unforeseen(&beginning)?;
    let making_name = making.path().file_name().unwrap_or_default();
    let done = check_closed(&making)
        .and_then(|()| fill(&making))
        .and_then(|()| swap_in(&parent, making_name, name));
    if done.is_err() {
        let _ = making.remove_all();
    }
    done
}

/// Some file systems let everybody write everything: an index there would never be trusted.
fn check_closed(making: &Folder) -> io::Result<()> {
    match making.stranger()? {
        Some(why) => Err(io::Error::other(format!("an index cannot be closed to others: {why}"))),
        None => Ok(()),
    }
}

fn occupied() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "what has this name is no index of ours")
}

/// What has the name of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    Index,
    Other,
}

fn what_is_at(parent: &Folder, name: &OsStr) -> There {
    loop {
        let folder = match parent.open_folder(name) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return There::Nothing,
            Err(_) => return There::Other,
        };
        if is_index(&folder) {
            return There::Index;
        }
        // Another writer may have put a new one there, and taken away from this one meanwhile.
        if parent.is_name_of(name, &folder) {
            return There::Other;
        }
    }
}

/// Whether a folder is an index of this user, be it damaged: nothing is in it that we would not
/// put there.
fn is_index(folder: &Folder) -> bool {
    let Ok(names) = folder.names() else { return false };
    let is_ours = |name: &OsString| {
        let is_named = name == manifest::FILE_NAME || name.as_bytes().ends_with(b".arrow");
        let inner = folder.open_folder(name).and_then(|inner| inner.names());
        is_named && !inner.is_ok_and(|names| !names.is_empty())
    };
    let has = |name: &str| names.iter().any(|found| found == name);
    let is_known = names.is_empty()
        || has("spans.arrow") && has("strings.arrow")
        || manifest::begins_like_ours(folder);
    folder.owner().is_ok_and(is_own) && is_known && names.iter().all(is_ours)
}

fn swap_in(parent: &Folder, making: &OsStr, target: &OsStr) -> io::Result<()> {
    if parent.rename_new(making, target).is_ok() {
        return Ok(());
    }
    if parent.exchange(making, target).is_ok() {
        // The new one is in its place. Somebody may have put something else there meanwhile.
        if what_is_at(parent, making) == There::Other {
            parent.exchange(making, target)?;
            return Err(occupied());
        }
        // What is left of the old one goes with the abandoned.
        let _ = parent.remove(making);
        return Ok(());
    }
    swap_in_by_two(parent, making, target)
}

/// For file systems that can do neither: briefly there is no index, never a wrong one.
fn swap_in_by_two(parent: &Folder, making: &OsStr, target: &OsStr) -> io::Result<()> {
    let mut old = making.to_owned();
    old.push("-old");
    loop {
        if what_is_at(parent, target) == There::Other {
            return Err(occupied());
        }
        // Fails where there is none, or where another writer moves it away at the same time.
        if parent.rename_over(target, &old).is_ok() {
            let _ = parent.remove(&old);
        }
        match parent.rename_over(making, target) {
            // Another writer was quicker to fill the place.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            other => return other,
        }
    }
}

fn remove_abandoned(parent: &Folder, target: &OsStr) {
    let mut beginning = target.as_bytes().to_owned();
    beginning.extend(MAKING.as_bytes());
    let is_old = |age: Duration| age > ABANDONED_AFTER;
    for name in parent.names().unwrap_or_default() {
        if name.as_bytes().starts_with(&beginning) && parent.own_age(&name).is_some_and(is_old) {
            let _ = parent.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers that replace one folder at a time of their own choosing all succeed, and
    /// leave one whole folder and nothing else.
    #[track_caller]
    fn check_race(swap: fn(&Folder, &OsStr, &OsStr) -> io::Result<()>) {
        let root = tempfile::tempdir().expect("a folder");
        let target = OsStr::new("trace.spanwise");
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let parent = Folder::open(root.path()).expect("there");
                    for _ in 0..50 {
                        let making = parent.create_unforeseen(target).expect("a name of its own");
                        making.replace_file("spans.arrow", b"whole").expect("writable");
                        making.replace_file("strings.arrow", b"").expect("writable");
                        let name = making.path().file_name().expect("a name");
                        swap(&parent, name, target).expect("swapped");
                    }
                });
            }
        });
        let file = root.path().join(target).join("spans.arrow");
        assert_eq!(fs::read(file).expect("there"), b"whole");
        assert_eq!(fs::read_dir(root.path()).expect("readable").count(), 1);
    }

    #[test]
    fn an_index_is_only_written_where_it_would_be_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().expect("a folder");
        let check = |mode: u32, expected: bool| {
            fs::set_permissions(root.path(), fs::Permissions::from_mode(mode)).expect("ours");
            let folder = Folder::open(root.path()).expect("there");
            assert_eq!(check_closed(&folder).is_ok(), expected, "{mode:o}");
        };
        check(0o700, true);
        check(0o755, true);
        check(0o777, false);
        check(0o770, false);
    }

    #[test]
    fn writers_do_not_disturb_each_other() {
        check_race(swap_in);
        check_race(swap_in_by_two);
    }
}
