//! The Fuchsia trace format: records of 64-bit words, encoded by hand.
//!
//! Every record begins with a word that gives its type and length. Names are written once
//! and then called by number, as far as the numbers go. Viewers draw a thread as a stack,
//! so a span that overlaps others without nesting goes to a further thread of the same
//! name. Ids of processes and threads are texts here and numbers there: the texts travel
//! as arguments of the records that name the threads.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};

use spanwise_model::{CategoryId, Nanos, SpanId, StrId, Trace, Track, TrackId, TrackKind};

use super::lanes::{self, Step};
use super::{FIRST_MADE_UP, flows, small_number};

/// The record that every such file begins with.
const MAGIC: u64 = 0x0016_5478_4604_0010;

/// Types of records and of events.
const METADATA: u64 = 0;
const INITIALIZATION: u64 = 1;
const STRING: u64 = 2;
const EVENT: u64 = 4;
const KERNEL_OBJECT: u64 = 7;
const INSTANT: u64 = 0;
const COUNTER: u64 = 1;
const COMPLETE: u64 = 4;
const ASYNC_BEGIN: u64 = 5;
const ASYNC_INSTANT: u64 = 6;
const ASYNC_END: u64 = 7;
const FLOW_BEGIN: u64 = 8;
const FLOW_END: u64 = 10;
const OBJECT_PROCESS: u64 = 1;
const OBJECT_THREAD: u64 = 2;

/// How many texts can be called by number, and how long a text may be: two of them fit
/// into one record of 4,095 words. What is longer is cut.
const STRINGS_MAX: usize = 0x7fff;
const STRING_BYTES_MAX: usize = 15_000;

/// Keys of arguments; always called by number.
const KEYS: [&str; 7] = [
    "process",
    "value",
    "spanwise:process",
    "spanwise:thread",
    "spanwise:lane",
    "spanwise:sort",
    "spanwise:unnamed",
];

/// Writes all of a trace.
pub fn write_fxt(trace: &Trace, out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = Writer {
        trace,
        out: io::BufWriter::with_capacity(64 << 10, out),
        processes: processes(trace),
        flows: flow_ends(trace),
        strings: HashMap::new(),
        next_thread: FIRST_MADE_UP * 2,
        next_id: 1,
    };
    writer.start()?;
    for (id, track) in trace.tracks().iter() {
        writer.track(id, track)?;
    }
    writer.out.flush()
}

fn processes(trace: &Trace) -> BTreeMap<StrId, u64> {
    let mut processes = BTreeMap::new();
    for track in trace.tracks().rows() {
        let made_up = FIRST_MADE_UP + processes.len() as u64;
        let is_gpu = track.kind == TrackKind::GpuStream;
        let own = small_number(trace.strings().get(track.process)).filter(|_| !is_gpu);
        processes.entry(track.process).or_insert(own.unwrap_or(made_up));
    }
    processes
}

/// One end of an arrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FlowEnd {
    span: SpanId,
    time: Nanos,
    id: u64,
    is_last: bool,
    category: Option<CategoryId>,
}

/// All ends of arrows by span. None ends before it begins.
fn flow_ends(trace: &Trace) -> Vec<FlowEnd> {
    let spans = trace.spans();
    let mut ends = Vec::new();
    for (arrow, id) in flows::arrows(trace).zip(1..) {
        let category = arrow.link.map(|row| trace.links().category[row].into());
        let time = spans.start(arrow.from);
        let from = FlowEnd { span: arrow.from, time, id, is_last: false, category };
        ends.push(from);
        let time = spans.start(arrow.to).max(time);
        ends.push(FlowEnd { span: arrow.to, time, is_last: true, ..from });
    }
    ends.sort_unstable();
    ends
}

/// A record while it is put together; the first word is filled in at the end.
struct Record(Vec<u64>);

impl Record {
    fn new() -> Self {
        Record(vec![0])
    }

    fn word(&mut self, word: u64) {
        self.0.push(word);
    }

    /// Bytes, filled up to whole words.
    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0.push(u64::from_le_bytes(word));
        }
    }

    fn write(mut self, header: u64, out: &mut dyn io::Write) -> io::Result<()> {
        self.0[0] = header | (self.0.len() as u64) << 4;
        self.0.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
    }
}

/// A text in a record: its number, or its length with the text to follow.
struct Text<'t> {
    code: u64,
    inline: Option<&'t str>,
}

/// A process and a thread of it, by the numbers in the file.
#[derive(Clone, Copy)]
struct ThreadRef {
    process: u64,
    thread: u64,
}

/// What an event says beside its texts.
struct Event<'t> {
    kind: u64,
    time: Nanos,
    /// Process and thread.
    thread: ThreadRef,
    category: &'t str,
    name: &'t str,
    /// A counter's value.
    value: Option<f64>,
    /// The word at the end: an end time or an id.
    last: Option<u64>,
}

struct Writer<'a, 'o> {
    trace: &'a Trace,
    out: io::BufWriter<&'o mut dyn io::Write>,
    processes: BTreeMap<StrId, u64>,
    flows: Vec<FlowEnd>,
    strings: HashMap<String, u64>,
    next_thread: u64,
    next_id: u64,
}

impl<'a> Writer<'a, '_> {
    fn text(&self, id: StrId) -> &'a str {
        self.trace.strings().get(id)
    }

    fn category(&self, id: CategoryId) -> &'a str {
        self.text(self.trace.categories().get(id).name)
    }

    fn start(&mut self) -> io::Result<()> {
        self.out.write_all(&MAGIC.to_le_bytes())?;
        let mut provider = Record::new();
        let name = "spanwise";
        provider.bytes(name.as_bytes());
        // Provider information of provider 0, and its section.
        provider.write(METADATA | 1 << 16 | (name.len() as u64) << 52, &mut self.out)?;
        Record::new().write(METADATA | 2 << 16, &mut self.out)?;
        let mut clock = Record::new();
        clock.word(1_000_000_000);
        if let Some(base) = self.trace.info().base_time_ns {
            // Ticks at the start, and what the calendar shows then.
            clock.word(0);
            clock.word(base as u64);
        }
        clock.write(INITIALIZATION, &mut self.out)?;
        for key in KEYS {
            self.string(key)?;
        }
        let processes: Vec<(StrId, u64)> =
            self.processes.iter().map(|(&text, &koid)| (text, koid)).collect();
        let mut names: HashMap<StrId, StrId> = HashMap::new();
        for track in self.trace.tracks().rows() {
            names.entry(track.process).or_insert(track.process_name);
        }
        for (text, koid) in processes {
            let name = names.get(&text).copied();
            let mut arguments = vec![("spanwise:process", self.text(text))];
            let shown = match self.text(name.unwrap_or(StrId::EMPTY)) {
                "" => {
                    arguments.push(("spanwise:unnamed", "yes"));
                    self.text(text)
                }
                name => name,
            };
            self.object(OBJECT_PROCESS, koid, shown, None, &arguments)?;
        }
        Ok(())
    }

    /// The number of a text, written the first time; texts beyond the numbers stand in
    /// the record itself.
    fn string<'t>(&mut self, text: &'t str) -> io::Result<Text<'t>> {
        let text = &text[..text.floor_char_boundary(STRING_BYTES_MAX)];
        if text.is_empty() {
            return Ok(Text { code: 0, inline: None });
        }
        if let Some(&code) = self.strings.get(text) {
            return Ok(Text { code, inline: None });
        }
        if self.strings.len() == STRINGS_MAX {
            return Ok(Text { code: 0x8000 | text.len() as u64, inline: Some(text) });
        }
        let code = self.strings.len() as u64 + 1;
        self.strings.insert(text.to_owned(), code);
        let mut record = Record::new();
        record.bytes(text.as_bytes());
        record.write(STRING | code << 16 | (text.len() as u64) << 32, &mut self.out)?;
        Ok(Text { code, inline: None })
    }

    /// Names a process or a thread. Arguments are texts; a thread has its process too.
    fn object(
        &mut self,
        kind: u64,
        koid: u64,
        name: &str,
        process: Option<u64>,
        arguments: &[(&str, &str)],
    ) -> io::Result<()> {
        let mut body = Record::new();
        let name = self.string(name)?;
        body.word(koid);
        body.bytes(name.inline.unwrap_or("").as_bytes());
        if let Some(process) = process {
            let key = self.string("process")?;
            body.word(8 | 2 << 4 | key.code << 16);
            body.word(process);
        }
        for &(key, value) in arguments {
            let (key, value) = (self.string(key)?, self.string(value)?);
            let inline = value.inline.unwrap_or("");
            let words = 1 + inline.len().div_ceil(8) as u64;
            body.word(6 | words << 4 | key.code << 16 | value.code << 32);
            body.bytes(inline.as_bytes());
        }
        let count = arguments.len() as u64 + u64::from(process.is_some());
        let header = KERNEL_OBJECT | kind << 16 | name.code << 24 | count << 40;
        body.write(header, &mut self.out)
    }

    /// Everything on a track.
    fn track(&mut self, id: TrackId, track: &Track) -> io::Result<()> {
        let process = self.processes[&track.process];
        let thread = small_number(self.text(track.thread));
        let thread = thread.filter(|_| is_thread(track)).unwrap_or_else(|| self.free_thread());
        let thread = ThreadRef { process, thread };
        if track.kind != TrackKind::Counter {
            self.name_thread(track, thread)?;
        }
        match track.kind {
            TrackKind::Async => self.asyncs(track, thread)?,
            _ => self.spans(track, thread)?,
        }
        self.instants(id, track, thread)?;
        self.counters(id, track, thread)
    }

    fn free_thread(&mut self) -> u64 {
        self.next_thread += 1;
        self.next_thread - 1
    }

    fn name_thread(&mut self, track: &Track, thread: ThreadRef) -> io::Result<()> {
        let name = self.text(track.thread_name);
        let key = match track.kind {
            TrackKind::Async => "spanwise:lane",
            _ => "spanwise:thread",
        };
        let sort = track.sort_index.to_string();
        let mut arguments = vec![(key, self.text(track.thread))];
        if track.sort_index != 0 {
            arguments.push(("spanwise:sort", &sort));
        }
        let shown = match name {
            "" => {
                arguments.push(("spanwise:unnamed", "yes"));
                self.text(track.thread)
            }
            name => name,
        };
        self.object(OBJECT_THREAD, thread.thread, shown, Some(thread.process), &arguments)
    }

    fn spans(&mut self, track: &Track, thread: ThreadRef) -> io::Result<()> {
        let mut threads = vec![thread];
        lanes::walk(self.trace, track, |step| match step {
            Step::Further(_) => {
                let further = ThreadRef { thread: self.free_thread(), ..thread };
                threads.push(further);
                self.name_thread(track, further)
            }
            Step::Begin(lane, span) => self.complete(span, threads[lane]),
            // Begin and end stand in one record.
            Step::End(..) => Ok(()),
        })
    }

    fn complete(&mut self, span: SpanId, thread: ThreadRef) -> io::Result<()> {
        let spans = self.trace.spans();
        self.event(&Event {
            kind: COMPLETE,
            time: spans.start(span),
            thread,
            category: self.category(spans.category(span)),
            name: self.trace.name(span),
            value: None,
            last: Some(spans.end(span) as u64),
        })?;
        self.span_flows(span, thread)
    }

    /// Arrows stand right behind the span that they begin or end on.
    fn span_flows(&mut self, span: SpanId, thread: ThreadRef) -> io::Result<()> {
        let from = self.flows.partition_point(|end| end.span < span);
        let ends = self.flows[from..].iter().take_while(|end| end.span == span);
        for end in ends.copied().collect::<Vec<_>>() {
            let category = end.category.map_or("ac2g", |category| self.category(category));
            self.event(&Event {
                kind: if end.is_last { FLOW_END } else { FLOW_BEGIN },
                time: end.time,
                thread,
                category,
                name: category,
                value: None,
                last: Some(end.id),
            })?;
        }
        Ok(())
    }

    fn free_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn asyncs(&mut self, track: &Track, thread: ThreadRef) -> io::Result<()> {
        let spans = self.trace.spans();
        for span in track.span_ids() {
            let id = self.free_id();
            for (kind, time) in [(ASYNC_BEGIN, spans.start(span)), (ASYNC_END, spans.end(span))] {
                self.event(&Event {
                    kind,
                    time,
                    thread,
                    category: self.category(spans.category(span)),
                    name: self.trace.name(span),
                    value: None,
                    last: Some(id),
                })?;
                if kind == ASYNC_BEGIN {
                    self.span_flows(span, thread)?;
                }
            }
        }
        Ok(())
    }

    fn instants(&mut self, id: TrackId, track: &Track, thread: ThreadRef) -> io::Result<()> {
        let instants = self.trace.instants();
        let from = instants.track.partition_point(|&track| track < id.0);
        let rows = (from..instants.len()).take_while(|&row| instants.track[row] == id.0);
        for row in rows {
            let is_async = track.kind == TrackKind::Async;
            let last = is_async.then(|| self.free_id());
            self.event(&Event {
                kind: if is_async { ASYNC_INSTANT } else { INSTANT },
                time: instants.time[row],
                thread,
                category: self.category(instants.category[row].into()),
                name: self.text(StrId(instants.name[row])),
                value: None,
                last,
            })?;
        }
        Ok(())
    }

    fn counters(&mut self, id: TrackId, track: &Track, thread: ThreadRef) -> io::Result<()> {
        let counters = self.trace.counters();
        let from = counters.track.partition_point(|&track| track < id.0);
        let rows = (from..counters.len()).take_while(|&row| counters.track[row] == id.0);
        for row in rows {
            self.event(&Event {
                kind: COUNTER,
                time: counters.time[row],
                thread,
                category: "",
                name: self.text(track.thread),
                value: Some(counters.value[row]),
                last: Some(0),
            })?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        let (category, name) = (self.string(event.category)?, self.string(event.name)?);
        let value_key = match event.value {
            Some(_) => self.string("value")?.code,
            None => 0,
        };
        let mut record = Record::new();
        record.word(event.time as u64);
        // No number of a thread: process and thread stand in the record.
        record.word(event.thread.process);
        record.word(event.thread.thread);
        for text in [category.inline, name.inline].into_iter().flatten() {
            record.bytes(text.as_bytes());
        }
        if let Some(value) = event.value {
            record.word(5 | 2 << 4 | value_key << 16);
            record.word(value.to_bits());
        }
        if let Some(last) = event.last {
            record.word(last);
        }
        let arguments = u64::from(event.value.is_some());
        let header = EVENT | event.kind << 16 | arguments << 20;
        record.write(header | category.code << 32 | name.code << 48, &mut self.out)
    }
}

fn is_thread(track: &Track) -> bool {
    matches!(track.kind, TrackKind::Thread | TrackKind::Profiler)
}
