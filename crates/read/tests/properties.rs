//! Random traces, written in random layouts, read back to what was written; order,
//! parents and launches compared with brute force (I1, I3); and random damage (I6).

mod traces;

use std::fmt::Write;

use proptest::prelude::*;
use spanwise_model::{SpanId, Trace};
use traces::{SpanText, all_said, read_bytes, said};

/// A span as it is to be written.
#[derive(Debug, Clone)]
struct PlannedSpan {
    name: String,
    category: &'static str,
    process: u8,
    thread: u8,
    start: i64,
    dur: i64,
    correlation: Option<u16>,
}

/// How a document is laid out.
#[derive(Debug, Clone)]
struct Layout {
    is_object: bool,
    /// Blanks between things, by turns.
    blanks: Vec<&'static str>,
    /// Where in the members each event begins to write them.
    turn: usize,
    ids_in_quotes: bool,
    times_in_quotes: bool,
    escapes_all: bool,
    decimals: usize,
    is_packed: bool,
}

const CATEGORIES: [&str; 6] = ["cpu_op", "kernel", "cuda_runtime", "gpu_memcpy", "", "other"];

fn written() -> impl Strategy<Value = PlannedSpan> {
    // Few threads and small times, so that spans nest, touch and overlap; and some
    // times as large as they get.
    let start = prop_oneof![6 => 0..60i64, 1 => -50..0i64, 1 => 1i64 << 59..1 << 60];
    let dur = prop_oneof![6 => 0..30i64, 1 => 0..1i64 << 60];
    let name = prop_oneof![3 => "[a-c]", 1 => ".{0,12}", 1 => "[\\\\\"/\u{0}-\u{1f}é😀]{0,6}"];
    let ids = (0..2u8, 0..3u8, 0..CATEGORIES.len(), proptest::option::of(0..8u16));
    (name, start, dur, ids).prop_map(|(name, start, dur, (process, thread, at, correlation))| {
        let category = CATEGORIES[at];
        PlannedSpan { name, category, process, thread, start, dur, correlation }
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    let blank = prop_oneof![Just(""), Just(" "), Just("\n  "), Just("\r\n\t")];
    let blanks = prop_oneof![Just(vec![""]), proptest::collection::vec(blank, 1..5)];
    let flags = any::<(bool, bool, bool, bool, bool)>();
    (blanks, 0..20usize, 3..7usize, flags).prop_map(|(blanks, turn, decimals, flags)| Layout {
        is_object: flags.0,
        blanks,
        turn,
        ids_in_quotes: flags.1,
        times_in_quotes: flags.2,
        escapes_all: flags.3,
        decimals,
        is_packed: flags.4,
    })
}

/// Where to change a text, to which byte, and how.
fn edit() -> impl Strategy<Value = (prop::sample::Index, u8, u8)> {
    (any::<prop::sample::Index>(), any::<u8>(), 0..3u8)
}

/// Writes documents; turns through the layout's choices.
struct Writer<'a> {
    layout: &'a Layout,
    text: String,
    turns: usize,
}

impl Writer<'_> {
    fn blank(&mut self) {
        self.turns += 1;
        self.text += self.layout.blanks[self.turns % self.layout.blanks.len()];
    }

    fn put(&mut self, text: &str) {
        self.blank();
        self.text += text;
        self.blank();
    }

    fn string(&self, text: &str) -> String {
        if !self.layout.escapes_all {
            return serde_json::to_string(text).expect("text");
        }
        let units = text.encode_utf16().fold(String::new(), |mut all, unit| {
            write!(all, "\\u{unit:04x}").expect("text");
            all
        });
        format!("\"{units}\"")
    }

    /// Nanoseconds as microseconds, digit by digit.
    fn time(&self, nanos: i64) -> String {
        let sign = if nanos < 0 { "-" } else { "" };
        let (whole, rest) = (nanos.unsigned_abs() / 1000, nanos.unsigned_abs() % 1000);
        let mut decimals = format!("{rest:03}000");
        decimals.truncate(self.layout.decimals);
        let quote = if self.layout.times_in_quotes { "\"" } else { "" };
        match rest == 0 && self.turns.is_multiple_of(2) {
            true => format!("{quote}{sign}{whole}{quote}"),
            false => format!("{quote}{sign}{whole}.{decimals}{quote}"),
        }
    }

    fn event(&mut self, span: &PlannedSpan) {
        let quote = if self.layout.ids_in_quotes { "\"" } else { "" };
        let mut members = vec![
            ("ph", "\"X\"".to_owned()),
            ("name", self.string(&span.name)),
            ("cat", format!("\"{}\"", span.category)),
            ("pid", format!("{quote}{}{quote}", span.process)),
            ("tid", format!("{quote}{}{quote}", span.thread)),
            ("ts", self.time(span.start)),
            ("dur", self.time(span.dur)),
        ];
        if let Some(correlation) = span.correlation {
            let args = format!("{{\"a\": [\"}}\", {{}}], \"correlation\": {correlation}}}");
            members.push(("args", args));
        }
        let len = members.len();
        members.rotate_left(self.layout.turn % len);
        self.put("{");
        for (at, (key, value)) in members.iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            self.put(&format!("\"{key}\""));
            self.text += ":";
            self.put(value);
        }
        self.put("}");
    }

    fn document(mut self, spans: &[PlannedSpan]) -> String {
        self.put(if self.layout.is_object { "{\"a\": [1], \"traceEvents\": [" } else { "[" });
        for (at, span) in spans.iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            self.event(span);
        }
        self.put(if self.layout.is_object { "], \"b\": {\"c\": \"]}\"}}" } else { "]" });
        self.text
    }
}

fn document(layout: &Layout, spans: &[PlannedSpan]) -> String {
    Writer { layout, text: String::new(), turns: 0 }.document(spans)
}

fn read_document(layout: &Layout, spans: &[PlannedSpan]) -> Trace {
    let text = document(layout, spans);
    let bytes = match layout.is_packed {
        true => traces::gzip(text.as_bytes()),
        false => text.clone().into_bytes(),
    };
    let trace = read_bytes("a.json", &bytes);
    trace.unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn expected(span: &PlannedSpan) -> SpanText {
    SpanText {
        name: span.name.clone(),
        start: span.start,
        dur: span.dur,
        process: span.process.to_string(),
        thread: span.thread.to_string(),
        category: span.category.to_owned(),
    }
}

/// The innermost span of the same track that was open when this one began, found by
/// checking all that stand before it.
fn parent_by_brute_force(trace: &Trace, span: SpanId) -> Option<SpanId> {
    let spans = trace.spans();
    let before = (0..span.0).rev().map(SpanId);
    let mut open = before.filter(|&other| {
        spans.track(other) == spans.track(span) && spans.end(other) > spans.start(span)
    });
    open.next()
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        spans in proptest::collection::vec(written(), 1..40),
        layout in layout(),
    ) {
        let trace = read_document(&layout, &spans);
        let mut all: Vec<SpanText> = spans.iter().map(expected).collect();
        all.sort();
        prop_assert_eq!(all_said(&trace), all);
        prop_assert_eq!(trace.info().events(), spans.len() as u64);
        let text_kinds = trace.notices().iter().filter(|notice| notice.kind.is_loss());
        prop_assert_eq!(text_kinds.count(), 0);
    }

    #[test]
    fn parents_and_order_are_those_of_brute_force(
        spans in proptest::collection::vec(written(), 1..40),
        layout in layout(),
    ) {
        let trace = read_document(&layout, &spans);
        let rows = trace.spans();
        for span in rows.ids() {
            prop_assert_eq!(rows.parent(span), parent_by_brute_force(&trace, span));
        }
        for track in trace.tracks().rows() {
            let key = |span: SpanId| (rows.start(span), -rows.dur(span), rows.offset(span));
            prop_assert!(track.span_ids().is_sorted_by_key(key));
        }
    }

    #[test]
    fn launches_are_those_of_brute_force(
        spans in proptest::collection::vec(written(), 1..40),
        layout in layout(),
    ) {
        let trace = read_document(&layout, &spans);
        let by_offset = |span: SpanId| {
            let before = |at: &PlannedSpan| expected(at) == said(&trace, span);
            spans.iter().filter(|at| before(at)).cloned().collect::<Vec<_>>()
        };
        for span in trace.spans().ids() {
            let origins = by_offset(span);
            // Spans that say the same cannot be distinguished here.
            let [origin] = &origins[..] else { continue };
            let is_gpu = matches!(origin.category, "kernel" | "gpu_memcpy");
            let launch = trace.spans().launch(span).map(|call| said(&trace, call));
            let calls = spans.iter().filter(|call| {
                is_gpu && call.category == "cuda_runtime" && call.correlation.is_some()
                    && call.correlation == origin.correlation
            });
            // Of several calls with one id, the last to begin is the launch.
            let last = calls.clone().map(|call| call.start).max();
            match launch {
                Some(launch) => prop_assert_eq!(Some(launch.start), last),
                None => prop_assert_eq!(calls.count(), 0),
            }
        }
    }

    #[test]
    fn damaged_documents_are_reported_or_refused(
        spans in proptest::collection::vec(written(), 1..12),
        layout in layout(),
        edits in proptest::collection::vec(edit(), 1..6),
    ) {
        let mut text = document(&layout, &spans).into_bytes();
        for (at, byte, edit) in edits {
            let at = at.index(text.len());
            match edit {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ if text.len() > 1 => drop(text.remove(at)),
                _ => {}
            }
        }
        if let Ok(trace) = read_bytes("a.json", &text) {
            // An edit may split an event's text into more, never lose one silently.
            let is_reported = trace.notices().iter().next().is_some();
            prop_assert!(trace.info().events() >= spans.len() as u64 || is_reported);
            spanwise_read::fuzzing::walk(&trace);
        }
    }
}
