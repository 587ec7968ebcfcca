//! What fuzzing calls, and the replay of its corpora: any bytes to a trace that can
//! be walked, or to an error (I6, I8). Not part of the interface.

mod files;
mod generated;

use std::path::Path;
use std::sync::OnceLock;

use spanwise_files::FileBytes;
use spanwise_model::{LabelValue, NoticeKind, Profile, SourceInfo, StrId, Trace};

use crate::binary::Records;
use crate::binary::{fxt, perfetto, session};
use crate::index::forge::Forgery;
use crate::input::{Compression, LazyText, Stream};
use crate::json;
use crate::json::Effort;
use crate::profile;
use crate::profile::NotAProfile;
use crate::{ReadErrorKind, perf};

pub use files::{index_mapped, side_files};
pub use generated::profiles;

/// Reads `input` as JSON in three ways: at once, in small blocks, as a stream in
/// small waves. Each gives the same trace, or each refuses it.
pub fn json(input: &[u8]) {
    let Some((&[block, wave], text)) = input.split_first_chunk::<2>() else { return };
    let effort = |threads, block_bytes| Effort { threads, progress: None, total: 0, block_bytes };
    let lazy = || LazyText::ready(Path::new("fuzz"), FileBytes::from(text.to_vec()));
    let whole = json::read_text(text, effort(1, 1 << 30), SourceInfo::default(), lazy());
    let block_bytes = 1 + usize::from(block) * 4;
    let blocks = json::read_text(text, effort(1, block_bytes), SourceInfo::default(), lazy());
    let wave_bytes = 1 + text.len() * usize::from(wave) / 256;
    let waves = Stream::new(
        FileBytes::from(text.to_vec()),
        Compression::None,
        wave_bytes.max(text.len() / 8),
    )
    .map_err(ReadErrorKind::from)
    .and_then(|stream| {
        json::read_stream(stream, effort(1, block_bytes), SourceInfo::default(), lazy())
    });
    let whole = whole.ok();
    if let Some(whole) = &whole {
        walk(whole);
    }
    assert_eq!(whole.as_ref().map(image), blocks.ok().as_ref().map(image), "blocks");
    assert_eq!(whole.as_ref().map(image), waves.ok().as_ref().map(image), "waves");
}

/// Edits a small index as `input` says and opens it.
pub fn index(input: &[u8]) {
    static INDEX: OnceLock<Forgery> = OnceLock::new();
    let text = SAMPLE.as_bytes();
    let args = || LazyText::ready(Path::new("fuzz"), FileBytes::from(text.to_vec()));
    let whole = INDEX.get_or_init(|| {
        let effort = Effort { threads: 1, progress: None, total: 0, block_bytes: 1 << 20 };
        let trace = json::read_text(text, effort, SourceInfo::default(), args());
        Forgery::of(&trace.expect("the sample is a trace")).expect("to memory")
    });
    let mut forgery = whole.clone();
    forgery.edit(input);
    if let Ok(trace) = forgery.open(Box::new(args())) {
        walk(&trace);
    }
}

/// Reads `input` as a Perfetto trace, at once and in pieces.
pub fn perfetto(input: &[u8]) {
    records::<perfetto::Reader>(input);
}

/// Reads `input` as a Fuchsia trace, at once and in pieces.
pub fn fxt(input: &[u8]) {
    records::<fxt::Reader>(input);
}

/// Reads `input` as a session of a program with spans of its own, at once and in pieces.
pub fn session(input: &[u8]) {
    records::<session::Reader>(input);
}

/// Reads `input` as text of `perf script`: at once, in pieces, and in small blocks.
pub fn perf_script(input: &[u8]) {
    records::<perf::Reader>(input);
    records::<perf::TextReader<perf::SystemCalls>>(input);
    records::<perf::TextReader<perf::TimeHist>>(input);
    let Some((&piece, text)) = input.split_first() else { return };
    let whole = fed_to(perf::Reader::default(), text, text.len().max(1)).ok();
    let block_bytes = 1 + usize::from(piece) * 4;
    let blocks = fed_to(perf::Reader::with_blocks(block_bytes), text, text.len().max(1)).ok();
    assert_eq!(whole.as_ref().map(image), blocks.as_ref().map(image), "blocks");
    perf::replay_text(text);
    let _ = perf::seems_perf_script(text);
}

/// Reads `input` as a recording of perf, at once and in pieces.
pub fn perf_data(input: &[u8]) {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let read = |size: usize| fed_to(perf::data::Reader::closed(), bytes, size.max(1)).ok();
    let (whole, pieces) = (read(bytes.len()), read(usize::from(piece)));
    assert_eq!(whole.as_ref().map(image), pieces.as_ref().map(image), "in pieces");
}

/// Reads `input` as a recording of perf behind the code that ran, at once and in pieces: so that
/// there is something to follow packets through.
pub fn intel_pt(input: &[u8]) {
    let [code_len, piece, rest @ ..] = input else { return };
    let (code, bytes) = rest.split_at(rest.len().min(usize::from(*code_len) * 16));
    let reader = || perf::data::Reader::with_file("/code", code);
    let read = |size: usize| fed_to(reader(), bytes, size.max(1)).ok();
    let (whole, pieces) = (read(bytes.len()), read(usize::from(*piece) * 16));
    assert_eq!(whole.as_ref().map(image), pieces.as_ref().map(image), "in pieces");
}

/// What text of `perf script` stands for.
pub fn perf_script_trace(text: &[u8]) -> Trace {
    let read = fed_to(perf::Reader::default(), text, text.len().max(1));
    read.expect("any text is read to its end")
}

/// The first byte says how large the pieces are; both ways give the same trace.
fn records<Reader: Records + Default + 'static>(input: &[u8]) {
    let Some((&piece, bytes)) = input.split_first() else { return };
    let whole = fed::<Reader>(bytes, bytes.len().max(1)).ok();
    let pieces = fed::<Reader>(bytes, 1 + usize::from(piece) * 4).ok();
    if let Some(whole) = &whole {
        walk(whole);
    }
    assert_eq!(whole.as_ref().map(image), pieces.as_ref().map(image), "pieces");
}

fn fed<Reader: Records + Default + 'static>(
    bytes: &[u8],
    piece_bytes: usize,
) -> Result<Trace, ReadErrorKind> {
    fed_to(Reader::default(), bytes, piece_bytes)
}

fn fed_to<Reader: Records + 'static>(
    reader: Reader,
    bytes: &[u8],
    piece_bytes: usize,
) -> Result<Trace, ReadErrorKind> {
    let mut records = Box::new(reader);
    let (mut done, mut seen) = (0, 0);
    while seen < bytes.len() {
        seen = bytes.len().min(seen + piece_bytes);
        done += records.feed(&bytes[done..seen], done as u64, seen == bytes.len());
    }
    records.finish(SourceInfo::default(), 1)
}

/// Reads `input` as a profile of pprof.
pub fn pprof(input: &[u8]) {
    read_profile(input, profile::pprof::read);
}

/// Reads `input` as collapsed stacks.
pub fn folded(input: &[u8]) {
    read_profile(input, profile::folded::read);
}

/// Reads `input` as a profile of speedscope.
pub fn speedscope(input: &[u8]) {
    read_profile(input, profile::speedscope::read);
}

/// The same profile each time, and every part of it there; or refused each time.
fn read_profile(input: &[u8], read: fn(&[u8]) -> Result<Profile, NotAProfile>) {
    let profile = read(input);
    assert_eq!(read(input), profile, "the second time");
    let Ok(profile) = profile else { return };
    let columns = profile.value_types.len();
    assert!(columns == 0 || profile.default_value < columns, "the default column");
    assert_eq!(profile.totals().len(), columns);
    for (row, sample) in profile.samples.iter().enumerate() {
        assert_eq!(profile.values_of(row).len(), columns);
        for frame in profile.frames_of(sample.stack) {
            let _ = [frame.name, frame.group, frame.file].map(|text| profile.text(text));
        }
        for label in &profile.label_sets[sample.labels as usize] {
            let value = match label.value {
                LabelValue::Text(text) | LabelValue::Number { unit: text, .. } => text,
            };
            let _ = (profile.text(label.key), profile.text(value));
        }
    }
}

/// One event of each sort.
const SAMPLE: &str = r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}],
"traceEvents": [
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"main"}},
{"ph":"X","name":"call","cat":"cpu_op","pid":1,"tid":1,"ts":1,"dur":50,"args":{"x":[1,"é"]}},
{"ph":"X","name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"ts":2,"dur":3,
 "args":{"correlation":7}},
{"ph":"X","name":"kernel","cat":"kernel","pid":0,"tid":7,"ts":9,"dur":4,"args":{"correlation":7}},
{"ph":"B","name":"pair","pid":1,"tid":2,"ts":3},{"ph":"E","pid":1,"tid":2,"ts":8},
{"ph":"b","name":"lane","cat":"net","id":5,"pid":1,"ts":3},
{"ph":"e","name":"lane","cat":"net","id":5,"pid":1,"ts":9},
{"ph":"s","name":"f","cat":"flow","id":1,"pid":1,"tid":1,"ts":4},
{"ph":"f","name":"f","cat":"flow","id":1,"pid":1,"tid":2,"ts":5,"bp":"e"},
{"ph":"i","name":"mark","pid":1,"tid":1,"ts":6},
{"ph":"C","name":"c","pid":1,"ts":7,"args":{"v":1.5}},
{"ph":"X","name":"N/A","pid":1,"tid":1,"ts":60,"dur":N/A}], "traceName": "sample"}"#;

/// Asks a trace for everything it has.
pub fn walk(trace: &Trace) {
    walk_columns(trace);
    trace.spans().ids().for_each(|span| drop(trace.args(span)));
}

/// All but the arguments of spans, each of which may read as far as the text goes.
fn walk_columns(trace: &Trace) {
    assert_eq!(trace.check(), Ok(()));
    let summary = trace.summary();
    assert_eq!(summary.spans as usize, trace.spans().len());
    for span in trace.spans().ids() {
        let spans = trace.spans();
        assert!(spans.end(span) >= spans.start(span));
        let related = [spans.parent(span), spans.launch(span)];
        let names = related.into_iter().flatten().map(|other| trace.name(other).len());
        let _ = (names.sum::<usize>(), trace.name(span), trace.kind(span));
        let _ = trace.tracks().get(spans.track(span));
    }
    let strings = trace.strings();
    for &name in trace.instants().name.iter() {
        let _ = strings.get(StrId(name));
    }
    for (from, to) in trace.links().iter() {
        let _ = (trace.name(from), trace.name(to));
    }
    let _ = (trace.info().events(), trace.window());
}

/// What a reader decides about a trace.
fn image(trace: &Trace) -> String {
    let others = (trace.instants(), trace.links(), trace.counters().time.clone());
    let strings = trace.strings().bytes().as_slice();
    let tracks = (trace.tracks(), trace.categories(), &trace.info().properties);
    // How much of an example is at hand depends on where the text was cut; so does
    // whether a comma is missed exactly there.
    let is_sure = |kind| !matches!(kind, NoticeKind::MissingComma | NoticeKind::ExtraComma);
    let notices = trace.notices().iter().filter(|notice| is_sure(notice.kind));
    let notices = notices.map(|notice| (notice.kind, notice.count, notice.first_offset));
    let notices: Vec<_> = notices.collect();
    format!("{:?}{others:?}{strings:?}{tracks:?}{notices:?}", trace.spans())
}
