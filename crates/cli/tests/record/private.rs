//! What a recording must not hold, and whom it must not believe.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bench::{Bench, Running, text, wait_until};
use crate::robust::as_nobody;

/// Nothing else on this machine is called so.
const IN_ENVIRONMENT: &str = "spanwise-test-secret-of-the-environment";
const IN_ARGUMENTS: &str = "--password=spanwise-test-secret-argument";

/// The files of a recording that hold some text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    files_with_bytes(folder, text.as_bytes())
}

fn files_with_bytes(folder: &Path, text: &[u8]) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let holds = |path: &Path| {
        let bytes = fs::read(path).expect("readable");
        bytes.windows(text.len()).any(|part| part == text)
    };
    let found = files.map(|entry| entry.path()).filter(|path| holds(path));
    found.map(|path| path.display().to_string()).collect()
}

#[track_caller]
fn check_holds_no_secret(bench: &Bench, recording: &str) {
    for secret in [IN_ENVIRONMENT, IN_ARGUMENTS] {
        let found = files_with(&bench.path(recording), secret);
        assert!(found.is_empty(), "{secret} is in {found:?}");
    }
    // It is a recording all the same, with stacks from their first function on.
    let trace = bench.open(recording);
    for function in ["main", "in_thread"] {
        let name = |span| trace.strings().get(trace.spans().name(span));
        let mut spans = trace.tracks().iter().flat_map(|(_, track)| track.span_ids());
        assert!(spans.any(|span| name(span) == function), "{recording}: {function}");
    }
}

#[test]
fn arguments_and_environment_are_not_in_recordings() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(program) = bench.compile("shallow.c", "shallow", &[]) else { return };
    for (name, stacks) in [("dwarf", "dwarf"), ("fp", "fp")] {
        let mut run = bench.spanwise(&["run", "--recording", name, "--stacks", stacks]);
        let run = run.args(["--rate", "997", "--no-decode", "--"]).arg(&program);
        let output = run.arg("0.4").arg(IN_ARGUMENTS).env("SECRET", IN_ENVIRONMENT).output();
        assert!(output.expect("built for this test").status.success());
        for secret in [IN_ENVIRONMENT, IN_ARGUMENTS] {
            let found = files_with(&bench.path(name), secret);
            assert!(found.is_empty(), "{secret} is in {found:?}");
        }
    }
    check_holds_no_secret(&bench, "dwarf");
    let mut program = Command::new(&program);
    let program = program.arg("1000").arg(IN_ARGUMENTS).env("SECRET", IN_ENVIRONMENT);
    let running = Running::start(program.stdout(Stdio::null()));
    let attach = ["attach", "-p", &running.pid(), "--recording", "attached", "--no-decode"];
    let output = bench.run(&[&attach[..], &["--rate", "997", "--duration", "500ms"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    check_holds_no_secret(&bench, "attached");
}

/// Above a stack there are also the path that a program was started by, and the random bytes that
/// its canaries are made from.
#[test]
fn what_the_auxiliary_vector_leads_to_is_not_in_recordings() {
    const IN_PATH: &str = "spanwise-test-secret-of-a-path";
    let Some(bench) = Bench::set_up() else { return };
    let Some(program) = bench.compile("shallow.c", "shallow", &[]) else { return };
    let folder = program.parent().expect("a folder");
    // The kernel shows mapped files without links on the way.
    std::os::unix::fs::symlink(folder, bench.path(IN_PATH)).expect("a link");
    // Which is not what is recorded: a shell would be, with its arguments left out.
    let exec = format!("exec '{}' \"$@\"", bench.path(IN_PATH).join("shallow").display());
    let shell = |seconds: &str| ["-c", &exec, "sh", seconds].map(str::to_owned);
    let check = |recording: &str, random: &str| {
        let random = fs::read(bench.path(random)).expect("the program left them");
        assert_eq!(random.len(), 16);
        for secret in [IN_PATH.as_bytes(), &random] {
            let found = files_with_bytes(&bench.path(recording), secret);
            assert!(found.is_empty(), "{secret:?} is in {found:?}");
        }
    };
    for stacks in ["dwarf", "fp"] {
        let (recording, random) = (format!("by-{stacks}"), format!("random-{stacks}"));
        let mut run = bench.spanwise(&["run", "--recording", &recording, "--stacks", stacks]);
        run.args(["--rate", "997", "--no-decode", "--", "sh"]).args(shell("0.4"));
        let output = run.env("RANDOM_BYTES", bench.path(&random)).output();
        assert!(output.expect("built for this test").status.success());
        check(&recording, &random);
    }
    check_holds_no_secret(&bench, "by-dwarf");
    // The program's own name is recorded; the path that the kernel was given is not.
    let mut program = Command::new(bench.path(IN_PATH).join("shallow"));
    program.arg0("shallow").arg("1000").env("RANDOM_BYTES", bench.path("random"));
    let running = Running::start(&mut program);
    wait_until("it has begun", || fs::read(bench.path("random")).is_ok_and(|all| all.len() == 16));
    let attach = ["attach", "-p", &running.pid(), "--recording", "attached", "--no-decode"];
    let output = bench.run(&[&attach[..], &["--rate", "997", "--duration", "500ms"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    check("attached", "random");
    check_holds_no_secret(&bench, "attached");
}

#[test]
fn arguments_are_in_a_recording_where_that_is_asked_for() {
    let Some(bench) = Bench::set_up() else { return };
    let run = ["run", "--with-arguments", "--no-decode", "--recording", "r", "--", "echo"];
    let output = bench.run(&[&run[..], &[IN_ARGUMENTS]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!files_with(&bench.path("r"), IN_ARGUMENTS).is_empty());
}

/// What the kernel would do to a program that has another user's rights.
#[test]
fn a_program_with_rights_of_its_own_is_not_stepped_through_by_a_user() {
    let Some(bench) = Bench::with("(--single-step)") else { return };
    let Some(program) = bench.compile("shallow.c", "shallow", &[]) else { return };
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o777)).expect("ours");
    let check = |rights: &str| {
        let mut run = bench.spanwise(&["run", "--single-step", "main", "--recording", "r", "--"]);
        let Some(run) = as_nobody(run.arg(&program).args(["0.1", "x"])) else { return };
        let Ok(output) = run.output() else {
            return eprintln!("skipped: nobody else may run spanwise where it lies");
        };
        let (status, said) = (output.status.code(), text(&output.stderr));
        assert_eq!((status, text(&output.stdout)), (Some(2), String::new()), "{said}");
        assert!(said.contains(rights), "{said}");
        assert!(!bench.path("r").exists());
    };
    let set_mode = |mode| {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("ours");
    };
    set_mode(0o4755);
    check("rights of its owner (setuid)");
    set_mode(0o2755);
    check("rights of its group (setgid)");
    set_mode(0o755);
    let given = Command::new("setcap").arg("cap_net_raw+ep").arg(&program).status();
    match given.is_ok_and(|status| status.success()) {
        true => check("it runs with capabilities"),
        false => eprintln!("skipped: no program can be given capabilities"),
    }
}

/// A program that runs code of no file, and a map that says what that code is called.
fn run_maker(bench: &Bench, program: &Path, recording: &str, owner: u32) -> String {
    let mut run = bench.spanwise(&["run", "--recording", recording, "--rate", "997", "--"]);
    let output = run.arg(program).arg(owner.to_string()).output().expect("built for this test");
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::remove_file(text(&output.stdout).trim()).expect("its map");
    text(&output.stderr)
}

/// Whether the code that the program made has its name.
fn names_made_code(bench: &Bench, recording: &str) -> bool {
    let trace = bench.open(recording);
    let name = |span| trace.strings().get(trace.spans().name(span));
    let mut spans = trace.tracks().iter().flat_map(|(_, track)| track.span_ids());
    spans.any(|span| name(span) == "made_at_run_time")
}

/// What a process in a container has in its own `/tmp` is found, and kept in the recording.
#[test]
fn made_code_of_a_process_with_mounts_of_its_own_is_copied() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(program) = bench.compile("makes_code.c", "makes_code", &[]) else { return };
    let apart = ["unshare", "-m", "sh", "-c"];
    let with_tmp = |command: &str| format!("mount -t tmpfs tmpfs /tmp && exec {command}");
    let tried = Command::new(apart[0]).args(&apart[1..]).arg(with_tmp("true")).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return eprintln!("skipped: no mounts of one's own");
    }
    // The program itself is hidden by what is mounted.
    let command = format!("exec 3<\"$0\"; {}", with_tmp("/proc/self/fd/3 0 dump"));
    let mut run = bench.spanwise(&["run", "--recording", "r", "--rate", "997", "--"]);
    let output = run.args(apart).arg(command).arg(&program).output().expect("built for this test");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let map = text(&output.stdout).trim().to_owned();
    assert!(map.starts_with("/tmp/perf-") && !Path::new(&map).exists(), "{map}");
    let dump = map.replace("/tmp/perf-", "jit-").replace(".map", ".dump");
    let copy = fs::read_to_string(bench.path("r").join(dump)).expect("it was copied");
    assert_eq!(copy, "DTiJ made by a test");
    assert!(names_made_code(&bench, "r"), "{}", text(&output.stderr));
}

#[test]
fn maps_of_code_that_a_runtime_made_are_the_processs_own() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(program) = bench.compile("makes_code.c", "makes_code", &[]) else { return };
    let names = |recording: &str| names_made_code(&bench, recording);
    run_maker(&bench, &program, "own", 0);
    assert!(names("own"));
    let mut tried = Command::new("true");
    if as_nobody(&mut tried).is_none() {
        return;
    }
    let said = run_maker(&bench, &program, "others", 65534);
    assert!(said.contains("belongs to user 65534"), "{said}");
    assert!(!names("others"));
}

#[test]
fn a_signal_that_asks_for_a_snapshot_does_not_end_the_program() {
    let Some(bench) = Bench::with("(--trigger-signal)") else { return };
    for trigger in [["--trigger-signal", "USR1"], ["--trigger", "."]] {
        let folder = format!("r{}", trigger[1]);
        let run = ["run", "--no-decode", "--recording", &folder, trigger[0], trigger[1], "--"];
        let shell = ["sh", "-c", "kill -USR1 $$; sleep 0.2; exit 7"];
        let output = bench.run(&[&run[..], &shell].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{trigger:?}: {said}");
        let about = fs::read_to_string(bench.path(&folder).join("recording.json"));
        let about = about.expect("written");
        assert!(about.contains("\"saved_at\": \"signal"), "{trigger:?}: {about}");
    }
}

/// A program that gives up what protects it from the signal is known before the signal comes.
#[test]
fn a_program_that_restores_the_default_action_is_warned_of_before_it_is_ended() {
    let Some(bench) = Bench::with("(--trigger-signal)") else { return };
    let run = ["run", "--no-decode", "--recording", "r", "--trigger", ".", "--"];
    // It waits until somebody has read the warning, which ends its input.
    let script = "import signal, sys, os\n\
                  signal.signal(signal.SIGUSR1, signal.SIG_DFL)\n\
                  sys.stdin.read()\n\
                  os.kill(os.getpid(), signal.SIGUSR1)\n";
    let mut run = bench.spanwise(&run);
    run.args(["python3", "-c", script]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut running) = run.spawn() else { return };
    let mut said = BufReader::new(running.stderr.take().expect("piped"));
    let mut warning = String::new();
    said.read_line(&mut warning).expect("text");
    assert!(warning.contains("has the default action of SIGUSR1 from now on"), "{warning}");
    drop(running.stdin.take());
    let status = running.wait().expect("a child of ours");
    assert_eq!(status.code(), Some(128 + 10), "as without spanwise");
}

/// What a running program does at a signal cannot be changed from outside.
#[test]
fn a_signal_that_would_end_a_running_program_is_warned_of() {
    let Some(bench) = Bench::with("(--trigger-signal)") else { return };
    let check = |script: &str, is_warned: bool| {
        let mut shell = Command::new("sh");
        let running = Running::start(shell.args(["-c", script]));
        let handles = || {
            let status = fs::read_to_string(format!("/proc/{}/status", running.pid()));
            let status = status.unwrap_or_default();
            let mask = |name| status.lines().find_map(|line| line.strip_prefix(name));
            let number = |text: &str| u64::from_str_radix(text.trim(), 16).unwrap_or(0);
            let handled = mask("SigCgt:").map_or(0, number) | mask("SigIgn:").map_or(0, number);
            handled >> 9 & 1 == 1
        };
        if !is_warned {
            wait_until("it handles the signal", handles);
        }
        let attach = ["attach", "-p", &running.pid(), "--trigger-signal", "USR1"];
        let more = ["--duration", "100ms", "--no-decode", "--recording"];
        let folder = format!("warned-{is_warned}-{}", script.len());
        let output = bench.run(&[&attach[..], &more, &[&folder]].concat());
        let said = text(&output.stderr);
        assert_eq!(said.contains("neither handles nor ignores SIGUSR1"), is_warned, "{said}");
    };
    // `exec`: a child would outlive the shell, and hold the tests' output open with it.
    check("exec sleep 60", true);
    check("trap '' USR1; exec sleep 60", false);
    check("trap 'echo it' USR1; while :; do sleep 0.1; done", false);
}
