//! Perfetto's own format: protobuf packets, encoded by hand.
//!
//! Threads are threads of their process; streams of a GPU are tracks below a process of
//! their device. Perfetto draws a track as a stack and drops what does not nest, so a
//! span that overlaps others goes to another track of the same name. Ids of processes
//! and threads are texts here and small numbers there: the texts travel in fields of our
//! own, which Perfetto passes over and our reader takes.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};

use spanwise_model::{
    ArgValue, CategoryId, Nanos, SpanId, StrId, Trace, Track, TrackId, TrackKind,
};
use spanwise_protobuf::MessageWriter;

use super::lanes::{self, Step};
use super::{FIRST_MADE_UP, args_of, flows, is_plain_integer, small_number};

/// Numbers of fields and values of Perfetto's messages.
mod field {
    pub(super) const PACKET: u32 = 1;
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    // Of a track's descriptor; the last four are our own.
    pub(super) const SORT_RANK: u32 = 12;
    pub(super) const PROCESS_TEXT: u32 = 50_001;
    pub(super) const THREAD_TEXT: u32 = 50_002;
    pub(super) const LANE_TEXT: u32 = 50_003;
    pub(super) const IS_UNNAMED: u32 = 50_004;
    // Of an event.
    pub(super) const ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const TRACK_UUID: u32 = 11;
    pub(super) const FLOW_ID: u32 = 47;
    pub(super) const LAST_FLOW_ID: u32 = 48;
    /// Of a packet, and our own: Perfetto counts what it does not know of an event as an
    /// error.
    pub(super) const FLOW_CATEGORY: u32 = 50_001;
}

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Writes all of a trace.
pub fn write_perfetto(trace: &Trace, out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = Writer {
        trace,
        out: io::BufWriter::with_capacity(64 << 10, out),
        processes: processes(trace),
        flows: flow_ends(trace),
        known_names: vec![false; trace.strings().len()],
        known_categories: vec![false; trace.categories().rows().len()],
        argument_names: HashMap::new(),
        event: MessageWriter::default(),
        interned: MessageWriter::default(),
        flow_categories: Vec::new(),
    };
    writer.start()?;
    for (id, track) in trace.tracks().iter() {
        writer.describe(id, track, 0)?;
    }
    for (id, track) in trace.tracks().iter() {
        writer.spans(id, track)?;
    }
    writer.instants()?;
    writer.counters()?;
    writer.out.flush()
}

/// A process as Perfetto knows it.
struct Process {
    uuid: u64,
    pid: u64,
    name: StrId,
    is_gpu: bool,
}

fn processes(trace: &Trace) -> BTreeMap<StrId, Process> {
    let mut processes: BTreeMap<StrId, Process> = BTreeMap::new();
    for track in trace.tracks().rows() {
        let uuid = 1 << 60 | processes.len() as u64;
        let process = processes.entry(track.process).or_insert(Process {
            uuid,
            pid: 0,
            name: track.process_name,
            is_gpu: false,
        });
        process.is_gpu |= track.kind == TrackKind::GpuStream;
    }
    let made_up = FIRST_MADE_UP..;
    for ((&text, process), made_up) in processes.iter_mut().zip(made_up) {
        let own = small_number(trace.strings().get(text)).filter(|_| !process.is_gpu);
        process.pid = own.unwrap_or(made_up);
    }
    processes
}

/// One end of an arrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FlowEnd {
    span: SpanId,
    /// Stands on the end of the span: its start comes before the arrow does.
    is_late: bool,
    id: u64,
    is_last: bool,
    category: Option<CategoryId>,
}

/// All ends of arrows by span.
fn flow_ends(trace: &Trace) -> Vec<FlowEnd> {
    let spans = trace.spans();
    let mut ends = Vec::new();
    for (arrow, id) in flows::arrows(trace).zip(1..) {
        let began = |span: SpanId| (spans.start(span), span);
        let is_late = began(arrow.to) < began(arrow.from);
        let category = arrow.link.map(|row| trace.links().category[row].into());
        let from = FlowEnd { span: arrow.from, is_late: false, id, is_last: false, category };
        ends.push(from);
        ends.push(FlowEnd { span: arrow.to, is_late, is_last: true, ..from });
    }
    ends.sort_unstable();
    ends
}

struct Writer<'a, 'o> {
    trace: &'a Trace,
    out: io::BufWriter<&'o mut dyn io::Write>,
    processes: BTreeMap<StrId, Process>,
    flows: Vec<FlowEnd>,
    known_names: Vec<bool>,
    known_categories: Vec<bool>,
    argument_names: HashMap<String, u64>,
    /// The event at hand, and the texts that it is the first to use.
    event: MessageWriter,
    interned: MessageWriter,
    /// Of the arrows that begin on it.
    flow_categories: Vec<u64>,
}

/// Every lane of a track is a track there.
fn uuid(track: TrackId, lane: usize) -> u64 {
    (lane as u64) << 32 | (u64::from(track.0) + 1)
}

impl Writer<'_, '_> {
    fn text(&self, id: StrId) -> &str {
        self.trace.strings().get(id)
    }

    fn packet(&mut self, mut packet: MessageWriter, flags: u64) -> io::Result<()> {
        packet.uint(field::SEQUENCE_ID, 1);
        packet.uint(field::SEQUENCE_FLAGS, flags);
        packet.write(field::PACKET, &mut self.out)
    }

    /// The calendar, and the processes.
    fn start(&mut self) -> io::Result<()> {
        let mut first = MessageWriter::default();
        if let Some(base) = self.trace.info().base_time_ns {
            let mut snapshot = MessageWriter::default();
            for (clock, time) in [(6, 0), (1, base)] {
                let mut reading = MessageWriter::default();
                reading.uint(1, clock);
                reading.uint(2, time as u64);
                snapshot.message(1, &reading);
            }
            first.message(field::CLOCK_SNAPSHOT, &snapshot);
        }
        // Flag 1: what was interned before is forgotten.
        self.packet(first, 1)?;
        let mut descriptors = Vec::new();
        for (&text, process) in &self.processes {
            let (mut descriptor, mut inner) = (MessageWriter::default(), MessageWriter::default());
            descriptor.uint(1, process.uuid);
            inner.uint(1, process.pid);
            match self.text(process.name) {
                "" => {
                    let shown = if process.is_gpu { "GPU" } else { "process" };
                    inner.text(6, &format!("{shown} {}", self.text(text)));
                    descriptor.uint(field::IS_UNNAMED, 1);
                }
                name => inner.text(6, name),
            }
            descriptor.message(3, &inner);
            descriptor.text(field::PROCESS_TEXT, self.text(text));
            descriptors.push(descriptor);
        }
        descriptors.iter().try_for_each(|descriptor| self.descriptor(descriptor))
    }

    fn descriptor(&mut self, descriptor: &MessageWriter) -> io::Result<()> {
        let mut packet = MessageWriter::default();
        packet.message(field::TRACK_DESCRIPTOR, descriptor);
        self.packet(packet, 0)
    }

    fn describe(&mut self, id: TrackId, track: &Track, lane: usize) -> io::Result<()> {
        let process = &self.processes[&track.process];
        let (thread, name) = (self.text(track.thread), self.text(track.thread_name));
        let is_thread = matches!(track.kind, TrackKind::Thread | TrackKind::Profiler);
        let mut descriptor = MessageWriter::default();
        descriptor.uint(1, uuid(id, lane));
        if is_thread && lane == 0 {
            let mut inner = MessageWriter::default();
            inner.uint(1, process.pid);
            inner.uint(2, small_number(thread).unwrap_or(FIRST_MADE_UP + u64::from(id.0)));
            // A synthetic number is of no use to people: the id is shown.
            match (name, small_number(thread)) {
                ("", Some(_)) => {}
                ("", None) => inner.text(5, thread),
                (name, _) => inner.text(5, name),
            }
            descriptor.message(4, &inner);
        } else {
            let shown = match (track.kind, name) {
                (TrackKind::Async | TrackKind::Counter, _) => thread.to_owned(),
                (TrackKind::GpuStream, "") if is_plain_integer(thread) => {
                    format!("stream {thread}")
                }
                (_, "") => thread.to_owned(),
                (_, name) => name.to_owned(),
            };
            descriptor.text(2, &shown);
            descriptor.uint(5, if is_thread { uuid(id, 0) } else { process.uuid });
        }
        if track.kind == TrackKind::Counter {
            descriptor.message(8, &MessageWriter::default());
        }
        if name.is_empty() {
            descriptor.uint(field::IS_UNNAMED, 1);
        }
        if track.sort_index != 0 {
            let rank = track.sort_index.clamp(i32::MIN.into(), i32::MAX.into());
            descriptor.uint(field::SORT_RANK, rank as u64);
        }
        descriptor.text(field::PROCESS_TEXT, self.text(track.process));
        let is_lane = matches!(track.kind, TrackKind::Async | TrackKind::Counter);
        descriptor.text(if is_lane { field::LANE_TEXT } else { field::THREAD_TEXT }, thread);
        self.descriptor(&descriptor)
    }

    fn spans(&mut self, id: TrackId, track: &Track) -> io::Result<()> {
        lanes::walk(self.trace, track, |step| match step {
            Step::Further(lane) => self.describe(id, track, lane),
            Step::Begin(lane, span) => self.begin(uuid(id, lane), span),
            Step::End(lane, span, time) => self.end(uuid(id, lane), span, time),
        })
    }

    fn begin(&mut self, uuid: u64, span: SpanId) -> io::Result<()> {
        let spans = self.trace.spans();
        self.open_event(BEGIN, uuid);
        self.event_text(spans.name(span), spans.category(span));
        self.event_flows(span, false);
        for (key, value) in args_of(self.trace, span)? {
            let name = self.argument_name(&key);
            self.event.message(field::ANNOTATION, &annotation(name, &value));
        }
        self.close_event(spans.start(span))
    }

    fn end(&mut self, uuid: u64, span: SpanId, time: Nanos) -> io::Result<()> {
        self.open_event(END, uuid);
        self.event_flows(span, true);
        self.close_event(time)
    }

    fn instants(&mut self) -> io::Result<()> {
        let instants = self.trace.instants();
        for row in 0..instants.len() {
            self.open_event(INSTANT, uuid(TrackId(instants.track[row]), 0));
            self.event_text(StrId(instants.name[row]), instants.category[row].into());
            self.close_event(instants.time[row])?;
        }
        Ok(())
    }

    fn counters(&mut self) -> io::Result<()> {
        let counters = self.trace.counters();
        for row in 0..counters.len() {
            self.open_event(COUNTER, uuid(TrackId(counters.track[row]), 0));
            self.event.fixed64(44, counters.value[row].to_bits());
            self.close_event(counters.time[row])?;
        }
        Ok(())
    }

    fn open_event(&mut self, kind: u64, uuid: u64) {
        self.event.clear();
        self.interned.clear();
        self.flow_categories.clear();
        self.event.uint(field::EVENT_TYPE, kind);
        self.event.uint(field::TRACK_UUID, uuid);
    }

    fn close_event(&mut self, time: Nanos) -> io::Result<()> {
        let mut packet = MessageWriter::default();
        packet.uint(field::TIMESTAMP, time as u64);
        if !self.interned.is_empty() {
            packet.message(field::INTERNED_DATA, &self.interned);
        }
        packet.message(field::TRACK_EVENT, &self.event);
        for &category in &self.flow_categories {
            packet.uint(field::FLOW_CATEGORY, category);
        }
        // Flag 2: refers to what was interned before.
        self.packet(packet, 2)
    }

    /// Name and category, by number; the empty ones are left out.
    fn event_text(&mut self, name: StrId, category: CategoryId) {
        if name != StrId::EMPTY {
            let iid = u64::from(name.0);
            self.event.uint(10, iid);
            if !std::mem::replace(&mut self.known_names[name.index()], true) {
                let text = self.trace.strings().get(name);
                self.interned.message(2, &interned(iid, text));
            }
        }
        if let Some(iid) = self.category(category) {
            self.event.uint(3, iid);
        }
    }

    fn category(&mut self, category: CategoryId) -> Option<u64> {
        let text = self.trace.strings().get(self.trace.categories().get(category).name);
        let iid = u64::from(category.0) + 1;
        let known = &mut self.known_categories[category.index()];
        if !std::mem::replace(known, true) && !text.is_empty() {
            self.interned.message(1, &interned(iid, text));
        }
        (!text.is_empty()).then_some(iid)
    }

    fn event_flows(&mut self, span: SpanId, is_late: bool) {
        let from = self.flows.partition_point(|end| (end.span, end.is_late) < (span, is_late));
        let ends = self.flows[from..].iter().copied();
        let ends = ends.take_while(|end| (end.span, end.is_late) == (span, is_late));
        for end in ends.collect::<Vec<_>>() {
            let number = if end.is_last { field::LAST_FLOW_ID } else { field::FLOW_ID };
            self.event.fixed64(number, end.id);
            if !end.is_last {
                let category = end.category.and_then(|category| self.category(category));
                self.flow_categories.push(category.unwrap_or(0));
            }
        }
    }

    fn argument_name(&mut self, name: &str) -> u64 {
        if let Some(&iid) = self.argument_names.get(name) {
            return iid;
        }
        let iid = self.argument_names.len() as u64 + 1;
        self.argument_names.insert(name.to_owned(), iid);
        self.interned.message(3, &interned(iid, name));
        iid
    }
}

fn interned(iid: u64, text: &str) -> MessageWriter {
    let mut message = MessageWriter::default();
    message.uint(1, iid);
    message.text(2, text);
    message
}

fn annotation(name: u64, value: &ArgValue) -> MessageWriter {
    let mut message = MessageWriter::default();
    message.uint(1, name);
    annotation_value(value, &mut message);
    message
}

fn annotation_value(value: &ArgValue, message: &mut MessageWriter) {
    match value {
        ArgValue::Null => message.text(6, "null"),
        ArgValue::Bool(value) => message.uint(2, u64::from(*value)),
        ArgValue::Int(value) => message.uint(4, *value as u64),
        ArgValue::Number(text) => match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(value), _) => message.uint(3, value),
            (_, Ok(value)) => message.fixed64(5, value.to_bits()),
            _ => message.text(6, text),
        },
        ArgValue::Text(text) => message.text(6, text),
        ArgValue::List(values) => {
            for value in values {
                let mut inner = MessageWriter::default();
                annotation_value(value, &mut inner);
                message.message(12, &inner);
            }
        }
        ArgValue::Map(members) => {
            for (key, value) in members {
                let mut inner = MessageWriter::default();
                inner.text(10, key);
                annotation_value(value, &mut inner);
                message.message(11, &inner);
            }
        }
    }
}
