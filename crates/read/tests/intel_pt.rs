//! Recordings of Intel PT, made of programs that were stepped: the calls that we read are those
//! that were made.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../../pt/tests/stepping/mod.rs"]
mod stepping;

use std::path::Path;

use spanwise_model::Trace;
use spanwise_pt::Kind;
use spanwise_read::OpenOptions;
use stepping::perf_data::{Traced, write};
use stepping::record::{instruction_at, without_repetitions};
use stepping::{Built, Code, RecorderOptions, Step, Stepped, build, step};

const STATIC: [&str; 3] = ["-O1", "-static", "-no-pie"];

/// A program and its steps; the program stays, for its code is in no recording.
fn stepped(name: &str, flags: &[&str], limit: usize) -> Option<(Built, Stepped)> {
    let built = build(name, flags)?;
    let path = built.path.to_str().expect("a path of ours");
    let main = built.address("main").expect("every program has one");
    let mut stepped = step(&[path], &[(path, main)], limit);
    for steps in stepped.threads.values_mut() {
        *steps = without_repetitions(steps, &stepped.code);
    }
    Some((built, stepped))
}

fn recording(stepped: &Stepped, options: RecorderOptions) -> Vec<u8> {
    let threads: Vec<Traced<'_>> =
        stepped.threads.iter().map(|(&tid, steps)| Traced { tid, steps }).collect();
    write(stepped.pid, &threads, &stepped.code, options)
}

fn read(path: &Path) -> Trace {
    let trace = spanwise_read::open(
        path,
        &OpenOptions { index: spanwise_read::IndexUse::Ignore, ..OpenOptions::default() },
    )
    .expect("a recording");
    trace.check().expect("a sound trace");
    trace
}

/// How many calls of each function of the program were made, told from the steps alone.
fn calls(steps: &[Step], code: &[Code], built: &Built) -> Vec<(String, usize)> {
    let mut found = std::collections::BTreeMap::new();
    for pair in steps.windows(2) {
        let kind = instruction_at(code, pair[0].ip).kind;
        let is_call = matches!(kind, Kind::Call | Kind::IndirectCall) && !pair[0].is_diverted;
        let callee = built.functions.iter().find(|function| function.0 == pair[1].ip);
        if let (true, Some((_, _, name))) = (is_call, callee) {
            *found.entry(name.clone()).or_insert(0) += 1;
        }
    }
    found.into_iter().collect()
}

fn spans_of(trace: &Trace, name: &str) -> usize {
    let names = trace.spans().name_column().iter();
    names.filter(|&&at| trace.strings().get(spanwise_model::StrId(at)) == name).count()
}

#[test]
fn calls_are_those_that_were_made() {
    for (name, function) in [("sorts.c", "fib"), ("sorts.c", "compare"), ("tables.c", "choose")] {
        let Some((built, stepped)) = stepped(name, &STATIC, 20_000) else { return };
        let path = built.path.with_extension("data");
        std::fs::write(&path, recording(&stepped, RecorderOptions::default())).expect("written");
        let trace = read(&path);
        let steps = &stepped.threads[&stepped.pid];
        let made = calls(steps, &stepped.code, &built);
        let expected = made.iter().find(|call| call.0 == function).map_or(0, |call| call.1);
        assert!(expected > 5, "{name} calls {function}");
        assert_eq!(spans_of(&trace, function), expected, "{name}: {function}");
        let lost = trace
            .notices()
            .iter()
            .filter(|notice| matches!(notice.kind, spanwise_model::NoticeKind::DecodeError));
        assert_eq!(lost.count(), 0, "{name}");
        for path in [&path, &built.path] {
            drop(std::fs::remove_file(path));
        }
    }
}
