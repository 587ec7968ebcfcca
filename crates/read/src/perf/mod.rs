//! The text of `perf script`: branches, stack samples and what goes with them.
//!
//! Told by its content. Blocks of whole records are read by all cores, each with names of
//! its own; the records then go through [`spanwise_flow`] in order, which makes calls of
//! them. Memory is bounded by the calls and one wave of blocks.

mod branch;
pub(crate) mod data;
mod event;
mod header;
mod map;
mod meta;
mod off_cpu;
mod parser;
mod place;
mod record;
mod script;
mod text;
mod trace;
mod tracepoint;

use spanwise_flow::{FlowOptions, Traps};
use spanwise_model::{NoticeKind, SourceInfo, Trace, map_indices};

use crate::ReadErrorKind;
use crate::binary::{Feed, Records};
use map::PerfMap;
use parser::{Block, ParseOptions};
pub(crate) use script::replay_text;
pub use script::{PerfOptions, open_perf, replay_perf};
use trace::Timeline;

/// How much text one core reads at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// How many of the first lines may be something else, such as a warning.
const LINES_BEFORE_MAX: usize = 64;

/// True where one of the first lines is an event of perf.
pub(crate) fn seems_perf_script(head: &[u8]) -> bool {
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    if matches!(first, None | Some(b'{' | b'[' | 0)) {
        return false;
    }
    let map = PerfMap::default();
    let lines = head.split_inclusive(|&byte| byte == b'\n').take(LINES_BEFORE_MAX);
    let mut lines = lines.filter(|line| line.ends_with(b"\n") || line.len() < head.len());
    let options = ParseOptions { map: &map, keeps_all: true };
    lines.any(|line| line.len() < 1 << 14 && !parser::parse(line, 0, options).records.is_empty())
}

/// Reads the text of `perf script`.
pub(crate) struct Reader {
    map: PerfMap,
    threads: usize,
    keeps_all: bool,
    block_bytes: usize,
    timeline: Timeline,
}

impl Default for Reader {
    fn default() -> Self {
        Reader::new(1, PerfMap::default(), Traps::default())
    }
}

impl Reader {
    pub(crate) fn new(threads: usize, map: PerfMap, traps: Traps) -> Self {
        let keeps_all = !traps.is_empty();
        let timeline = Timeline::new(FlowOptions { traps });
        Reader { map, threads, keeps_all, block_bytes: BLOCK_BYTES, timeline }
    }

    /// With other blocks than usual, for tests: the same must come out.
    pub(crate) fn with_blocks(block_bytes: usize) -> Self {
        Reader { block_bytes, ..Reader::default() }
    }

    /// What follows was recorded apart from what was before.
    fn new_snapshot(&mut self) {
        self.timeline.new_snapshot();
    }
}

impl Feed for Reader {
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize {
        let whole = if is_last { bytes.len() } else { whole_records(bytes) };
        let options = ParseOptions { map: &self.map, keeps_all: self.keeps_all };
        let timeline = &mut self.timeline;
        each_block(&bytes[..whole], base, (self.threads, self.block_bytes), options, |block| {
            timeline.add(block);
        });
        whole
    }

    fn notice(&mut self, kind: NoticeKind, offset: u64, example: &[u8]) {
        self.timeline.notices.add(kind, offset, example);
    }
}

impl Records for Reader {
    fn finish(self: Box<Self>, info: SourceInfo, threads: usize) -> Result<Trace, ReadErrorKind> {
        Ok(self.timeline.finish(info, threads))
    }
}

/// Reads blocks on all cores, and hands them over in order.
fn each_block(
    text: &[u8],
    base: u64,
    (threads, block_bytes): (usize, usize),
    options: ParseOptions<'_>,
    mut take: impl FnMut(Block),
) {
    let mut from = 0;
    while from < text.len() {
        let mut blocks = Vec::new();
        while from < text.len() && blocks.len() < 2 * threads {
            let rest = &text[from..];
            let len = match rest.get(..block_bytes) {
                None => rest.len(),
                Some(_) => record_end(rest, block_bytes),
            };
            blocks.push((from, &rest[..len]));
            from += len;
        }
        let parsed = map_indices(blocks.len(), threads, |index| {
            let (at, text) = blocks[index];
            parser::parse(text, base + at as u64, options)
        });
        parsed.into_iter().for_each(&mut take);
    }
}

/// True where a record begins: at a line that is neither a frame nor beside one.
fn begins_record(text: &[u8]) -> bool {
    match text.first() {
        None | Some(b'\t' | b'\n' | b'\r') => false,
        // Names are set to the right, and lines of source stand between frames.
        Some(b' ') => {
            let end = memchr::memchr(b'\n', text).unwrap_or(text.len());
            header::Header::read(&text[..end]).is_some()
        }
        Some(_) => true,
    }
}

/// Where the first record ends at or behind `from`.
fn record_end(text: &[u8], from: usize) -> usize {
    let ends = memchr::memchr_iter(b'\n', &text[from..]).map(|end| from + end + 1);
    let mut ends = ends.filter(|&end| begins_record(&text[end..]));
    ends.next().unwrap_or(text.len())
}

/// How much of a text that goes on is surely whole records.
fn whole_records(text: &[u8]) -> usize {
    let ends = memchr::memrchr_iter(b'\n', text).map(|end| end + 1);
    let mut ends = ends.filter(|&end| begins_record(&text[end..]));
    ends.next().unwrap_or(0)
}
