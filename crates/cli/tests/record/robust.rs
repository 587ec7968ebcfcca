//! Whatever happens to the recorder, programs go on and nothing is left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::attach::endless;
use crate::bench::{Bench, Running, stacks_of, text, wait_until, working_stacks};

/// Definitions of probes of recorders that are ours.
fn definitions(recorders: &[String]) -> Vec<String> {
    let text = fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
    let is_ours =
        |line: &&str| recorders.iter().any(|pid| line.contains(&format!("spanwise/at_{pid}_")));
    text.lines().filter(is_ours).map(str::to_owned).collect()
}

#[test]
fn a_recorder_killed_at_any_moment_leaves_no_probe_and_no_harm() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let (pid, mut recorders) = (deep.pid(), Vec::new());
    for round in 0..50_u64 {
        let folder = format!("r{round}");
        let mut args = vec!["attach", "-p", &pid, "--recording", &folder];
        args.extend(match round % 2 {
            0 => ["--trigger", "busy", "--duration-thresh", "3600s"].as_slice(),
            _ => ["--calls", "busy", "--calls", "usleep"].as_slice(),
        });
        let mut attach = Running::start(&mut bench.spanwise(&args));
        recorders.push(attach.pid());
        // Somewhere between its first steps and recording: no two rounds alike.
        sleep(Duration::from_millis(round * 7919 % 150));
        attach.signal("KILL");
        attach.wait();
        assert!(deep.is_alive(), "round {round}");
        let _ = fs::remove_dir_all(bench.path(&folder));
    }
    wait_until("no probe is left", || definitions(&recorders).is_empty());
    // And it works as if nothing had been.
    let output = bench.run(&["attach", "-p", &pid, "--duration", "300ms", "--recording", "last"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!working_stacks(&bench.open("last")).is_empty());
    assert!(deep.is_alive());
}

/// A small disk; `None`, with a word, where one cannot be had.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(bench: &Bench, size: &str) -> Option<SmallDisk> {
        let place = bench.path("disk");
        fs::create_dir(&place).expect("writable");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&place);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no small disk can be mounted");
            return None;
        }
        Some(SmallDisk(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_leaves_what_was_written() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let Some(disk) = SmallDisk::mount(&bench, "6m") else { return };
    let folder = disk.0.join("r");
    let folder = folder.to_str().expect("a plain path");
    let pid = deep.pid();
    let output = bench.run(&["attach", "-p", &pid, "--no-decode", "--recording", folder]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(deep.is_alive());
    assert!(!working_stacks(&bench.open("disk/r")).is_empty());
}

#[test]
fn a_process_that_ends_at_any_moment_is_no_trouble() {
    let Some(bench) = Bench::set_up() else { return };
    for round in 0..20_u32 {
        let mut short = Running::start(Command::new("sleep").arg(format!("0.0{:02}", round * 4)));
        let (pid, folder) = (short.pid(), format!("r{round}"));
        let output = bench.run(&["attach", "-p", &pid, "--no-decode", "--recording", &folder]);
        let said = text(&output.stderr);
        match output.status.code() {
            Some(0) => assert!(bench.path(&folder).join("recording.json").exists(), "{said}"),
            code => {
                assert_eq!(code, Some(2), "{said}");
                let words = ["no such process", "cannot be recorded"];
                assert!(words.iter().any(|words| said.contains(words)), "{said}");
            }
        }
        short.wait();
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_anything_is_run() {
    let Some(bench) = Bench::set_up() else { return };
    let output = bench.run(&["run", "--recording", "/proc/no/such", "--", "touch", "has_run"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/proc/no/such: cannot be written"), "{said}");
    assert!(!bench.path("has_run").exists());
}

/// Somebody without rights; `None`, with a word, where we cannot become that.
pub(crate) fn as_nobody(command: &mut Command) -> Option<&mut Command> {
    const NOBODY: u32 = 65534;
    let mut tried = Command::new("true");
    if !tried.uid(NOBODY).gid(NOBODY).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: nobody else can be had here");
        return None;
    }
    Some(command.uid(NOBODY).gid(NOBODY))
}

/// A program that refuses to be read in the middle.
const HIDES: &str = "import ctypes, time
def seen():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
def unseen():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
seen()
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
unseen()
";

/// A folder that everybody may write, and a recorder there without rights.
fn recorder_without_rights(bench: &Bench) -> Option<Command> {
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o777)).expect("ours");
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "r", "--"]);
    as_nobody(&mut run)?;
    Some(run)
}

#[test]
fn a_program_that_gets_other_rights_is_recorded_until_then() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(becomes) = bench.compile("becomes.c", "becomes", &[]) else { return };
    let Some(mut run) = recorder_without_rights(&bench) else { return };
    let other = bench.path("other");
    fs::copy(&becomes, &other).expect("writable");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).expect("ours");
    let Ok(output) = run.arg(&becomes).arg(&other).output() else {
        return eprintln!("skipped: nobody else may run spanwise where it lies");
    };
    let said = text(&output.stderr);
    if output.status.code() != Some(4) {
        return eprintln!("skipped: nobody gets rights here: {said}");
    }
    assert!(said.contains("runs other now, which has other rights"), "{said}");
    assert!(!stacks_of(&bench.open("r"), "leaf_work").is_empty());
}

#[test]
fn a_python_program_that_refuses_to_be_read_is_recorded_until_then() {
    const PYTHON: &str = "/usr/bin/python3";
    let Some(bench) = Bench::with("functions of Python") else { return };
    let Some(mut run) = recorder_without_rights(&bench) else { return };
    fs::write(bench.path("hides.py"), HIDES).expect("writable");
    if !Path::new(PYTHON).exists() {
        return eprintln!("skipped: there is no {PYTHON}");
    }
    let Ok(output) = run.args([PYTHON, "hides.py"]).output() else {
        return eprintln!("skipped: nobody else may run spanwise where it lies");
    };
    let said = text(&output.stderr);
    if said.contains("perf_event_paranoid") {
        return eprintln!("skipped: nobody may record anything here");
    }
    assert!(said.contains("its Python functions cannot be read"), "{said}");
    let trace = bench.open("r");
    assert!(!stacks_of(&trace, "seen (hides.py:2)").is_empty(), "{said}");
    assert!(stacks_of(&trace, "unseen (hides.py:6)").is_empty(), "{said}");
}

#[test]
fn who_may_not_is_told_what_is_missing_and_records_what_is_allowed() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o777)).expect("ours");
    let attach = ["attach", "-p", &deep.pid(), "--duration", "300ms", "--recording", "r"];
    let mut attach = bench.spanwise(&attach);
    let Some(attach) = as_nobody(&mut attach) else { return };
    let Ok(output) = attach.output() else {
        return eprintln!("skipped: nobody else may run spanwise where it lies");
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot be recorded") && said.contains("sudo"), "{said}");
    assert!(!bench.path("r").exists());
    assert!(deep.is_alive());
    // What one starts oneself is recorded in any case, switches included.
    let program = bench.path("deep");
    let run = ["run", "--quiet", "--no-decode", "--recording", "own", "--"];
    let mut run = bench.spanwise(&run);
    let run = as_nobody(&mut run).expect("as before").arg(program).arg("2");
    let output = run.output().expect("as before");
    if text(&output.stderr).contains("perf_event_paranoid") {
        return eprintln!("skipped: nobody may record anything here");
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = bench.open("own");
    assert!(!working_stacks(&trace).is_empty());
    assert!(stacks_of(&trace, "[blocked]").len() >= 2, "waits of both workers");
}
