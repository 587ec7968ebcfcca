//! Records become a trace.

pub(crate) mod drawing;
pub(crate) mod observed;
mod off_cpu;

use std::collections::{BTreeMap, HashMap};

use spanwise_callstack::{
    Anomalies, Call, EventTime, Flow, FlowOptions, FunctionId, Location, NameTranslation, Names,
    SampleReach, SchedEvent, StackRef, ThreadCalls, ThreadKey,
};
use spanwise_model::{
    Batch, CategoryId, CounterRow, InstantRow, NO_KEY, NO_OFFSET, Nanos, NoticeKind, Notices,
    QuickMap, SourceInfo, SpanKind, SpanRow, StrId, Trace, TraceBuilder, TrackId, TrackKind,
    TrackLabel,
};

use crate::perf::data::PYTHON_FILE_MARK;
use crate::perf::event_names::{EventRate, is_clock, is_in_nanoseconds};
use crate::perf::record::{Record, RecordContent, Sample};
use crate::perf::script::lanes::{Block, Join};
use crate::perf::script::parser::Counts;
use drawing::Drawing;
use observed::{Observations, SampledAt};
use off_cpu::{ObservedStack, OffCpu};

/// Everything up to now.
pub(crate) struct Timeline {
    flow: Flow,
    off_cpu: OffCpu,
    seen: Observations,
    /// Of events whose rate the recording says.
    rates: HashMap<StrId, EventRate>,
    pub(crate) notices: Notices,
    counts: Counts,
    /// The process of each thread, as far as a line has said it.
    processes: BTreeMap<i64, i64>,
    /// The latest name of each thread.
    comms: BTreeMap<i64, StrId>,
    /// Whom the record before named, which is in the two above already.
    latest_named: Option<(ThreadKey, StrId)>,
    instants: Vec<(ThreadKey, Nanos, StrId)>,
    /// By thread and name.
    counters: BTreeMap<(ThreadKey, StrId), Counter>,
    stack_event: StackEvent,
    drawing: Drawing,
}

/// Numbers of idle loops begin here, and go down by processor.
const IDLE_LOOPS: i64 = -(1 << 40);

/// A sample whose stack has a number.
pub(crate) struct SampleOf<'a> {
    pub(crate) event: StrId,
    pub(crate) period: u64,
    /// The frames are a stack, not the one instruction alone.
    pub(crate) is_stack: bool,
    pub(crate) stack: StackRef,
    pub(crate) is_drawn: bool,
    /// Of one that is drawn.
    pub(crate) frames: &'a [Location],
}

/// A counter over time.
#[derive(Debug, Default)]
struct Counter {
    sum: u64,
    values: Vec<(Nanos, f64)>,
}

/// The event whose samples make up the stacks; those of others are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StackEvent {
    NoneYet,
    /// Not a clock, but the first that came.
    First(StrId),
    Clock,
}

impl Timeline {
    pub(crate) fn new(options: FlowOptions) -> Self {
        Timeline {
            flow: Flow::new(options),
            off_cpu: OffCpu::default(),
            seen: Observations::default(),
            rates: HashMap::new(),
            notices: Notices::default(),
            counts: Counts::default(),
            processes: BTreeMap::new(),
            comms: BTreeMap::new(),
            latest_named: None,
            instants: Vec::new(),
            counters: BTreeMap::new(),
            stack_event: StackEvent::NoneYet,
            drawing: Drawing::default(),
        }
    }

    /// Chooses which of the samples that will come are drawn.
    pub(crate) fn draw(&mut self, drawing: Drawing) {
        self.drawing = drawing;
    }

    /// Whether the next sample is drawn on the timeline; to be asked once of each.
    pub(crate) fn draws_next(&mut self) -> bool {
        self.drawing.draws_next()
    }

    pub(crate) fn new_snapshot(&mut self) {
        self.flow.new_snapshot();
        self.off_cpu.new_snapshot();
    }

    /// Switches are not recorded from now on, or are again.
    pub(crate) fn switches_paused(&mut self, time: Option<Nanos>, is_off: bool) {
        self.off_cpu.paused(time, is_off);
    }

    /// Says how often an event is sampled.
    pub(crate) fn set_rate(&mut self, event: &str, rate: EventRate) {
        let event = self.flow.names.string(event);
        self.rates.insert(event, rate);
    }

    /// The number of a stack: that of its callers, and further frames, outermost first.
    pub(crate) fn stack(&mut self, callers: StackRef, frames: &[Location]) -> StackRef {
        let names = &self.flow.names;
        self.seen.stack(callers, frames, |function| names.is_unknown(function))
    }

    /// A sample, which is counted whatever it is a sample of.
    pub(crate) fn observe(
        &mut self,
        mut at: SampledAt,
        event: StrId,
        weight: u64,
        stack: StackRef,
    ) {
        if let (0, Some(cpu)) = (at.thread.tid, at.cpu) {
            at.thread = self.idle_loop(cpu);
        }
        let Timeline { flow, seen, rates, .. } = self;
        let by_name = || EventRate::of(flow.names.text(event));
        let rate = || rates.get(&event).copied().unwrap_or_else(by_name);
        seen.sample(at, event, rate, weight, stack);
    }

    pub(crate) fn count_sample(&mut self) {
        self.counts.samples += 1;
    }

    pub(crate) fn count_branch(&mut self) {
        self.counts.branches += 1;
    }

    pub(crate) fn count_other(&mut self) {
        self.counts.others += 1;
    }

    /// Takes in a record whose names are the timeline's own.
    pub(crate) fn push(&mut self, mut record: Record) {
        record.thread = self.named(record.thread, record.comm, record.cpu);
        self.record(record);
    }

    /// Takes in a sample whose stack is known already.
    pub(crate) fn push_sample(
        &mut self,
        thread: ThreadKey,
        at: Option<EventTime>,
        sample: &SampleOf<'_>,
    ) {
        let thread = self.named(thread, StrId::EMPTY, at.and_then(|at| at.cpu));
        self.sample(thread, at, sample);
    }

    /// Learns what a record says of its thread; returns the thread that it is about.
    fn named(&mut self, thread: ThreadKey, comm: StrId, cpu: Option<u32>) -> ThreadKey {
        let (thread, comm) = match (thread.tid, cpu) {
            (0, Some(cpu)) => (self.idle_loop(cpu), StrId::EMPTY),
            _ => (thread, comm),
        };
        let named = Some((thread, comm));
        if self.latest_named != named {
            self.latest_named = named;
            if comm != StrId::EMPTY {
                self.comms.insert(thread.tid, comm);
            }
            if thread.pid != 0 {
                self.processes.insert(thread.tid, thread.pid);
            }
        }
        thread
    }

    /// The branches of a thread are over; what follows are samples, as before.
    pub(crate) fn branches_over(&mut self, thread: ThreadKey, time: Nanos) {
        self.flow.branches_over(thread, time);
    }

    /// A track that is no thread of the system: a goroutine, or a coroutine.
    pub(crate) fn name_lane(&mut self, lane: ThreadKey, name: &str) {
        let name = self.flow.names.string(name);
        self.comms.insert(lane.tid, name);
    }

    /// From a time on, what a thread does is recorded call by call.
    pub(crate) fn exact_from(&mut self, thread: ThreadKey, time: Nanos) {
        self.processes.insert(thread.tid, thread.pid);
        self.flow.exact_from(thread, time);
    }

    /// A call that was recorded by itself: its beginning, or its end.
    pub(crate) fn call(
        &mut self,
        thread: ThreadKey,
        time: Nanos,
        function: FunctionId,
        is_return: bool,
    ) {
        self.processes.insert(thread.tid, thread.pid);
        match is_return {
            // One whose beginning was before the recording says nothing that can be drawn.
            true => drop(self.flow.leave(thread, time, function)),
            false => self.flow.enter(thread, time, function),
        }
    }

    /// The idle loop of each processor is a thread of its own; the system gives all of them
    /// the number 0.
    fn idle_loop(&mut self, cpu: u32) -> ThreadKey {
        let tid = IDLE_LOOPS - i64::from(cpu);
        if !self.comms.contains_key(&tid) {
            let name = self.flow.names.string(&format!("swapper/{cpu}"));
            self.comms.insert(tid, name);
        }
        ThreadKey { pid: 0, tid }
    }

    fn record(&mut self, record: Record) {
        let Record { offset, thread, time, cpu, what, .. } = record;
        let at = time.map(|time| EventTime { time, cpu });
        match what {
            RecordContent::Branch(branch) => self.flow.branch(thread, time, &branch),
            RecordContent::Sample(sample) => {
                let Sample { event, period, is_stack, .. } = *sample;
                let stack = self.stack(StackRef::NONE, &sample.frames);
                let (is_drawn, frames) = (self.draws_next(), &sample.frames[..]);
                let of = SampleOf { event, period, is_stack, is_drawn, stack, frames };
                self.sample(thread, at, &of);
            }
            RecordContent::Frequency(mhz) => {
                let name = self.flow.names.string("CPU frequency (MHz)");
                let counter = self.counters.entry((thread, name)).or_default();
                counter.values.extend(time.map(|time| (time, mhz as f64)));
            }
            RecordContent::Error { message, .. } => {
                let text = self.flow.names.text(message).to_owned();
                self.notices.add(NoticeKind::DecodeError, offset, text.as_bytes());
                self.flow.error(thread, time, message);
            }
            RecordContent::Switch { is_out: true, is_preempted } => {
                self.scheduled((thread, at), SchedEvent::Out { is_preempted }, &[]);
            }
            RecordContent::Switch { is_out: false, .. } => {
                self.scheduled((thread, at), SchedEvent::In, &[]);
            }
            RecordContent::Sched(what) => self.scheduled((thread, at), what.event, &what.frames),
            RecordContent::Stood { frames, until } => {
                self.off_cpu.seen(thread, at);
                self.flow.sample(thread, time, &frames, SampleReach::default());
                self.flow.switch(thread, Some(until), true);
                self.off_cpu.stands(thread, until);
            }
            RecordContent::Seen => self.off_cpu.mentioned(thread, at),
            RecordContent::Instant(name) => {
                self.off_cpu.seen(thread, at);
                self.instants.extend(time.map(|time| (thread, time, name)));
            }
            RecordContent::Named(named, name) => {
                self.off_cpu.mentioned(thread, at);
                self.latest_named = None;
                self.processes.insert(named.tid, named.pid);
                self.comms.insert(named.tid, name);
            }
            RecordContent::Forked(made) => {
                self.off_cpu.mentioned(thread, at);
                self.off_cpu.created(made, time);
                self.latest_named = None;
                // Until it takes another name, it has that of its maker.
                if let Some(&name) = self.comms.get(&thread.tid) {
                    self.comms.insert(made.tid, name);
                }
                self.processes.insert(made.tid, made.pid);
            }
            RecordContent::Ended(ended) => self.off_cpu.ended(ended, time),
            RecordContent::Lost(count) => {
                self.notices.add_count(NoticeKind::EventsLost, count, offset)
            }
        }
    }

    fn scheduled(
        &mut self,
        of: (ThreadKey, Option<EventTime>),
        event: SchedEvent,
        frames: &[spanwise_callstack::Location],
    ) {
        let Timeline { off_cpu, flow, seen, processes, .. } = self;
        let is_unknown = |function| flow.names.is_unknown(function);
        let stack = seen.stack(StackRef::NONE, frames, is_unknown);
        let stack = ObservedStack { frames, number: stack };
        off_cpu.event(of.0, of.1, event, stack, flow, processes);
    }

    fn sample(&mut self, thread: ThreadKey, at: Option<EventTime>, sample: &SampleOf<'_>) {
        let time = at.map(|at| at.time);
        let not_before = self.off_cpu.may_run_since(thread);
        self.off_cpu.seen(thread, at);
        let when = SampledAt { thread, time, cpu: at.and_then(|at| at.cpu) };
        self.observe(when, sample.event, sample.period, sample.stack);
        let is_drawn = sample.is_drawn;
        let name = self.flow.names.text(sample.event);
        let is_stack = match self.stack_event {
            _ if is_clock(name) => {
                self.stack_event = StackEvent::Clock;
                true
            }
            // Where a counter stood when it overflowed is no stack.
            _ if !sample.is_stack => false,
            StackEvent::NoneYet => {
                self.stack_event = StackEvent::First(sample.event);
                true
            }
            StackEvent::First(event) => event == sample.event,
            StackEvent::Clock => false,
        };
        if is_stack && is_drawn && !sample.frames.is_empty() {
            let period = i64::try_from(sample.period).unwrap_or(i64::MAX);
            let drawn = period.saturating_mul(self.drawing.one_in());
            let speaks_for = (is_in_nanoseconds(name) && period > 1).then_some(drawn);
            let reach = SampleReach { speaks_for, not_before };
            self.flow.sample(thread, time, sample.frames, reach);
        }
        if !is_clock(self.flow.names.text(sample.event)) {
            let counter = self.counters.entry((thread, sample.event)).or_default();
            counter.sum = counter.sum.saturating_add(sample.period);
            counter.values.extend(time.filter(|_| is_drawn).map(|time| (time, counter.sum as f64)));
        }
    }

    pub(crate) fn finish(self, mut info: SourceInfo, threads: usize) -> Trace {
        let Timeline { flow, off_cpu, mut seen, mut notices, processes, comms, .. } = self;
        let (instants, counters) = (self.instants, self.counters);
        let counts = self.counts;
        let (names, calls, anomalies) = flow.finish();
        report_anomalies(&mut notices, anomalies);
        notices.add_count(NoticeKind::SamplesNotDrawn, self.drawing.left_out(), NO_OFFSET);
        let mut output = Output {
            batch: Batch::default(),
            names: &names,
            processes: &processes,
            comms: &comms,
            tracks: HashMap::new(),
            texts: QuickMap::default(),
            next_offset: 0,
        };
        output.batch.notices = notices;
        calls.iter().for_each(|calls| output.thread(calls));
        let stacks = output.observations(&mut seen);
        off_cpu.finish(&calls, &seen, &stacks, &mut output);
        for (thread, time, name) in instants {
            output.instant(thread, time, name, "tracepoint");
        }
        for (&(thread, name), counter) in &counters {
            output.counter(thread, name, &counter.values);
        }
        let mut batch = output.batch;
        let phases = [(b'X', counts.branches), (b'P', counts.samples), (b'M', counts.others)];
        batch.phases.extend(phases.into_iter().filter(|(_, count)| *count > 0));
        batch.seal();
        if info.format.is_empty() {
            info.format = "perf script".to_owned();
        }
        let mut builder = TraceBuilder::new(threads);
        builder.push(batch);
        builder.finish(info, None)
    }
}

impl Join for Timeline {
    fn names(&mut self) -> &mut Names {
        &mut self.flow.names
    }

    fn block(&mut self, block: Block, numbers: &NameTranslation) {
        self.notices.merge(&block.notices);
        self.counts.branches += block.counts.branches;
        self.counts.samples += block.counts.samples;
        self.counts.others += block.counts.others;
        for record in block.records {
            self.push(renumbered(record, numbers));
        }
    }
}

fn report_anomalies(notices: &mut Notices, anomalies: Anomalies) {
    notices.add_count(NoticeKind::TimeWentBack, anomalies.time_went_back, NO_OFFSET);
    notices.add_count(NoticeKind::AbortedTransaction, anomalies.aborted, NO_OFFSET);
}

/// The record with the numbers of the common names.
pub(crate) fn renumbered(mut record: Record, numbers: &NameTranslation) -> Record {
    let text = |id: &mut StrId| *id = numbers.text(*id);
    let function = |id: &mut FunctionId| *id = numbers.function(*id);
    let place = |place: &mut Location| {
        function(&mut place.function);
        text(&mut place.source);
    };
    text(&mut record.comm);
    match &mut record.what {
        RecordContent::Branch(branch) => {
            function(&mut branch.from.function);
            function(&mut branch.to.function);
        }
        RecordContent::Sample(sample) => {
            text(&mut sample.event);
            sample.frames.iter_mut().for_each(place);
        }
        RecordContent::Sched(scheduled) => {
            scheduled.frames.iter_mut().for_each(place);
            if let SchedEvent::Probe { function, .. } = &mut scheduled.event {
                text(function);
            }
        }
        RecordContent::Stood { frames, .. } => frames.iter_mut().for_each(place),
        RecordContent::Error { message, .. } => text(message),
        RecordContent::Instant(name) | RecordContent::Named(_, name) => text(name),
        RecordContent::Frequency(_)
        | RecordContent::Switch { .. }
        | RecordContent::Seen
        | RecordContent::Forked(_)
        | RecordContent::Ended(_)
        | RecordContent::Lost(_) => {}
    }
    record
}

/// The trace while it is filled.
pub(crate) struct Output<'a> {
    pub(crate) batch: Batch,
    pub(crate) names: &'a Names,
    processes: &'a BTreeMap<i64, i64>,
    comms: &'a BTreeMap<i64, StrId>,
    tracks: HashMap<(TrackKind, ThreadKey, StrId), TrackId>,
    /// By function, and whether it is drawn from samples.
    texts: QuickMap<(FunctionId, bool), (StrId, CategoryId)>,
    /// Spans of one start and length stand in the order of this.
    pub(crate) next_offset: u64,
}

impl Output<'_> {
    fn thread(&mut self, thread: &ThreadCalls) {
        let track = self.track(TrackKind::Thread, thread.thread, StrId::EMPTY);
        for call in &thread.calls {
            let (name, category) = self.function(call);
            let (start, dur) = (call.start, call.end.saturating_sub(call.start).max(0));
            let offset = self.next_offset;
            self.next_offset += 1;
            let row = SpanRow { start, dur, key: NO_KEY, offset, name, category };
            self.batch.push_span(track, row);
        }
        for &(time, message) in &thread.errors {
            let text = format!("[decode error: {}]", self.names.text(message));
            let name = self.batch.string(&text);
            let category = self.batch.category("decode error", SpanKind::Other);
            let row = InstantRow { time, offset: NO_OFFSET, name, track, category };
            self.batch.instants.push(row);
        }
    }

    fn function(&mut self, call: &Call) -> (StrId, CategoryId) {
        let Output { batch, names, texts, .. } = self;
        let key = (call.function, call.is_sampled);
        let (name, category) = *texts.entry(key).or_insert_with(|| {
            let name = batch.string(names.name_text(call.function));
            let file = names.file_text(call.function);
            let is_python = file.starts_with(PYTHON_FILE_MARK);
            let (category, kind) = match (call.function, call.is_sampled) {
                (outside, _) if outside.is_outside() => ("untraced", SpanKind::Other),
                (_, true) if is_kernel_file(file) => ("sampled_kernel", SpanKind::Sampled),
                (_, true) if is_python => ("sampled_python", SpanKind::Sampled),
                (_, true) => ("sampled", SpanKind::Sampled),
                // Not "kernel": written as a trace and read again, that is work of a GPU.
                (_, false) if is_kernel_file(file) => ("os_kernel", SpanKind::Other),
                (_, false) if is_python => ("python_function", SpanKind::Python),
                (_, false) => ("function", SpanKind::Other),
            };
            (name, batch.category(category, kind))
        });
        match call.is_inlined {
            true => (name, self.batch.category("sampled_inlined", SpanKind::Sampled)),
            false => (name, category),
        }
    }

    fn instant(&mut self, thread: ThreadKey, time: Nanos, name: StrId, category: &str) {
        let track = self.track(TrackKind::Thread, thread, StrId::EMPTY);
        let name = self.batch.string(self.names.text(name));
        let category = self.batch.category(category, SpanKind::Other);
        let row = InstantRow { time, offset: NO_OFFSET, name, track, category };
        self.batch.instants.push(row);
    }

    fn counter(&mut self, thread: ThreadKey, name: StrId, values: &[(Nanos, f64)]) {
        let track = self.track(TrackKind::Counter, thread, name);
        let rows = values.iter().map(|&(time, value)| CounterRow {
            time,
            offset: NO_OFFSET,
            value,
            track,
        });
        self.batch.counters.extend(rows);
    }

    /// The thread's track, or that of a counter beside it.
    pub(crate) fn track(&mut self, kind: TrackKind, thread: ThreadKey, counter: StrId) -> TrackId {
        if let Some(&known) = self.tracks.get(&(kind, thread, counter)) {
            return known;
        }
        let said = (thread.pid != 0).then_some(thread.pid);
        let learned = self.processes.get(&thread.tid).copied();
        let process = said.or(learned).unwrap_or(thread.tid);
        let is_idle_loop = thread.tid <= IDLE_LOOPS && thread.tid > IDLE_LOOPS - (1 << 32);
        let (process, tid) = match is_idle_loop {
            true => (0, format!("swapper/{}", IDLE_LOOPS - thread.tid)),
            false => (process, thread.tid.to_string()),
        };
        let lane = match (counter, self.names.text(counter)) {
            (StrId::EMPTY, _) => tid,
            (_, name) if process == thread.tid => name.to_owned(),
            (_, name) => format!("{name} {tid}"),
        };
        let track = self.batch.track(kind, &process.to_string(), &lane);
        if let Some(&comm) = self.comms.get(&process) {
            let name = self.batch.string(self.names.text(comm));
            self.batch.label(track, TrackLabel::ProcessName(name));
        }
        if let Some(&comm) = self.comms.get(&thread.tid)
            && counter == StrId::EMPTY
        {
            let name = self.batch.string(self.names.text(comm));
            self.batch.label(track, TrackLabel::ThreadName(name));
        }
        self.tracks.insert((kind, thread, counter), track);
        track
    }
}

/// `[kernel.kallsyms]` and `[nf_conntrack]`, but not what is mapped into every program.
pub(crate) fn is_kernel_file(file: &str) -> bool {
    let user = ["[vdso]", "[vsyscall]", "[unknown]", "[heap]", "[stack]", "[uprobes]", "[anon]"];
    file.starts_with('[') && !user.contains(&file)
}
