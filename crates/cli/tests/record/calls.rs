//! Calls of chosen functions, one by one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use spanwise_model::Trace;

use crate::bench::{Bench, text};

const FUNCTIONS: usize = 1000;
const ROUNDS: usize = 20;

/// A program of a thousand functions: the one of number `n` is called `n % 20 + 1` times by
/// `main`, and every tenth calls the one before it.
fn many(bench: &Bench) -> Option<PathBuf> {
    let mut source = String::from("static volatile int sink;\n");
    let (mut bodies, mut calls) = (String::new(), String::new());
    for n in 0..FUNCTIONS {
        let inner = if n % 10 == 9 { format!("many_{}(x)", n - 1) } else { "1".to_owned() };
        writeln!(
            bodies,
            "__attribute__((noinline, noclone)) int many_{n}(int x) \
             {{ sink += x; return {inner} + sink; }}"
        )
        .expect("memory");
        writeln!(calls, "if (round <= {n} % {ROUNDS}) sink += many_{n}(round);").expect("memory");
    }
    source += &bodies;
    source += "__attribute__((noinline, noclone)) int another(int x) { sink += x; return sink; }\n";
    source += &format!(
        "int main(void) {{ for (int round = 0; round < {ROUNDS}; round++) {{ {calls} \
         sink += another(round); }} return 0; }}\n"
    );
    let (file, program) = (bench.path("many.c"), bench.path("many"));
    fs::write(&file, source).expect("writable");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-fno-optimize-sibling-calls", "-o"]).arg(&program).arg(&file);
    match compiler.status() {
        Ok(status) => assert!(status.success(), "it compiles"),
        Err(_) => {
            eprintln!("skipped: there is no C compiler");
            return None;
        }
    }
    Some(program)
}

/// How many spans have each name.
pub(crate) fn counts(trace: &Trace) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for (_, track) in trace.tracks().iter() {
        for span in track.span_ids() {
            let name = trace.strings().get(trace.spans().name(span));
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

#[test]
fn every_call_of_a_thousand_functions_is_recorded() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let args = ["--calls", "many_*", "--calls", "another", "--exclude", "many_?7"];
    let is_watched = |n: usize| !(10..100).contains(&n) || n % 10 != 7;
    check_counts(&bench, &args, is_watched);
}

#[test]
fn without_bpf_every_call_of_a_few_functions_is_recorded() {
    let Some(bench) = Bench::with("(--calls-by uprobes)") else { return };
    let args =
        ["--calls-by", "uprobes", "--calls", "many_?", "--calls", "another", "--exclude", "many_7"];
    check_counts(&bench, &args, |n| n < 10 && n != 7);
}

#[test]
fn without_bpf_what_is_too_much_is_said() {
    let Some(bench) = Bench::with("(--calls-by uprobes)") else { return };
    let Some(many) = many(&bench) else { return };
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "r"]);
    run.args(["--calls-by", "uprobes", "--calls", "many_*", "--"]);
    let output = run.arg(many).output().expect("built for this test");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("of 32 functions, by uprobes"), "{said}");
    assert!(said.contains("968 functions more fit and are not watched"), "{said}");
}

/// Records calls of the program of a thousand functions, and compares with what it does.
#[track_caller]
fn check_counts(bench: &Bench, args: &[&str], is_watched: impl Fn(usize) -> bool) {
    let Some(many) = many(bench) else { return };
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "r"]);
    // However slow the machine is.
    run.args(["--calls-budget", "1000000"]);
    let output = run.args(args).arg("--").arg(many).output().expect("built for this test");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("lost"), "{said}");
    let trace = bench.open("r");
    let found = counts(&trace);
    let called = |n: usize| n % ROUNDS + 1;
    for n in 0..FUNCTIONS {
        let by_next = if n % 10 == 8 { called(n + 1) } else { 0 };
        let expected = if is_watched(n) { called(n) + by_next } else { 0 };
        let name = format!("many_{n}");
        assert_eq!(found.get(name.as_str()).copied().unwrap_or(0), expected, "{name}");
    }
    assert_eq!(found["another"], ROUNDS);
    assert!(!found.contains_key("main"), "samples of the thread are left out");
    // Calls are inside those that made them.
    let spans = trace.spans();
    let name = |span| trace.strings().get(spans.name(span));
    for (_, track) in trace.tracks().iter() {
        for span in track.span_ids().filter(|&span| name(span) == "many_9") {
            let inside = track.span_ids().filter(|&inner| spans.parent(inner) == Some(span));
            let inside: Vec<&str> =
                inside.map(name).filter(|name| name.starts_with("many")).collect();
            assert_eq!(inside, ["many_8"]);
        }
    }
}

#[test]
fn functions_that_are_not_there_are_told() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(many) = many(&bench) else { return };
    let mut run = bench.spanwise(&["run", "--no-decode", "--calls", "many_1", "--calls", "anther"]);
    let output = run.arg("--").arg(many).output().expect("built for this test");
    let said = text(&output.stderr);
    // The program ran as always, and its status is its own.
    assert_eq!(output.status.code(), Some(0), "{said}");
    let expected = "--calls anther: no function of any file that was mapped fits; near it: another";
    assert!(said.contains(expected), "{said}");
    let own = std::process::id().to_string();
    let output = bench.run(&["attach", "-p", &own, "--calls", "no_such_function"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--calls no_such_function: no function"), "{said}");
}

#[test]
fn forked_processes_and_libraries_are_recorded_as_well() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = bench.compile("forks.c", "forks", &[]) else { return };
    let mut found = Vec::new();
    // Libraries that others use are watched a moment after a process is there, which is long where
    // others want to run.
    let is_found = |try_: &usize| {
        let folder = format!("r{try_}");
        let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder]);
        let run = run.args(["--calls", "in_child", "--calls", "usleep", "--"]).arg(&program);
        let output = run.output().expect("built");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let trace = bench.open(&folder);
        let counted = ["in_child", "usleep"].map(|name| counts(&trace).get(name).copied());
        assert_eq!(counted[0], Some(300), "{said}");
        found.push((counted, said));
        counted[1].is_some_and(|count| (10..=300).contains(&count))
    };
    assert!((0..3).find(is_found).is_some(), "{found:?}");
}

/// One probe notes the call and the return.
#[test]
fn functions_that_their_first_instruction_leaves_are_recorded() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some(program) = bench.compile("single.S", "single", &[]) else { return };
    let functions = [
        ("only_returns", 200),
        ("only_jumps", 200),
        ("jumps_if_zero", 400),
        ("jumps_through", 200),
        ("target", 600),
    ];
    for by in ["bpf", "uprobes"] {
        let recording = format!("r-{by}");
        let run = ["run", "--no-decode", "--recording", &recording, "--calls-by", by];
        let mut run = bench.spanwise(&run);
        run.args(functions.iter().flat_map(|(name, _)| ["--calls", name]));
        let output = run.arg("--").arg(&program).output().expect("built for this test");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(200), "{by}: {said}");
        assert!(!said.contains("is not watched"), "{by}: {said}");
        let trace = bench.open(&recording);
        let found = counts(&trace);
        for (name, count) in functions {
            assert_eq!(found.get(name).copied(), Some(count), "{name} by {by}: {said}");
        }
        // None is left open, or else the next one would be inside of it.
        let is_one = |span: spanwise_model::SpanId| {
            let name = trace.strings().get(trace.spans().name(span));
            functions.iter().any(|(one, _)| *one == name)
        };
        let inside = |(_, track): (_, &spanwise_model::Track)| {
            let mut own = track.span_ids().filter(|&span| is_one(span));
            own.any(|span| trace.spans().parent(span).is_some_and(is_one))
        };
        assert!(!trace.tracks().iter().any(inside), "{by}");
    }
    let run = ["run", "--no-decode", "--recording", "sums", "--aggregate", "--calls", "only_*"];
    let output = bench.spanwise(&run).arg("--").arg(&program).output().expect("built");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(200), "{said}");
    assert!(said.contains("400 calls were counted in the kernel"), "{said}");
}

/// Calls that are over at once have no duration to wait for.
#[test]
fn functions_that_are_a_single_instruction_are_not_timed() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = bench.compile("single.S", "single", &[]) else { return };
    for name in ["only_returns", "only_jumps", "jumps_if_zero", "jumps_through"] {
        let run = ["run", "--no-decode", "--trigger", name, "--duration-thresh", "1ns", "--"];
        let output = bench.spanwise(&run).arg(&program).output().expect("built for this test");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let expected = format!("{name}: cannot be watched: its first instruction leaves it");
        assert!(said.contains(&expected), "{said}");
    }
    let files = std::fs::read_dir(bench.path(".")).expect("readable");
    let files: Vec<_> = files.map(|file| file.expect("readable").file_name()).collect();
    assert_eq!(files, ["single"], "nothing is recorded");
}

/// Linux makes something quicker of a probe on such an instruction.
#[test]
fn functions_that_begin_with_a_nop_of_five_bytes_are_recorded() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let source = "__asm__(\".type padded,@function\\n.globl padded\\npadded:\\n\"\n\
                  \".byte 0x0f,0x1f,0x44,0,0\\n lea 1(%rdi),%eax\\n ret\\n\"\n\
                  \".size padded,.-padded\\n\");\n\
                  int padded(int);\n\
                  int main(void) { int sum = 0; for (int i = 0; i < 5000; i++) sum += padded(i);\n\
                  return sum == 12502500 ? 7 : 1; }\n";
    let (file, program) = (bench.path("padded.c"), bench.path("padded"));
    fs::write(&file, source).expect("writable");
    let compiled = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&file).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: there is no C compiler");
    }
    for by in ["bpf", "uprobes"] {
        let recording = format!("r-{by}");
        let run = ["run", "--no-decode", "--recording", &recording, "--calls-by", by];
        let mut run = bench.spanwise(&run);
        let run = run.args(["--calls", "padded", "--calls-budget", "1000000", "--"]).arg(&program);
        let output = run.output().expect("built for this test");
        assert_eq!(output.status.code(), Some(7), "{by}: {}", text(&output.stderr));
        assert_eq!(counts(&bench.open(&recording)).get("padded"), Some(&5000), "{by}");
    }
}
