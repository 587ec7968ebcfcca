//! Last moments, saved at triggers.

use std::fs;

use spanwise_model::Trace;

use crate::attach::endless;
use crate::bench::{Bench, Running, text, wait_until};

/// What `recording.json` says under a key.
pub(crate) fn said(bench: &Bench, recording: &str, key: &str) -> String {
    let path = bench.path(recording).join("recording.json");
    let json = fs::read(path).expect("a recording");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    match &json[key] {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The number of the thread of this name.
fn thread_named(trace: &Trace, wanted: &str) -> Option<String> {
    let text = |id| trace.strings().get(id);
    let mut tracks = trace.tracks().iter().map(|(_, track)| track);
    let track = tracks.find(|track| text(track.thread_name) == wanted)?;
    Some(text(track.thread).to_owned())
}

/// Runs the program that works in cycles; gives why the snapshot `r` was saved.
fn saved_at(bench: &Bench, options: &[&str]) -> Option<String> {
    let cycles = bench.compile("cycles.c", "cycles", &[])?;
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", "r"]);
    let output = run.args(options).arg("--").arg(cycles).output().expect("built for this test");
    // Threads are made and the program ends as it would without anybody watching.
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let thread = said(bench, "r", "trigger_thread");
    let trace = bench.open("r");
    assert_eq!(Some(thread), thread_named(&trace, "second"), "in which thread it was");
    assert!(!trace.instants().is_empty(), "the trigger stands on the timeline");
    Some(said(bench, "r", "saved_at"))
}

#[test]
fn a_call_in_any_thread_saves_what_was_before() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let Some(why) = saved_at(&bench, &["--trigger", "rare"]) else { return };
    assert_eq!(why, "call of rare");
}

#[test]
fn functions_of_libraries_are_watched_as_well() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let Some(why) = saved_at(&bench, &["--trigger", "usleep"]) else { return };
    assert_eq!(why, "call of usleep");
}

#[test]
fn a_call_that_takes_long_is_told_from_others() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let options = ["--trigger", "cycle", "--duration-thresh", "1900ms"];
    let Some(why) = saved_at(&bench, &options) else { return };
    assert!(why.starts_with("call of cycle that took "), "{why}");
}

#[test]
fn a_call_that_comes_late_is_told_from_others() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let options = ["--trigger", "cycle", "--delay-thresh", "1900ms"];
    let Some(why) = saved_at(&bench, &options) else { return };
    assert!(why.starts_with("call of cycle after "), "{why}");
}

#[test]
fn an_address_within_an_instruction_is_refused_and_the_program_is_left_as_it_is() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let Some(cycles) = bench.compile("cycles.c", "cycles", &[]) else { return };
    let found = spanwise_symbols::symbol_addresses(&cycles, &["rare"]);
    let Some(rare) = found.and_then(|found| found.addresses[0]) else { panic!("its own function") };
    let mut inside =
        (rare..rare + 32).filter(|&at| spanwise_symbols::address_site(&cycles, at).is_err());
    let inside = format!("{:#x}", inside.next().expect("an instruction of two bytes"));
    let mut run = bench.spanwise(&["run", "--no-decode", "--recording", "q", "--trigger", &inside]);
    let output = run.arg("--").arg(&cycles).output().expect("built for this test");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let refusal =
        format!("--trigger {inside} is not watched: it is in the middle of an instruction");
    assert!(said.contains(&refusal), "{said}");
    let Some(why) = saved_at(&bench, &["--trigger", &format!("{rare:#x}")]) else { return };
    assert_eq!(why, format!("call of {rare:#x}"));
}

/// However a place is named, it is not watched where the program would do something else.
#[test]
fn places_at_which_a_probe_would_change_the_program_are_refused() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let Some(swaps) = bench.compile("swaps.S", "swaps", &["-g"]) else { return };
    let run = |trigger: &str| {
        let folder = format!("r-{}", trigger.replace('.', "-"));
        let mut run = bench.spanwise(&["run", "--no-decode", "--recording", &folder]);
        let output = run.args(["--trigger", trigger, "--"]).arg(&swaps).output();
        let output = output.expect("built for this test");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{trigger}: {said}");
        (folder, said)
    };
    let check_refused = |trigger: &str, why: &str| {
        let (_, said) = run(trigger);
        let refusal = format!("--trigger {trigger} is not watched: ");
        assert!(said.contains(&refusal) && said.contains(why), "{trigger}: {said}");
    };
    let source = include_str!("programs/swaps.S").lines();
    let line = 1 + source.take_while(|line| !line.contains("// 49 90")).count();
    let found = spanwise_symbols::symbol_addresses(&swaps, &["swaps"]);
    let address = found.and_then(|found| found.addresses[0]).expect("its own function");
    let wrong = "the kernel would not execute it correctly under a probe";
    check_refused("swaps", wrong);
    check_refused(&format!("swaps.S:{line}"), wrong);
    check_refused(&format!("{address:#x}"), wrong);
    check_refused("flags", wrong);
    check_refused("inner", "it is in the middle of an instruction");
    check_refused("sizeless", "no symbol or unwinding table");
    for trigger in ["outer", "described"] {
        assert_eq!(said(&bench, &run(trigger).0, "saved_at"), format!("call of {trigger}"));
    }
}

#[test]
fn a_signal_that_the_program_raises_saves_as_well() {
    let Some(bench) = Bench::with("(--trigger-signal)") else { return };
    let Some(cycles) = bench.compile("cycles.c", "cycles", &[]) else { return };
    let mut run = bench.spanwise(&["run", "--no-decode", "--trigger-signal", "USR1", "--"]);
    let output = run.arg(cycles).arg("raise").output().expect("built for this test");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.starts_with("spanwise: note: signal 10: "), "{said}");
}

#[test]
fn the_end_saves_where_nothing_did_before() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(cycles) = bench.compile("cycles.c", "cycles", &[]) else { return };
    let mut run = bench.spanwise(&["run", "--snapshot-size", "2M", "--recording", "r", "--"]);
    let output = run.arg(cycles).arg("abort").output().expect("built for this test");
    let report = text(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + 6), "{report}");
    assert!(report.contains("the end of the program: ") && report.contains("leaf_work"));
    assert_eq!(said(&bench, "r", "saved_at"), "the end of the program");
    assert!(said(&bench, "r", "program").contains("signal: 6"));
}

#[test]
fn every_trigger_saves_another_where_many_are_wanted() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(mut deep) = endless(&bench) else { return };
    let pid = deep.pid();
    let options = ["--multi-snapshot", "--snapshot-size", "1M", "--recording", "r"];
    let mut attach = Running::start(bench.spanwise(&["attach", "-p", &pid]).args(options));
    let is_saved = |name: &str| bench.path(name).join("recording.json").exists();
    // A signal before it is waited for would end spanwise: its descriptors tell.
    let descriptors = format!("/proc/{}/fd", attach.pid());
    wait_until("it records", || {
        let mut names = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        names.any(|name| {
            fs::read_link(name.path()).is_ok_and(|to| to.to_string_lossy().contains("perf_event"))
        })
    });
    for (signal, name) in [("USR1", "r"), ("USR2", "r-2")] {
        attach.signal(signal);
        wait_until("it is saved", || is_saved(name));
        assert_eq!(said(&bench, name, "saved_at"), "a signal to spanwise");
    }
    attach.signal("INT");
    assert_eq!(attach.wait().code(), Some(0));
    assert_eq!(said(&bench, "r-3", "saved_at"), "it was stopped");
    assert!(deep.is_alive());
    for name in ["r", "r-2", "r-3"] {
        let trace = bench.open(name);
        let text = |id| trace.strings().get(id);
        let mut threads = trace.tracks().iter().map(|(_, track)| track);
        let is_named = |thread: &str, name: &str| thread == pid || name == "worker";
        // Names outlive what is dropped.
        assert!(threads.all(|track| is_named(text(track.thread), text(track.thread_name))));
    }
}

#[test]
fn a_function_that_is_nowhere_is_told() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let run = ["run", "--quiet", "--no-decode", "--trigger", "no_such_function", "--", "true"];
    let output = bench.run(&run);
    let expected = "spanwise: note: --trigger no_such_function: no function of this name in any \
                    file that was mapped\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), expected));
}

#[test]
fn no_thread_is_missed_that_begins_while_others_are_being_watched() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let Some(library) = bench.compile("planted.c", "libplanted.so", &["-shared", "-fPIC"]) else {
        return;
    };
    let Some(chain) = bench.compile("chain.c", "chain", &["-ldl"]) else { return };
    for round in 0..5 {
        let folder = format!("r{round}");
        let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", &folder]);
        // Threads come so fast that a note about stacks of their waits would be right.
        let run = run.args(["--wait-stacks", "never", "--trigger", "planted", "--"]);
        let run = run.arg(&chain).arg(&library);
        let output = run.output().expect("built for this test");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        // Whoever is missed makes nobody who is not.
        assert_eq!(said(&bench, &folder, "saved_at"), "call of planted", "round {round}");
    }
}
