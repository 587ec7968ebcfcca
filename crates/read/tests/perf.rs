//! Small texts of `perf script`, written for what no recording at hand shows, and the
//! calls that they stand for. `UPDATE=1 cargo test` writes the calls anew.

mod traces;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use spanwise_model::{NO_TIME, SpanId, Trace, TrackKind};
use spanwise_read::{IndexUse, OpenOptions, PerfOptions, open_perf};
use traces::{at_root, files_below};

fn opened(paths: &[PathBuf], perf: &PerfOptions) -> Trace {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = open_perf(paths, &options, perf).expect("it is text of perf");
    assert_eq!(trace.check(), Ok(()));
    trace
}

/// Everything in a trace, thread by thread, callees set to the right.
fn picture(trace: &Trace) -> String {
    let mut text = String::new();
    let (strings, spans) = (trace.strings(), trace.spans());
    let first = trace.window().map_or(0, |window| window.0);
    for (id, track) in trace.tracks().iter() {
        let [process, thread, name] = [track.process, track.thread, track.thread_name];
        let [process, thread, name] = [process, thread, name].map(|id| strings.get(id));
        let kind = if track.kind == TrackKind::Counter { "counter" } else { "thread" };
        writeln!(text, "{kind} {process} {thread} {name}").expect("a string takes everything");
        for span in track.span_ids() {
            let depth = 2 * depth(trace, span);
            let (from, to) = (spans.start(span) - first, spans.end(span) - first);
            let category = trace.categories().get(spans.category(span)).name;
            let category = strings.get(category);
            let name = trace.name(span);
            writeln!(text, "{from:>9} {to:>9} {:depth$}{name} [{category}]", "").expect("as above");
        }
        let states = trace.thread_states();
        for state in states.of_track(id).map(|row| states.get(row)) {
            let (from, to) = (state.start - first, state.start + state.dur - first);
            let waker = state.waker.map(|waker| strings.get(trace.tracks().get(waker).thread));
            let by = waker.map(|waker| format!(" until {waker}")).unwrap_or_default();
            let lock = if state.lock == 0 { String::new() } else { format!(" {:#x}", state.lock) };
            let stack = stack(trace, state.stack);
            let name = state.state.span_name();
            writeln!(text, "{from:>9} {to:>9} ~ {name}{lock}{by}{stack}").expect("as above");
        }
        let samples = trace.samples();
        for sample in samples.of_track(id).map(|row| samples.get(row)) {
            let event = &trace.sample_events().rows()[usize::from(sample.event)];
            let [event, unit] = [event.name, event.unit].map(|id| strings.get(id));
            let time = match sample.time {
                NO_TIME => "-".to_owned(),
                time => (time - first).to_string(),
            };
            let stack = stack(trace, sample.stack);
            let weight = sample.weight;
            writeln!(text, "{time:>9} {weight:>9} * {event} {unit}{stack}").expect("as above");
        }
        let instants = trace.instants();
        for row in (0..instants.len()).filter(|&row| instants.track[row] == id.0) {
            let name = strings.get(spanwise_model::StrId(instants.name[row]));
            writeln!(text, "{:>9} {:>9} ! {name}", instants.time[row] - first, "")
                .expect("as above");
        }
        let counters = trace.counters();
        for row in (0..counters.len()).filter(|&row| counters.track[row] == id.0) {
            let (time, value) = (counters.time[row] - first, counters.value[row]);
            writeln!(text, "{time:>9} {:>9} = {value}", "").expect("as above");
        }
    }
    for notice in trace.notices().iter() {
        let (count, kind, example) = (notice.count, notice.kind, &notice.example);
        writeln!(text, "notice {count} × {kind}: {example}").expect("as above");
    }
    text
}

/// A stack, outermost frame first, behind a space.
fn stack(trace: &Trace, stack: spanwise_model::StackId) -> String {
    let frames = trace.stacks().frames(stack).map(|frame| trace.frames().get(frame));
    let mut names: Vec<&str> = frames.map(|frame| trace.strings().get(frame.function)).collect();
    names.reverse();
    if names.is_empty() { String::new() } else { format!(" {}", names.join(";")) }
}

fn depth(trace: &Trace, span: SpanId) -> usize {
    std::iter::successors(trace.spans().parent(span), |&span| trace.spans().parent(span)).count()
}

#[track_caller]
fn check(found: &str, path: &Path) {
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(path, found).expect("testdata is ours to write");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(found, expected, "{}", path.display());
}

/// Parts of real texts of perf 6.1, except for a line that nobody would print.
#[test]
fn texts_of_other_commands_of_perf_become_the_calls_beside_them() {
    let formats = [("system_calls.trace", "perf trace"), ("runs.timehist", "perf sched timehist")];
    for (name, format) in formats {
        let path = at_root("testdata/perf").join(name);
        let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
        let trace = spanwise_read::open(&path, &options).expect("text of perf");
        assert_eq!(trace.info().format, format);
        assert_eq!(trace.check(), Ok(()));
        check(&picture(&trace), &path.with_extension("calls"));
    }
}

#[test]
fn texts_become_the_calls_beside_them() {
    let mut files = files_below(&at_root("testdata/perf"));
    files.retain(|path| path.extension().is_some_and(|ending| ending == "perf"));
    assert!(files.len() >= 10, "testdata/perf is part of the repository");
    for path in files {
        let map = path.with_extension("map");
        let maps = if map.exists() { vec![map] } else { Vec::new() };
        let perf = PerfOptions { maps, ..PerfOptions::default() };
        let trace = opened(std::slice::from_ref(&path), &perf);
        check(&picture(&trace), &path.with_extension("calls"));
    }
}

#[test]
fn snapshots_follow_each_other_without_a_common_stack() {
    let paths = ["snapshot_1.perf", "snapshot_2.perf"];
    let paths = paths.map(|name| at_root("testdata/perf").join(name));
    let trace = opened(&paths, &PerfOptions::default());
    check(&picture(&trace), &at_root("testdata/perf/snapshots.calls"));
}

/// All lines of the texts here that say what happened, on two threads.
fn lines() -> Vec<String> {
    let mut files = files_below(&at_root("testdata/perf"));
    files.retain(|path| path.extension().is_some_and(|ending| ending == "perf"));
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("our own text");
    let texts: Vec<String> = files.iter().map(text).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let is_branch = |line: &&str| line.contains(" => ") && line.contains(" 10.");
    lines.filter(is_branch).map(str::to_owned).collect()
}

/// Spans of a thread lie inside one another or apart.
fn assert_nested(trace: &Trace) {
    let spans = trace.spans();
    for span in spans.ids() {
        if let Some(parent) = spans.parent(span) {
            assert!(spans.start(parent) <= spans.start(span));
            assert!(spans.end(span) <= spans.end(parent), "{} outlives", trace.name(span));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn any_order_inside_a_timestamp_is_survived(
        order in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..120),
    ) {
        let lines = lines();
        // Events of one time in any order; times ascend.
        let mut events: Vec<(u32, &String)> =
            order.iter().map(|(index, time)| (*time, index.get(&lines))).collect();
        events.sort_by_key(|event| event.0);
        let with_time = |&(time, line): &(u32, &String)| {
            let at = line.find(" 10.").expect("all begin with second 10");
            format!("{} 10.0000{time:05}{}\n", &line[..at], &line[at + 13..])
        };
        let text: String = events.iter().map(with_time).collect();
        let trace = spanwise_read::fuzzing::perf_script_trace(text.as_bytes());
        prop_assert_eq!(trace.check(), Ok(()));
        assert_nested(&trace);
    }

    #[test]
    fn damaged_text_is_read_to_its_end(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 0..20),
        piece: u8,
    ) {
        let mut text: Vec<u8> = lines().join("\n").into_bytes();
        for (index, byte, sort) in damage {
            let at = index.index(text.len());
            match sort {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => drop(text.remove(at)),
            }
        }
        text.insert(0, piece);
        spanwise_read::fuzzing::perf_script(&text);
    }

    #[test]
    fn random_bytes_are_read_to_their_end(text in prop::collection::vec(any::<u8>(), 0..600)) {
        spanwise_read::fuzzing::perf_script(&text);
    }
}

/// Whatever stands in the texts of other commands of perf, it is read to its end, and in
/// pieces the same.
#[test]
fn damage_to_texts_of_other_commands_does_no_harm() {
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below.max(1)
    };
    for name in ["system_calls.trace", "runs.timehist"] {
        let text = std::fs::read(at_root("testdata/perf").join(name)).expect("testdata is ours");
        for _ in 0..300 {
            let from = random(text.len() / 2);
            let mut input = vec![random(64) as u8];
            input.extend(&text[from..(from + 3000).min(text.len())]);
            for _ in 0..random(12) {
                let at = 1 + random(input.len() - 1);
                let odd = b"\n [](:)/.?0-9<\xff";
                match random(3) {
                    0 => input[at] = odd[random(odd.len())],
                    1 => drop(input.remove(at)),
                    _ => input.truncate(at + 1),
                }
                if input.len() < 3 {
                    break;
                }
            }
            spanwise_read::fuzzing::perf_script(&input);
        }
    }
}
