//! Real programs, stepped one instruction at a time: decoding what a processor would have
//! written about them gives the same instructions back.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod stepping;

use std::path::Path;
use std::process::Command;

use spanwise_pt::{BranchKind, Event, Kind};
use stepping::decoded::decoded;
use stepping::record::{instruction_at, without_repetitions};
use stepping::{Built, Code, Recorder, RecorderOptions, Step, SteppedProgram, Timing, build, step};

const LIMIT: usize = 30_000;

/// All the ways to record that are tried.
fn variants() -> Vec<RecorderOptions> {
    let plain = RecorderOptions::default();
    vec![
        plain,
        RecorderOptions { timing: Timing::None, psb_every: usize::MAX, ..plain },
        RecorderOptions { shortens_returns: false, timing: Timing::Crystal, ..plain },
        RecorderOptions { has_long_bits: true, timing: Timing::Seldom, psb_every: 200, ..plain },
        RecorderOptions { keeps_targets_back: true, has_long_bits: true, ..plain },
        RecorderOptions { keeps_targets_back: true, shortens_returns: false, ..plain },
    ]
}

#[track_caller]
fn check_same(found: &[u64], expected: &[u64], what: &dyn std::fmt::Debug) {
    let same = found.iter().zip(expected).take_while(|(one, other)| one == other).count();
    if same < found.len().max(expected.len()) {
        let near =
            |ips: &[u64]| format!("{:x?}", &ips[same.min(ips.len())..ips.len().min(same + 4)]);
        panic!("{what:?}: after {same} instructions {} instead of {}", near(found), near(expected));
    }
}

/// What changes the stack of calls, derived from the steps alone.
fn expected_events(steps: &[Step], code: &[Code]) -> Vec<(BranchKind, u64, u64)> {
    let section = |ip: u64| {
        code.iter().position(|code| ip.wrapping_sub(code.start) < code.bytes.len() as u64)
    };
    let mut found = Vec::new();
    for pair in steps.windows(2) {
        let (from, to) = (pair[0].ip, pair[1].ip);
        if pair[0].is_diverted {
            continue;
        }
        let insn = instruction_at(code, from);
        let kind = match insn.kind {
            Kind::Call if to == from + u64::from(insn.len) => continue,
            Kind::Call | Kind::IndirectCall => BranchKind::Call,
            Kind::Return => BranchKind::Return,
            Kind::Jump | Kind::IndirectJump | Kind::Conditional if section(from) != section(to) => {
                BranchKind::Jump
            }
            _ => continue,
        };
        found.push((kind, from, to));
    }
    found
}

/// Steps, records and decodes in all ways; the instructions and the branches are the same.
#[track_caller]
fn check(stepped: &SteppedProgram, least: usize) {
    for steps in stepped.threads.values() {
        let steps = without_repetitions(steps, &stepped.code);
        assert!(steps.len() >= least, "only {} steps", steps.len());
        for recorder in variants() {
            let recorded = Recorder::record(&steps, &stepped.code, recorder);
            let all = decoded(&recorded.bytes, &stepped.code, &recorder);
            assert_eq!(all.losses(), [], "{recorder:?}");
            check_same(&all.instructions(&stepped.code), &recorded.instructions, &recorder);
            let branches = all.events.iter().filter_map(|(_, event)| match *event {
                Event::Branch { kind, from, to, .. } => Some((kind, from, to)),
                _ => None,
            });
            let branches: Vec<_> = branches.collect();
            let expected = expected_events(&steps, &stepped.code);
            // After the last packet nothing is reported.
            assert!(expected.starts_with(&branches), "{recorder:?}");
            assert!(expected.len() - branches.len() < 8, "{recorder:?}");
        }
    }
}

fn stepped(name: &str, flags: &[&str]) -> Option<(Built, SteppedProgram)> {
    let built = build(name, flags)?;
    let path = built.path.to_str().expect("a path of ours");
    let main = built.address("main").expect("every program has one");
    let stepped = step(&[path], &[(path, main)], LIMIT);
    drop(std::fs::remove_file(&built.path));
    Some((built, stepped))
}

const STATIC: [&str; 3] = ["-O1", "-static", "-no-pie"];

#[test]
fn recursion_and_function_pointers() {
    let Some((_, stepped)) = stepped("sorts.c", &STATIC) else { return };
    check(&stepped, 5000);
}

#[test]
fn stacks_that_are_left_all_at_once() {
    let Some((_, stepped)) = stepped("leaps.c", &STATIC) else { return };
    check(&stepped, 1000);
}

#[test]
fn signal_handlers() {
    let Some((_, stepped)) = stepped("signals.c", &STATIC) else { return };
    let steps = stepped.threads.values().flatten();
    assert!(steps.filter(|step| step.is_diverted).count() >= 6);
    check(&stepped, 5000);
}

#[test]
fn deep_recursion_and_jump_tables() {
    let Some((_, stepped)) = stepped("tables.c", &["-O2", "-static", "-no-pie"]) else { return };
    check(&stepped, 2000);
}

#[test]
fn exceptions() {
    let Some((_, stepped)) = stepped("throws.cc", &["-O1"]) else { return };
    check(&stepped, 20_000);
}

#[test]
fn virtual_calls_and_containers() {
    let Some((_, stepped)) = stepped("shapes.cc", &["-O1"]) else { return };
    check(&stepped, 5000);
}

#[test]
fn rust_with_a_panic() {
    let Some((_, stepped)) = stepped("traits.rs", &["-Copt-level=1"]) else { return };
    check(&stepped, 5000);
}

#[test]
fn threads_each_have_their_own_packets() {
    let Some((_, stepped)) = stepped("threads.c", &["-O1", "-pthread"]) else { return };
    assert_eq!(stepped.threads.len(), 3);
    check(&stepped, 500);
}

#[test]
fn code_that_was_made_at_run_time() {
    let Some((_, stepped)) = stepped("makes.c", &STATIC) else { return };
    check(&stepped, 3000);
}

#[test]
fn a_program_from_its_very_beginning() {
    let path = Path::new("/bin/true");
    if !path.exists() {
        return stepping::build::skip("/bin/true is not stepped: it is not there");
    }
    let stepped = step(&["/bin/true"], &[], LIMIT);
    check(&stepped, 10_000);
}

#[test]
fn python() {
    const PLACES: &str = "import sys, sysconfig as s; print(sys.executable); v = s.get_config_var; \
        print(v('LIBDIR') + '/' + v('INSTSONAME') if v('Py_ENABLE_SHARED') else sys.executable)";
    let output = Command::new("python3").args(["-c", PLACES]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        return stepping::build::skip("Python is not stepped: there is none");
    };
    let places = String::from_utf8_lossy(&output.stdout).into_owned();
    let (program, library) = places.trim().split_once('\n').expect("two lines");
    let built = [program, library].map(|path| stepping::build::existing(Path::new(path)));
    let [Some(program_built), Some(library_built)] = built else { return };
    let main = program_built.address("main");
    let eval = library_built.address("_PyEval_EvalFrameDefault");
    let (Some(main), Some(eval)) = (main, eval) else {
        return stepping::build::skip("Python is not stepped: its functions are not named");
    };
    let places = [(program, main), (library, eval)];
    let stepped = step(&[program, "-S", "-c", "print(sum(range(9)))"], &places, LIMIT);
    check(&stepped, 20_000);
}
