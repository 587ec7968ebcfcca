//! Files that are no traces, and files made to hurt: an error with a place or a
//! trace with notices, soon, and in memory that the input bounds (I6).

mod traces;

use std::fmt::Write;

use spanwise_model::NoticeKind;
use traces::{gzip, kinds, read, read_bytes};

/// The error says the path, the byte and what is wrong.
#[track_caller]
fn check_refused(bytes: &[u8], place: &str) {
    let error = read_bytes("some.file", bytes).expect_err("no trace").to_string();
    assert!(error.contains("some.file: ") && error.contains(place), "{error}");
}

#[test]
fn what_is_no_trace_is_refused() {
    check_refused(b"", "byte 0: not a trace: the file is empty");
    check_refused(b" \n ", "byte 3: not a trace: the file is empty");
    check_refused(b"[1,2,3]", "byte 0: not a trace: an array");
    check_refused(b"{\"a\":1}", "byte 0: not a trace: a JSON object without");
    check_refused(b"{\"traceEvents\": 5}", "byte 0: not a trace");
    check_refused(b"{", "byte 0: not a trace");
    check_refused(b"plain text", "byte 0: not a trace: neither { nor [");
    check_refused(b"\n <html>", "byte 2: not a trace");
    check_refused(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "byte 0: not a trace");
    check_refused(&gzip(b"nonsense"), "byte 0: not a trace");
    check_refused(&gzip(b""), "byte 0: not a trace");
    check_refused(b"\x1f\x8b", "byte 0: not a trace");
    check_refused(b"\x1f\x8bnonsense and more of it", "byte 0: not a trace");
    check_refused(b"\x28\xb5\x2f\xfd nonsense", "byte 0: not a trace");
    check_refused(b"\xfd7zXZ\0 nonsense", "byte 0: not a trace");
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in [folder.path().to_owned(), folder.path().join("missing.json")] {
        let error = read(&path).expect_err("no file").to_string();
        assert!(error.starts_with(&*path.to_string_lossy()), "{error}");
    }
}

/// Whatever comes out, something comes out, and it is no silent nothing.
#[track_caller]
fn check_survived(text: &[u8]) {
    for bytes in [text, &gzip(text)] {
        match read_bytes("a.json", bytes) {
            Ok(trace) => assert!(!trace.notices().is_empty(), "nothing was reported"),
            Err(error) => assert!(error.to_string().contains("byte "), "{error}"),
        }
    }
}

const GOOD: &str = r#"{"ph":"X","name":"a","pid":1,"tid":2,"ts":1,"dur":2,"args":{"x":[1]}}"#;

#[test]
fn deep_nesting_is_survived() {
    check_survived(&b"[".repeat(100_000));
    check_survived(&b"{".repeat(5_000_000));
    check_survived(&br#"{"a":"#.repeat(1_000_000));
    check_survived(&br#"{"ph":"X","args":{[[["#.repeat((20 << 20) / 21));
    check_survived(&br#"[{"ph":"X","ts":1,"args":{"a":["#.repeat(500_000));
    let deep =
        format!("[{GOOD}, {{\"ph\":\"X\",\"ts\":1,\"args\":{}, {GOOD}]", "[".repeat(100_000));
    check_survived(deep.as_bytes());
}

#[test]
fn endless_strings_are_survived() {
    let filler = "x".repeat(50 << 20);
    check_survived(format!("[{GOOD}, {{\"ph\":\"X\",\"name\":\"{filler}").as_bytes());
    check_survived(format!("{{\"x\":\"{filler}").as_bytes());
    check_survived(format!("[{GOOD}, {GOOD} \\{filler}").as_bytes());
    check_survived(&br#"[{"ph":"X","name":"a"b"#.repeat(500_000));
    check_survived(&br#"{"ph":"X","name":"\"#.repeat(500_000));
}

/// A producer that forgets to escape quotes does so in every event.
#[test]
fn damage_in_every_event_is_survived() {
    for bad in [
        r#"{"ph":"X","name":"a","ts":1,"dur":2,"args":{"file":"say "hi","l":[1,2]}}"#,
        r#"{"ph":"X","name":"a "b" c","ts":1,"dur":2,"args":{"x":N/A}}"#,
        r#"{"ph":"X","name":"a","ts":1,"dur":N/A}"#,
    ] {
        let text = format!("[{}]", vec![bad; 100_000].join(",\n"));
        let trace = read_bytes("a.json", text.as_bytes()).expect("a trace");
        assert_eq!(trace.spans().len(), 100_000, "{bad}");
    }
    let bad = r#"{"ph":"X","name":"a","ts":1,"dur":2,"args":{"file":"say"#;
    check_survived(format!("[{}]", vec![bad; 100_000].join(",\n")).as_bytes());
    let bad = r#"{"ph":"X","name":"a","ts":1,"dur":2,"args":{"file":{"x":1}"#;
    check_survived(format!("[{}]", vec![bad; 100_000].join(",\n")).as_bytes());
}

#[test]
fn huge_numbers_are_survived() {
    let digits = "9".repeat(1 << 20);
    let mut text = "[".to_owned();
    for number in [&*digits, &format!("0.{digits}"), &format!("1e{digits}"), "1e-400", "-1e308"] {
        let member = |key: &str| {
            format!("{{\"ph\":\"X\",\"{key}\":{number},\"pid\":{number},\"id\":{number}}},\n")
        };
        text += &(member("ts") + &member("dur"));
        write!(text, "{{\"ph\":\"X\",\"ts\":1,\"args\":{{\"correlation\":{number}}}}},")
            .expect("text");
        write!(text, "{{\"ph\":\"C\",\"ts\":1,\"args\":{{\"v\":{number}}}}},").expect("text");
    }
    text += &format!("{GOOD}]");
    let trace = read_bytes("a.json", text.as_bytes()).expect("a trace");
    assert!(kinds(&trace).contains(&NoticeKind::TimeOutOfRange));
    assert_eq!(trace.info().events(), 21);
}

/// Times at both ends of what 64 bits hold, where sums and differences overflow.
#[test]
fn times_at_the_limits_are_survived() {
    let times = ["-9223372036854775.808", "9223372036854775.807", "0", "-1", "9e15", "-9e15"];
    let phases = ["X", "B", "E", "b", "e", "s", "t", "f", "i", "C"];
    let mut text = "[".to_owned();
    for phase in phases {
        for (time, dur) in times.iter().flat_map(|time| times.map(|dur| (time, dur))) {
            write!(
                text,
                "{{\"ph\":\"{phase}\",\"ts\":{time},\"dur\":{dur},\"id\":1,\"name\":\"{dur}\",\
                 \"args\":{{\"v\":{dur}}}}},"
            )
            .expect("text");
        }
    }
    // A span from one end of time to the other.
    for (begin, end) in [("B", "E"), ("b", "e")] {
        for (phase, time) in [(begin, times[0]), (end, times[1])] {
            write!(text, "{{\"ph\":\"{phase}\",\"ts\":{time},\"tid\":7,\"id\":9}},").expect("text");
        }
    }
    text += &format!("{GOOD}]");
    let trace = read_bytes("a.json", text.as_bytes()).expect("a trace");
    assert_eq!(trace.summary().spans, trace.spans().len() as u64);
}

#[test]
fn a_million_names_and_tracks_are_survived() {
    let mut text = "[".to_owned();
    for at in 0..1_000_000 {
        let ids = format!(r#""pid":{at},"tid":{at},"ts":{at}"#);
        writeln!(text, r#"{{"ph":"X","name":"n{at}","cat":"c{at}",{ids},"dur":1}},"#)
            .expect("text");
    }
    let trace = read_bytes("a.json", text.as_bytes());
    let trace = trace.expect("a trace");
    assert_eq!((trace.spans().len(), trace.tracks().len()), (1_000_000, 1_000_000));
}
