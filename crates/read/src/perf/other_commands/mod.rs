//! Texts of perf's other commands: lines in whatever order, which become a trace in order
//! of time.
//!
//! `perf trace` prints a call when it has returned, `perf sched timehist` how long a thread
//! waited when it leaves its processor. So all records are gathered first.

pub(crate) mod system_calls;
pub(crate) mod timehist;

use spanwise_callstack::{FlowOptions, FunctionId, Location, Names, ThreadKey};
use spanwise_model::{Nanos, NoticeKind, SourceInfo, StrId, Trace};

use crate::ReadErrorKind;
use crate::binary::{Feed, Records};
use crate::perf::record::{Record, RecordContent};
use crate::perf::script::LINES_BEFORE_MAX;
use crate::perf::script::lanes::Join;
use crate::perf::timeline::Timeline;

/// One sort of text.
pub(crate) trait Lines: Default {
    /// What it is called in the answer of `info`.
    const FORMAT: &'static str;

    /// True for a line that no other sort of text has.
    fn is_typical(line: &[u8]) -> bool;

    fn line(&mut self, line: &[u8], offset: u64, gathered: &mut RecordList);

    /// There are no more lines.
    fn end(&mut self, gathered: &mut RecordList);
}

/// True where one of the first lines is typical of the text.
pub(crate) fn seems<L: Lines>(head: &[u8]) -> bool {
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    let lines = head.split(|&byte| byte == b'\n').take(LINES_BEFORE_MAX);
    !matches!(first, None | Some(b'{' | b'[' | 0)) && lines.into_iter().any(L::is_typical)
}

/// All records up to now.
pub(crate) struct RecordList {
    timeline: Timeline,
    records: Vec<Record>,
}

/// Who did something, and on which processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doer {
    pub(crate) thread: ThreadKey,
    pub(crate) comm: StrId,
    pub(crate) cpu: Option<u32>,
}

impl RecordList {
    pub(crate) fn names(&mut self) -> &mut Names {
        self.timeline.names()
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) -> StrId {
        match self.names().find_string(bytes) {
            Some(known) => known,
            None => self.names().string(&String::from_utf8_lossy(bytes)),
        }
    }

    /// A frame that is identified by name; the file may be empty.
    pub(crate) fn place(&mut self, name: &[u8], file: &[u8]) -> Location {
        let is_inlined = file == b"inlined";
        let file = if is_inlined { b"" } else { file };
        let function = match name {
            b"" | b"[unknown]" => match file {
                b"" => FunctionId::UNKNOWN,
                file => self.names().unknown(&String::from_utf8_lossy(file)),
            },
            name => {
                let (name, file) = (String::from_utf8_lossy(name), String::from_utf8_lossy(file));
                self.names().function(&name, &file)
            }
        };
        Location { function, is_inlined, ..Location::NOWHERE }
    }

    pub(crate) fn push(&mut self, doer: Doer, time: Nanos, offset: u64, what: RecordContent) {
        let Doer { thread, comm, cpu } = doer;
        self.records.push(Record { offset, thread, comm, time: Some(time), cpu, what });
    }

    /// The latest time that anything is known of.
    pub(crate) fn last_time(&self) -> Nanos {
        let times = self.records.iter().map(|record| match record.what {
            RecordContent::Stood { until, .. } => until,
            _ => record.time.unwrap_or(Nanos::MIN),
        });
        times.max().unwrap_or(Nanos::MIN)
    }

    pub(crate) fn notice(&mut self, kind: NoticeKind, offset: u64, line: &[u8]) {
        self.timeline.notices.add(kind, offset, line);
    }

    pub(crate) fn lost(&mut self, count: u64, offset: u64) {
        self.timeline.notices.add_count(NoticeKind::EventsLost, count, offset);
    }

    pub(crate) fn count_event(&mut self) {
        self.timeline.count_other();
    }
}

/// Reads a text line by line.
pub(crate) struct Reader<L> {
    lines: L,
    gathered: RecordList,
}

impl<L: Lines> Default for Reader<L> {
    fn default() -> Self {
        let timeline = Timeline::new(FlowOptions::default());
        Reader { lines: L::default(), gathered: RecordList { timeline, records: Vec::new() } }
    }
}

impl<L: Lines> Feed for Reader<L> {
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize {
        let whole = match is_last {
            true => bytes.len(),
            false => memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1),
        };
        let mut at = 0;
        while at < whole {
            let end = memchr::memchr(b'\n', &bytes[at..whole]).map_or(whole, |end| at + end);
            let line = &bytes[at..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.lines.line(line, base + at as u64, &mut self.gathered);
            at = end + 1;
        }
        whole
    }

    fn notice(&mut self, kind: NoticeKind, offset: u64, example: &[u8]) {
        self.gathered.notice(kind, offset, example);
    }
}

impl<L: Lines> Records for Reader<L> {
    fn finish(
        mut self: Box<Self>,
        info: SourceInfo,
        threads: usize,
    ) -> Result<Trace, ReadErrorKind> {
        self.lines.end(&mut self.gathered);
        let RecordList { mut timeline, mut records } = self.gathered;
        // Stable: what has one time stays in order.
        records.sort_by_key(|record| record.time);
        records.into_iter().for_each(|record| timeline.push(record));
        Ok(timeline.finish(SourceInfo { format: L::FORMAT.to_owned(), ..info }, threads))
    }
}
