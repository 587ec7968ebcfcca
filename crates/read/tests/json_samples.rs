//! Samples in JSON traces: V8's CPU profiles among the events, and `samples` beside them.
#![expect(clippy::print_stderr, reason = "a test that skips something says so")]

mod traces;

use std::collections::BTreeMap;

use spanwise_model::{FrameKind, Trace};
use traces::{at_root, read, read_bytes};

/// A line for each sample: process and thread, time, weight, event, and the stack with lines.
fn lines(trace: &Trace) -> Vec<String> {
    let strings = trace.strings();
    let line = |row: spanwise_model::SampleRow| {
        let track = trace.tracks().get(row.track);
        let event = strings.get(trace.sample_events().rows()[usize::from(row.event)].name);
        let frames = trace.stacks().frames(row.stack).map(|frame| trace.frames().get(frame));
        let name = |frame: spanwise_model::Frame| match frame.line {
            0 => strings.get(frame.function).to_owned(),
            line => format!("{}:{line}", strings.get(frame.function)),
        };
        let mut names: Vec<String> = frames.map(name).collect();
        names.reverse();
        let (process, thread) = (strings.get(track.process), strings.get(track.thread));
        format!("{process}/{thread} {} {} {event} {}", row.time, row.weight, names.join(";"))
    };
    trace.samples().iter().map(line).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let trace = read_bytes("trace.json", text.as_bytes()).expect("a trace");
    assert_eq!(lines(&trace), expected);
    assert_eq!(trace.notices().iter().count(), 0, "{:?}", trace.notices());
}

const CHUNK: &str = r#"{"ph":"P","name":"ProfileChunk","pid":1,"tid":9,"id":"0x2","ts":TS,
"args":{"data":{"cpuProfile":{"nodes":[NODES],"samples":[SAMPLES]},"timeDeltas":[DELTAS]MORE}}}"#;

fn chunk(ts: u32, [nodes, samples, deltas, more]: [&str; 4]) -> String {
    let chunk = CHUNK.replace("TS", &ts.to_string()).replace("NODES", nodes);
    chunk.replace("SAMPLES", samples).replace("DELTAS", deltas).replace("MORE", more)
}

#[test]
fn chunks_of_a_profile_are_joined() {
    let start = r#"{"ph":"P","name":"Profile","pid":1,"tid":7,"id":"0x2","ts":50,
        "args":{"data":{"startTime":100}}}"#;
    let root = r#"{"id":1,"callFrame":{"functionName":"(root)"}},
        {"id":2,"parent":1,"callFrame":{"functionName":"f","url":"u.js","lineNumber":9}}"#;
    let more = r#"{"id":3,"parent":2,"callFrame":{"functionName":""}}"#;
    let one = chunk(60, [root, "2, 1", "10, 5.5", ""]);
    let two = chunk(70, [more, "3, 2, 77", "4, -2, 100", r#","lines":[0,12,0],"endTime":300"#]);
    let expected = [
        "1/7 110000 5500 cpu-profile f:10",
        "1/7 115500 2000 cpu-profile ",
        "1/7 117500 2000 cpu-profile f:12",
        "1/7 119500 98000 cpu-profile f:10;(anonymous)",
        "1/7 217500 82500 cpu-profile ",
    ];
    check(&format!("[{start},{one},{two}]"), &expected);
    // The order in the file is not that of time.
    check(&format!("{{\"traceEvents\":[{two},{start},{one}]}}"), &expected);
}

#[test]
fn a_whole_profile_is_read_without_a_number() {
    let text = r#"[{"ph":"I","name":"CpuProfile","pid":1,"tid":7,"ts":900,"args":{"data":{
        "cpuProfile":{"nodes":[{"id":1,"callFrame":{"functionName":"(root)","lineNumber":-1},
        "children":[2]},{"id":2,"callFrame":{"functionName":"g","lineNumber":-1}}],
        "startTime":100,"endTime":130,"samples":[2,2],"timeDeltas":[10,10]}}}}]"#;
    check(text, &["1/7 110000 10000 cpu-profile g", "1/7 120000 10000 cpu-profile g"]);
}

#[test]
fn samples_beside_the_events_are_read() {
    let frames = r#""stackFrames":{"1":{"name":"main","category":"app"},
        "2":{"name":"f","category":"kernel","parent":1}}"#;
    let samples = r#""samples":[{"cpu":0,"tid":5,"ts":2.5,"name":"cycles:HG","sf":2,"weight":7},
        {"cpu":1,"tid":"5","ts":"1","name":"cycles:HG","sf":"1"}]"#;
    let event = r#"{"ph":"X","name":"x","pid":3,"tid":5,"ts":1,"dur":4}"#;
    let expected = ["3/5 1000 1 cycles:HG main", "3/5 2500 7 cycles:HG main;f"];
    check(&format!("{{\"traceEvents\":[{event}],{frames},{samples}}}"), &expected);
    check(&format!("{{{samples},\"traceEvents\":[{event}],{frames}}}"), &expected);
}

#[test]
fn frames_that_lead_in_a_circle_are_cut() {
    let text = r#"{"traceEvents":[],"stackFrames":{"1":{"name":"a","parent":2},
        "2":{"name":"b","parent":1}},"samples":[{"pid":1,"tid":5,"ts":1,"name":"c","sf":1}]}"#;
    check(text, &["1/5 1000 1 c b;a"]);
}

#[test]
fn files_of_chrome_and_hermes_hold_what_a_count_of_their_text_gives() {
    // Counted with a short Python script: samples, time up to the last sample by function.
    type SampleCounts<'a> = (&'a str, usize, &'a [(&'a str, i64)]);
    let files: [SampleCounts<'_>; 7] = [
        (
            "speedscope/sample/profiles/Chrome/116/Trace-20230603T221323.json",
            1600,
            &[("(idle)", 230_497), ("(program)", 9_459), ("gamma", 8_593), ("delta", 8_136)],
        ),
        (
            "speedscope/sample/profiles/Chrome/66/worker.json",
            4447 + 3792,
            &[("(idle)", 868_266), ("banana", 50_635), ("gamma", 22_197), ("alpha", 19_976)],
        ),
        (
            "speedscope/sample/profiles/Chrome/70/worker.json",
            1980 + 1400,
            &[("(idle)", 173_641), ("banana", 18_755), ("gamma", 13_631), ("alpha", 7_945)],
        ),
        (
            "profiler/src/test/fixtures/upgrades/test.chrome.gz",
            3711,
            &[("(idle)", 446_217), ("requestAnimationFrame", 2_731), ("search", 2_613)],
        ),
        (
            "profiler/src/test/fixtures/upgrades/chrome-trace-issue-5429.json.gz",
            206,
            &[("(idle)", 132_543), ("custom_gc", 87_583), ("readFileUtf8", 4_708)],
        ),
        ("speedscope/sample/profiles/trace-event/simple-with-samples.json", 7, &[]),
        ("speedscope/sample/profiles/trace-event/multi-thread-with-samples.json", 8, &[]),
    ];
    for (path, count, functions) in files {
        let whole = at_root("../shared/corpora/producers").join(path);
        if !whole.exists() {
            eprintln!("skipped: {path} is not there");
            continue;
        }
        let trace = read(&whole).expect("a trace");
        assert_eq!(trace.samples().len(), count, "{path}");
        let strings = trace.strings();
        let mut spent: BTreeMap<&str, i64> = BTreeMap::new();
        let rows: Vec<_> = trace.samples().iter().collect();
        for two in rows.windows(2).filter(|two| two[0].track == two[1].track) {
            let row = two[0];
            let Some(frame) = trace.stacks().frame(row.stack) else { continue };
            let frame = trace.frames().get(frame);
            assert_eq!(frame.kind, FrameKind::Script, "{path}");
            *spent.entry(strings.get(frame.function)).or_default() += row.weight;
        }
        for (function, micros) in functions {
            assert_eq!(spent.get(function), Some(&(micros * 1000)), "{path} {function}");
        }
    }
}
