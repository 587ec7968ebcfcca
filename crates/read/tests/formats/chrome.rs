//! Chrome's trace events.

use spanwise_model::{NoticeKind, Trace};
use spanwise_write::write_chrome;

use crate::kept::{assert_same, kept, recordings, through};
use crate::traces::{self, kinds, read_bytes};

/// As it was read, so it is read again. Tracks may change places once: threads stand
/// before lanes; from then on, writing changes no byte.
#[test]
fn recordings_come_back_whole() {
    for path in recordings() {
        let what = path.display().to_string();
        let trace = traces::read(&path).expect("a recording");
        let (bytes, back) = through(&trace, write_chrome, &what);
        assert_same(&kept(&back), &kept(&trace), &what);
        assert_eq!(facts(&back), facts(&trace), "{what}");
        let second = written(&String::from_utf8(bytes).expect("UTF-8"));
        assert!(written(&second) == second, "{what}: another writing differs");
    }
}

fn facts(trace: &Trace) -> spanwise_model::SourceInfo {
    let mut info = trace.info().clone();
    (info.compression, info.text_bytes) = (String::new(), 0);
    info.events_by_phase.clear();
    info
}

#[test]
fn times_are_written_to_the_nanosecond() {
    let event = |ts: &str, dur: &str| {
        format!(r#"[{{"ph": "X", "name": "a", "pid": "x", "tid": 7, "ts": {ts}, "dur": {dur}}}]"#)
    };
    let text = |ts: &str, dur: &str| written(&event(ts, dur)).replace('\n', "");
    let check = |ts: &str, dur: &str, expected: &str| {
        let text = text(ts, dur);
        assert!(text.contains(expected), "{expected}\n{text}");
    };
    check("1712195495519689.047", "0.001", r#""ts":1712195495519689.047,"dur":0.001"#);
    check("-0.5", "1e3", r#""ts":-0.500,"dur":1000.000"#);
    check("7", "0", r#""pid":"x","tid":7,"name":"a","cat":"","ts":7.000,"dur":0.000"#);
}

/// What is written of a text that is read from a file which stays until then.
fn written(source: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("source.json");
    std::fs::write(&path, source).expect("writable");
    let trace = traces::read(&path).expect("a trace");
    let mut bytes = Vec::new();
    write_chrome(&trace, &mut bytes).expect("to memory");
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn damage_is_repaired() {
    let damaged = r#"[{"ph": "B", "name": "a"b", "pid": 1, "tid": 1, "ts": 1,},,
        {"ph": "E", "pid": 1, "tid": 1, "ts": 3}, {"ph": "X", "na"#;
    let text = written(damaged);
    assert!(text.contains(r#""name":"a\"b","cat":"","ts":1.000,"dur":2.000"#), "{text}");
    let back = read_bytes("repaired.json", text.as_bytes()).expect("a trace");
    assert_eq!(kinds(&back), [] as [NoticeKind; 0]);
}

/// Parent and child begin together; each has its own arrow, to the parent only "the
/// next to begin" can point.
#[test]
fn arrows_find_their_spans() {
    let text = r#"[
        {"ph":"X","name":"from","cat":"c","pid":1,"tid":1,"ts":0,"dur":9},
        {"ph":"X","name":"outer","cat":"c","pid":1,"tid":2,"ts":20,"dur":9},
        {"ph":"X","name":"inner","cat":"c","pid":1,"tid":2,"ts":20,"dur":9},
        {"ph":"X","name":"late","cat":"c","pid":1,"tid":1,"ts":21,"dur":2},
        {"ph":"s","cat":"next","id":1,"pid":1,"tid":1,"ts":1},
        {"ph":"f","cat":"next","id":1,"pid":1,"tid":2,"ts":10},
        {"ph":"s","cat":"enclosing","id":1,"pid":1,"tid":1,"ts":22},
        {"ph":"f","bp":"e","cat":"enclosing","id":1,"pid":1,"tid":2,"ts":25}]"#;
    let trace = read_bytes("source.json", text.as_bytes()).expect("a trace");
    assert_eq!(trace.links().len(), 2);
    let back = read_bytes("copy.json", written(text).as_bytes()).expect("a trace");
    assert_same(&kept(&back), &kept(&trace), "arrows");
}

#[test]
fn odd_values_survive() {
    let source = r#"[{"ph":"C","name":"m","pid":1,"ts":1,"args":{"a":"NaN","b":-0.0,"c":1e300}}]"#;
    let text = written(source);
    for value in [r#"{"value":"NaN"}"#, r#"{"value":-0.0}"#, r#"{"value":1e300}"#] {
        assert!(text.contains(value), "{value}\n{text}");
    }
}
