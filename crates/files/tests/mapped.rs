//! Maps of files that others cut or change.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use spanwise_files::{Access, Frozen, Mapping};

const BYTES: usize = 1 << 20;

fn file_of(folder: &Path, bytes: usize) -> PathBuf {
    let path = folder.join("file");
    fs::write(&path, vec![b'a'; bytes]).expect("writable");
    path
}

#[test]
fn what_was_cut_reads_as_zeros() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_of(folder.path(), BYTES);
    let map = Mapping::of(&File::open(&path).expect("there"), Access::InOrder).expect("mapped");
    assert!(map.as_ref().iter().all(|&byte| byte == b'a') && !map.is_cut());
    File::options().write(true).open(&path).expect("ours").set_len(5000).expect("cut");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let sum: usize = map.as_ref().iter().map(|&byte| usize::from(byte)).sum();
                assert_eq!(sum, 5000 * usize::from(b'a'));
            });
        }
    });
    assert!(map.is_cut());
}

/// Bytes stay as they were, whatever `harm` does to the file.
#[track_caller]
fn check_frozen(bytes: usize, harm: impl Fn(&Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_of(folder.path(), bytes);
    let frozen = Frozen::of(File::open(&path).expect("there")).expect("frozen");
    harm(&path);
    assert_eq!(frozen.as_ref().len(), bytes);
    assert!(frozen.as_ref().iter().all(|&byte| byte == b'a'));
}

fn overwrite(path: &Path) {
    let file = File::options().write(true).open(path).expect("ours");
    let len = file.metadata().expect("there").len() as usize;
    file.write_all_at(&vec![0xff; len], 0).expect("writable");
}

fn cut(path: &Path) {
    File::options().write(true).open(path).expect("ours").set_len(0).expect("cut");
}

#[test]
fn frozen_bytes_do_not_change() {
    for bytes in [0, 1, 4096, BYTES, 3 * BYTES + 1] {
        check_frozen(bytes, |_| {});
        check_frozen(bytes, overwrite);
        check_frozen(bytes, cut);
        check_frozen(bytes, |path| drop(File::create(path).expect("ours")));
        check_frozen(bytes, |path| fs::remove_file(path).expect("ours"));
    }
}

#[test]
fn somebody_who_writes_already_does_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_of(folder.path(), BYTES);
    let writer = File::options().write(true).open(&path).expect("ours");
    let frozen = Frozen::of(File::open(&path).expect("there")).expect("frozen");
    writer.set_len(0).expect("cut");
    assert!(frozen.as_ref().iter().all(|&byte| byte == b'a'));
}

#[test]
fn many_threads_read_while_others_write() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..50 {
        let path = file_of(folder.path(), BYTES);
        let frozen = Frozen::of(File::open(&path).expect("there")).expect("frozen");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert!(frozen.as_ref().iter().all(|&byte| byte == b'a')));
            }
            scope.spawn(|| if round % 2 == 0 { overwrite(&path) } else { cut(&path) });
        });
        assert!(frozen.as_ref().iter().all(|&byte| byte == b'a'), "round {round}");
    }
}

const SHORT_OF_MEMORY: &str = "SPANWISE_TEST_SHORT_OF_MEMORY";

/// Not a test: a process that has no memory for a copy when somebody writes.
#[test]
fn short_of_memory() {
    if std::env::var_os(SHORT_OF_MEMORY).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_of(folder.path(), 64 * BYTES);
    let frozen = Frozen::of(File::open(&path).expect("there")).expect("frozen");
    let status = fs::read_to_string("/proc/self/statm").expect("on Linux");
    let pages = status.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    let limit = pages.expect("a number") * 4096 + 8 * BYTES as u64;
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: the limit is read, and only this process has it.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let copied = std::panic::catch_unwind(|| Mapping::copy_of(&File::open(&path).expect("there")));
    assert!(copied.is_ok_and(|copied| copied.is_err()), "there is memory");
    let writer = File::options().write(true).open(&path).expect("ours");
    for at in [0, 32 * BYTES, 64 * BYTES - 1] {
        writer.write_all_at(b"b", at as u64).expect("writable");
    }
    assert!(frozen.as_ref().iter().all(|&byte| byte == b'a'));
}

#[test]
fn bytes_do_not_change_where_there_is_no_memory_for_a_copy() {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "short_of_memory", "--nocapture"]).env(SHORT_OF_MEMORY, "1");
    let output = command.output().expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Not a test: a process that is ended by a bus error outside of our maps.
#[test]
fn child() {
    if std::env::var_os("SPANWISE_TEST_BUS_ERROR").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = file_of(folder.path(), BYTES);
    let file = File::open(&path).expect("there");
    let map = Mapping::of(&file, Access::InOrder).expect("mapped");
    let foreign = unsafe_map(&file);
    cut(&path);
    assert_eq!(map.as_ref()[BYTES - 1], 0);
    assert_eq!(foreign[BYTES - 1], 0, "never reached");
}

fn unsafe_map(file: &File) -> &'static [u8] {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let nowhere = std::ptr::null_mut();
    // SAFETY: a new map, which stays until the process ends.
    unsafe {
        let start = mmap(nowhere, BYTES, ProtFlags::READ, MapFlags::SHARED, file, 0);
        std::slice::from_raw_parts(start.expect("mapped").cast::<u8>(), BYTES)
    }
}

#[test]
fn bus_errors_elsewhere_still_end_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "child"]).env("SPANWISE_TEST_BUS_ERROR", "1");
    let output = command.output().expect("it ends");
    assert_eq!(output.status.signal(), Some(7), "{output:?}");
}
