//! Several traces in one file: the union of what each of them says.

use std::path::PathBuf;

use spanwise_model::{ArgValue, MergePart, MergedTrace, SpanId, Trace, merge};
use spanwise_write::write_fxt;

use crate::WRITERS;
use crate::kept::{assert_same, kept, through};
use crate::traces::{self, SpanText, said};

/// Recordings to merge: one with itself, so that every id meets its twin; some that say
/// nothing about their clock; the ranks of a run, where they are at hand.
fn sets() -> Vec<Vec<PathBuf>> {
    let set = |names: &[&str]| names.iter().map(|name| traces::at_root(name)).collect();
    let ranks: Vec<PathBuf> = (0..4)
        .map(|rank| traces::at_root(&format!("../shared/traces/ddp_rank{rank}.json.gz")))
        .filter(|path| path.exists())
        .collect();
    let committed: [Vec<PathBuf>; 3] = [
        set(&["testdata/kineto/llama_small.json.gz", "testdata/kineto/llama_small.json.gz"]),
        set(&["testdata/chrome/pairs.json", "testdata/chrome/kinds_of_events.json"]),
        set(&["testdata/chrome/torch_1_8.json", "testdata/kineto/llama_small.json.gz"]),
    ];
    committed.into_iter().chain([ranks]).filter(|paths| !paths.is_empty()).collect()
}

fn read_all(paths: &[PathBuf]) -> Vec<Trace> {
    paths.iter().map(|path| traces::read(path).expect("a recording")).collect()
}

fn merged(paths: &[PathBuf]) -> MergedTrace {
    let parts = read_all(paths).into_iter().enumerate();
    let parts = parts.map(|(at, trace)| MergePart { name: format!("part {at}"), trace });
    merge(parts.collect()).expect("few spans")
}

/// How far each part had to move, found from its first span.
fn shifts(merged: &Trace, parts: &[Trace]) -> Vec<i64> {
    let mut first = 0;
    let mut shifts = Vec::new();
    for part in parts {
        let last = SpanId(part.spans().len() as u32 - 1);
        let moved = merged.spans().start(SpanId(first + last.0));
        shifts.push(moved - part.spans().start(last));
        first += last.0 + 1;
    }
    shifts
}

/// A span of a part, as it should stand in the whole: its time moved, its process apart.
fn expected(part: &Trace, span: SpanId, shift: i64, place: usize) -> SpanText {
    let said = said(part, span);
    SpanText { start: said.start + shift, process: place.to_string(), ..said }
}

/// A span of the whole, with the part in place of the process.
fn found(merged: &Trace, span: SpanId) -> SpanText {
    let track = merged.tracks().get(merged.spans().track(span));
    let name = merged.strings().get(track.process_name);
    let place = name.strip_prefix("part ").and_then(|name| name.split(' ').next());
    let process = place.expect("the name of the part").to_owned();
    SpanText { process, ..said(merged, span) }
}

type Arrow = (SpanText, SpanText);

/// Launches, and arrows that the source drew.
fn arrows(trace: &Trace, say: impl Fn(SpanId) -> SpanText) -> Vec<Arrow> {
    let launched = trace.spans().ids().filter_map(|to| Some((trace.spans().launch(to)?, to)));
    launched.chain(trace.links().iter()).map(|(from, to)| (say(from), say(to))).collect()
}

#[test]
fn the_whole_is_the_union_of_its_parts() {
    for paths in sets() {
        let (whole, parts) = (merged(&paths).trace, read_all(&paths));
        let (mut spans, mut drawn) = (Vec::new(), Vec::new());
        for ((place, part), shift) in parts.iter().enumerate().zip(shifts(&whole, &parts)) {
            let say = |span| expected(part, span, shift, place);
            spans.extend(part.spans().ids().map(say));
            drawn.extend(arrows(part, say));
        }
        let say = |span| found(&whole, span);
        let mut whole_spans: Vec<SpanText> = whole.spans().ids().map(say).collect();
        let mut whole_drawn = arrows(&whole, say);
        spans.sort();
        drawn.sort();
        whole_spans.sort();
        whole_drawn.sort();
        assert!(spans == whole_spans, "{paths:?}: other spans");
        assert!(drawn == whole_drawn, "{paths:?}: other arrows");
        let count = |rows: fn(&Trace) -> usize| parts.iter().map(rows).sum::<usize>();
        assert_eq!(whole.instants().len(), count(|part| part.instants().len()));
        assert_eq!(whole.counters().len(), count(|part| part.counters().len()));
        assert_eq!(whole.tracks().len(), count(|part| part.tracks().len()));
    }
}

#[test]
fn every_format_keeps_the_whole() {
    for paths in sets() {
        let whole = merged(&paths).trace;
        for write in WRITERS.into_iter().chain([write_fxt as crate::kept::Write]) {
            let what = format!("{paths:?}");
            let (_, back) = through(&whole, write, &what);
            assert_same(&kept(&back), &kept(&whole), &what);
            assert_eq!(back.info().base_time_ns, whole.info().base_time_ns, "{what}");
        }
    }
}

#[test]
fn arguments_survive_and_ids_do_not_meet() {
    let path = traces::at_root("testdata/kineto/llama_small.json.gz");
    let whole = merged(&[path.clone(), path.clone()]).trace;
    let part = traces::read(&path).expect("a recording");
    let rows = part.spans().len() as u32;
    let mut correlations = 0;
    for span in part.spans().ids() {
        let args = part.args(span).expect("readable");
        assert_eq!(whole.args(span), Ok(args.clone()));
        let second = whole.args(SpanId(rows + span.0)).expect("readable");
        assert_eq!(second.len(), args.len());
        for ((key, first), (same_key, second)) in args.iter().zip(&second) {
            assert_eq!(key, same_key);
            match (key.as_str(), first) {
                ("correlation", ArgValue::Int(id @ 1..)) => {
                    correlations += 1;
                    assert_eq!(second, &ArgValue::Int(10_000_000_000 + id));
                }
                ("Python id" | "Python parent id" | "External id", ArgValue::Int(1..)) => {
                    assert_ne!(second, first);
                }
                ("Record function id" | "Sequence number", _) => {}
                _ => assert_eq!(second, first, "{key}"),
            }
        }
    }
    assert!(correlations > 100, "{correlations}");
}
