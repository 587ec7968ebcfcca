//! perf itself unwinds what we record.

use std::path::Path;
use std::process::Command;

use crate::bench::{Bench, text};

/// Of the samples of the clock: how many stacks there are, and how many of them reach the first
/// function of a thread. `None`, with a word, without perf.
fn stacks_by_perf(file: &Path) -> Option<(usize, usize)> {
    let mut perf = Command::new("perf");
    let Ok(output) = perf.args(["script", "-F", "event,ip,sym", "-i"]).arg(file).output() else {
        eprintln!("skipped: there is no perf");
        return None;
    };
    let said = text(&output.stdout);
    let of_clock = |stack: &&str| stack.trim_start().starts_with("cpu-clock");
    let is_whole = |stack: &&str| {
        let outermost = ["_start", "clone", "clone3", "__clone3", "__libc_start_main"];
        let names = stack.lines().filter_map(|line| line.split_whitespace().nth(1));
        names.into_iter().any(|name| outermost.contains(&name))
    };
    let stacks: Vec<&str> = said.split("\n\n").filter(of_clock).collect();
    let whole = stacks.iter().filter(|stack| is_whole(stack)).count();
    assert!(!stacks.is_empty(), "{}", text(&output.stderr));
    Some((stacks.len(), whole))
}

#[test]
fn perf_finds_as_many_whole_stacks_as_in_its_own_recording() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let run = bench
        .spanwise(&["run", "--quiet", "--no-decode", "--recording", "r", "--"])
        .arg(&deep)
        .output();
    assert_eq!(run.expect("built for this test").status.code(), Some(0));
    let Some((ours, ours_whole)) = stacks_by_perf(&bench.path("r").join("perf.data")) else {
        return;
    };
    let theirs = bench.path("theirs");
    let mut perf = Command::new("perf");
    perf.args([
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "299",
        "--call-graph",
        "dwarf,16384",
        "-o",
    ]);
    let recorded = perf.arg(&theirs).arg("--").arg(&deep).output().expect("there is perf");
    if !recorded.status.success() {
        eprintln!("skipped: perf cannot record here: {}", text(&recorded.stderr));
        return;
    }
    let (all, whole) = stacks_by_perf(&theirs).expect("there is perf");
    assert!(ours > 20 && all > 20, "{ours} and {all} samples");
    // One sample more or less.
    let (share, their_share) = (ours_whole * 100 / ours, whole * 100 / all);
    assert!(share + 3 >= their_share, "{ours_whole} of {ours}, perf {whole} of {all}");
}

#[test]
fn perf_finds_whole_stacks_of_a_program_that_ran_before() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some(bench) = Bench::set_up() else { return };
    let Some(deep) = bench.deep() else { return };
    let running = crate::bench::Running::start(Command::new(deep).args(["0", "0"]));
    let attach = ["attach", "--quiet", "--no-decode", "--duration", "1s", "--recording", "r", "-p"];
    let attached = bench.spanwise(&attach).arg(running.pid()).output();
    assert_eq!(attached.expect("built for this test").status.code(), Some(0));
    drop(running);
    let Some((all, whole)) = stacks_by_perf(&bench.path("r").join("perf.data")) else { return };
    assert!(all > 20 && whole * 100 >= all * 95, "{whole} of {all}");
}
