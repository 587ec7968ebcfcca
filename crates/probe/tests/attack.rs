//! The owner of a folder exchanges the folders in it, as fast as a process can, while root
//! writes sessions and snapshots there.
//!
//! Needs root, to be two users; where it is not, the test says so.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use spanwise_probe::{FlightRecorder, Session, mark};

const NOBODY: u32 = 65534;
const TRIES: usize = 400;
const ATTACKED: &str = "SPANWISE_TEST_ATTACKED";
const NAME: &str = "a.spanwise-session";

struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        self.0.kill().expect("ours");
        self.0.wait().expect("ours");
    }
}

/// Not a test: exchanges every folder of root for a link to another one of root, until it is
/// killed.
#[test]
fn attacker() {
    let Some(root) = std::env::var_os(ATTACKED).map(PathBuf::from) else { return };
    let theirs = root.join("theirs");
    let parent = std::os::unix::process::parent_id();
    for round in 0_u64.. {
        let evil = theirs.join(format!("evil-{round}"));
        symlink(root.join("secret"), &evil).expect("ours");
        // Should the test be killed, so is this.
        loop {
            if std::os::unix::process::parent_id() != parent {
                return;
            }
            let entries = fs::read_dir(&theirs).expect("ours").flatten();
            let entries = entries.filter(|entry| entry.metadata().is_ok_and(|it| it.uid() == 0));
            let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let Some(new) = names.find(|name| name.starts_with("new")) else {
                std::thread::yield_now();
                continue;
            };
            if fs::rename(theirs.join(&new), theirs.join(format!("stolen-{round}"))).is_ok() {
                let _ = fs::rename(&evil, theirs.join(new));
                break;
            }
        }
    }
}

/// A snapshot, or a session, by turns.
fn write(number: usize, path: &Path) -> io::Result<u64> {
    if number.is_multiple_of(2) {
        let mut recorder = FlightRecorder::start(16)?;
        mark!("mark");
        return Ok(recorder.snapshot(path)?.records);
    }
    let session = Session::start(path)?;
    mark!("mark");
    Ok(session.finish()?.records)
}

#[test]
fn records_stay_in_the_folder_that_was_looked_up() {
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        eprintln!("skipped: only root can be two users");
        return;
    }
    let root = std::env::temp_dir().join(format!("spanwise-attack-{}", std::process::id()));
    let (theirs, secret) = (root.join("theirs"), root.join("secret"));
    fs::create_dir_all(&theirs).and_then(|()| fs::create_dir(&secret)).expect("writable");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("ours");
    chown(&theirs, Some(NOBODY), Some(NOBODY)).expect("root may");
    fs::write(secret.join(NAME), "safe").expect("writable");
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "attacker", "--nocapture"]).env(ATTACKED, &root);
    let attacker = Attacker(command.uid(NOBODY).gid(NOBODY).spawn().expect("started"));
    let (mut exchanged, mut written) = (0, 0);
    for number in 0..TRIES {
        let folder = theirs.join(format!("new-{number}"));
        fs::create_dir(&folder).expect("nothing has this name");
        let is_exchanged =
            || !fs::symlink_metadata(&folder).is_ok_and(|now| now.uid() == 0 && now.is_dir());
        // Now and then the attacker gets the time it needs.
        for _ in 0..5000 {
            if number % 4 < 2 || is_exchanged() {
                break;
            }
            std::thread::yield_now();
        }
        // One that was exchanged before is an error, and nothing is written.
        written += usize::from(write(number, &folder.join(NAME)).is_ok_and(|count| count == 1));
        exchanged += usize::from(is_exchanged());
        let name = fs::read_to_string(secret.join(NAME)).expect("it is there");
        let count = fs::read_dir(&secret).expect("ours").count();
        assert_eq!((&*name, count), ("safe", 1), "try {number}");
    }
    drop(attacker);
    fs::remove_dir_all(&root).expect("ours");
    assert!(exchanged >= TRIES / 20, "only {exchanged} were exchanged");
    assert!(written >= TRIES / 20, "only {written} were written");
}
