//! Packets of a real program that were lost, cut off or damaged; and their times.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod stepping;

use std::sync::OnceLock;

use spanwise_pt::{Event, Kind, Loss};
use stepping::decoded::{AllEvents, decoded};
use stepping::record::{CRYSTAL, CRYSTAL_SHIFT, instruction_at, without_repetitions};
use stepping::{Code, Recorder, RecorderOptions, Step, Timing, build, step};

/// One program, stepped once.
fn steps() -> Option<&'static (Vec<Step>, Vec<Code>)> {
    static STEPPED: OnceLock<Option<(Vec<Step>, Vec<Code>)>> = OnceLock::new();
    let make = || {
        let built = build("sorts.c", &["-O1", "-static", "-no-pie"])?;
        let path = built.path.to_str().expect("a path of ours");
        let main = built.address("main").expect("every program has one");
        let stepped = step(&[path], &[(path, main)], 20_000);
        drop(std::fs::remove_file(path));
        let steps = without_repetitions(&stepped.threads[&stepped.pid], &stepped.code);
        Some((steps, stepped.code))
    };
    STEPPED.get_or_init(make).as_ref()
}

#[test]
fn after_an_overflow_decoding_goes_on() {
    let Some((steps, code)) = steps() else { return };
    for (every, len) in [(500, 100), (77, 1000), (2000, 3)] {
        let options =
            RecorderOptions { overflow: Some((every, len)), ..RecorderOptions::default() };
        let recorded = Recorder::record(steps, code, options);
        let all = decoded(&recorded.bytes, code, &options);
        assert_eq!(all.instructions(code), recorded.instructions);
        let losses = all.losses();
        assert!(losses.len() > 1 && losses.iter().all(|lost| *lost == Loss::Overflow));
    }
}

#[test]
fn cycles_give_targets_their_exact_times() {
    let Some((steps, code)) = steps() else { return };
    let options = RecorderOptions { shortens_returns: false, ..RecorderOptions::default() };
    check_times(steps, code, options, 0);
}

#[test]
fn the_crystal_gives_targets_their_times_as_near_as_it_ticks() {
    let Some((steps, code)) = steps() else { return };
    let options = RecorderOptions {
        shortens_returns: false,
        timing: Timing::Crystal,
        ..RecorderOptions::default()
    };
    check_times(steps, code, options, CRYSTAL << CRYSTAL_SHIFT);
}

fn check_times(steps: &[Step], code: &[Code], options: RecorderOptions, error_max: u64) {
    let recorded = Recorder::record(steps, code, options);
    let all = decoded(&recorded.bytes, code, &options);
    let has_target_packet =
        |ip: u64| matches!(instruction_at(code, ip).kind, Kind::Return | Kind::IndirectCall);
    let expected = recorded.target_times.iter().map(|&(step, ticks)| (steps[step].ip, ticks));
    let expected: Vec<(u64, u64)> = expected.filter(|&(ip, _)| has_target_packet(ip)).collect();
    let found = all.events.iter().filter_map(|(at, event)| match *event {
        Event::Branch { from, .. } if has_target_packet(from) => Some((from, at.ticks)),
        _ => None,
    });
    let found: Vec<(u64, u64)> = found.collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.0, expected.0);
        assert!(
            found.1 <= expected.1 && expected.1 - found.1 <= error_max,
            "{found:?} {expected:?}"
        );
    }
}

#[test]
fn a_beginning_that_is_missing_leaves_the_rest() {
    let Some((steps, code)) = steps() else { return };
    let options = RecorderOptions { psb_every: 100, ..RecorderOptions::default() };
    let recorded = Recorder::record(steps, code, options);
    for cut in (1..recorded.bytes.len()).step_by(131) {
        let found = decoded(&recorded.bytes[cut..], code, &options).instructions(code);
        assert!(recorded.instructions.ends_with(&found), "without the first {cut} bytes");
    }
}

#[test]
fn an_end_that_is_missing_leaves_the_beginning() {
    let Some((steps, code)) = steps() else { return };
    let options = RecorderOptions { psb_every: 100, ..RecorderOptions::default() };
    let recorded = Recorder::record(steps, code, options);
    for len in (1..recorded.bytes.len()).step_by(131) {
        let all = decoded(&recorded.bytes[..len], code, &options);
        assert!(recorded.instructions.starts_with(&all.instructions(code)), "{len} bytes");
        assert_eq!(all.losses(), [], "{len} bytes");
    }
}

#[test]
fn damage_is_over_at_the_next_place_to_begin() {
    let Some((steps, code)) = steps() else { return };
    let options = RecorderOptions { psb_every: 100, ..RecorderOptions::default() };
    let recorded = Recorder::record(steps, code, options);
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let (mut damaged_rounds, mut clean_ends) = (0, 0);
    for _ in 0..150 {
        let mut bytes = recorded.bytes.clone();
        let at = random(bytes.len());
        let last = at.saturating_add(1 + random(8)).min(bytes.len());
        match random(3) {
            0 => bytes[at..last].iter_mut().for_each(|byte| *byte ^= 1 << (at % 8)),
            1 => drop(bytes.drain(at..last)),
            _ => bytes[at..last].fill(0xff),
        }
        let all: AllEvents = decoded(&bytes, code, &options);
        let found = all.instructions(code);
        damaged_rounds += usize::from(found != recorded.instructions);
        // The last hundred bytes or so have a place to begin of their own.
        if last + 400 < bytes.len() {
            let tail = &recorded.instructions[recorded.instructions.len() - 20..];
            assert!(found.ends_with(tail), "damage from {at} to {last} of {}", bytes.len());
            clean_ends += 1;
        }
    }
    assert!(damaged_rounds > 50 && clean_ends > 50, "{damaged_rounds} {clean_ends}");
}
