//! What is missing is missing, and no more: files cut short, overwritten, with
//! damage around the events.

mod traces;

use std::io::Read;
use std::ops::Range;

use NoticeKind::{
    BareWord, CompressedDataDamaged, EventCut, FileCut, MetadataSkipped, TrailingText,
};
use spanwise_model::{NoticeKind, Trace};
use traces::{
    all_said, at_root, committed, damage_kinds, events_in, gzip, kinds, read_bytes, text_of,
};

/// How many events stand wholly before each place.
fn events_before(events: &[Range<usize>], end: usize) -> u64 {
    events.partition_point(|event| event.end <= end) as u64
}

/// Checks what was read of a text that ends at `end`.
#[track_caller]
fn check_prefix(trace: &Trace, whole: &Trace, events: &[Range<usize>], text: &[u8], end: usize) {
    assert_eq!(trace.info().events(), events_before(events, end), "cut at {end}");
    let is_inside = events.iter().any(|event| event.start < end && end < event.end);
    assert_eq!(kinds(trace).contains(&EventCut), is_inside, "cut at {end}");
    let is_bare_array = text[0] == b'[';
    if !is_bare_array && end < text.trim_ascii_end().len() {
        assert!(kinds(trace).contains(&FileCut), "cut at {end}: {:?}", trace.notices());
    }
    for (key, value) in &trace.info().properties {
        assert_eq!(whole.info().properties.get(key), Some(value), "cut at {end}: {key}");
    }
    // Of complete spans nothing changes; begins without their end last longer.
    if !whole.info().events_by_phase.keys().any(|phase| "BEbeSF".contains(phase)) {
        let spans = all_said(trace);
        let all = all_said(whole);
        let offsets = whole.spans().offset_column();
        let kept = offsets.iter().filter(|&&offset| {
            let at = events.partition_point(|event| (event.start as u64) < offset);
            events[at].end <= end
        });
        assert_eq!(spans.len(), kept.count(), "cut at {end}");
        assert!(spans.iter().all(|span| all.binary_search(span).is_ok()), "cut at {end}");
    }
}

#[test]
fn a_cut_file_reads_up_to_the_cut() {
    for path in committed() {
        let text = text_of(&path);
        let events = events_in(&text);
        let whole = read_bytes("a.json", &text).expect("a trace");
        for percent in 1..100 {
            let end = text.len() * percent / 100;
            match read_bytes("a.json", &text[..end]) {
                Ok(trace) => check_prefix(&trace, &whole, &events, &text, end),
                Err(_) => assert_eq!(events_before(&events, end), 0, "{}", path.display()),
            }
        }
    }
}

/// Every single place, in one small text of each shape.
#[test]
fn a_cut_anywhere_reads_up_to_the_cut() {
    let event = r#"{"ph": "X", "name": "a\"b", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2,
        "args": {"d": [[1], []], "x": 5, "y": "z"}}"#;
    let events = [event; 3].join(", ");
    let object = format!(
        r#"{{"schemaVersion": 1, "traceEvents": [{events}],
            "traceName": "t", "list": [1], "n": 12}}"#
    );
    for text in [object, format!("[{events}]")] {
        let events = events_in(text.as_bytes());
        let whole = read_bytes("a.json", text.as_bytes()).expect("a trace");
        for end in 1..text.len() {
            match read_bytes("a.json", &text.as_bytes()[..end]) {
                Ok(trace) => check_prefix(&trace, &whole, &events, text.as_bytes(), end),
                Err(_) => assert_eq!(events_before(&events, end), 0, "cut at {end}"),
            }
        }
    }
}

/// How much of cut compressed data can be inflated.
fn inflated(mut reader: impl Read) -> usize {
    let (mut buffer, mut len) = (vec![0; 1 << 16], 0);
    while let Ok(read @ 1..) = reader.read(&mut buffer) {
        len += read;
    }
    len
}

#[test]
fn a_cut_stream_reads_up_to_the_cut() {
    let text = text_of(&at_root("testdata/kineto/llama_small.json.gz"));
    let events = events_in(&text);
    let whole = read_bytes("a.json", &text).expect("a trace");
    let packed = [gzip(&text), zstd::encode_all(&*text, 3).expect("to memory")];
    for (packed, is_gzip) in packed.iter().zip([true, false]) {
        for percent in (5..100).step_by(5) {
            let cut = &packed[..packed.len() * percent / 100];
            let end = match is_gzip {
                true => inflated(flate2::read::GzDecoder::new(cut)),
                false => inflated(zstd::Decoder::with_buffer(cut).expect("zstd")),
            };
            match read_bytes("a.json.packed", cut) {
                Ok(trace) => {
                    check_prefix(&trace, &whole, &events, &text, end);
                    assert!(kinds(&trace).contains(&CompressedDataDamaged), "at {percent} %");
                }
                Err(error) => assert!(end < events[0].start, "at {percent} %: {error}"),
            }
        }
    }
}

#[test]
fn a_flipped_byte_in_a_stream_is_reported() {
    let text = text_of(&at_root("testdata/kineto/llama_small.json.gz"));
    let all = all_said(&read_bytes("a.json", &text).expect("a trace"));
    let mut packed = gzip(&text);
    let last = packed.len() - 6;
    packed[last] ^= 1;
    let trace = read_bytes("a.json.gz", &packed).expect("a trace");
    assert_eq!(all_said(&trace), all);
    assert!(kinds(&trace).contains(&CompressedDataDamaged), "the checksum is wrong");
}

/// Reads a text with `range` replaced; what lies outside must be as before.
#[track_caller]
fn check_range(text: &[u8], range: Range<usize>, with: &[u8]) {
    let events = events_in(text);
    let whole = read_bytes("a.json", text).expect("a trace");
    let touched = |offset: u64| {
        let is_at = |event: &&Range<usize>| event.start as u64 == offset;
        let event = events.iter().find(is_at).expect("offsets are those of events");
        event.start < range.end && range.start < event.end
    };
    let spans = whole.spans();
    let untouched = spans.ids().filter(|&span| !touched(spans.offset(span)));
    let mut untouched: Vec<_> = untouched.map(|span| traces::said(&whole, span)).collect();
    untouched.sort();
    let lost_max = spans.len() - untouched.len();
    let damaged = [&text[..range.start], with, &text[range.end..]].concat();
    let trace = read_bytes("a.json", &damaged).expect("a trace");
    let mut read = all_said(&trace);
    assert!(read.len() >= untouched.len() && read.len() <= untouched.len() + lost_max.max(1));
    let missing = untouched.iter().filter(|&span| match read.binary_search(span) {
        Ok(at) => {
            read.remove(at);
            false
        }
        Err(_) => true,
    });
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&traces::SpanText>::new(), "{range:?}");
    // Two halves of events may make a whole one; and nobody reads arguments yet.
    if read.len() + untouched.len() < spans.len() && !with.is_empty() {
        assert!(!damage_kinds(&trace, &whole).is_empty(), "{range:?}: nothing was reported");
    }
}

#[test]
fn a_hole_costs_what_was_there() {
    for name in ["kineto/llama_small.json.gz", "chrome/pretty.json", "chrome/bare_array.json"] {
        let text = text_of(&at_root("testdata").join(name));
        let events = events_in(&text);
        let (first, last) = (events[3].start, events[events.len() - 3].start);
        for part in 1..8 {
            for len in [1, 20, 64, 300, 1500] {
                let from = first + (last - first) * part / 8;
                let range = from..(from + len).min(last);
                check_range(&text, range.clone(), &vec![0; range.len()]);
                check_range(&text, range, b"");
            }
        }
    }
}

/// Puts text before the first member of the document, and behind its end.
#[track_caller]
fn check_around(before: &str, behind: &str, notices: &[NoticeKind]) {
    for name in ["kineto/llama_small.json.gz", "chrome/pretty.json", "chrome/torch_1_8.json"] {
        let text = text_of(&at_root("testdata").join(name)).trim_ascii().to_vec();
        let whole = read_bytes("a.json", &text).expect("a trace");
        let damaged = [b"{", before.as_bytes(), &text[1..], behind.as_bytes()].concat();
        for (file, bytes) in [("a.json", &damaged), ("a.json.gz", &gzip(&damaged))] {
            let trace = read_bytes(file, bytes).expect("a trace");
            assert!(all_said(&trace) == all_said(&whole), "{name}: {before} {behind}");
            assert_eq!(damage_kinds(&trace, &whole), notices, "{name}: {before} {behind}");
        }
    }
}

#[test]
fn damage_around_the_events_costs_no_event() {
    check_around("", "garbage", &[TrailingText]);
    check_around("", "\n{\"traceEvents\": []}", &[TrailingText]);
    check_around("", "\0\0\0", &[TrailingText]);
    check_around(r#""x": N/A, "#, "", &[BareWord]);
    check_around(r#""x": {"y": nan}, "#, "", &[MetadataSkipped]);
    check_around(r#""INFO": ["a", 1, "#, "", &[MetadataSkipped]);
    check_around(r#""INFO": [{"a": "b", "#, "", &[MetadataSkipped]);
    check_around(r#""INFO": {"a": ["b"}, "#, "", &[MetadataSkipped]);
    check_around(r#""INFO": ["a" "b"], "#, "", &[MetadataSkipped]);
    check_around(r#""x": "say "hi", "#, "", &[MetadataSkipped]);
    check_around(r#""x" 5, "#, "", &[MetadataSkipped]);
    check_around("garbage, ", "", &[MetadataSkipped]);
    check_around(r#""nested": {"traceEvents": [{"ph": "X"}]}, "#, "", &[MetadataSkipped]);
}
