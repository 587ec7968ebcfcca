//! JSON traces: PyTorch's Kineto and anything in Chrome's trace event format.
//!
//! `blocks` reads the events on all cores, straight into batches; `document` reads
//! what stands around them; `scan` and `event` are the strict and quick way,
//! `lenient` the one for damage.

mod args;
mod blocks;
mod document;
mod emit;
pub(crate) mod kineto;
mod samples;
mod syntax;

use spanwise_model::{NoticeKind, SourceInfo, Trace, TraceBuilder};

pub(crate) use args::{args_at, pick_at};
use blocks::Region;
pub(crate) use blocks::{BLOCK_BYTES, Effort};
use document::Document;

use crate::ReadErrorKind;
use crate::input::waves::{TextPart, read_waves};
use crate::input::{LazyText, Stream};

/// Reads a source whose whole text is at hand.
pub(crate) fn read_text(
    text: &[u8],
    effort: Effort<'_>,
    info: SourceInfo,
    args: LazyText,
) -> Result<Trace, ReadErrorKind> {
    let mut document = Document::new();
    document.feed(Region { text, base: 0, is_last: true }, effort)?;
    let end = End { text_bytes: text.len() as u64, head: &text[..text.len().min(64)] };
    finish(document, end, info, effort, args)
}

/// Reads a compressed source.
pub(crate) fn read_stream(
    stream: Stream,
    effort: Effort<'_>,
    info: SourceInfo,
    args: LazyText,
) -> Result<Trace, ReadErrorKind> {
    let mut document = Document::new();
    let mut head = Vec::new();
    // One thread inflates. Progress counts bytes of the file, not of the text.
    let threads = effort.threads.saturating_sub(1).max(1);
    let reading = Effort { threads, progress: None, ..effort };
    let progress = |bytes| effort.progress.iter().for_each(|report| report(bytes, effort.total));
    let end = read_waves(stream, progress, |TextPart { bytes, base, is_last }| {
        if base == 0 && head.is_empty() {
            head = bytes[..bytes.len().min(64)].to_vec();
        }
        document.feed(Region { text: bytes, base, is_last }, reading)
    })?;
    if let Some(error) = &end.damage {
        let what = error.to_string();
        document.notices.add(NoticeKind::CompressedDataDamaged, end.bytes, what.as_bytes());
    }
    finish(document, End { text_bytes: end.bytes, head: &head }, info, effort, args)
}

/// What is known once the text has ended.
struct End<'a> {
    text_bytes: u64,
    head: &'a [u8],
}

fn finish(
    mut document: Document,
    end: End<'_>,
    mut info: SourceInfo,
    effort: Effort<'_>,
    args: LazyText,
) -> Result<Trace, ReadErrorKind> {
    document.end(end.text_bytes, end.head)?;
    info.text_bytes = end.text_bytes;
    kineto::describe(&mut info, &document.properties);
    let observed = document.observed();
    let mut builder = TraceBuilder::new(effort.threads);
    for batch in document.batches.into_iter().chain(observed) {
        builder.push(batch);
    }
    builder.notices(&document.notices);
    Ok(builder.finish(info, Some(Box::new(args))))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use super::*;
    use crate::input::Compression;
    use spanwise_files::FileBytes;

    fn effort(threads: usize, block_bytes: usize) -> Effort<'static> {
        Effort { threads, progress: None, total: 0, block_bytes }
    }

    fn lazy() -> LazyText {
        LazyText::new(Path::new("absent"))
    }

    /// Everything about a trace that a reader decides.
    fn image(trace: &Trace) -> String {
        let spans = trace.spans();
        let columns = format!(
            "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
            spans.start_column(),
            spans.dur_column(),
            spans.name_column(),
            spans.category_column(),
            spans.track_column(),
            spans.parent_column(),
            spans.launch_column(),
            spans.offset_column(),
        );
        let strings: Vec<&str> = (0..trace.strings().len() as u32)
            .map(|id| trace.strings().get(spanwise_model::StrId(id)))
            .collect();
        let others = (trace.instants(), trace.counters(), trace.links(), trace.tracks());
        format!("{columns}{strings:?}{others:?}{:?}", trace.notices())
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).expect("to memory");
        encoder.finish().expect("to memory")
    }

    /// One text, cut and inflated in many ways, is always the same trace.
    #[track_caller]
    fn check(text: &str) {
        let text = text.as_bytes();
        let info = SourceInfo::default;
        let whole = read_text(text, effort(1, usize::MAX / 2), info(), lazy()).expect("a trace");
        assert_eq!(whole.check(), Ok(()));
        for (threads, block_bytes) in [(1, 1), (2, 40), (3, 97), (2, 1000), (4, 4096)] {
            let cut = read_text(text, effort(threads, block_bytes), info(), lazy());
            assert_eq!(image(&cut.expect("a trace")), image(&whole), "blocks of {block_bytes}");
        }
        for wave_bytes in [1, 50, 333, 5000] {
            let bytes = FileBytes::from(gzip(text));
            let stream = Stream::new(bytes, Compression::Gzip, wave_bytes).expect("gzip");
            let inflated = read_stream(stream, effort(2, 100), info(), lazy());
            assert_eq!(image(&inflated.expect("a trace")), image(&whole), "waves of {wave_bytes}");
        }
    }

    #[test]
    fn cuts_do_not_show() {
        let events = (0..40).map(|at| {
            format!(
                "{{\n \"ph\": \"X\", \"name\": \"f{}\", \"pid\": 1, \"tid\": {}, \"ts\": {}.5, \
                 \"dur\": 3, \"args\": {{\"x\": \"}}, {{\"}}}}",
                at % 7,
                at % 3,
                100 - at
            )
        });
        let events = events.collect::<Vec<_>>().join(",\n  ");
        check(&format!(
            "{{\"schemaVersion\": 1, \"traceEvents\": [{events}], \"traceName\": \"x\"}}"
        ));
        check(&format!("[{events}]"));
        check(&format!("[{events}"));
    }

    #[test]
    fn events_inside_events_are_arguments() {
        let inner = r#"{"ph": "X", "ts": 1, "dur": 1, "name": "inner"}"#;
        let many = vec![inner; 30].join(", ");
        let outer = format!(
            r#"{{"ph": "X", "ts": 5, "dur": 1, "name": "outer", "args": {{"list": [{many}]}}}}"#
        );
        let text = format!("[{outer}, {outer}, {inner}]");
        check(&text);
        let trace = read_text(text.as_bytes(), effort(2, 60), SourceInfo::default(), lazy());
        assert_eq!(trace.expect("a trace").spans().len(), 3);
    }

    #[test]
    fn damage_reads_the_same_however_it_is_cut() {
        let good = r#"{"ph": "X", "ts": 1, "dur": 1, "name": "good", "pid": 1, "tid": 2}"#;
        for bad in [
            r#"{"ph": "X", "ts": 2, "dur": 1, "name": "a"b"c"}"#,
            r#"{"ph": "X", "ts": 2, "dur": N/A, "name": "a"}"#,
            r#"{"ph": "X", "ts": 2,, "dur": 1, "name": "a",}"#,
            r#"{"ph": "X", "ts": 2, "dur": 1, "args": {"x": [1, 2}}"#,
            r#"garbage"#,
            r#"17"#,
            ", ",
        ] {
            check(&format!("[{good}, {good}, {bad}, {good}, {good}, {good}]"));
        }
    }
}
