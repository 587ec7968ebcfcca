//! No call is missed because it came too early, or in a process that lived too briefly.

use std::fs;
use std::process::{Command, Stdio};

use crate::bench::{Bench, Running, text, wait_until};
use crate::calls::counts;

/// Records a program, and counts calls of these functions; gives what was said.
#[track_caller]
fn check(bench: &Bench, command: &[&str], options: &[&str], expected: &[(&str, usize)]) -> String {
    let folder = format!("r{}", fs::read_dir(bench.path("")).expect("a folder").count());
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder]);
    run.args(options);
    run.args(expected.iter().flat_map(|&(name, _)| ["--calls", name]));
    let output = run.arg("--").args(command).output().expect("built for this test");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let trace = bench.open(&folder);
    let found = counts(&trace);
    for &(name, count) in expected {
        assert_eq!(found.get(name).copied().unwrap_or(0), count, "{name} of {command:?}: {said}");
    }
    said
}

fn compiled(bench: &Bench, name: &str, flags: &[&str]) -> Option<String> {
    let program = bench.compile("brief.c", name, flags)?;
    Some(program.to_str().expect("a path of ours").to_owned())
}

#[test]
fn the_first_call_of_a_library_is_recorded() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = compiled(&bench, "brief", &[]) else { return };
    check(&bench, &[&program, "100"], &[], &[("calloc", 101), ("own", 101)]);
    check(&bench, &[&program, "0"], &[], &[("calloc", 1), ("own", 1)]);
}

#[test]
fn the_first_call_of_a_static_program_is_recorded() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = compiled(&bench, "still", &["-static"]) else { return };
    check(&bench, &[&program, "100"], &[], &[("own", 101)]);
}

#[test]
fn scripts_are_held_as_well() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = compiled(&bench, "brief", &[]) else { return };
    let script = bench.path("script");
    fs::write(&script, format!("#!{program}\n")).expect("writable");
    let mut chmod = Command::new("chmod");
    assert!(chmod.arg("+x").arg(&script).status().expect("chmod").success());
    let script = script.to_str().expect("a path of ours").to_owned();
    // The name of the script is the first argument, which is no number.
    check(&bench, &[&script], &[], &[("calloc", 1), ("own", 1)]);
}

#[test]
fn calls_of_children_that_end_at_once_are_recorded() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = compiled(&bench, "brief", &[]) else { return };
    let said = check(&bench, &[&program, "5", "50"], &[], &[("own", 56)]);
    assert!(!said.contains("forked"), "{said}");
    // What other programs use is not watched in all of them, which is said.
    let said = check(&bench, &[&program, "5", "50"], &[], &[("calloc", 6)]);
    assert!(said.contains("50 processes were forked whose first calls"), "{said}");
}

#[test]
fn processes_that_are_not_recorded_are_not_counted() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = compiled(&bench, "brief", &[]) else { return };
    let mut shell = Command::new("sh");
    shell.args(["-c", "while :; do \"$0\" 1; done", &program]).stderr(Stdio::null());
    let _busy = Running::start(&mut shell);
    check(&bench, &[&program, "20"], &[], &[("own", 21)]);
}

/// What the kernel says that a process does; an ended one may not have been asked for its status.
fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next();
    state.filter(|&state| state != 'Z' && state != 'X')
}

fn children(pid: &str) -> Vec<String> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_program_goes_on_when_its_recorder_is_killed_while_it_is_held() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = compiled(&bench, "brief", &[]) else { return };
    let mut tries = 0;
    for round in 0..10 {
        let folder = format!("r{round}");
        let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder]);
        run.args(["--calls", "calloc", "--calls", "own", "--", &program, "100"]);
        let mut recorder = Running::start(run.stderr(Stdio::null()));
        // It is held for some milliseconds, so this looks without a pause.
        let held = loop {
            let of_recorder = children(&recorder.pid());
            let held = of_recorder.into_iter().find(|pid| state(pid) == Some('T'));
            if held.is_some() || !recorder.is_alive() {
                break held;
            }
        };
        // One that was looked at too late has ended well.
        let Some(held) = held else { continue };
        tries += 1;
        recorder.0.kill().expect("ours");
        recorder.wait();
        wait_until("it has ended", || state(&held).is_none());
    }
    assert!(tries > 0, "it was never seen while it was held");
}

/// Why first calls may be missing, as the latest recording has it.
fn missing(bench: &Bench, recording: &str) -> Option<String> {
    let about = fs::read_to_string(bench.path(recording).join("recording.json"));
    let about: serde_json::Value =
        serde_json::from_str(&about.expect("a recording")).expect("JSON");
    about.get("first_calls_missing").map(|why| why.as_str().expect("a text").to_owned())
}

/// Compiles a text.
fn built(bench: &Bench, name: &str, text: &str, flags: &[&str]) -> Option<String> {
    let source = bench.path(&format!("{name}.c"));
    fs::write(&source, text).expect("writable");
    let program = bench.path(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-o"]).arg(&program).arg(&source).args(flags);
    let is_built = compiler.status().is_ok_and(|status| status.success());
    is_built.then(|| program.to_str().expect("a path of ours").to_owned())
}

/// Records a program that cannot be held; gives why not.
#[track_caller]
fn check_missing(bench: &Bench, program: &str, expected: (i32, &str)) {
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "r", "--calls", "own"]);
    let output = run.arg("--").arg(program).output().expect("built for this test");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(expected.0), "{said}");
    let why = missing(bench, "r").expect("it could not be held");
    assert!(why.starts_with("the first calls of the program may be missing: "), "{why}");
    assert!(why.contains(expected.1) && said.contains(&why), "{why}: {said}");
}

#[test]
fn a_program_that_must_not_be_probed_where_it_begins_is_said_not_to_be_held() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let text = "__asm__(\".globl _start\\n_start: xchg %r8,%rax\\n call own\\n\"
                \"mov %eax,%edi\\n mov $60,%eax\\n syscall\\n\");\n\
                int own(void) { return 5; }\n";
    let flags = ["-static", "-nostdlib", "-fcf-protection=none"];
    let Some(program) = built(&bench, "odd", text, &flags) else { return };
    check_missing(&bench, &program, (5, "its file has no entry point that can be probed"));
}

#[test]
fn a_program_that_never_begins_is_said_not_to_be_held() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let library = "int gone(void) { return 1; }\n";
    let Some(library) = built(&bench, "libgone.so", library, &["-shared", "-fPIC"]) else { return };
    let text = "int gone(void); int own(void) { return gone(); } int main(void) { return own(); }";
    let Some(program) = built(&bench, "lost", text, &[&library]) else { return };
    fs::remove_file(&library).expect("ours");
    check_missing(&bench, &program, (127, "it ended without coming to the entry point"));
}

#[test]
fn a_loader_that_takes_too_long_is_not_waited_for() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let library = "#include <unistd.h>\nint slow(void) { return 0; }\n\
                   __attribute__((constructor)) static void wait(void) { sleep(4); }\n";
    let Some(library) = built(&bench, "libslow.so", library, &["-shared", "-fPIC"]) else { return };
    let text = "int slow(void); int own(void) { return slow(); } int main(void) { return own(); }";
    let Some(program) = built(&bench, "waits", text, &[&library]) else { return };
    check_missing(&bench, &program, (0, "its loader took longer than 3 s"));
}

#[test]
fn programs_are_held_for_uprobes_as_well() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let Some(program) = compiled(&bench, "brief", &[]) else { return };
    let by = ["--calls-by", "uprobes"];
    let said = check(&bench, &[&program, "100"], &by, &[("calloc", 101), ("own", 101)]);
    let recording = fs::read_dir(bench.path("")).expect("a folder").flatten();
    let mut recording =
        recording.filter(|entry| entry.file_name().to_string_lossy().starts_with('r'));
    let recording = recording.next().expect("it was made").file_name();
    assert_eq!(missing(&bench, &recording.to_string_lossy()), None, "{said}");
}

/// A program that has other rights keeps them while it is held.
#[test]
fn setuid_programs_keep_their_rights() {
    let Some(bench) = Bench::with("(--calls)") else { return };
    let source = bench.path("rights.c");
    let text_of = "#include <unistd.h>\nint own(void) { return geteuid(); }\n\
                   int main(void) { return own() == 65534 ? 0 : 9; }\n";
    fs::write(&source, text_of).expect("writable");
    let program = bench.path("rights");
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(&source).status();
    let command = |name: &str, arg: &str| {
        let status = Command::new(name).arg(arg).arg(&program).status();
        status.is_ok_and(|status| status.success())
    };
    let is_made = compiled.is_ok_and(|status| status.success());
    if !is_made || !command("chown", "65534") || !command("chmod", "4755") {
        eprintln!("skipped: no program that gives other rights");
        return;
    }
    let program = program.to_str().expect("a path of ours").to_owned();
    check(&bench, &[&program], &[], &[("own", 1)]);
}

/// All functions of a file share its stubs: what others call through them is no return of ours.
#[test]
fn a_jump_to_a_stub_is_an_exit_and_the_stub_is_not() {
    let Some(bench) = Bench::set_up() else { return };
    for (name, flags) in [("named", &[][..]), ("stripped", &["-s", "-rdynamic"])] {
        // Only so the function ends with a jump.
        let flags = [flags, &["-foptimize-sibling-calls"]].concat();
        let Some(program) = bench.compile("stub.c", name, &flags) else { return };
        let run = ["run", "--no-decode", "--recording", &format!("r-{name}"), "--calls", "leaves"];
        let output = bench.spanwise(&run).arg("--").arg(&program).output().expect("built");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let about = bench.path(&format!("r-{name}")).join("recording.json");
        let about = fs::read_to_string(about).expect("it was written");
        assert!(about.contains("\"call_records\": 20,"), "{name}: {about}");
    }
}
