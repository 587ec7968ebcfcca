//! Programs that ask for a snapshot themselves.

use crate::bench::{Bench, stacks_of, text};
use crate::flight::said;

/// Runs the program that asks; gives why the snapshot was saved, and the number it says.
#[track_caller]
fn check(options: &[&str], mode: &str, why: &str, argument: &str) {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let Some(asks) = bench.compile("asks.c", "asks", &[]) else { return };
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", "r"]);
    let output = run.args(options).arg("--").arg(asks).arg(mode).output().expect("built");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let found = said(&bench, "r", "saved_at");
    assert!(found.starts_with(why), "{found}");
    assert_eq!(said(&bench, "r", "trigger_argument"), argument);
    // What was before is in it.
    assert!(!stacks_of(&bench.open("r"), "work_before").is_empty());
}

#[test]
fn the_first_call_saves_and_says_its_number() {
    check(&["--trigger", "."], "", "the program asked for it after ", "41");
}

#[test]
fn it_is_watched_without_being_named() {
    check(&["--snapshot-size", "32M"], "", "the program asked for it after ", "41");
}

#[test]
fn only_what_took_long_since_its_beginning_counts() {
    let options = ["--trigger", ".", "--duration-thresh", "200ms"];
    check(&options, "", "the program asked for it after 3", "43");
}

#[test]
fn the_program_may_decide_by_itself_what_takes_long() {
    check(&["--trigger", "."], "min", "the program asked for it after 3", "43");
}

/// Runs the same program with another trigger; gives why the first snapshot was saved.
fn saved_at(bench: &Bench, options: &[&str]) -> Option<String> {
    let asks = bench.compile("asks.c", "asks", &["-g"])?;
    let mut run = bench.spanwise(&["run", "--quiet", "--no-decode", "--recording", "r"]);
    let output = run.args(options).arg("--").arg(asks).arg("min").output().expect("built");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    Some(said(bench, "r", "saved_at"))
}

#[test]
fn a_thread_that_waits_long_saves() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(why) = saved_at(&bench, &["--trigger-off-cpu", "250ms"]) else { return };
    assert!(why.starts_with("a thread waited "), "{why}");
    let waited = why.trim_start_matches("a thread waited ").trim_end_matches("ms");
    assert!(waited.parse::<f64>().is_ok_and(|waited| waited >= 250.0), "{why}");
}

#[test]
fn the_clock_saves_once_or_again_and_again() {
    let Some(bench) = Bench::set_up() else { return };
    let Some(why) = saved_at(&bench, &["--after", "60ms"]) else { return };
    assert_eq!(why, "60ms are over");
    let Some(bench) = Bench::set_up() else { return };
    let Some(why) = saved_at(&bench, &["--every", "60ms"]) else { return };
    assert_eq!(why, "another 60ms are over");
    assert_eq!(said(&bench, "r-2", "saved_at"), "another 60ms are over");
}

#[test]
fn a_line_and_an_address_are_places_as_well() {
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/programs/asks.c");
    let source = std::fs::read_to_string(source).expect("the program");
    let line = source.lines().position(|line| line.contains("pthread_join")).expect("there") + 1;
    let place = format!("programs/asks.c:{line}");
    let Some(why) = saved_at(&bench, &["--trigger", &place]) else { return };
    assert_eq!(why, format!("call of {place}"));
    let Ok(symbols) = std::process::Command::new("nm").arg(bench.path("asks")).output() else {
        eprintln!("skipped: no nm to know an address by");
        return;
    };
    let symbols = text(&symbols.stdout);
    let symbol = symbols.lines().find(|line| line.ends_with(" work_before")).expect("a symbol");
    let address = format!("0x{}", symbol.split(' ').next().unwrap_or_default());
    let Some(bench) = Bench::with("(--trigger)") else { return };
    let Some(why) = saved_at(&bench, &["--trigger", &address]) else { return };
    assert_eq!(why, format!("call of {address}"));
}
