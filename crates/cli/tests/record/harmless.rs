//! Programs whose calls are recorded do what they do without: however their functions are left,
//! and whichever stacks they use. And no call is missed or counted twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use crate::bench::{Bench, text, wait_until};
use crate::calls::counts;

/// How calls are noticed, as `--calls-by` has it, as far as the kernel allows it.
fn backends() -> Vec<&'static str> {
    let is_allowed = |words: &str| Bench::with(words).is_some();
    let all = [("bpf", "(--calls)"), ("uprobes", "(--calls-by uprobes)")];
    all.into_iter().filter(|(_, words)| is_allowed(words)).map(|(by, _)| by).collect()
}

/// A program that waits for a line, does something, and says how often it called its functions.
struct Subject {
    program: PathBuf,
    args: Vec<String>,
}

/// What a program did, as others can see it.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    status: i32,
    said: String,
}

impl Outcome {
    fn of(output: &Output) -> Outcome {
        Outcome { status: shell_status(output.status), said: text(&output.stdout) }
    }

    /// How often each function was called, by the program's own count.
    fn counts(&self) -> BTreeMap<String, usize> {
        let lines = self.said.lines().filter_map(|line| line.strip_prefix("count "));
        let count = |line: &str| {
            let (name, count) = line.split_once(' ').expect("a name and a number");
            (name.to_owned(), count.parse().expect("a number"))
        };
        lines.map(count).filter(|(_, count)| *count > 0).collect()
    }
}

fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

impl Subject {
    fn new(program: &Path, args: &[&str]) -> Subject {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Subject { program: program.to_owned(), args }
    }

    /// A name for its recording.
    fn folder(&self, way: &str, by: &str) -> String {
        let args: String = self.args.concat();
        let args: String = args.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        format!("{way}-{by}-{args}")
    }

    fn alone(&self) -> Outcome {
        let mut command = Command::new(&self.program);
        Outcome::of(&with_line(command.args(&self.args)))
    }
}

/// Runs a command that is told to begin.
fn with_line(command: &mut Command) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it can be run");
    // One that refuses to begin reads nothing.
    let _ = child.stdin.take().expect("piped").write_all(b"\n");
    child.wait_with_output().expect("a child of ours")
}

/// Records the program in all ways, and compares what it does and how often it called these.
#[track_caller]
fn check(bench: &Bench, subject: &Subject, functions: &[&str]) {
    let alone = subject.alone();
    for by in backends() {
        check_run(bench, subject, functions, &alone, by);
        check_attach(bench, subject, functions, &alone, by);
    }
}

fn call_options<'a>(functions: &[&'a str], by: &'a str) -> Vec<&'a str> {
    let calls = functions.iter().flat_map(|&function| ["--calls", function]);
    // However slow the machine is.
    let options = ["--calls-by", by, "--calls-budget", "1000000"];
    options.into_iter().chain(calls).collect()
}

#[track_caller]
fn check_run(bench: &Bench, subject: &Subject, functions: &[&str], alone: &Outcome, by: &str) {
    let folder = subject.folder("run", by);
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder]);
    run.args(call_options(functions, by)).arg("--").arg(&subject.program).args(&subject.args);
    let run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().expect("built for this test");
    let recorder = run.id().to_string();
    // Files that a program maps while it runs are watched a moment later.
    wait_until("the program waits for its line", || {
        child_of(&recorder, &subject.program).is_none_or(|pid| is_waiting(&pid, &[READ]))
    });
    let before = rounds(&recorder);
    wait_until("the recorder has looked at what was mapped", || {
        let has_looked = rounds(&recorder).is_none_or(|now| now >= before.unwrap_or(0) + 4);
        has_looked && (is_waiting(&recorder, &[POLL]) || rounds(&recorder).is_none())
    });
    let _ = run.stdin.take().expect("piped").write_all(b"\n");
    let output = run.wait_with_output().expect("a child of ours");
    let said = text(&output.stderr);
    assert_eq!(&Outcome::of(&output), alone, "{by}: {said}");
    check_counts(bench, &folder, functions, alone, &said);
}

#[track_caller]
fn check_attach(bench: &Bench, subject: &Subject, functions: &[&str], alone: &Outcome, by: &str) {
    let folder = subject.folder("attach", by);
    let mut command = Command::new(&subject.program);
    let command = command.args(&subject.args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it can be run");
    let pid = child.id().to_string();
    wait_until("the program waits for its line", || is_waiting(&pid, &[READ]));
    let mut attach = bench.spanwise(&["attach", "--no-decode", "--recording", &folder, "-p", &pid]);
    let attach = attach.args(call_options(functions, by)).stdout(Stdio::null());
    let attach = attach.stderr(Stdio::piped()).spawn().expect("built for this test");
    let recorder = attach.id().to_string();
    wait_until("the recorder waits for records", || {
        is_waiting(&recorder, &[POLL, PPOLL]) || rounds(&recorder).is_none()
    });
    child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
    let output = child.wait_with_output().expect("a child of ours");
    let recorded = attach.wait_with_output().expect("a child of ours");
    let said = text(&recorded.stderr);
    assert!(recorded.status.success(), "{by}: {said}");
    assert_eq!(&Outcome::of(&output), alone, "{by}: {said}");
    check_counts(bench, &folder, functions, alone, &said);
}

/// The process that a recorder has started; `None` where the recorder is gone.
fn child_of(recorder: &str, program: &Path) -> Option<String> {
    let mut found = None;
    wait_until("the program runs", || {
        let list = fs::read_to_string(format!("/proc/{recorder}/task/{recorder}/children"));
        let list = list.unwrap_or_default();
        let is_program =
            |pid: &&str| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        found = list.split_whitespace().find(is_program).map(str::to_owned);
        found.is_some() || rounds(recorder).is_none()
    });
    found
}

/// How often a process has waited; `None` where it has ended.
fn rounds(pid: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    if status.contains("State:\tZ") {
        return None;
    }
    status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

const READ: &str = "0";
const POLL: &str = "7";
const PPOLL: &str = "271";

/// True while a thread of a process is in one of these system calls.
fn is_waiting(pid: &str, calls: &[&str]) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let call = |task: fs::DirEntry| fs::read_to_string(task.path().join("syscall")).ok();
    tasks
        .flatten()
        .filter_map(call)
        .any(|call| calls.iter().any(|number| call.split_whitespace().next() == Some(number)))
}

#[track_caller]
fn check_counts(bench: &Bench, folder: &str, functions: &[&str], alone: &Outcome, said: &str) {
    assert!(!said.contains("lost") && !said.contains("not watched"), "{said}");
    let trace = bench.open(folder);
    let found = counts(&trace);
    let mut expected = alone.counts();
    expected.retain(|name, _| functions.contains(&name.as_str()));
    let found: BTreeMap<String, usize> =
        functions.iter().filter_map(|&name| Some((name.to_owned(), *found.get(name)?))).collect();
    assert_eq!(found, expected, "{folder}: {said}");
}

fn bench() -> Option<Bench> {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: exits of functions are known on x86-64 only");
        return None;
    }
    Bench::with("(--calls)")
}

/// Compiles a program with a compiler that may not be there.
fn compiled(bench: &Bench, compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs");
    let program = bench.path(source.split('.').next().unwrap_or(source));
    let mut command = Command::new(compiler);
    command.args(flags).arg("-o").arg(&program).arg(sources.join(source));
    match command.output() {
        Err(_) => {
            eprintln!("skipped: there is no {compiler}");
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{source}: {}", text(&output.stderr));
            Some(program)
        }
    }
}

#[test]
fn cpp_exceptions_pass_recorded_functions() {
    let Some(bench) = bench() else { return };
    let Some(program) = compiled(&bench, "g++", "unwinds.cpp", &["-O2", "-pthread"]) else {
        return;
    };
    for depth in ["1", "10", "100"] {
        check(&bench, &Subject::new(&program, &["throw", depth]), &["leaf", "deep"]);
    }
    check(&bench, &Subject::new(&program, &["again"]), &["again", "deep", "leaf"]);
    check(&bench, &Subject::new(&program, &["carry"]), &["carry", "deep"]);
}

#[test]
fn a_cpp_program_that_ends_by_an_exception_does_so_when_recorded() {
    let Some(bench) = bench() else { return };
    let Some(program) = compiled(&bench, "g++", "unwinds.cpp", &["-O2", "-pthread"]) else {
        return;
    };
    let subject = Subject::new(&program, &["firm"]);
    assert_eq!(subject.alone().status, 134);
    check(&bench, &subject, &["firm", "deep", "leaf"]);
}

#[test]
fn rust_panics_pass_recorded_functions() {
    let Some(bench) = bench() else { return };
    let flags = ["--edition", "2024", "-O"];
    let Some(program) = compiled(&bench, "rustc", "panics.rs", &flags) else { return };
    check(&bench, &Subject::new(&program, &[]), &["leaf", "deep"]);
}

#[test]
fn goroutines_grow_move_and_panic_while_recorded() {
    let Some(bench) = bench() else { return };
    let Some(program) = go(&bench, "goes.go") else { return };
    check(&bench, &Subject::new(&program, &[]), &["main.leaf", "main.deep", "main.outer"]);
}

#[test]
fn a_go_server_answers_while_recorded() {
    let Some(bench) = bench() else { return };
    let Some(program) = go(&bench, "serves.go") else { return };
    check(&bench, &Subject::new(&program, &["50"]), &["main.handle", "main.work"]);
}

#[test]
fn a_go_server_answers_for_ten_seconds_under_load_while_recorded() {
    let Some(bench) = bench() else { return };
    let Some(program) = go(&bench, "serves.go") else { return };
    let subject = Subject::new(&program, &["10", "seconds"]);
    for by in backends() {
        let functions =
            if by == "bpf" { &["main.handle", "main.work"][..] } else { &["main.handle"] };
        let folder = subject.folder("load", by);
        let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder]);
        run.args(call_options(functions, by)).arg("--").arg(&program).args(&subject.args);
        let output = with_line(&mut run);
        let (outcome, said) = (Outcome::of(&output), text(&output.stderr));
        // How much it does is another number each time, but it knows the answers.
        assert_eq!(outcome.status, 0, "{by}: {}: {said}", outcome.said);
        assert!(outcome.said.ends_with(" wrong 0\n"), "{by}: {}", outcome.said);
        assert!(outcome.counts()["main.handle"] > 100, "{by}: {}", outcome.said);
        check_counts(&bench, &folder, functions, &outcome, &said);
    }
}

fn go(bench: &Bench, source: &str) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs");
    let program = bench.path(source.trim_end_matches(".go"));
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&program).arg(sources.join(source));
    // A home of its own, where there is none.
    if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
        command.env("GOCACHE", bench.path("go-cache"));
    }
    match command.output() {
        Err(_) => {
            eprintln!("skipped: there is no Go");
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{source}: {}", text(&output.stderr));
            Some(program)
        }
    }
}

#[test]
fn jumps_and_other_stacks_leave_recorded_functions() {
    let Some(bench) = bench() else { return };
    let Some(program) = compiled(&bench, "cc", "leaps.c", &["-O1", "-pthread"]) else { return };
    for way in ["longjmp", "deep", "threads", "contexts", "below", "above"] {
        check(&bench, &Subject::new(&program, &[way]), &["inner", "outer"]);
    }
}

#[test]
fn functions_that_end_with_jumps_are_recorded() {
    let Some(bench) = bench() else { return };
    let Some(program) = compiled(&bench, "cc", "tails.c", &["-O2"]) else { return };
    let all = ["last", "twice", "always", "sometimes", "by_pointer", "by_table"];
    let subject = Subject::new(&program, &[]);
    let alone = subject.alone();
    check_run(&bench, &subject, &all, &alone, "bpf");
    check_attach(&bench, &subject, &all, &alone, "bpf");
    // Jumps through tables in memory are none that uprobes can follow.
    if backends().contains(&"uprobes") {
        let all = ["last", "always", "sometimes", "by_pointer"];
        check_run(&bench, &subject, &all, &alone, "uprobes");
        check_attach(&bench, &subject, &all, &alone, "uprobes");
    }
}

#[test]
fn functions_of_python_modules_raise_while_recorded() {
    let Some(bench) = bench() else { return };
    let include = Command::new("python3")
        .args(["-c", "import sysconfig; print(sysconfig.get_paths()['include'])"])
        .output();
    let Some(include) = include.ok().map(|output| text(&output.stdout).trim().to_owned()) else {
        return;
    };
    if !Path::new(&include).join("Python.h").exists() {
        eprintln!("skipped: no headers of Python");
        return;
    }
    let include = format!("-I{include}");
    let flags = ["-O2", "-shared", "-fPIC", include.as_str()];
    let Some(module) = compiled(&bench, "cc", "raises.c", &flags) else { return };
    fs::rename(&module, bench.path("raises.so")).expect("in one folder");
    let source = format!(
        "import sys; sys.path.insert(0, {:?})\nimport raises\nsys.stdin.readline()\nraised = 0\n\
         for i in range(400):\n    try: raises.half(i)\n    except ValueError: raised += 1\n\
         print('count raises_half 400'); print('raised', raised); sys.exit(raised % 7)\n",
        bench.path("")
    );
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python = text(&python.expect("it ran before").stdout).trim().to_owned();
    let python = fs::canonicalize(python).expect("it is there");
    check(&bench, &Subject::new(&python, &["-c", &source]), &["raises_half"]);
}

/// Each function that there is, of the program, the C library, the loader and Go's runtime.
#[test]
fn programs_run_as_always_while_all_of_their_functions_are_watched() {
    let Some(bench) = bench() else { return };
    let check = |program: Option<PathBuf>, args: &[&str]| {
        let Some(program) = program else { return };
        let subject = Subject::new(&program, args);
        let mut run = bench.spanwise(&["run", "--no-decode", "--recording"]);
        run.arg(subject.folder("all", "bpf")).args(["--calls-by", "bpf", "--calls", "*", "--"]);
        let output = with_line(run.arg(&program).args(args));
        assert_eq!(Outcome::of(&output), subject.alone(), "{}", text(&output.stderr));
    };
    check(compiled(&bench, "cc", "leaps.c", &["-O1", "-pthread"]), &["contexts"]);
    check(go(&bench, "goes.go"), &[]);
}

/// The length of calls is asked for as well: by the same places.
#[test]
fn programs_that_throw_are_left_alone_by_triggers() {
    let Some(bench) = bench() else { return };
    let Some(program) = compiled(&bench, "g++", "unwinds.cpp", &["-O2", "-pthread"]) else {
        return;
    };
    let subject = Subject::new(&program, &["throw", "10"]);
    let alone = subject.alone();
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "never"]);
    run.args(["--trigger", "deep", "--duration-thresh", "3600s", "--"]);
    let output = with_line(run.arg(&program).args(&subject.args));
    assert_eq!(Outcome::of(&output), alone, "{}", text(&output.stderr));
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "at-once"]);
    run.args(["--trigger", "deep", "--duration-thresh", "1ns", "--"]);
    let output = with_line(run.arg(&program).args(&subject.args));
    assert_eq!(Outcome::of(&output), alone, "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("call of deep that took"), "{said}");
}

/// A program whose calls are timed for a trigger does what it does without, run and attached.
#[track_caller]
fn check_timed(bench: &Bench, program: Option<PathBuf>, function: &str) {
    let Some(program) = program else { return };
    let subject = Subject::new(&program, &[]);
    let alone = subject.alone();
    for (number, least) in ["3600s", "1ns"].into_iter().enumerate() {
        let folder = format!("{function}-{number}").replace('.', "-");
        let options = ["--trigger", function, "--duration-thresh", least, "--recording"];
        let mut run = bench.spanwise(&["run", "--no-decode"]);
        let run = run.args(options).arg(&folder).arg("--").arg(&program);
        let output = with_line(run);
        let said = text(&output.stderr);
        assert_eq!(Outcome::of(&output), alone, "{least}: {said}");
        let is_saved = said.contains(&format!("call of {function} that took"));
        assert_eq!(is_saved, least == "1ns", "{said}");

        let mut command = Command::new(&program);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it can be run");
        let pid = child.id().to_string();
        wait_until("the program waits for its line", || is_waiting(&pid, &[READ]));
        let mut attach = bench.spanwise(&["attach", "--no-decode", "-p", &pid]);
        let attach = attach.args(options).arg(format!("{folder}-attach"));
        let attach = attach.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let attach = attach.expect("built for this test");
        let recorder = attach.id().to_string();
        wait_until("the recorder waits for records", || {
            is_waiting(&recorder, &[POLL, PPOLL]) || rounds(&recorder).is_none()
        });
        child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
        let output = child.wait_with_output().expect("a child of ours");
        let recorded = attach.wait_with_output().expect("a child of ours");
        let said = text(&recorded.stderr);
        assert!(recorded.status.success(), "{least}: {said}");
        assert_eq!(Outcome::of(&output), alone, "{least}: {said}");
        let is_saved = said.contains(&format!("call of {function} that took"));
        assert_eq!(is_saved, least == "1ns", "{said}");
    }
}

#[test]
fn go_and_rust_programs_are_left_alone_by_triggers() {
    let Some(bench) = bench() else { return };
    check_timed(&bench, go(&bench, "goes.go"), "main.leaf");
    let flags = ["--edition", "2024", "-O"];
    check_timed(&bench, compiled(&bench, "rustc", "panics.rs", &flags), "deep");
}

#[test]
fn a_function_that_is_not_understood_is_refused_by_name() {
    let Some(bench) = bench() else { return };
    let source = bench.path("odd.c");
    // Data in the middle of a function, and a loop whose head is its first instruction.
    let text_of = "__asm__(\".globl odd\\n.type odd,@function\\nodd: jmp 1f\\n.byte 6,6,6\\n\
                   1: ret\\n.size odd,.-odd\\n.globl loop\\n.type loop,@function\\n\
                   loop: dec %edi\\njnz loop\\nret\\n.size loop,.-loop\\n\");\n\
                   void odd(void); void loop(int); int fine(int i) { return i + 1; }\n\
                   int main(void) { odd(); loop(5); return fine(2); }\n";
    fs::write(&source, text_of).expect("writable");
    let program = bench.path("odd");
    let status = Command::new("cc").args(["-O0", "-o"]).arg(&program).arg(&source).status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    for by in backends() {
        let folder = format!("r-{by}");
        let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder]);
        run.args(["--calls-by", by, "--calls", "odd", "--calls", "loop", "--calls", "fine"]);
        let output = run.arg("--").arg(&program).output().expect("built for this test");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("odd is not watched: no known instruction"), "{said}");
        assert!(said.contains("loop is not watched: its first instruction is the head"), "{said}");
        let about = fs::read_to_string(bench.path(&folder).join("recording.json"));
        let about = about.expect("a recording");
        assert!(about.contains("\"loop: its first instruction is the head of a loop\""), "{about}");
        assert_eq!(counts(&bench.open(&folder)).get("fine"), Some(&1));
    }
    let mut run = bench.spanwise(&["run", "--no-decode", "--trigger", "odd"]);
    run.args(["--duration-thresh", "1s", "--"]);
    let output = run.arg(&program).output().expect("built for this test");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("odd: cannot be watched: no known instruction"), "{said}");
}
