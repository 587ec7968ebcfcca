//! What the tests of the reader share: where traces lie, and how two compare.
#![allow(dead_code, reason = "each test uses its part")]

use std::ops::Range;
use std::path::{Path, PathBuf};

use spanwise_model::{NoticeKind, SpanId, Trace};
use spanwise_read::{IndexUse, OpenOptions, ReadError};

/// A path below the root of the repository.
pub(crate) fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Every file below a folder, in order of path.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .into_iter()
        .flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] })
        .collect()
}

/// The same without indexes: somebody may have opened a trace, which leaves one beside it.
pub(crate) fn recordings_below(folder: &Path) -> Vec<PathBuf> {
    let mut paths = files_below(folder);
    paths.retain(|path| !path.to_string_lossy().contains(".spanwise/"));
    paths
}

/// The recordings that travel with the repository.
pub(crate) fn committed() -> Vec<PathBuf> {
    let folders = [at_root("testdata/kineto"), at_root("testdata/chrome")];
    folders
        .iter()
        .flat_map(|folder| recordings_below(folder))
        .filter(|path| is_json(path))
        .collect()
}

pub(crate) fn is_json(path: &Path) -> bool {
    let name = path.to_string_lossy();
    [".json", ".json.gz", ".json.xz", ".json.zst"].iter().any(|end| name.ends_with(end))
}

/// Reads a source, never an index; what comes out keeps the invariants.
#[track_caller]
pub(crate) fn read(path: &Path) -> Result<Trace, ReadError> {
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    let trace = spanwise_read::open(path, &options)?;
    assert_eq!(trace.check(), Ok(()), "{}", path.display());
    Ok(trace)
}

/// Reads text as if it stood in a file of this name.
#[track_caller]
pub(crate) fn read_bytes(name: &str, bytes: &[u8]) -> Result<Trace, ReadError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("writable");
    read(&path)
}

/// The text of a file, inflated.
pub(crate) fn text_of(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("readable");
    let mut text = Vec::new();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*bytes), &mut text)
            .expect("whole"),
        false => {
            text = bytes;
            0
        }
    };
    text
}

pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, text).expect("to memory");
    encoder.finish().expect("to memory")
}

/// A span by what it says, so that spans of two readings can be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpanText {
    pub(crate) name: String,
    pub(crate) start: i64,
    pub(crate) dur: i64,
    pub(crate) process: String,
    pub(crate) thread: String,
    pub(crate) category: String,
}

pub(crate) fn said(trace: &Trace, span: SpanId) -> SpanText {
    let text = |id| trace.strings().get(id).to_owned();
    let spans = trace.spans();
    let track = trace.tracks().get(spans.track(span));
    SpanText {
        name: trace.name(span).to_owned(),
        start: spans.start(span),
        dur: spans.dur(span),
        process: text(track.process),
        thread: text(track.thread),
        category: text(trace.categories().get(spans.category(span)).name),
    }
}

/// All spans by what they say, in order.
pub(crate) fn all_said(trace: &Trace) -> Vec<SpanText> {
    let mut all: Vec<SpanText> = trace.spans().ids().map(|span| said(trace, span)).collect();
    all.sort();
    all
}

pub(crate) fn kinds(trace: &Trace) -> Vec<NoticeKind> {
    trace.notices().iter().map(|notice| notice.kind).collect()
}

/// Everything in a trace, as text: equal images mean equal traces (I8).
pub(crate) fn image(trace: &Trace) -> String {
    let strings = trace.strings();
    let values: Vec<u64> = trace.counters().value.iter().map(|value| value.to_bits()).collect();
    format!(
        "{:?}\n{:?} {:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?} {values:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        trace.spans(),
        strings.offsets(),
        strings.bytes().as_slice(),
        trace.categories(),
        trace.tracks(),
        trace.instants(),
        trace.counters().time,
        trace.counters().track,
        trace.links(),
        trace.info(),
        trace.notices(),
        trace.summary(),
    )
}

/// Where the events of an undamaged text stand: found by brackets and quotes alone.
pub(crate) fn events_in(text: &[u8]) -> Vec<Range<usize>> {
    let key = b"\"traceEvents\"";
    let from = text.windows(key.len()).position(|bytes| bytes == key).unwrap_or(0);
    let open = from + text[from..].iter().position(|&byte| byte == b'[').expect("an array");
    let (mut events, mut depth, mut start) = (Vec::new(), 0, 0);
    let (mut in_string, mut is_escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate().skip(open + 1) {
        if in_string {
            in_string = byte != b'"' || is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                start = if depth == 0 { at } else { start };
                depth += 1;
            }
            b'}' | b']' if depth == 0 => break,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    events.push(start..at + 1);
                }
            }
            _ => {}
        }
    }
    events
}

/// What damage to the text is reported: the kinds that speak of the text, not of what
/// events say, and that `whole` does not have.
pub(crate) fn damage_kinds(trace: &Trace, whole: &Trace) -> Vec<NoticeKind> {
    let known = kinds(whole);
    let is_new = |kind: &NoticeKind| *kind <= NoticeKind::TooDamaged && !known.contains(kind);
    kinds(trace).into_iter().filter(is_new).collect()
}
