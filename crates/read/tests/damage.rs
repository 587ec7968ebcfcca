//! One bad event costs at most that event: every other one reads as before.
//!
//! Each case damages one event of real texts, at several places, and says what
//! becomes of it and which notices report it.

mod traces;

use std::path::PathBuf;

use NoticeKind::{
    BareWord, ControlCharacter, EventCut, EventSkipped, ExtraComma, FileCut, InvalidEscape,
    InvalidUtf8, MissingComma, UnescapedQuote,
};
use spanwise_model::{NoticeKind, Trace};
use traces::{
    SpanText, all_said, at_root, damage_kinds, events_in, gzip, read_bytes, said, text_of,
};

/// What becomes of the damaged event.
enum Fate {
    /// It is there, under this name; `{}` stands for its old one.
    Named(&'static str),
    Lost,
}

const KEPT: Fate = Fate::Named("{}");

fn with_spans() -> Vec<PathBuf> {
    let names = ["kineto/llama_small.json.gz", "chrome/pretty.json", "chrome/bare_array.json"];
    let more = ["chrome/kinds_of_events.json", "chrome/torch_1_8.json"];
    let names = names.iter().chain(&more);
    names.map(|name| at_root("testdata").join(name)).collect()
}

/// The spans of `whole`, once the one at `offset` has met its fate.
fn expected(whole: &Trace, offset: usize, fate: &Fate) -> Vec<SpanText> {
    let mut spans = Vec::new();
    for span in whole.spans().ids() {
        let mut span_said = said(whole, span);
        if whole.spans().offset(span) == offset as u64 {
            match fate {
                Fate::Named(name) => span_said.name = name.replace("{}", &span_said.name),
                Fate::Lost => continue,
            }
        }
        spans.push(span_said);
    }
    spans.sort();
    spans
}

/// Damages the first, the middle and the last span of each text; reads it plain
/// and compressed.
#[track_caller]
fn check(damage: impl Fn(&[u8]) -> Vec<u8>, fate: Fate, notices: &[NoticeKind]) {
    check_either(damage, fate, [notices; 2]);
}

#[track_caller]
fn check_either(damage: impl Fn(&[u8]) -> Vec<u8>, fate: Fate, notices: [&[NoticeKind]; 2]) {
    for path in with_spans() {
        let text = text_of(&path);
        let whole = read_bytes("whole.json", &text).expect("a trace");
        let is_span = |event: &std::ops::Range<usize>| {
            whole.spans().offset_column().contains(&(event.start as u64))
                && holds(&text[event.clone()], b"\"X\"")
        };
        let events: Vec<_> = events_in(&text).into_iter().filter(is_span).collect();
        for part in 0..=2 {
            let event = events[(events.len() - 1) * part / 2].clone();
            let damaged = damage(&text[event.clone()]);
            let text = [&text[..event.start], &damaged, &text[event.end..]].concat();
            let spans = expected(&whole, event.start, &fate);
            for (name, bytes) in [("a.json", &text), ("a.json.gz", &gzip(&text))] {
                let trace = read_bytes(name, bytes).expect("a trace");
                let shown = String::from_utf8_lossy(&damaged[..damaged.len().min(300)]);
                let place = format!("{}: {shown:?}", path.display());
                assert!(all_said(&trace) == spans, "{place}: {:?}", trace.notices());
                let kinds = damage_kinds(&trace, &whole);
                assert!(notices.contains(&&*kinds), "{place}: {:?}", trace.notices());
            }
        }
    }
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|bytes| bytes == part)
}

/// The text with the first `old` replaced.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let at = text.windows(old.len()).position(|bytes| bytes == old).expect("it is there");
    [&text[..at], new, &text[at + old.len()..]].concat()
}

/// Puts text at the start of the event's name.
fn in_name(new: &'static [u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    move |event| {
        let key = event.windows(6).position(|bytes| bytes == b"\"name\"").expect("a name");
        let colon = key + event[key..].iter().position(|&byte| byte == b':').expect("a colon");
        let quote = colon + event[colon..].iter().position(|&byte| byte == b'"').expect("text");
        [&event[..quote + 1], new, &event[quote + 1..]].concat()
    }
}

/// Puts a member before the event's first one.
fn first(new: &'static str) -> impl Fn(&[u8]) -> Vec<u8> {
    move |event| [b"{", new.as_bytes(), &event[1..]].concat()
}

/// Puts a member behind the event's last one.
fn last(new: &'static str) -> impl Fn(&[u8]) -> Vec<u8> {
    move |event| [&event[..event.len() - 1], new.as_bytes(), b"}"].concat()
}

#[test]
fn quotes_in_strings_are_kept() {
    check(in_name(b"a\"b\"c "), Fate::Named("a\"b\"c {}"), &[UnescapedQuote]);
    check(in_name(b"f(\"x\", y) "), Fate::Named("f(\"x\", y) {}"), &[UnescapedQuote]);
    check(first(r#""args": {"note": "say "hi now"}, "#), KEPT, &[UnescapedQuote]);
    check(first(r#""args": {"list": ["p"q", "r"]}, "#), KEPT, &[UnescapedQuote]);
    // Two in one argument read as two strings; they count when somebody asks.
    check(first(r#""args": {"note": "say "hi" now"}, "#), KEPT, &[]);
    check(last(r#", "note": "say "hi" now""#), KEPT, &[UnescapedQuote]);
}

#[test]
fn control_characters_are_kept() {
    check(in_name(b"a\nb"), Fate::Named("a\nb{}"), &[ControlCharacter]);
    check(in_name(b"a\x00\x1fb\t"), Fate::Named("a\0\x1fb\t{}"), &[ControlCharacter]);
    check(first("\"args\": {\"note\": \"two\nlines\"}, "), KEPT, &[ControlCharacter]);
    check(in_name(b"a\n\"b\" "), Fate::Named("a\n\"b\" {}"), &[ControlCharacter, UnescapedQuote]);
}

#[test]
fn bare_words_are_kept() {
    check(first(r#""x": N/A, "#), KEPT, &[BareWord]);
    check(first(r#""x": NaN, "#), KEPT, &[BareWord]);
    check(first(r#""x": -inf, "#), KEPT, &[BareWord]);
    check(first(r#""x": None, "#), KEPT, &[BareWord]);
    check(last(r#", "x": nan"#), KEPT, &[BareWord]);
    // Nobody has asked for the arguments yet.
    check(first(r#""args": {"note": N/A, "x": -inf}, "#), KEPT, &[]);
}

#[test]
fn commas_are_counted_out() {
    check(first(","), KEPT, &[ExtraComma]);
    check(first(r#""x": 1,, "#), KEPT, &[ExtraComma]);
    check(last(","), KEPT, &[ExtraComma]);
    check(first(r#""x": 1 "#), KEPT, &[MissingComma]);
    check(first(r#""x": "y" "#), KEPT, &[MissingComma]);
    check(|event| [event, b","].concat(), KEPT, &[ExtraComma]);
    check(|event| [b", ", event].concat(), KEPT, &[ExtraComma]);
    // Another event before this one, and no comma between them.
    let unnamed = br#"{"ph": "M", "name": "x"} "#;
    check(move |event| [unnamed, event].concat(), KEPT, &[MissingComma]);
}

#[test]
fn odd_text_is_kept() {
    check(in_name(br"C:\Users\q "), Fate::Named(r"C:\Users\q {}"), &[InvalidEscape]);
    check(in_name(br"\ud83d"), Fate::Named(r"\ud83d{}"), &[InvalidEscape]);
    check(in_name(b"caf\xe9 "), Fate::Named("caf\u{fffd} {}"), &[InvalidUtf8]);
    check(first("\"pid\": \"caf\u{e9}\", "), KEPT, &[]);
}

#[test]
fn an_event_past_repair_is_skipped_alone() {
    let skipped = &[EventSkipped];
    check(last(r#", "args": {"a": {"b": 1}"#), Fate::Lost, skipped);
    check(last(r#", "args": {"a": [1, 2}"#), Fate::Lost, skipped);
    check(last(r#", "args": {"a": [[1, 2], "b": 3}"#), Fate::Lost, skipped);
    // A bracket too many takes nothing with it, but reads like an event that is none.
    check(|event| [event, b"}"].concat(), KEPT, &[MissingComma, EventSkipped]);
    check(|event| replaced(event, b":", b""), Fate::Lost, skipped);
    check(|event| replaced(event, b"{", b"("), Fate::Lost, skipped);
    check(|event| event[..event.len() - 1].to_vec(), Fate::Lost, skipped);
    // Half of the last event, if cut in a string, may as well be the end of the file.
    let either = [&[EventSkipped][..], &[EventCut, FileCut]];
    check_either(|event| event[..event.len() / 2].to_vec(), Fate::Lost, either);
    check_either(|event| event[..event.len() / 3].to_vec(), Fate::Lost, either);
    check(|event| event[1..].to_vec(), Fate::Lost, &[MissingComma, EventSkipped]);
    check(|_| b"garbage".to_vec(), Fate::Lost, skipped);
    check(|event| vec![0; event.len()], Fate::Lost, skipped);
}

/// Arguments are read when somebody asks, and then damage in them costs nothing.
#[track_caller]
fn check_args(args: &str, expected: &[&str]) {
    let event = r#"{"ph":"X","name":"a","ts":1,"dur":2,"args":"#;
    let text = format!("[{event}{args}}},\n{event}{args}}},\n{event}{args}}}]");
    for bytes in [text.clone().into_bytes(), gzip(text.as_bytes())] {
        let path = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(path.path(), &bytes).expect("writable");
        let trace = traces::read(path.path()).expect("a trace");
        assert_eq!(trace.spans().len(), 3, "{args}");
        for span in trace.spans().ids() {
            let read = trace.args(span).expect("readable");
            let values: Vec<_> = read.iter().filter_map(|(_, value)| value.as_text()).collect();
            assert_eq!(values, expected, "{args}");
        }
    }
}

#[test]
fn damaged_arguments_are_read_when_asked_for() {
    check_args(r#"{"x": "say "hi" now", "y": "z"}"#, &["say \"hi\" now", "z"]);
    check_args(r#"{"x": "say "hi now", "y": "z"}"#, &["say \"hi now", "z"]);
    check_args(r#"{"x": N/A, "y": NaN, "z": -inf, "w": None}"#, &["N/A", "NaN", "-inf", "None"]);
    check_args(r#"{"x": "C:\Users\q",, "y": "z",}"#, &[r"C:\Users\q", "z"]);
    check_args(r#"{"x": "a" "y": "b"}"#, &["a", "b"]);
    check_args("{\"x\": \"two\nlines\"}", &["two\nlines"]);
}

#[test]
fn texts_and_numbers_beside_the_events_are_kept() {
    let text = br#"{"unit":"ms", "n": 5,"said":"a \"b\"\n","empty":"","traceEvents":[
        {"ph":"X","name":"f","pid":1,"tid":1,"ts":1,"dur":2}],"last":"q"}"#;
    let trace = read_bytes("beside.json", text).expect("a trace");
    let expected =
        [("empty", ""), ("last", "q"), ("n", "5"), ("said", "a \"b\"\n"), ("unit", "ms")];
    let found = trace.info().properties.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}
