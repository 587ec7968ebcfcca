//! Every branch of a function, from its call to its return.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use spanwise_model::{SpanId, Trace};

use crate::bench::{Bench, Running, text, wait_until};

/// The tree of calls that the program has by its source; of what a library does inside, only
/// who is called back.
const TREE: [&str; 19] = [
    "root",
    " twice",
    "  leaf",
    "  leaf",
    " down",
    "  down",
    "   down",
    "    down",
    "     down",
    "      down",
    "       leaf",
    " catches",
    "  throws",
    "   throws",
    "    throws",
    "  leaf",
    " handler",
    "  leaf",
    " leaf",
];

/// Names that the tree tells of.
const TOLD: [&str; 8] =
    ["root", "twice", "leaf", "down", "catches", "throws", "handler", "compare"];

fn set_up() -> Option<(Bench, PathBuf)> {
    let bench = Bench::with("(--single-step)")?;
    // Without stubs that are bound when they are first called, all calls are alike.
    let program = bench.compile("steps.c", "steps", &["-Wl,-z,now", "-fno-plt"])?;
    Some((bench, program))
}

fn name(trace: &Trace, span: SpanId) -> &str {
    trace.strings().get(trace.spans().name(span))
}

/// All calls of `root` with what was called inside, told functions only, each with a blank for
/// each told function that it is inside of.
fn trees(trace: &Trace) -> Vec<Vec<String>> {
    let mut trees: Vec<Vec<String>> = Vec::new();
    for (_, track) in trace.tracks().iter() {
        for span in track.span_ids().filter(|&span| TOLD.contains(&name(trace, span))) {
            let callers = std::iter::successors(Some(span), |&span| trace.spans().parent(span));
            let told: Vec<&str> =
                callers.map(|span| name(trace, span)).filter(|name| TOLD.contains(name)).collect();
            match (told.last(), trees.last_mut()) {
                (Some(&"root"), _) if told.len() == 1 => trees.push(vec!["root".to_owned()]),
                (Some(&"root"), Some(tree)) => {
                    tree.push(format!("{}{}", " ".repeat(told.len() - 1), told[0]));
                }
                _ => trees.push(vec![format!("outside of root: {}", told[0])]),
            }
        }
    }
    trees
}

/// The tree without the calls that a library decides the number of.
fn without_compare(tree: &[String]) -> (Vec<&str>, usize) {
    let (compare, others): (Vec<&str>, Vec<&str>) =
        tree.iter().map(String::as_str).partition(|line| line.trim() == "compare");
    assert!(compare.iter().all(|&line| line == " compare"), "{tree:?}");
    (others, compare.len())
}

#[test]
fn every_call_of_a_function_is_decoded_as_it_was() {
    let Some((bench, program)) = set_up() else { return };
    let mut run =
        bench.spanwise(&["run", "--no-decode", "--recording", "r", "--single-step", "root"]);
    let output = run.args(["--step-calls", "3", "--"]).arg(&program).arg("3").output();
    let output = output.expect("built for this test");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("instructions of 3 calls of root"), "{said}");
    // The program counts itself how often it was called back, and still does what it does.
    let compares = text(&output.stdout).trim().parse::<usize>().expect("a number");
    let trace = bench.open("r");
    let mut found = trees(&trace);
    // A sample may have met the function before its first step: it then stands there once more.
    found.retain(|tree| tree.len() > 1);
    assert_eq!(found.len(), 3, "{found:#?}");
    for tree in &found {
        let (others, compare) = without_compare(tree);
        assert_eq!(others, TREE, "{said}");
        assert_eq!(compare * 3, compares);
    }
    // The library's function stands between, and callers are found at the return.
    let stacks = crate::bench::stacks_of(&trace, "compare");
    for stack in stacks {
        assert!(stack.iter().any(|name| name.contains("sort")), "{stack:?}");
        assert_eq!(stack.iter().rev().find(|name| TOLD.contains(name)), Some(&"root"));
        assert!(stack.contains(&"main"), "{stack:?}");
    }
    others_ran(&trace);
}

/// Another thread worked while one was stepped through.
fn others_ran(trace: &Trace) {
    let spans = trace.spans();
    let all = || trace.tracks().iter().flat_map(|(_, track)| track.span_ids());
    let times = |wanted: &str| -> Vec<(i64, i64)> {
        let found = all().filter(|&span| name(trace, span) == wanted);
        found.map(|span| (spans.start(span), spans.end(span))).collect()
    };
    let counting = times("counter");
    // On a busy machine it may have waited for a processor during one of them.
    let meets =
        |&(from, to): &(i64, i64)| counting.iter().any(|&(start, end)| start < to && from < end);
    assert!(times("root").iter().any(meets), "{:?} {counting:?}", times("root"));
}

#[test]
fn a_running_program_is_stepped_through_and_goes_on() {
    let Some((bench, program)) = set_up() else { return };
    let mut steps = Running::start(Command::new(program).arg("0"));
    let pid = steps.pid();
    check_attached(&bench, &pid, "r");
    assert!(steps.is_alive());
    assert_eq!(tracer_of(&pid), "0");
}

/// Records one call, of which everything is right.
#[track_caller]
fn check_attached(bench: &Bench, pid: &str, folder: &str) {
    let mut attach = bench.spanwise(&["attach", "-p", pid, "--no-decode", "--duration", "2s"]);
    let output =
        attach.args(["--recording", folder, "--single-step", "root"]).output().expect("built");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let trace = bench.open(folder);
    let found = trees(&trace);
    // Samples may have seen other calls of it, with one innermost function at most.
    let whole = found.iter().filter(|tree| without_compare(tree).0 == TREE).count();
    assert_eq!(whole, 1, "{said}\n{found:#?}");
}

fn tracer_of(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn a_recorder_killed_between_two_steps_does_no_harm() {
    let Some((bench, program)) = set_up() else { return };
    let mut steps = Running::start(Command::new(program).arg("0"));
    let pid = steps.pid();
    for round in 0..12_u64 {
        let folder = format!("r{round}");
        let mut args = vec!["attach", "-p", &pid, "--recording", &folder];
        args.extend(["--single-step", "root", "--step-calls", "1000000"]);
        let mut attach = Running::start(&mut bench.spanwise(&args));
        // In every third, right after it has begun; in the others, at some step.
        if round % 3 > 0 {
            wait_until("it is traced", || tracer_of(&pid) != "0" || !attach.is_alive());
        }
        sleep(Duration::from_millis(round * 7919 % 211));
        attach.signal("KILL");
        attach.wait();
        wait_until("nobody traces it", || tracer_of(&pid) == "0" || !steps.is_alive());
        assert!(steps.is_alive(), "round {round}");
    }
    check_attached(&bench, &pid, "last");
    assert!(steps.is_alive());
}

#[test]
fn a_bound_that_was_reached_is_said() {
    let Some((bench, program)) = set_up() else { return };
    let check = |args: &[&str], expected: &str| {
        let mut run = bench.spanwise(&["run", "--no-decode"]);
        let output = run.args(args).arg("--").arg(&program).arg("2").output().expect("built");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!text(&output.stdout).is_empty(), "it came to its end");
    };
    let instructions = ["--single-step", "root", "--step-instructions", "50"];
    check(&instructions, "1 call of root went on behind 50 instructions (--step-instructions)");
    let time = ["--single-step", "nap", "--step-time", "50ms"];
    check(&time, "1 call of nap went on after 50.000 ms (--step-time)");
    check(&["--single-step", "no_such"], "--single-step no_such: no function of this name");
    check(&["--single-step", "never"], "--single-step never: it was not called");
}
