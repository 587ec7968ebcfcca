//! The command line as its users see it.
//!
//! A case is a folder of `testdata/cli` with a file `cmd` (arguments, separated by
//! spaces; paths from the root of the repository) and what it must lead to:
//! `stdout`, `stderr` and `exit`. `UPDATE=1 cargo test` writes them anew; read the
//! diff before you commit it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn spanwise(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.args(args).current_dir(root()).env("COLUMNS", "110").env_remove("NO_COLOR");
    command
}

fn run(args: &[&str]) -> Output {
    spanwise(args).output().expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

#[test]
fn cases_print_what_they_printed() {
    let update = std::env::var_os("UPDATE").is_some();
    let folder = root().join("testdata/cli");
    let entries = fs::read_dir(&folder).expect("testdata/cli is part of the repository");
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    cases.sort();
    cases.retain(|case| case.join("cmd").exists());
    assert!(cases.len() > 10, "cases in {}", folder.display());
    let mut wrong = Vec::new();
    for case in cases {
        let cmd = fs::read_to_string(case.join("cmd")).expect("just seen");
        let args: Vec<&str> = cmd.split_whitespace().collect();
        let output = run(&args);
        if args.windows(2).any(|pair| pair == ["--format", "json"]) {
            let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
            assert!(parsed.is_ok(), "{cmd}: {parsed:?}");
        }
        let exit = output.status.code().map_or("signal".to_owned(), |code| code.to_string());
        let results = [
            ("stdout", text(&output.stdout)),
            ("stderr", text(&output.stderr)),
            ("exit", format!("{exit}\n")),
        ];
        for (name, found) in results {
            let path = case.join(name);
            let expected = fs::read_to_string(&path).unwrap_or_default();
            if update {
                write_or_remove(&path, &found);
            } else if found != expected {
                wrong.push(format!("{}:\n{}", path.display(), first_difference(&expected, &found)));
            }
        }
    }
    assert!(wrong.is_empty(), "UPDATE=1 accepts this:\n{}", wrong.join("\n"));
}

/// An empty output needs no file.
fn write_or_remove(path: &Path, content: &str) {
    match content {
        "" => drop(fs::remove_file(path)),
        content => fs::write(path, content).expect("testdata can be written"),
    }
}

fn first_difference(expected: &str, found: &str) -> String {
    let mut lines = expected.lines().zip(found.lines()).enumerate();
    match lines.find(|(_, (expected, found))| expected != found) {
        Some((at, (expected, found))) => format!("line {}\n- {expected}\n+ {found}", at + 1),
        None => format!("{} lines instead of {}", found.lines().count(), expected.lines().count()),
    }
}

const TRACE: &str = "testdata/kineto/llama_small.json.gz";

#[test]
fn a_closed_pipe_is_fine() {
    for args in [
        &["report", "--no-index", "--top", "0", TRACE][..],
        &["completions", "bash"],
        &["report", "--help"],
    ] {
        let mut command = spanwise(args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
}

#[test]
fn an_index_gives_the_same_answers() {
    let folder = tempfile::tempdir().expect("a place for files");
    let trace = folder.path().join("trace.json.gz");
    fs::copy(root().join(TRACE), &trace).expect("copied");
    let trace = trace.to_str().expect("a plain path");
    let without = run(&["report", "--no-index", "--top", "0", "--format", "json", trace]);

    let written = run(&["info", "--index", "--format", "json", trace]);
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&written.stdout).expect("JSON");
    let index = rows[0]["index"].as_str().expect("the path of the index");
    let size = |entry: std::io::Result<fs::DirEntry>| entry.and_then(|file| file.metadata());
    let files = fs::read_dir(index).expect("an index is a folder");
    let bytes: u64 = files.map(|entry| size(entry).expect("a file").len()).sum();
    assert_eq!(rows[0]["size_bytes"].to_string(), bytes.to_string());

    let with = run(&["report", "--top", "0", "--format", "json", trace]);
    assert_eq!(text(&with.stdout), text(&without.stdout));
    let summaries = [&["info", "--no-index", trace][..], &["info", trace]].map(run);
    assert_eq!(text(&summaries[0].stdout), text(&summaries[1].stdout));
}

#[test]
fn threads_do_not_change_the_answer() {
    let report = |threads| run(&["report", "--no-index", "--threads", threads, TRACE]).stdout;
    assert_eq!(text(&report("1")), text(&report("3")));
}

#[test]
fn one_bad_file_does_not_keep_the_others_from_being_checked() {
    let output = run(&["info", "--verify", "--no-index", "no/such/file.json", TRACE]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).starts_with(TRACE));
    assert!(text(&output.stderr).starts_with("spanwise: error: no/such/file.json: "));
}
