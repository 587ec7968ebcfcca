//! Calls that come too often are counted in the kernel, and at last let alone.

use std::path::{Path, PathBuf};

use spanwise_model::BrakedLevel;

use crate::bench::{Bench, text};
use crate::calls::counts;

/// Records the program that calls a trivial function so often from one that is called seldom.
#[track_caller]
fn record(bench: &Bench, program: &Path, options: &[&str], calls: [&str; 2]) -> String {
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "r"]);
    run.args(options).args(["--calls", "trivial", "--calls", "seldom", "--"]);
    let output = run.arg(program).args(calls).output().expect("built for this test");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let alone = std::process::Command::new(program).args(calls).output().expect("compiled");
    assert_eq!(text(&output.stdout), text(&alone.stdout));
    said
}

fn often(bench: &Bench) -> Option<PathBuf> {
    bench.compile("often.c", "often", &["-O1"])
}

#[test]
fn a_trivial_function_called_millions_of_times_is_let_alone() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = often(&bench) else { return };
    let said = record(&bench, &program, &[], ["200", "500000"]);
    assert!(said.contains("trivial: calls cost more than --calls-budget allows"), "{said}");
    let trace = bench.open("r");
    let levels: Vec<BrakedLevel> =
        trace.info().braked_calls.iter().map(|braked| braked.level).collect();
    assert_eq!(levels.first(), Some(&BrakedLevel::Counted), "{said}");
    assert_eq!(levels.last(), Some(&BrakedLevel::Detached), "{said}");
    assert!(trace.info().braked_calls.iter().all(|braked| braked.function == "trivial"));
    // The other goes on to be recorded, and its calls are there one by one.
    let found = counts(&trace);
    assert_eq!(found.get("seldom"), Some(&200), "{said}");
    let written = std::fs::metadata(bench.path("r").join("calls.hits")).expect("a recording");
    assert!(written.len() < 64 << 20, "{} bytes", written.len());
    let about = std::fs::read_to_string(bench.path("r").join("recording.json"));
    assert!(about.is_ok_and(|about| about.contains("\"trivial: detached at ")), "{said}");
    let report = bench.run(&["report", "--section", "counted-calls", "--format", "csv", "r"]);
    let report = text(&report.stdout);
    assert!(report.contains("not watched") && report.contains("trivial"), "{report}");
}

#[test]
fn uprobes_are_taken_away_where_they_cost_too_much() {
    let Some(bench) = Bench::with("(--calls-by uprobes)") else { return };
    let Some(program) = often(&bench) else { return };
    let said = record(&bench, &program, &["--calls-by", "uprobes"], ["200", "500000"]);
    assert!(said.contains("they were not watched any more"), "{said}");
    assert_eq!(counts(&bench.open("r")).get("seldom"), Some(&200), "{said}");
    let mut run = bench.spanwise(&["run", "--calls", "trivial", "--calls-by", "uprobes"]);
    let output = run.arg("--aggregate").arg("--").arg(&program).output().expect("built");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn calls_are_counted_exactly_where_that_is_asked_for() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = often(&bench) else { return };
    let said = record(&bench, &program, &["--aggregate"], ["20", "100"]);
    assert!(said.contains("2,020 calls were counted in the kernel"), "{said}");
    let trace = bench.open("r");
    assert!(said.contains("0 beginnings and ends of calls of 2 functions"), "{said}");
    let counted = &trace.info().counted_calls;
    let by_name = |name: &str| {
        let of_it = counted.iter().filter(|calls| calls.function == name);
        of_it.map(|calls| (calls.calls, calls.timed)).collect::<Vec<_>>()
    };
    assert_eq!(by_name("trivial"), [(2000, 2000)]);
    assert_eq!(by_name("seldom"), [(20, 20)]);
    let total = |name: &str| {
        let of_it = counted.iter().filter(|calls| calls.function == name);
        of_it.map(|calls| calls.total_ns).sum::<u64>()
    };
    assert!(total("seldom") > total("trivial"), "the one calls the other: {counted:?}");
}

#[test]
fn a_budget_that_is_large_enough_lets_all_be_recorded() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = often(&bench) else { return };
    let said = record(&bench, &program, &["--calls-budget", "1000000"], ["5", "10000"]);
    assert!(!said.contains("budget"), "{said}");
    assert_eq!(counts(&bench.open("r")).get("trivial"), Some(&50_000), "{said}");
}
