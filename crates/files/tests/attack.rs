//! The owner of a folder exchanges what root makes there, as fast as a process can.
//!
//! Needs root, to be two users; where it is not, each test says so.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use spanwise_files::{Folder, TemporaryFolder};

const NOBODY: u32 = 65534;
const TRIES: usize = 200;
const ATTACKED: &str = "SPANWISE_TEST_ATTACKED";
const HELD: &str = "SPANWISE_TEST_HELD";
/// What root writes.
const FILES: [&str; 3] = ["perf.data", "recording.json", "spans.arrow"];

/// A folder of somebody else, and one with files that only root may write.
struct SharedFolder {
    root: tempfile::TempDir,
}

impl SharedFolder {
    fn set_up() -> Option<SharedFolder> {
        if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
            eprintln!("skipped: only root can be two users");
            return None;
        }
        let root = tempfile::tempdir().expect("a folder");
        let ground = SharedFolder { root };
        fs::set_permissions(ground.root.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        for name in ["theirs", "secret"] {
            fs::create_dir(ground.at(name)).expect("writable");
        }
        chown(ground.at("theirs"), Some(NOBODY), Some(NOBODY)).expect("root may");
        for name in FILES {
            fs::write(ground.at("secret").join(name), "safe").expect("writable");
        }
        Some(ground)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn attack(&self) -> Attacker {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "attacker", "--nocapture"]).env(ATTACKED, self.root.path());
        Attacker(command.uid(NOBODY).gid(NOBODY).spawn().expect("started"))
    }

    #[track_caller]
    fn check_safe(&self) {
        for name in FILES {
            let text = fs::read_to_string(self.at("secret").join(name)).expect("there");
            assert_eq!(text, "safe", "{name}");
        }
        let names = fs::read_dir(self.at("secret")).expect("ours");
        assert_eq!(names.count(), FILES.len(), "something was made there");
    }
}

struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        self.0.kill().expect("ours");
        self.0.wait().expect("ours");
    }
}

/// Not a test: exchanges every folder that appears for one with links to root's files, until it
/// is killed.
#[test]
fn attacker() {
    let Some(root) = std::env::var_os(ATTACKED).map(PathBuf::from) else { return };
    let (theirs, secret) = (root.join("theirs"), root.join("secret"));
    let parent = std::os::unix::process::parent_id();
    for round in 0_u64.. {
        let evil = theirs.join(format!("evil-{round}"));
        if round % 2 == 0 {
            fs::create_dir(&evil).expect("ours");
            for name in FILES {
                symlink(secret.join(name), evil.join(name)).expect("ours");
            }
        } else {
            symlink(&secret, &evil).expect("ours");
        }
        // Should the test be killed, so is this.
        while std::os::unix::process::parent_id() == parent {
            let entries = fs::read_dir(&theirs).expect("ours").flatten();
            let entries = entries.filter(|entry| entry.metadata().is_ok_and(|it| it.uid() == 0));
            let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let Some(new) = names.find(|name| name.starts_with("new")) else {
                std::thread::yield_now();
                continue;
            };
            let stolen = theirs.join(format!("stolen-{round}"));
            if fs::rename(theirs.join(&new), &stolen).is_ok() {
                let _ = fs::rename(&evil, theirs.join(new));
                break;
            }
        }
        if std::os::unix::process::parent_id() != parent {
            return;
        }
    }
}

/// Root makes folders and writes into them, whatever the owner of the folder around does.
fn check_attack(make: impl Fn(&Path, usize) -> std::io::Result<Folder>) {
    let Some(ground) = SharedFolder::set_up() else { return };
    let attacker = ground.attack();
    let mut exchanged = 0;
    for number in 0..TRIES {
        // One that was exchanged at once is an error, and nothing is written.
        let Ok(folder) = make(&ground.at("theirs"), number) else {
            exchanged += 1;
            continue;
        };
        let is_exchanged = || {
            let now = fs::symlink_metadata(folder.path()).map(|now| (now.uid(), now.is_dir()));
            now.ok() != Some((0, true))
        };
        // Now and then the attacker gets the time it needs.
        for _ in 0..5000 {
            if number % 4 != 0 || is_exchanged() {
                break;
            }
            std::thread::yield_now();
        }
        exchanged += usize::from(is_exchanged());
        for name in FILES {
            let made = folder.create_file(name).and_then(|mut file| file.write_all(b"evil"));
            made.expect("nobody else can make files there");
            folder.replace_file(name, b"evil again").expect("written");
        }
        let _ = folder.remove_all();
    }
    drop(attacker);
    assert!(exchanged >= TRIES / 20, "only {exchanged} were exchanged");
    ground.check_safe();
}

#[test]
fn what_is_written_stays_in_the_folder_that_was_made_for_it() {
    check_attack(|theirs, number| Folder::create_new(&theirs.join(format!("new-{number}"))));
    check_attack(|theirs, _| Folder::open(theirs)?.create_unforeseen("new".as_ref()));
}

/// Exports are written by a path that somebody named, in a folder that was there before.
#[test]
fn exports_stay_in_the_folder_that_was_looked_up() {
    let Some(ground) = SharedFolder::set_up() else { return };
    let attacker = ground.attack();
    let (mut exchanged, mut written) = (0, 0);
    for number in 0..2 * TRIES {
        let folder = ground.at("theirs").join(format!("new-{number}"));
        fs::create_dir(&folder).expect("nothing has this name");
        let is_exchanged =
            || !fs::symlink_metadata(&folder).is_ok_and(|now| now.uid() == 0 && now.is_dir());
        // Now and then the attacker gets the time it needs, before or while it is written.
        let patience = if number % 4 == 0 { 5000 } else { 0 };
        let wait = || (0..patience).any(|_| is_exchanged() || (std::thread::yield_now(), false).1);
        let is_before = number % 8 == 0 && wait();
        let name = FILES[number % FILES.len()];
        let made = spanwise_files::write_output(&folder.join(name), |out| {
            wait();
            out.write_all(b"evil")
        });
        assert!(!(is_before && made.is_ok()), "try {number} followed what was put there");
        written += usize::from(made.is_ok());
        exchanged += usize::from(is_exchanged());
    }
    drop(attacker);
    assert!(exchanged >= TRIES / 20, "only {exchanged} were exchanged");
    assert!(written >= TRIES / 20, "only {written} were written");
    ground.check_safe();
}

/// Not a test: a process that holds a temporary folder until it is killed.
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn holder() {
    let Some(parent) = std::env::var_os(HELD).map(PathBuf::from) else { return };
    let held = TemporaryFolder::create_in(&parent, "held-").expect("made");
    fs::write(held.path().join("stacks"), "secret").expect("writable");
    println!("held");
    std::thread::park();
}

#[test]
fn folders_of_killed_processes_are_taken_away_by_the_next() {
    use std::io::{BufRead, BufReader};
    let parent = tempfile::tempdir().expect("a folder");
    let count = || fs::read_dir(parent.path()).expect("a folder").count();
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "holder", "--nocapture"]).env(HELD, parent.path());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("started");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let is_held = output.lines().map_while(Result::ok).any(|line| line.contains("held"));
    assert!(is_held && count() == 1);
    TemporaryFolder::remove_abandoned_in(parent.path(), "held-");
    assert_eq!(count(), 1, "its process runs");
    child.kill().expect("ours");
    child.wait().expect("ours");
    fs::create_dir(parent.path().join("held-not")).expect("writable");
    fs::set_permissions(parent.path().join("held-not"), fs::Permissions::from_mode(0o755))
        .expect("ours");
    TemporaryFolder::remove_abandoned_in(parent.path(), "held-");
    assert!(parent.path().join("held-not").exists() && count() == 1, "only what is private goes");
}

#[test]
fn temporary_folders_are_not_made_where_others_may_exchange_them() {
    let parent = tempfile::tempdir().expect("a folder");
    let check = |mode: u32, expected: bool| {
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(mode)).expect("ours");
        let made = TemporaryFolder::create_in(parent.path(), "a-");
        assert_eq!(made.is_ok(), expected, "{mode:o}");
        if let Ok(made) = made {
            let mode = fs::metadata(made.path()).expect("there").mode() & 0o777;
            assert_eq!(mode, 0o700);
        }
    };
    check(0o700, true);
    check(0o755, true);
    check(0o1777, true);
    check(0o777, false);
    check(0o770, false);
    assert_eq!(fs::read_dir(parent.path()).expect("a folder").count(), 0);
}

#[test]
fn only_regular_files_are_read() {
    let root = tempfile::tempdir().expect("a folder");
    let at = |name: &str| root.path().join(name);
    fs::write(at("file"), "text").expect("writable");
    symlink("file", at("link")).expect("writable");
    symlink("/dev/zero", at("zero")).expect("writable");
    assert!(Command::new("mkfifo").arg(at("pipe")).status().expect("started").success());
    let folder = Folder::open(root.path()).expect("there");
    let check = |name: &str, expected: [bool; 3]| {
        let opened = spanwise_files::open_regular(&at(name)).is_ok();
        let read = spanwise_files::read_regular(&at(name), 4).is_ok();
        assert_eq!([opened, read, folder.read_file(name, 4).is_ok()], expected, "{name}");
    };
    check("file", [true; 3]);
    check("link", [true, false, false]);
    check("zero", [false; 3]);
    check("pipe", [false; 3]);
    check(".", [false; 3]);
    check("absent", [false; 3]);
    File::create(at("file")).and_then(|mut file| file.write_all(b"texts")).expect("writable");
    check("file", [true, false, false]);
    assert!(spanwise_files::read_at_most(Path::new("/dev/zero"), 1 << 20).is_err());
}
