//! `perf.data`: what `perf record` writes.
//!
//! Read without perf: header, records in order of time, mappings, symbols. What comes out
//! are the same records as of `perf script`'s text. The crates made for this believe the
//! sizes that a file claims, so these few structures are read here.

pub(crate) mod file;
mod pt;
pub(crate) mod side_files;
mod stacks;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use spanwise_callstack::{
    EventTime, FlowOptions, Location, Names, SchedEvent, StackRef, ThreadKey,
};
use spanwise_model::{NO_OFFSET, Nanos, NoticeKind, SourceInfo, StrId, Trace};
use spanwise_recording::KERNEL_FOLDER;
use spanwise_recording::calls::CALLS_FILE;
use spanwise_recording::python::PYTHON_FILE;
use spanwise_recording::single_steps::SINGLE_STEPS_FILE;
use spanwise_symbols::{
    Files, Inlines, JitMap, JitMaps, KernelCode, Mapping, Maps, Shelf, Symbols, Unwinders,
};

use super::record::{Record, RecordContent, Sample, SchedRecord};
use crate::ReadErrorKind;
use crate::binary::{Feed, Records};
use crate::perf::event_names::{EventClass, EventRate, event_class_of};
use crate::perf::script::lanes::Join;
use crate::perf::timeline::drawing::{DRAWN_WORDS_MAX, Drawing};
use crate::perf::timeline::observed::SampledAt;
use crate::perf::timeline::{SampleOf, Timeline};
pub(crate) use file::header::seems_perf_data;
use file::header::{Event, Header, Refusal};
use file::sample::Common;
use file::tracepoint_formats::Formats;
use file::{records, sample};
use pt::Hardware;
use side_files::calls::Hits;
pub(crate) use side_files::python::FILE_MARK as PYTHON_FILE_MARK;
use side_files::python::{self, PythonStacks, When};
use side_files::single_steps::Steps;
use stacks::chains::Chains;
use stacks::native::AddressSymbol;
use stacks::waits;

/// Reads a recording of perf.
pub(crate) struct Reader {
    timeline: Timeline,
    /// What came piece by piece: the head of a recording points to its end.
    kept: Vec<u8>,
    refusal: Option<Refusal>,
    /// The files that were mapped are asked for names and unwinding tables.
    opens_files: bool,
    /// The one file there is, where the machine's are not asked.
    only_file: Option<(String, Vec<u8>)>,
    /// Names of code that a runtime made.
    map: JitMap,
    /// Debug information is not asked what the compiler put into a function.
    is_without_inlines: bool,
    python: PythonStacks,
    calls: Hits,
    steps: Steps,
    /// Where it was kept beside the records.
    kernel: Option<KernelCode>,
    records: Option<PathBuf>,
    /// Of larger recordings a part is drawn on the timeline.
    drawn_words_max: u64,
}

/// A recording that came packed is kept whole; what is larger has to be unpacked first.
const KEPT_BYTES_MAX: usize = 1 << 30;

impl Default for Reader {
    fn default() -> Self {
        let timeline = Timeline::new(FlowOptions::default());
        let map = JitMap::default();
        let (kept, python, calls, steps, refusal, only_file, kernel, records) = Default::default();
        let (opens_files, is_without_inlines) = (true, false);
        Reader {
            timeline,
            kept,
            refusal,
            opens_files,
            only_file,
            map,
            is_without_inlines,
            python,
            calls,
            steps,
            kernel,
            records,
            drawn_words_max: DRAWN_WORDS_MAX,
        }
    }
}

impl Feed for Reader {
    fn feed(&mut self, bytes: &[u8], base: u64, is_last: bool) -> usize {
        if is_last && base == 0 {
            self.read(bytes);
            return bytes.len();
        }
        if self.kept.len() + bytes.len() > KEPT_BYTES_MAX {
            let what = "a packed perf recording of more than 1 GiB; unpack it first";
            self.refusal = Some(Refusal::NotARecording(what));
            return bytes.len();
        }
        self.kept.extend_from_slice(bytes);
        if is_last && self.refusal.is_none() {
            let kept = std::mem::take(&mut self.kept);
            self.read(&kept);
        }
        bytes.len()
    }

    fn notice(&mut self, kind: NoticeKind, offset: u64, example: &[u8]) {
        self.timeline.notices.add(kind, offset, example);
    }
}

impl Records for Reader {
    fn finish(self: Box<Self>, info: SourceInfo, threads: usize) -> Result<Trace, ReadErrorKind> {
        if let Some(refusal) = self.refusal {
            return Err(refusal.into_error());
        }
        let mut info = SourceInfo { format: "perf.data".to_owned(), ..info };
        self.calls.report_counted(&mut info);
        Ok(self.timeline.finish(info, threads))
    }
}

impl Reader {
    pub(crate) fn new(map: JitMap, is_without_inlines: bool) -> Self {
        Reader { map, is_without_inlines, ..Reader::default() }
    }

    /// What follows was recorded apart from what was before.
    pub(crate) fn new_snapshot(&mut self) {
        self.timeline.new_snapshot();
    }

    /// Says where the records lie: beside them may be what was read of Python, and calls.
    pub(crate) fn lies_at(&mut self, records: &Path, has_python_lines: bool) {
        self.python = PythonStacks::beside(records);
        self.python.has_lines = has_python_lines;
        self.calls = Hits::beside(records);
        self.steps = Steps::beside(records);
        self.kernel = KernelCode::in_folder(&records.with_file_name(KERNEL_FOLDER));
        self.records = Some(records.to_owned());
    }

    /// One that opens nothing but the recording.
    pub(crate) fn closed() -> Self {
        Reader { opens_files: false, ..Reader::default() }
    }

    /// One that knows this one file and opens no other.
    pub(crate) fn with_file(path: &str, bytes: &[u8]) -> Self {
        Reader { only_file: Some((path.to_owned(), bytes.to_vec())), ..Reader::closed() }
    }

    fn read(&mut self, file: &[u8]) {
        let mut header = match Header::read(file) {
            Ok(header) => header,
            Err(refusal) => {
                self.refusal = Some(refusal);
                return;
            }
        };
        let build_ids = std::mem::take(&mut header.build_ids);
        let release = std::mem::take(&mut header.kernel_release);
        let shelf = Shelf::default();
        let drawn_words_max = self.drawn_words_max;
        self.pass_switches_to_steps(&header);
        self.pass_threads_to_python(&header);
        let mut state = State {
            timeline: &mut self.timeline,
            map: &self.map,
            maps: Maps::default(),
            formats: &header.formats,
            files: match (self.opens_files, self.only_file.take()) {
                (_, Some((path, bytes))) => Files::only(&path, bytes),
                (true, None) => Files::new(build_ids, &release),
                (false, None) => Files::closed(),
            },
            symbols: Symbols::new(release, self.kernel.as_ref().map(|kernel| &*kernel.symbols)),
            kernel: self.kernel.as_ref(),
            stacks: is_x86_64(&header.machine).then(Unwinders::default),
            inlines: (!self.is_without_inlines).then(|| Inlines::new(&shelf)),
            places: HashMap::new(),
            paths: HashMap::new(),
            has_switches: header.events.iter().any(|event| event.has_switches),
            has_waits: header.events.iter().any(waits::is_share),
            leaving: HashMap::new(),
            waking: HashMap::new(),
            python: &mut self.python,
            calls: &mut self.calls,
            steps: &mut self.steps,
            seen: HashSet::new(),
            hardware: Hardware::default(),
            jit_maps: JitMaps::new(self.records.as_deref().and_then(Path::parent)),
            event_names: HashMap::new(),
            chains: Chains::default(),
        };
        state.name_events(&header.events);
        state.timeline.draw(Drawing::of(records::about_words(&header), drawn_words_max));
        if let Err(refusal) = state.decode_hardware(&header) {
            self.refusal = Some(refusal);
            return;
        }
        let senseless = records::each_record(&header, |record| {
            if !state.is_of_stepping(&record) {
                state.record(record);
            }
        });
        state.exact_until(Nanos::MAX);
        state.hardware_until(Nanos::MAX);
        state.never_ran();
        state.report_missing();
        state.report_skipped();
        self.timeline.notices.add_count(
            NoticeKind::PythonFromNearby,
            self.python.from_nearby,
            NO_OFFSET,
        );
        self.report_cut_files();
        if senseless > 0 || header.is_cut {
            let at = header.data_offset + (header.data.len() - senseless) as u64;
            self.timeline.notices.add(NoticeKind::FileCut, at, b"");
        }
    }
}

impl Reader {
    /// Says which of the files beside the records end too early.
    fn report_cut_files(&mut self) {
        let files = [
            (self.python.is_cut, PYTHON_FILE),
            (self.steps.is_cut, SINGLE_STEPS_FILE),
            (self.calls.is_cut, CALLS_FILE),
        ];
        for (_, file) in files.into_iter().filter(|(is_cut, _)| *is_cut) {
            let name = file.name.as_bytes();
            self.timeline.notices.add(NoticeKind::FileCut, NO_OFFSET, name);
        }
        self.timeline.notices.add_count(NoticeKind::EventsLost, self.calls.lost, NO_OFFSET);
    }
}

/// A recording that was cut off does not say what it was made on: here, most likely.
fn is_x86_64(machine: &str) -> bool {
    machine == "x86_64" || machine.is_empty() && cfg!(target_arch = "x86_64")
}

struct State<'a> {
    timeline: &'a mut Timeline,
    map: &'a JitMap,
    maps: Maps,
    /// What tracepoints recorded.
    formats: &'a Formats,
    files: Files,
    symbols: Symbols,
    /// Where copies of stacks can be unwound.
    stacks: Option<Unwinders>,
    /// Where debug information is asked.
    inlines: Option<Inlines<'a>>,
    /// Functions that were found, by mapping and offset in the file.
    places: HashMap<(Rc<str>, u64), AddressSymbol>,
    paths: HashMap<String, Rc<str>>,
    /// Records of switches are there.
    has_switches: bool,
    /// Waits have samples of their own.
    has_waits: bool,
    /// Stacks of threads that are about to leave their processor.
    leaving: HashMap<i32, Vec<Location>>,
    /// Stacks of threads that are about to wake another.
    waking: HashMap<i32, Vec<Location>>,
    python: &'a mut PythonStacks,
    calls: &'a mut Hits,
    steps: &'a mut Steps,
    /// Threads of which something was recorded.
    seen: HashSet<i32>,
    hardware: Hardware,
    jit_maps: JitMaps,
    /// By what the header calls them.
    event_names: HashMap<String, StrId>,
    kernel: Option<&'a KernelCode>,
    chains: Chains,
}

impl State<'_> {
    fn record(&mut self, record: records::Record<'_>) {
        let records::Record { offset, common, what } = record;
        let mut thread = ThreadKey { pid: common.pid.into(), tid: common.tid.into() };
        let time = common.time.and_then(|time| Nanos::try_from(time).ok());
        self.exact_until(time.unwrap_or(0));
        self.hardware_until(time.unwrap_or(0));
        let what = match what {
            records::Body::Sample { sample, event } => {
                self.any_sample(common, &mut thread, &sample, event)
            }
            records::Body::Mapped { pid, start, len, is_data: true, .. } => {
                if self.maps.unmap(pid, start, start.saturating_add(len)) {
                    self.forget_stacks(pid);
                }
                None
            }
            records::Body::Mapped { pid, start, len, file_offset, path, is_kernel, .. } => {
                let path = self.path(path);
                let end = start.saturating_add(len);
                self.maps.map(pid, Mapping { start, end, file_offset, path }, is_kernel);
                self.forget_stacks(pid);
                None
            }
            records::Body::Named { pid, tid, name, is_exec } => {
                if is_exec {
                    self.maps.exec(pid);
                    self.forget_stacks(pid);
                }
                let key = ThreadKey { pid: pid.into(), tid: tid.into() };
                Some(RecordContent::Named(key, self.names().string(&name)))
            }
            records::Body::Forked { pid, parent, tid, maker } => {
                // In old recordings such records do not say who raised them.
                if common.tid == 0 {
                    thread = ThreadKey { pid: parent.into(), tid: maker.into() };
                }
                self.maps.fork(parent, pid);
                self.forget_stacks(pid);
                Some(RecordContent::Forked(ThreadKey { pid: pid.into(), tid: tid.into() }))
            }
            records::Body::Ended { pid, tid } => {
                Some(RecordContent::Ended(ThreadKey { pid: pid.into(), tid: tid.into() }))
            }
            records::Body::Switch { is_out, is_preempted } => {
                Some(self.switch(common.tid, thread, time, is_out, is_preempted))
            }
            records::Body::Throttled { event, is_off } => {
                if event.is_some_and(|event| event.has_switches) {
                    self.timeline.switches_paused(time, is_off);
                }
                None
            }
            records::Body::Lost(count) => Some(RecordContent::Lost(count)),
            records::Body::Damaged => {
                self.timeline.notices.add(NoticeKind::EventSkipped, offset, b"");
                None
            }
            records::Body::TraceCut { .. } => self.trace_lost(offset, "no room for a part of it"),
            records::Body::TracePartial => self.trace_lost(offset, "others had the hardware"),
            records::Body::TraceStarted { .. } | records::Body::Other(_) => None,
        };
        // What was there before has no time.
        if time.is_some_and(|time| time != 0) {
            self.seen.insert(common.tid);
        }
        if let Some(what) = what {
            let (comm, cpu) = (StrId::EMPTY, common.cpu);
            self.timeline.push(Record { offset, thread, comm, time, cpu, what });
        }
    }

    /// Says how often each event was sampled, and what it is called: events that differ in
    /// what they leave out, such as the kernel, keep saying so.
    fn name_events(&mut self, events: &[Event]) {
        let mut plain: HashMap<String, usize> = HashMap::new();
        for event in events {
            *plain.entry(event_class_of(&event.name).1).or_default() += 1;
        }
        for event in events {
            let (_, name) = event_class_of(&event.name);
            let rate = EventRate::asked(&name, event.frequency, event.period);
            let is_only_one = plain.get(&name) == Some(&1);
            let name = if is_only_one { name } else { event.name.clone() };
            self.timeline.set_rate(&name, rate);
            let name = self.names().string(&name);
            self.event_names.insert(event.name.clone(), name);
        }
    }

    /// A thread leaves its processor, with the stack that it was last seen with, or comes back.
    fn switch(
        &mut self,
        tid: i32,
        thread: ThreadKey,
        time: Option<Nanos>,
        is_out: bool,
        is_preempted: bool,
    ) -> RecordContent {
        if !is_out {
            self.waited_before(thread, time);
        }
        let frames = self.leaving.remove(&tid).filter(|_| is_out);
        let frames = frames.or_else(|| self.python_alone(thread, time, is_out));
        match frames {
            Some(frames) => {
                let event = SchedEvent::Out { is_preempted };
                RecordContent::Sched(Box::new(SchedRecord { event, frames }))
            }
            None => RecordContent::Switch { is_out, is_preempted },
        }
    }

    /// What was recorded one by one, up to a time: branches, and calls.
    fn exact_until(&mut self, time: Nanos) {
        while let Some(step) = self.steps.next_until(time) {
            self.step(step);
        }
        self.calls.put_on_timeline_until(time, self.timeline);
    }

    fn forget_stacks(&mut self, pid: i32) {
        self.chains.forget(pid);
        self.hardware.forget_places();
        if let Some(stacks) = &mut self.stacks {
            stacks.forget(pid);
        }
    }

    fn names(&mut self) -> &mut Names {
        self.timeline.names()
    }

    fn path(&mut self, path: String) -> Rc<str> {
        let shared = self.paths.entry(path).or_insert_with_key(|path| path.as_str().into());
        Rc::clone(shared)
    }

    fn sample(
        &mut self,
        of: Common,
        sample: &sample::Sample<'_>,
        event: &str,
        is_own: bool,
    ) -> Option<RecordContent> {
        let tracepoint = match event_class_of(event) {
            (EventClass::Silent | EventClass::Frequency, _) => return None,
            (EventClass::Instant, name) => Some(name),
            (EventClass::Sample, _) => None,
        };
        let is_stack = sample.chain.is_some();
        let event = match self.event_names.get(event) {
            Some(&known) => known,
            None => self.names().string(event),
        };
        let period = sample.period;
        let thread = ThreadKey { pid: of.pid.into(), tid: of.tid.into() };
        let time = of.time.and_then(|time| Nanos::try_from(time).ok());
        let is_plain = sample.stack.is_none() && self.python.is_empty();
        if tracepoint.is_none() && is_plain {
            let at = time.map(|time| EventTime { time, cpu: of.cpu });
            let is_drawn = self.timeline.draws_next();
            let frames = if is_drawn { self.native_frames(of.pid, sample) } else { Vec::new() };
            let stack = match is_drawn {
                true => self.timeline.stack(StackRef::NONE, &frames),
                false => self.stack_number(of.pid, sample),
            };
            let of = SampleOf { event, period, is_stack, is_drawn, stack, frames: &frames };
            self.timeline.push_sample(thread, at, &of);
            return None;
        }
        let when = if tracepoint.is_some() { When::Running } else { When::Sampled };
        let frames = self.frames(of, sample, when);
        let Some(tracepoint) = tracepoint else {
            return Some(RecordContent::Sample(Box::new(Sample {
                event,
                period,
                frames,
                is_stack,
            })));
        };
        if !is_own {
            let stack = self.timeline.stack(StackRef::NONE, &frames);
            self.timeline.observe(SampledAt { thread, time, cpu: of.cpu }, event, period, stack);
        }
        Some(self.tracepoint(sample, &tracepoint, frames))
    }

    /// A tracepoint: of the scheduler, of a lock, or one that says nothing to us.
    fn tracepoint(
        &mut self,
        sample: &sample::Sample<'_>,
        name: &str,
        frames: Vec<Location>,
    ) -> RecordContent {
        let known = self.formats.content(sample.raw).and_then(|content| content.scheduled(name));
        match known.or_else(|| super::tracepoint_text::probe(name.as_bytes(), self.names())) {
            Some(event) => RecordContent::Sched(Box::new(SchedRecord { event, frames })),
            None => RecordContent::Instant(self.names().string(name)),
        }
    }

    /// The stack, from the outermost frame on, with functions of Python in it.
    fn frames(&mut self, of: Common, sample: &sample::Sample<'_>, when: When) -> Vec<Location> {
        let frames = self.native_frames(of.pid, sample);
        match of.time.and_then(|time| Nanos::try_from(time).ok()) {
            Some(time) if !self.python.is_empty() => {
                self.python.join(of.tid, time, when, frames, self.timeline.names())
            }
            _ => frames,
        }
    }

    /// The functions of Python that a thread waits in, where its stack is not known.
    fn python_alone(
        &mut self,
        thread: ThreadKey,
        time: Option<Nanos>,
        is_out: bool,
    ) -> Option<Vec<Location>> {
        let tid = i32::try_from(thread.tid).ok()?;
        let time = time.filter(|_| is_out)?;
        let names = self.timeline.names();
        let frames = self.python.join(tid, time, When::Leaving, Vec::new(), names);
        (!frames.is_empty()).then_some(frames)
    }

    /// A thread comes to a processor for the first time: up to then it has waited.
    fn waited_before(&mut self, thread: ThreadKey, time: Option<Nanos>) {
        let Ok(tid) = i32::try_from(thread.tid) else { return };
        if self.seen.contains(&tid) {
            return;
        }
        let first = self.python.first_stack(tid).filter(|stack| Some(stack.time) < time).cloned();
        if let Some(first) = first {
            self.waits(tid, &first);
        }
    }

    /// Threads of which nothing else was recorded have waited all the time.
    fn never_ran(&mut self) {
        for tid in self.python.threads() {
            let first = self.python.first_stack(tid).filter(|_| !self.seen.contains(&tid)).cloned();
            let Some(first) = first else { continue };
            self.waits(tid, &first);
            let thread = ThreadKey { pid: first.pid.into(), tid: tid.into() };
            let (time, what) = (self.python.last_time(tid), SchedEvent::In);
            let what =
                RecordContent::Sched(Box::new(SchedRecord { event: what, frames: Vec::new() }));
            self.push_made(thread, time, what);
        }
    }

    /// A thread waits from its first reading on.
    fn waits(&mut self, tid: i32, first: &python::Stack) {
        let frames = self.python.places(first, self.timeline.names());
        let thread = ThreadKey { pid: first.pid.into(), tid: tid.into() };
        let event = SchedEvent::Out { is_preempted: false };
        let what = RecordContent::Sched(Box::new(SchedRecord { event, frames }));
        self.push_made(thread, Some(first.time), what);
    }

    fn push_made(&mut self, thread: ThreadKey, time: Option<Nanos>, what: RecordContent) {
        let (offset, comm) = (NO_OFFSET, StrId::EMPTY);
        self.timeline.push(Record { offset, thread, comm, time, cpu: None, what });
    }

    /// Says which files' functions have no names, and why.
    fn report_missing(&mut self) {
        for (path, why) in std::mem::take(&mut self.files.missing) {
            if path.starts_with('/') && !path.starts_with("//") {
                let text = format!("{path}: {why}");
                self.timeline.notices.add(NoticeKind::NoSymbols, NO_OFFSET, text.as_bytes());
            }
        }
    }
}
