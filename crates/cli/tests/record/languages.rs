//! Stacks of programs in other languages than C, and of processes that live for a moment.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bench, count_by_thread, stacks_of, text};

/// Compiles a program of the tests; `None`, with a word, where there is no such compiler.
fn compile(bench: &Bench, compiler: &str, flags: &[&str], source: &str) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs");
    let program = bench.path("program");
    let mut command = Command::new(compiler);
    let command = command.args(flags).arg("-o").arg(&program).arg(sources.join(source));
    match command.status() {
        Ok(status) => assert!(status.success(), "{source} compiles"),
        Err(_) => {
            eprintln!("skipped: there is no {compiler}");
            return None;
        }
    }
    Some(program)
}

/// Of nine of ten stacks the innermost function is the first of these names, then come sixteen of
/// the second, and then the third.
fn check_depth(bench: &Bench, program: &Path, [leaf, function, last]: [&str; 3]) {
    let run = ["run", "--no-decode", "--python", "off", "--recording", "r", "--"];
    let mut run = bench.spanwise(&run);
    let output = run.arg(program).arg("15").output().expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = bench.open("r");
    let stacks = stacks_of(&trace, leaf);
    let is_whole = |stack: &&Vec<&str>| {
        let deep = stack[1..].iter().take_while(|name| name.starts_with(function)).count();
        deep == 16 && stack.get(17).is_some_and(|name| name.starts_with(last))
    };
    let whole = stacks.iter().filter(is_whole).count();
    // Samples that follow each other in one function are one span: an idle machine has few.
    assert!(stacks.len() > 2, "{}", stacks.len());
    assert!(whole * 10 >= stacks.len() * 9, "{whole} of {}: {:?}", stacks.len(), stacks[0]);
}

#[test]
fn stacks_of_cpp_are_whole_where_exceptions_are_thrown_through_them() {
    let Some(bench) = Bench::with("stacks of code without frame pointers") else { return };
    let flags = ["-O2", "-g0", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(program) = compile(&bench, "c++", &flags, "throws.cpp") else { return };
    check_depth(&bench, &program, ["leaf_work()", "deep::descend(int)", "main"]);
}

#[test]
fn stacks_of_rust_are_whole() {
    let Some(bench) = Bench::with("stacks of code without frame pointers") else { return };
    let flags = ["--edition", "2021", "-O", "-C", "debuginfo=0"];
    let Some(program) = compile(&bench, "rustc", &flags, "deep.rs") else { return };
    check_depth(&bench, &program, ["deep::leaf_work", "deep::deep::descend", "deep::main"]);
}

#[test]
fn processes_that_live_for_a_moment_are_all_there() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(short) = bench.compile("short.c", "short", &[]) else { return };
    let run = ["run", "--quiet", "--no-decode", "--recording", "r", "--"];
    let output = bench.spanwise(&run).arg(short).args(["20", "20000"]).output();
    let output = output.expect("built for this test");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let work = count_by_thread(&bench.open("r"), &["leaf_work"]);
    assert_eq!(work.values().filter(|&&count| count > 0).count(), 20, "{work:?}");
}

/// A clock of each process would not have struck once.
#[test]
fn processes_that_live_for_less_than_a_sample_are_there_in_proportion() {
    let Some(bench) = Bench::with("switch all the time") else { return };
    let Some(short) = bench.compile("short.c", "short", &[]) else { return };
    let run = ["run", "--quiet", "--no-decode", "--recording", "r", "--rate", "200", "--"];
    let output = bench.spanwise(&run).arg(short).args(["600", "1000"]).output();
    let output = output.expect("built for this test");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let work = count_by_thread(&bench.open("r"), &["leaf_work"]);
    let hit = work.values().filter(|&&count| count > 0).count();
    // One in five of them, on average.
    assert!((40..300).contains(&hit), "{hit}");
}
