//! Lines of native code, from debug information to wherever they are shown.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::Value;
use spanwise_analyze::{Facts, native_lines};
use spanwise_serve::{Server, Session, TraceView};

use crate::bench::{Bench, text};

/// The line of the program that has this comment.
fn line_of(mark: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs/lines.c");
    let source = fs::read_to_string(path).expect("a source of ours");
    let at = source.lines().position(|line| line.ends_with(&format!("/* {mark} */")));
    at.expect("a line with this mark") as u64 + 1
}

/// A recording `r` of a program that was compiled with debug information.
fn record() -> Option<Bench> {
    let bench = Bench::set_up()?;
    let flags = ["-g", "-O1", "-fno-omit-frame-pointer"];
    let program = bench.compile("lines.c", "lines", &flags)?;
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--rate", "999"]);
    let output = run.args(["--stacks", "fp", "--recording", "r", "--"]).arg(program).output();
    let output = output.expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    Some(bench)
}

/// What a command prints; it succeeds.
fn printed(bench: &Bench, args: &[&str]) -> String {
    let output = bench.run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The answer of a viewer's server to one question.
fn answer(url: &str, path: &str) -> Value {
    let (host, token) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.trim_end_matches('/').split_once('/'))
        .expect("an address with a token");
    let mut stream = TcpStream::connect(host).expect("it listens");
    let request = format!("GET /{token}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    stream.write_all(format!("{request}\r\n").as_bytes()).expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn the_report_shows_the_hottest_line_of_a_function_and_all_lines() {
    let Some(bench) = record() else { return };
    let sections = "cpu,cpu-lines";
    let report =
        printed(&bench, &["report", "--no-index", "--format", "json", "--section", sections, "r"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let most = line_of("most");
    for (section, key) in [("cpu", "hottest_line"), ("cpu-lines", "source_line")] {
        let row = &report[section][0];
        assert_eq!(row["function"], "turns", "{row}");
        assert_eq!(row[key], format!("lines.c:{most}"), "{row}");
        assert_eq!(row["line"], most, "{row}");
        assert!(row["file"].as_str().is_some_and(|file| file.ends_with("/lines.c")), "{row}");
    }
    let lines = report["cpu-lines"].as_array().expect("rows");
    let row = |mark: &str| {
        let line = line_of(mark);
        lines.iter().find(|row| row["line"] == line).unwrap_or_else(|| panic!("{mark}: {lines:?}"))
    };
    let ns = |mark: &str, key: &str| row(mark)[key].as_i64().expect("nanoseconds");
    assert!(ns("less", "self_ns") > 0 && ns("less", "self_ns") < ns("most", "self_ns"));
    // The line of a caller has the time of what it called, and none of its own.
    assert!(ns("call", "total_ns") > ns("most", "self_ns"));
    let text = printed(&bench, &["report", "--no-index", "r"]);
    assert!(text.contains("CPU time by source line of native code"), "{text}");
    assert!(text.contains(&format!("lines.c:{most}")), "{text}");
}

#[test]
fn profiles_for_other_tools_have_lines() {
    let Some(bench) = record() else { return };
    let (most, call) = (line_of("most"), line_of("call"));
    printed(&bench, &["convert", "--no-index", "--by", "line", "-o", "r.folded", "r"]);
    let folded = fs::read_to_string(bench.path("r.folded")).expect("just written");
    let samples = |line: &&str| line.rsplit(' ').next()?.parse::<u64>().ok();
    let largest = folded.lines().max_by_key(samples).expect("stacks");
    let expected = format!("main (lines.c:{call});turns (lines.c:{most})");
    assert!(largest.contains(&expected), "{largest}");

    // As clients of pprof expect it, without an option.
    printed(&bench, &["convert", "--no-index", "--profile", "cpu", "-o", "r.pb.gz", "r"]);
    let profile = spanwise_read::open_profile_file(&bench.path("r.pb.gz")).expect("a profile");
    let lines = native_lines(&Facts::new(&profile.into_trace().into())).rows;
    let first = lines.first().expect("lines");
    assert_eq!((&*first.name, u64::from(first.line)), ("turns", most));
    assert!(first.file.ends_with("/lines.c"), "{first:?}");
    let pprof = ["tool", "pprof", "-lines", "-top", "-nodecount=1", "-sample_index=cpu"];
    match Command::new("go").args(pprof).arg(bench.path("r.pb.gz")).output() {
        Err(_) => eprintln!("skipped: there is no Go, whose pprof would show lines"),
        Ok(output) => {
            let (top, place) = (text(&output.stdout), format!("/lines.c:{most}"));
            assert!(top.contains("turns") && top.contains(&place), "{top}");
        }
    }
}

#[test]
fn the_viewer_shows_the_lines_of_a_function() {
    let Some(bench) = record() else { return };
    let server = Server::bind(0).expect("a free port");
    let url = server.url();
    let session = Session::new(vec![TraceView::new("r".to_owned(), bench.open("r"))]);
    thread::spawn(move || server.run(&session));
    let found = answer(&url, "api/search?trace=0&text=turns");
    // Where others have the processor for long, a call is drawn anew each time; some are too short
    // for a sample.
    let spans = found["spans"].as_array().expect("spans of this name");
    let mut samples: BTreeMap<u64, u64> = BTreeMap::new();
    for span in spans {
        let details = answer(&url, &format!("api/span?trace=0&span={}", span["span"]));
        for row in details["sampled"]["lines"].as_array().expect("lines") {
            assert!(row["file"].as_str().is_some_and(|file| file.ends_with("/lines.c")), "{row}");
            let [line, count] = ["line", "samples"].map(|key| row[key].as_u64().expect("a number"));
            *samples.entry(line).or_default() += count;
        }
    }
    let most = samples.iter().max_by_key(|&(_, count)| count);
    assert_eq!(most.map(|(&line, _)| line), Some(line_of("most")), "{samples:?}");
}
