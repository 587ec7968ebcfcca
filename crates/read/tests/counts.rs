//! The reader sees every event that Python's `json` sees: no more, no fewer.
//!
//! The oracle is `testdata/count_events.py`. Traces are those of this repository
//! and, where they are at hand, the large collection in `shared` beside it.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

mod traces;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use traces::{at_root, committed, is_json, read, recordings_below};

/// JSON files of the collection that are no traces. Anything else that Python does
/// not take for a trace is a failure.
const NOT_TRACES: [&str; 3] = [
    // Tables that other tools computed.
    "/hta/expected/",
    "/hta/execution_trace/benchmark_simple_add_et.json.gz",
    "/tracelens/tracediff_timesformer/cpu_op_map.json",
];

/// The collections whose files are all known. Those of other producers have tests of their own,
/// format by format.
const COLLECTIONS: [&str; 6] = [
    "../shared/traces",
    "../shared/corpora/hta",
    "../shared/corpora/kineto",
    "../shared/corpora/magic-trace",
    "../shared/corpora/perf",
    "../shared/corpora/tracelens",
];

/// 13 million events: Python wants 45 s and 6 GB for them.
const BIG: &str = "llama_big.json.xz";

/// What Python says about each file: events by phase, or why it is no trace.
fn python_counts(paths: &[PathBuf]) -> Option<Vec<Result<BTreeMap<String, u64>, String>>> {
    let mut python = Command::new("python3")
        .arg(at_root("testdata/count_events.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let list: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    python.stdin.take()?.write_all(list.as_bytes()).expect("python reads its list");
    let output = python.wait_with_output().expect("python ends");
    assert!(output.status.success(), "the oracle failed");
    let lines = String::from_utf8(output.stdout).expect("JSON is text");
    let answers = lines.lines().map(|line| {
        let answer: Value = serde_json::from_str(line).expect("a line of JSON");
        match answer.get("counts") {
            Some(counts) => Ok(serde_json::from_value(counts.clone()).expect("counts")),
            None => Err(answer["error"].to_string()),
        }
    });
    Some(answers.collect())
}

/// Compares one file; gives what is wrong with it.
fn compare(path: &Path, python: &Result<BTreeMap<String, u64>, String>) -> Option<String> {
    let name = path.to_string_lossy();
    let is_listed = NOT_TRACES.iter().any(|part| name.contains(part));
    match (python, read(path)) {
        // An empty array says neither this nor that.
        (Ok(counts), _) if is_listed && !counts.is_empty() => {
            Some("is a trace, but listed as none".to_owned())
        }
        (Ok(counts), Ok(trace)) => {
            let ours = &trace.info().events_by_phase;
            (ours != counts).then(|| format!("{ours:?}, Python says {counts:?}"))
        }
        (Ok(_), Err(error)) => Some(error.to_string()),
        (Err(why), Ok(_)) => Some(format!("read as a trace; Python says {why}")),
        (Err(why), Err(_)) => (!is_listed).then(|| format!("not listed; Python says {why}")),
    }
}

#[track_caller]
fn check(paths: &[PathBuf]) {
    let Some(counts) = python_counts(paths) else {
        eprintln!("skipped: there is no python3 to compare with");
        return;
    };
    assert_eq!(counts.len(), paths.len());
    let compared = paths.iter().zip(&counts);
    let wrong: Vec<String> = compared
        .filter_map(|(path, python)| {
            Some(format!("{}: {}", path.display(), compare(path, python)?))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn events_of_the_repository_are_all_there() {
    let paths = committed();
    assert!(paths.len() > 5, "testdata is missing");
    check(&paths);
}

#[test]
fn events_of_the_collection_are_all_there() {
    let with_big = std::env::var_os("SPANWISE_BIG").is_some_and(|value| value == "1");
    let mut paths = Vec::new();
    for folder in COLLECTIONS {
        let found = recordings_below(&at_root(folder));
        if found.is_empty() {
            eprintln!("skipped: there are no traces in {folder}");
        }
        paths.extend(found.into_iter().filter(|path| is_json(path)));
    }
    if !with_big && paths.iter().any(|path| path.ends_with(BIG)) {
        eprintln!("skipped: {BIG} (SPANWISE_BIG=1 includes it)");
        paths.retain(|path| !path.ends_with(BIG));
    }
    check(&paths);
}

/// Recordings of other tools lie there as well: those of perf are read, the rest is
/// refused, with its path.
#[test]
fn other_files_are_refused() {
    let below = COLLECTIONS.iter().map(|folder| recordings_below(&at_root(folder)));
    let mut others: Vec<PathBuf> = below.flatten().collect();
    // What magic-trace prints of a recording holds lines of the recording.
    others.retain(|path| !is_json(path) && path.extension().is_none_or(|end| end != "expected"));
    for path in &others {
        let name = path.to_string_lossy();
        let format = match () {
            () if name.ends_with(".perf") || name.ends_with(".script.txt.gz") => "perf script",
            () if name.ends_with(".perf.data") => "perf.data",
            () => "",
        };
        if !format.is_empty() {
            let trace = read(path).expect("a recording of perf");
            assert_eq!(trace.info().format, format, "{name}");
            continue;
        }
        let error = read(path).expect_err("no trace").to_string();
        assert!(error.starts_with(&*name), "{error}");
    }
}
