//! What `-o` makes of a recording, and that neither it nor an option in vain changes how the
//! program ended.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::process::Command;

use crate::attach::endless;
use crate::bench::{Bench, text};

/// Records a program that ends with status 7, and gives what was said.
#[track_caller]
fn check_status(bench: &Bench, options: &[&str]) -> String {
    let program = ["--", "sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exit 7"];
    let output = bench.run(&[&["run"], options, &program].concat());
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), String::new()), "{said}");
    said
}

#[test]
fn the_ending_says_what_is_written() {
    let Some(bench) = Bench::set_up() else { return };
    for (file, beginning) in [
        ("flame.svg", "<svg"),
        ("report.html", "<!DOCTYPE html>"),
        ("trace.json", "{"),
        ("profile.pb.gz", "\u{1f}"),
    ] {
        let said = check_status(&bench, &["-o", file]);
        assert!(said.contains(&format!("written to {file}")), "{said}");
        let bytes = fs::read(bench.path(file)).expect("was written");
        assert!(bytes.starts_with(beginning.as_bytes()), "{file}");
    }
    check_status(&bench, &["--quiet", "--to", "flame", "-o", "flame.picture"]);
    assert!(fs::read(bench.path("flame.picture")).expect("was written").starts_with(b"<svg"));
}

#[test]
fn pipes_and_devices_are_written_to_and_stay() {
    let Some(bench) = Bench::set_up() else { return };
    let (pipe, device) = (bench.path("pipe"), bench.path("device"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("started").success());
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::read(pipe).expect("it is there"))
    };
    check_status(&bench, &["--quiet", "--to", "flame", "-o", "pipe"]);
    assert!(reader.join().expect("read").starts_with(b"<svg"));
    assert!(fs::symlink_metadata(&pipe).expect("it stays").file_type().is_fifo());
    // Of the number of `/dev/null`.
    let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).status();
    if !made.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no device can be made");
    }
    check_status(&bench, &["--quiet", "--to", "flame", "-o", "device"]);
    assert!(fs::symlink_metadata(&device).expect("it stays").file_type().is_char_device());
    let entries = fs::read_dir(bench.path("")).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let others: Vec<String> = names.filter(|name| name.starts_with(".spanwise")).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn a_recording_is_left_where_the_output_is_to_be() {
    let Some(bench) = Bench::set_up() else { return };
    let said = check_status(&bench, &["-o", "night.spanwise-recording"]);
    assert!(said.contains("samples in night.spanwise-recording"), "{said}");
    assert!(!said.contains("Findings"), "nothing is reported: {said}");
    assert!(bench.open("night.spanwise-recording").window().is_some());
    let entries = fs::read_dir(bench.path("")).expect("a folder");
    assert_eq!(entries.count(), 1, "nothing else is left");
    let two = ["run", "-o", "a.spanwise-recording", "--recording", "b", "--", "true"];
    let output = bench.run(&two);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn a_pattern_that_fits_nothing_leaves_the_status_alone() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let said = check_status(&bench, &["--no-decode", "--calls", "no_such_function*"]);
    assert!(said.contains("--calls no_such_function*: no function"), "{said}");
    let said = check_status(&bench, &["--no-decode", "--trigger", "no_such_function"]);
    assert!(said.contains("--trigger no_such_function: no function"), "{said}");
}

#[test]
fn processes_are_named_as_pgrep_prints_them() {
    let Some(bench) = Bench::set_up() else { return };
    let (Some(one), Some(other)) = (endless(&bench), endless(&bench)) else { return };
    let pids = format!("{}\n{}\n", one.pid(), other.pid());
    let attach = ["attach", "-p", &pids, "--duration", "0.5", "-o", "two.spanwise-recording"];
    let output = bench.run(&attach);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = bench.open("two.spanwise-recording");
    let threads = trace.tracks().rows().iter().map(|track| trace.strings().get(track.process));
    let processes: Vec<&str> = threads.collect();
    for pid in [one.pid(), other.pid()] {
        assert!(processes.iter().any(|process| *process == pid), "{pid} in {processes:?}");
    }
}
