//! Functions of Python, of every interpreter that this machine has.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bench, Running, stacks_of, text, time_of, wait_until};

/// The newest minor version of CPython 3 that is tested.
const NEWEST: u32 = 15;

/// Interpreters whose native functions have names: those of pyenv by version, else the one that is
/// called `python3`.
pub(crate) fn interpreters() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut found = in_versions(&home.join(".pyenv/versions"), "bin/python");
    found.sort();
    if found.is_empty() {
        eprintln!("skipped: all versions of Python but that of python3");
        return vec!["python3".into()];
    }
    found.into_iter().map(|(_, path)| path).collect()
}

/// Those of `tests/pythons/fetch`: distributions strip names that are not exported, such as that
/// of the loop that interprets.
fn stripped_interpreters() -> Vec<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_spanwise")).parent().and_then(Path::parent);
    let mut found = in_versions(&built.expect("a target folder").join("pythons"), "python");
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// All of them; versions that are missing are named.
fn all_interpreters() -> Vec<PathBuf> {
    let all = [interpreters(), stripped_interpreters()].concat();
    for minor in 8..=NEWEST {
        let of_it = format!("/3.{minor}");
        let is_it = |path: &&PathBuf| {
            let text = path.to_string_lossy();
            text.contains(&format!("{of_it}.")) || text.contains(&format!("{of_it}/"))
        };
        if all.iter().find(is_it).is_none() {
            eprintln!("skipped: functions of CPython 3.{minor}, which is not there");
        }
    }
    all
}

/// Interpreters in folders that are named after their versions, with these.
fn in_versions(folder: &Path, python: &str) -> Vec<(u32, PathBuf)> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let minor = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str())?;
        // Of a free-threaded build, `3.13t`.
        let minor = name.strip_prefix("3.")?.split('.').next()?;
        minor.trim_end_matches('t').parse::<u32>().ok()
    };
    let known = folders.filter_map(|path| Some((minor(&path)?, path.join(python))));
    known.filter(|(minor, path)| (8..=NEWEST).contains(minor) && path.exists()).collect()
}

/// Without the class, which older versions do not tell.
fn last_word(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/programs/nested.py")
}

/// Functions and lines, from the innermost on.
type Stack = Vec<(String, i32)>;

/// The last stack of each thread in a recording, read as docs/how-it-works/recording.md says.
fn last_stacks(samples: &[u8]) -> BTreeMap<i32, Stack> {
    let number = |bytes: &[u8], at: usize| {
        i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    let (mut names, mut stacks) = (BTreeMap::new(), BTreeMap::new());
    let mut rest = samples.strip_prefix(b"spanwise-python\n").expect("the head");
    while !rest.is_empty() {
        let (kind, len) = (number(rest, 0), number(rest, 4) as usize);
        let body = &rest[8..len];
        rest = &rest[len..];
        match kind {
            1 => {
                let name = &body[12..12 + number(body, 8) as usize];
                names.insert(number(body, 0), text(name));
            }
            2 => {
                let frame = |row: &[u8]| {
                    let name: &String = &names[&(number(row, 0) & i32::MAX)];
                    (name.clone(), number(row, 4))
                };
                let stack: Stack = body[20..].chunks(8).rev().map(frame).collect();
                stacks.insert(number(body, 12), stack);
            }
            _ => {}
        }
    }
    stacks
}

/// What py-spy says of a process, stacks in order; `None`, with a word, where it is not there.
fn by_py_spy(pid: &str) -> Option<Vec<Stack>> {
    let output = match Command::new("py-spy").args(["dump", "--pid", pid]).output() {
        Ok(output) if output.status.success() => output,
        other => {
            eprintln!("skipped: no py-spy to compare with: {other:?}");
            return None;
        }
    };
    let mut stacks: Vec<Stack> = Vec::new();
    for line in text(&output.stdout).lines() {
        // `    name (file.py:12)`
        let frame = line.strip_prefix("    ").and_then(|line| {
            let (name, place) = line.strip_suffix(')')?.rsplit_once(" (")?;
            Some((name.to_owned(), place.rsplit_once(':')?.1.parse().ok()?))
        });
        match frame {
            Some(frame) => stacks.last_mut().expect("a thread").push(frame),
            None if line.starts_with("Thread ") => stacks.push(Vec::new()),
            None => {}
        }
    }
    stacks.sort();
    Some(stacks)
}

#[test]
fn threads_that_wait_are_in_the_functions_that_they_are_in() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    for (round, python) in all_interpreters().iter().enumerate() {
        let ready = bench.path(&format!("ready{round}"));
        let running = Running::start(Command::new(python).arg(script()).arg("wait").arg(&ready));
        wait_until("all threads wait", || ready.exists());
        let (pid, folder) = (running.pid(), format!("r{round}"));
        // The file is made before the last of them sleeps.
        let attach =
            || bench.run(&["attach", "-p", &pid, "--duration", "300ms", "--recording", &folder]);
        let mut stacks = Vec::new();
        wait_until("the stacks are those of the sleepers", || {
            let _ = fs::remove_dir_all(bench.path(&folder));
            let output = attach();
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let samples = fs::read(bench.path(&folder).join("python.samples"));
            stacks = last_stacks(&samples.expect("Python is found")).into_values().collect();
            stacks.sort();
            let asleep = |stack: &&Stack| matches!(last_word(&stack[0].0), "nap" | "take");
            stacks.iter().filter(asleep).count() == 3
        });
        let depths: Vec<usize> = stacks.iter().map(Vec::len).collect();
        let names =
            |stack: &Stack| stack.iter().map(|(name, _)| last_word(name).to_owned()).collect();
        let names: Vec<Vec<String>> = stacks.iter().map(names).collect();
        let nap: Vec<&Vec<String>> = names.iter().filter(|stack| stack[0] == "nap").collect();
        let is_in =
            |expected: &[&str]| nap.iter().any(|stack| stack[1..].starts_with(&owned(expected)));
        assert!(
            is_in(&["<lambda>", "deep", "deep", "deep", "deep", "main", "<module>"]),
            "{nap:?}"
        );
        assert!(
            is_in(&[["deep"; 31].as_slice(), &["made_by_turns", "<lambda>"]].concat()),
            "{nap:?}"
        );
        let taking = ["take", "<lambda>", "method", "run", "_bootstrap_inner", "_bootstrap"];
        assert!(names.iter().any(|stack| stack == &taking), "{python:?}: {names:?}");
        if let Some(expected) = by_py_spy(&pid) {
            assert_eq!(stacks, expected, "{python:?}");
        }
        // The same in the trace, outermost first, with what they wait for innermost.
        let trace = bench.open(&folder);
        let mut in_trace: Vec<usize> =
            stacks_of(&trace, "[blocked]").iter().map(|stack| stack.len() - 1).collect();
        let mut depths = depths;
        in_trace.sort_unstable();
        depths.sort_unstable();
        assert_eq!(in_trace, depths, "{python:?}");
    }
}

#[test]
fn top_shows_functions_of_python_with_the_line_that_they_are_on() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let script = "def spins():\n    number = 0\n    while True:\n        number += 1\n\nspins()\n";
    fs::write(bench.path("spins.py"), script).expect("writable");
    for python in all_interpreters() {
        let running = Running::start(Command::new(&python).arg(bench.path("spins.py")));
        wait_until("top shows what it does", || {
            let output = bench.run(&["top", "-p", &running.pid(), "--interval", "300ms"]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let shown = text(&output.stdout);
            ["spins (spins.py:3)", "spins (spins.py:4)"].iter().any(|line| shown.contains(line))
        });
    }
}

/// Runs code in another interpreter, which its main thread is in then.
const INSIDE: &str = "import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
CODE = '''
import time
def in_other():
    time.sleep(1000)
open(%r, 'w').close()
in_other()
''' % sys.argv[1]
def outside():
    interpreters.run_string(interpreters.create(), CODE)
outside()
";

#[test]
fn functions_of_another_interpreter_are_inside_of_those_that_run_it() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    fs::write(bench.path("inside.py"), INSIDE).expect("writable");
    for (round, python) in all_interpreters().iter().enumerate() {
        let ready = bench.path(&format!("ready{round}"));
        let mut program = Command::new(python);
        let running = Running::start(program.arg(bench.path("inside.py")).arg(&ready));
        wait_until("the other interpreter runs", || ready.exists());
        let (pid, folder) = (running.pid(), format!("r{round}"));
        wait_until("its function sleeps", || {
            let _ = fs::remove_dir_all(bench.path(&folder));
            let attach = ["attach", "-p", &pid, "--duration", "200ms", "--recording", &folder];
            let output = bench.run(&attach);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let samples = fs::read(bench.path(&folder).join("python.samples"));
            let stacks = last_stacks(&samples.expect("Python is found"));
            assert_eq!(stacks.len(), 1, "{python:?}: one thread");
            let stack = stacks.into_values().next().expect("one");
            let frames: Vec<(&str, i32)> =
                stack.iter().map(|(name, line)| (last_word(name), *line)).collect();
            frames == [("in_other", 4), ("<module>", 6), ("outside", 14), ("<module>", 15)]
        });
    }
}

#[test]
fn functions_of_python_stand_where_the_interpreter_was() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    for (round, python) in all_interpreters().iter().enumerate() {
        let folder = format!("r{round}");
        let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder, "--"]);
        let output = run.arg(python).arg(script()).arg("work").output().expect("built");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let trace = bench.open(&folder);
        let stacks = stacks_of(&trace, "leaf (nested.py:29)");
        assert!(stacks.len() > 5, "{python:?}: {}", stacks.len());
        let is_whole = |stack: &&Vec<&str>| {
            let python = stack.iter().copied().filter(|name| name.contains(".py:"));
            let names: Vec<&str> =
                python.map(|name| name.split(' ').next().unwrap_or(name)).collect();
            let deep = names.iter().filter(|name| **name == "deep").count();
            let first = names.get(1).and_then(|name| name.rsplit('.').next());
            (first, deep) == (Some("<lambda>"), 11) && names.contains(&"busy")
        };
        let whole = stacks.iter().filter(is_whole).count();
        assert!(whole * 10 >= stacks.len() * 9, "{python:?}: {whole} of {}", stacks.len());
        if cfg!(target_arch = "x86_64") {
            let beneath = stacks.iter().filter(|stack| stack.contains(&"Py_RunMain")).count();
            assert!(beneath > 0, "{python:?}: the interpreter is around them");
        }
    }
}

#[test]
fn last_moments_hold_functions_of_python_and_without_them_nothing_is_read() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    let python = all_interpreters().pop().expect("at least one");
    let record = |folder: &str, options: &[&str]| {
        let mut run = bench.spanwise(&["run", "--no-decode", "--recording", folder]);
        let output = run.args(options).arg("--").arg(&python).arg(script()).arg("work").output();
        assert_eq!(output.expect("built for this test").status.code(), Some(0));
        !stacks_of(&bench.open(folder), "leaf (nested.py:29)").is_empty()
    };
    assert!(record("flight", &["--snapshot-size", "4M"]));
    assert!(!record("off", &["--python", "off"]));
    assert!(!bench.path("off/python.samples").exists());
}

const TRIES: usize = 3;

/// A script whose first function only sleeps, on line 4, and whose threads then want the GIL.
const SLEEPS: &str = "import threading, time
def nap():
    before = time.monotonic()
    time.sleep(0.4)
    return before
def spin():
    end = time.monotonic() + 0.4
    while time.monotonic() < end:
        pass
nap()
threads = [threading.Thread(target=spin) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
";

#[test]
fn who_only_sleeps_is_told_with_its_line_and_who_waits_for_the_gil_is() {
    let Some(bench) = Bench::with("functions of Python") else { return };
    fs::write(bench.path("sleeps.py"), SLEEPS).expect("writable");
    for (round, python) in interpreters().iter().enumerate() {
        // Some virtual machines do not tell of every switch: then a wait is not recorded.
        let slept_well = (0..TRIES).find_map(|again| {
            let folder = format!("r{round}-{again}");
            let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder]);
            // Whatever else the machine does.
            let run = run.args(["--wait-stacks", "always", "--switches", "always", "--"]);
            let output = run.arg(python).arg("sleeps.py").output().expect("built for this test");
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let trace = bench.open_by_line(&folder);
            let (slept, _) = time_of(&trace, "nap (sleeps.py:4)");
            (slept >= 390_000_000).then_some((folder, trace, slept))
        });
        let (folder, trace, slept) = slept_well.expect("one recording has the whole wait");
        let (by_function, _) = time_of(&bench.open(&folder), "nap (sleeps.py:2)");
        assert!(by_function >= slept, "{python:?}: {by_function} ns");
        if cfg!(target_arch = "x86_64") {
            let waits = stacks_of(&trace, "[blocked: GIL]");
            let in_spin = |stack: &&Vec<&str>| stack.iter().any(|name| name.starts_with("spin ("));
            assert!(waits.iter().filter(in_spin).count() > 3, "{python:?}: {waits:?}");
        }
    }
}
