//! The text of `perf script`: branches, stack samples and what goes with them.
//!
//! Recognized by its content. Blocks of whole records are read by all cores ([`lanes`]), each
//! with names of its own; the records then go through [`spanwise_callstack`] in order, which
//! makes calls of them. Memory is bounded by the calls and one wave of blocks.

mod branch_text;
mod form;
pub(crate) mod lanes;
mod line_head;
mod meta_lines;
pub(crate) mod parser;
mod place_text;
mod quick;
mod replay;

use spanwise_callstack::{FlowOptions, Traps};
use spanwise_model::{NoticeKind, SourceInfo, Trace};
use spanwise_symbols::JitMap;

use crate::ReadErrorKind;
use crate::binary::{Feed, Records};
use crate::perf::timeline::Timeline;
use form::{Form, HEAD_BYTES, Times};
use lanes::{Lane, Lanes, whole_records};
use parser::ParseOptions;
pub(crate) use replay::replay_text;
pub use replay::{PerfOptions, open_perf, replay_perf};

/// How much text one core reads at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// How many of the first lines may be something else, such as a warning.
pub(crate) const LINES_BEFORE_MAX: usize = 64;

/// True where one of the first lines is an event of perf.
pub(crate) fn seems_perf_script(head: &[u8]) -> bool {
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    if matches!(first, None | Some(b'{' | b'[' | 0)) {
        return false;
    }
    let form = &Form::of(head);
    if form.is_unusual() {
        return true;
    }
    let map = JitMap::default();
    let lines = head.split_inclusive(|&byte| byte == b'\n').take(LINES_BEFORE_MAX);
    let mut lines = lines.filter(|line| line.ends_with(b"\n") || line.len() < head.len());
    let options = ParseOptions { map: &map, form, keeps_all: true };
    let mut lane = Lane::default();
    let mut is_event = |line| !parser::parse(line, 0, options, &mut lane).records.is_empty();
    lines.any(|line| line.len() < 1 << 14 && is_event(line))
}

/// Reads the text of `perf script`.
pub(crate) struct Reader {
    map: JitMap,
    keeps_all: bool,
    /// Known once the first part of a text is there.
    form: Option<Form>,
    lanes: Lanes,
    timeline: Timeline,
}

impl Default for Reader {
    fn default() -> Self {
        Reader::new(1, JitMap::default(), Traps::default())
    }
}

impl Reader {
    pub(crate) fn new(threads: usize, map: JitMap, traps: Traps) -> Self {
        let keeps_all = !traps.is_empty();
        let timeline = Timeline::new(FlowOptions { traps });
        let lanes = Lanes::new(threads, BLOCK_BYTES);
        Reader { map, keeps_all, form: None, lanes, timeline }
    }

    /// With other blocks than usual, for tests: the same must come out.
    pub(crate) fn with_blocks(block_bytes: usize) -> Self {
        Reader { lanes: Lanes::new(3, block_bytes), ..Reader::default() }
    }

    /// What follows was recorded apart from what was before.
    fn new_snapshot(&mut self) {
        self.timeline.new_snapshot();
        self.lanes.new_text();
        self.form = None;
    }
}

impl Feed for Reader {
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize {
        if self.form.is_none() && bytes.len() < HEAD_BYTES && !is_last {
            return 0;
        }
        let of_head = || Form::of(&bytes[..bytes.len().min(HEAD_BYTES)]);
        let form = &*self.form.get_or_insert_with(of_head);
        let whole = if is_last { bytes.len() } else { whole_records(bytes, form) };
        // Each line is needed to know the time of the next.
        let keeps_all = self.keeps_all || form.times == Times::SinceBefore;
        let options = ParseOptions { map: &self.map, form, keeps_all };
        self.lanes.read(&bytes[..whole], base, options, &mut self.timeline);
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
