//! Lines become records.
//!
//! A line that does not begin with a tab begins a record; those that do are its stack,
//! innermost frame first. What is not understood is counted and passed over: every version
//! of perf prints something that no version before it did.

use spanwise_callstack::{Branch, BranchKind, Names, ThreadKey, TraceEdge};
use spanwise_model::{Nanos, NoticeKind, StrId};
use spanwise_symbols::JitMap;

use super::branch_text;
use super::branch_text::BranchText;
use super::form::{Form, Times, period_and_place};
use super::lanes::{Block, Lane};
use super::line_head::Header;
use super::meta_lines;
use super::place_text::PlaceText;
use super::quick::{LearnedLine, Quick, QuickLine};
use crate::perf::event_names::{EventClass, event_name};
use crate::perf::record::{Record, RecordContent, Sample, SchedRecord};
use crate::perf::tracepoint_text;
use crate::perf::words::{decimal, split_word};

/// How lines are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParseOptions<'a> {
    pub(crate) map: &'a JitMap,
    pub(crate) form: &'a Form,
    /// Also jumps that cannot change a stack: only their addresses could matter.
    pub(crate) keeps_all: bool,
}

/// Lines by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) branches: u64,
    pub(crate) samples: u64,
    pub(crate) others: u64,
}

/// Reads whole records, with the names and the memory of a lane.
pub(crate) fn parse(text: &[u8], base: u64, options: ParseOptions<'_>, lane: &mut Lane) -> Block {
    let block = Block::default();
    let Lane { names, quick, sent } = lane;
    let (is_sample_open, is_run) = (false, false);
    let mut parser = Parser { block, names, quick, options, is_sample_open, is_run };
    let mut at = 0;
    while at < text.len() {
        if let Some(line) = parser.quick.read(&text[at..]) {
            parser.quick_line(&line, base + at as u64);
            at += line.len;
            continue;
        }
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end);
        let line = &text[at..end];
        parser.line(line.strip_suffix(b"\r").unwrap_or(line), base + at as u64);
        at = end + 1;
    }
    parser.close_sample();
    let new_names = parser.names.take_new(sent);
    Block { new_names, ..parser.block }
}

struct Parser<'a> {
    block: Block,
    names: &'a mut Names,
    quick: &'a mut Quick,
    options: ParseOptions<'a>,
    /// Frames that follow belong to the last record.
    is_sample_open: bool,
    /// The last record is a jump that stands for a run of them.
    is_run: bool,
}

impl Parser<'_> {
    fn line(&mut self, line: &[u8], offset: u64) {
        match line.first() {
            None => self.close_sample(),
            Some(b'\t') => self.frame(line, offset),
            Some(b'#') => {}
            Some(_) => self.record(line, offset),
        }
    }

    /// A branch that was recognized.
    #[inline]
    fn quick_line(&mut self, line: &QuickLine, offset: u64) {
        let &QuickLine { thread, comm, time, cpu, branch, .. } = line;
        let time = self.time(time);
        self.close_sample();
        self.block.counts.branches += 1;
        if self.options.keeps_all || !self.says_nothing_new(&branch, thread, comm, time) {
            let what = RecordContent::Branch(branch);
            self.push(Record { offset, thread, comm, time: Some(time), cpu, what });
        }
    }

    fn record(&mut self, line: &[u8], offset: u64) {
        let Some(header) = Header::read(line, self.options.form) else {
            if let Some((thread, time, what)) = meta_lines::error(line, self.names) {
                self.close_sample();
                self.block.counts.others += 1;
                let comm = Default::default();
                // Errors have times of the clock in every form.
                let time = time.filter(|_| self.options.form.times == Times::Said);
                return self.push(Record { offset, thread, comm, time, cpu: None, what });
            }
            if self.options.form.frames_are_loose && is_loose_frame(line) {
                return self.frame(line, offset);
            }
            // Between frames stand the lines of their source, where perf was asked for them.
            let is_source = self.is_sample_open && line.starts_with(b"  ");
            if !is_source && !line.trim_ascii().is_empty() {
                self.close_sample();
                self.notice(NoticeKind::UnknownRecord, offset, line);
            }
            return;
        };
        self.close_sample();
        let time = header.time.map(|time| self.time(time));
        match self.body(line, header, offset) {
            Some(Some(what)) => {
                let comm = self.text(header.comm);
                let Header { thread, cpu, .. } = header;
                self.push(Record { offset, thread, comm, time, cpu, what });
            }
            Some(None) => {}
            None => self.notice(NoticeKind::UnknownRecord, offset, line),
        }
    }

    /// The time on one clock: of this block, where lines only say how much passed since the
    /// lines before them.
    fn time(&mut self, said: Nanos) -> Nanos {
        match self.options.form.times {
            Times::SinceBefore => {
                self.block.elapsed = self.block.elapsed.saturating_add(said);
                self.block.elapsed
            }
            _ => said,
        }
    }

    /// What follows the header. `Some(None)` is a line that says nothing new, `None` one
    /// that is not understood.
    fn body(
        &mut self,
        line: &[u8],
        mut header: Header<'_>,
        offset: u64,
    ) -> Option<Option<RecordContent>> {
        let colon = line.len() - header.rest.len() - 1;
        if let Some(event) = &self.options.form.event
            && !split_word(header.rest).0.starts_with(b"PERF_RECORD_")
        {
            self.block.counts.samples += 1;
            let (period, place) = period_and_place(header.rest);
            return Some(Some(self.sample(event.as_bytes(), period, place)));
        }
        let period = header.period.or_else(|| header.take_number());
        let word = header.take_word();
        if word.starts_with(b"PERF_RECORD_") {
            self.block.counts.others += 1;
            return meta_lines::read(word, header.rest, self.names);
        }
        let name = event_name(word)?;
        if let Some(branch) = BranchText::read(header.rest) {
            self.block.counts.branches += 1;
            return Some(
                self.branch(&branch, &header, line, colon, offset).map(RecordContent::Branch),
            );
        }
        if branch_text::seems_branch(header.rest) {
            return None;
        }
        let class = EventClass::of(name);
        match class {
            EventClass::Sample => self.block.counts.samples += 1,
            _ => self.block.counts.others += 1,
        }
        Some(match class {
            EventClass::Silent => None,
            EventClass::Frequency => frequency(header.rest).map(RecordContent::Frequency),
            EventClass::Instant => Some(self.instant(name, header.rest)),
            EventClass::Sample => Some(self.sample(name, period, header.rest)),
        })
    }

    fn branch(
        &mut self,
        text: &BranchText<'_>,
        header: &Header<'_>,
        line: &[u8],
        colon: usize,
        offset: u64,
    ) -> Option<Branch> {
        if text.flags.is_odd {
            self.notice(NoticeKind::UnknownBranch, offset, header.rest);
        }
        let from = text.from.resolve(self.names, self.options.map);
        let to = match text.from.is_same_function(&text.to) {
            true => {
                let (ip, is_entry) = (text.to.ip, text.to.is_entry);
                spanwise_callstack::Location { ip, is_entry, ..from }
            }
            false => text.to.resolve(self.names, self.options.map),
        };
        let flags = text.flags;
        let branch = Branch {
            kind: flags.kind,
            edge: flags.edge,
            is_in_transaction: flags.is_in_transaction,
            from,
            to,
        };
        let &Header { thread, time, cpu, rest, .. } = header;
        let Some(time) = time else { return Some(branch) };
        let comm = self.text(header.comm);
        let flags = line.len() - rest.len();
        self.quick.learn(
            LearnedLine { line, colon, flags, thread, comm, time, cpu },
            text,
            &branch,
        );
        let is_kept = self.options.keeps_all || !self.says_nothing_new(&branch, thread, comm, time);
        is_kept.then_some(branch)
    }

    /// True for a jump inside the function that the thread is known to be in. Most lines
    /// are that. Of a run of them one is kept, with the time of the last, since a thread
    /// lasts until its last event.
    #[inline]
    fn says_nothing_new(
        &mut self,
        branch: &Branch,
        thread: ThreadKey,
        comm: StrId,
        time: Nanos,
    ) -> bool {
        let is_inside = |branch: &Branch| {
            branch.kind == BranchKind::Jump
                && branch.edge == TraceEdge::Within
                && !branch.is_in_transaction
                && branch.from.function == branch.to.function
        };
        let Some(Record {
            thread: of_before,
            comm: named_before,
            time: Some(reached),
            what: RecordContent::Branch(before),
            ..
        }) = self.block.records.last_mut()
        else {
            self.is_run = false;
            return false;
        };
        let is_known = is_inside(branch)
            && *of_before == thread
            && *named_before == comm
            && *reached <= time
            && before.to.function == branch.from.function
            && !before.is_in_transaction
            // Behind an end of tracing, the first jump says when it went on.
            && !matches!(before.edge, TraceEdge::End | TraceEdge::Blink);
        if !is_known || *reached == time {
            self.is_run &= is_known;
            return is_known;
        }
        if self.is_run {
            *reached = time;
        }
        std::mem::replace(&mut self.is_run, true)
    }

    fn sample(&mut self, name: &[u8], period: Option<u64>, rest: &[u8]) -> RecordContent {
        let event = self.text(name);
        // The data's address may stand before that of the instruction.
        let (_, after) = split_word(rest);
        let is_address = |place: &PlaceText<'_>| {
            // A function may be called `f` or `add`.
            !place.name.is_empty() || place.file.is_empty() && place.whole.len() > 5
        };
        let place = PlaceText::read(after).filter(is_address).or_else(|| PlaceText::read(rest));
        let place = place.map(|place| place.resolve(self.names, self.options.map));
        let frames = place.into_iter().collect();
        self.is_sample_open = true;
        let period = period.unwrap_or(0);
        RecordContent::Sample(Box::new(Sample { event, period, frames, is_stack: false }))
    }

    fn instant(&mut self, name: &[u8], rest: &[u8]) -> RecordContent {
        match tracepoint_text::read(name, rest, self.names) {
            Some(event) => {
                self.is_sample_open = true;
                RecordContent::Sched(Box::new(SchedRecord { event, frames: Vec::new() }))
            }
            None => RecordContent::Instant(self.text(name)),
        }
    }

    fn frame(&mut self, line: &[u8], offset: u64) {
        if !self.is_sample_open {
            return;
        }
        let Some(Record { what, .. }) = self.block.records.last_mut() else { return };
        let frames = match what {
            RecordContent::Sample(sample) => {
                sample.is_stack = true;
                &mut sample.frames
            }
            RecordContent::Sched(scheduled) => &mut scheduled.frames,
            _ => return,
        };
        match PlaceText::read(line) {
            Some(place) => frames.push(place.resolve(self.names, self.options.map)),
            None if line.trim_ascii().is_empty() => {}
            None => self.notice(NoticeKind::UnknownRecord, offset, line),
        }
    }

    fn close_sample(&mut self) {
        if !std::mem::take(&mut self.is_sample_open) {
            return;
        }
        match self.block.records.last_mut().map(|record| &mut record.what) {
            Some(RecordContent::Sample(sample)) => sample.frames.reverse(),
            Some(RecordContent::Sched(scheduled)) => scheduled.frames.reverse(),
            _ => {}
        }
    }

    fn push(&mut self, record: Record) {
        self.block.records.push(record);
    }

    fn text(&mut self, bytes: &[u8]) -> spanwise_model::StrId {
        match self.names.find_string(bytes) {
            Some(known) => known,
            None => self.names.string(&String::from_utf8_lossy(bytes)),
        }
    }

    fn notice(&mut self, kind: NoticeKind, offset: u64, line: &[u8]) {
        self.block.notices.add(kind, offset, line);
    }
}

/// True for what is a frame, if it stands in a stack.
fn is_loose_frame(line: &[u8]) -> bool {
    PlaceText::read(line).is_some_and(|place| !place.name.is_empty() || !place.file.is_empty())
}

/// `cbr: 47 freq: 4706 MHz (162%)`
fn frequency(text: &[u8]) -> Option<u64> {
    let place = memchr::memmem::find(text, b"freq:")?;
    let (number, _) = split_word(&text[place + 5..]);
    decimal(number)
}
