//! What `-o` means, whatever has the name.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use spanwise_files::{OutputSummary, write_output};

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn write(path: &Path) -> std::io::Result<OutputSummary> {
    write_output(path, |out| out.write_all(b"new"))
}

/// Writes to a path; what is in the file then, or how it failed. Nothing else is left behind.
#[track_caller]
fn check(path: &Path, file: &Path, expected: Result<&str, &str>) {
    let written = write(path).map(|_| fs::read_to_string(file).expect("there"));
    match (written, expected) {
        (Ok(text), Ok(expected)) => assert_eq!(text, expected),
        (Err(error), Err(expected)) => {
            let text = error.to_string();
            assert!(text.contains(expected), "{text}");
        }
        (written, _) => panic!("{written:?}, not {expected:?}"),
    }
    for folder in [path.parent(), file.parent()].into_iter().flatten() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let names = entries.flatten().map(|entry| entry.file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("making")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn files_are_made_and_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    check(&file, &file, Ok("new"));
    fs::write(&file, "something old").expect("writable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("ours");
    let before = fs::metadata(&file).expect("there").ino();
    check(&file, &file, Ok("new"));
    let now = fs::metadata(&file).expect("there");
    assert_eq!((now.mode() & 0o777, now.ino() == before), (0o640, false));
    let long = folder.path().join("x".repeat(255));
    check(&long, &long, Ok("new"));
    check(folder.path(), &file, Err("directory"));
    check(&folder.path().join("a/b"), &file, Err("No such file"));
}

#[test]
fn a_failure_leaves_the_old_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "old").expect("writable");
    let failed = write_output(&file, |out| {
        out.write_all(b"half")?;
        Err(std::io::Error::other("no more"))
    });
    assert_eq!(failed.expect_err("it failed").to_string(), "no more");
    assert_eq!(fs::read_to_string(&file).expect("there"), "old");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn own_links_are_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("inner")).expect("made");
    fs::write(at("inner/file"), "old").expect("writable");
    symlink("inner/file", at("link")).expect("made");
    symlink("link", at("link2")).expect("made");
    symlink(at("inner"), at("folder")).expect("made");
    for path in ["link2", "folder/file", "folder/../link"] {
        fs::write(at("inner/file"), "old").expect("writable");
        check(&at(path), &at("inner/file"), Ok("new"));
        assert!(at("link").is_symlink() && at("link2").is_symlink());
    }
    symlink("inner/absent", at("dead")).expect("made");
    check(&at("dead"), &at("inner/absent"), Ok("new"));
    symlink("loop", at("loop")).expect("made");
    check(&at("loop"), &at("inner/file"), Err("symbolic links"));
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that skips something says so")]
fn links_of_others_are_not_followed() {
    if !is_root() {
        eprintln!("skipped: only root can make links of others");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("inner")).expect("made");
    fs::write(at("inner/file"), "old").expect("writable");
    for (name, target) in [("link", "inner/file"), ("folder", "inner")] {
        symlink(target, at(name)).expect("made");
        std::os::unix::fs::lchown(at(name), Some(NOBODY), None).expect("root may");
    }
    check(&at("link"), &at("inner/file"), Err("a symbolic link of user 65534"));
    check(&at("folder/file"), &at("inner/file"), Err("a symbolic link of user 65534"));
    assert_eq!(fs::read_to_string(at("inner/file")).expect("there"), "old");
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that skips something says so")]
fn what_is_left_in_folders_of_others_is_private() {
    if !is_root() {
        eprintln!("skipped: only root can give folders away");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    chown(folder.path(), Some(NOBODY), None).expect("root may");
    let file = folder.path().join("file");
    check(&file, &file, Ok("new"));
    assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("ours");
    check(&file, &file, Ok("new"));
    assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
}

#[test]
fn pipes_and_devices_are_written_to_and_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("started").success());
    let path = pipe.clone();
    let reader = std::thread::spawn(move || fs::read_to_string(path));
    let written = OutputSummary { bytes: 3, is_stdout: false };
    assert_eq!(write(&pipe).expect("written"), written);
    assert_eq!(reader.join().expect("no panic").expect("readable"), "new");
    assert!(fs::metadata(&pipe).expect("there").file_type().is_fifo());
    // A device of our own, never that of the machine.
    let device = folder.path().join("null");
    let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).output();
    if made.expect("started").status.success() {
        assert_eq!(write(&device).expect("written"), written);
        assert!(fs::metadata(&device).expect("there").file_type().is_char_device());
    }
}

#[test]
fn what_is_open_already_is_written_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let mut open = File::create_new(&file).expect("made");
    open.write_all(b"old ").expect("writable");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
    let before = fs::metadata(&file).expect("there").ino();
    check(path.as_ref(), &file, Ok("old new"));
    assert_eq!(fs::metadata(&file).expect("there").ino(), before);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    write(path.as_ref()).expect("written");
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("readable");
    assert_eq!(text, "new");
}
