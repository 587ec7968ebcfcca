//! Recordings of Intel PT: every call and return of an interval.
//!
//! The hardware's trace is decoded with the files that were mapped, processor by processor or
//! thread by thread, and sorted in among the other records by time. Code that is in no file is that
//! of runtimes which wrote it down, and of the kernel where it was kept beside the records.

mod aux;
mod code;
mod jitdump;
mod side;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use spanwise_callstack::{Branch, BranchKind, Location, ThreadKey, TraceEdge};
use spanwise_files::FileBytes;
use spanwise_model::{NO_OFFSET, Nanos, NoticeKind, QuickMap};
use spanwise_pt::{BranchKind as Kind, Event, EventTime, Loss, Sink, TickScale, decode_parallel};
use spanwise_symbols::is_jit_dump;

use super::State;
use crate::input::memory::MemoryShare;
use crate::perf::data::file::header::{Header, Refusal};
use crate::perf::data::file::records;
use crate::perf::record::RecordContent;
use aux::Info;
use code::Codes;
use jitdump::JitFunction;
use side::{Side, Turn};
use streams::{Queue, queues};

/// What was decoded, and is not yet taken.
#[derive(Default)]
pub(super) struct Hardware {
    info: Info,
    threads: Vec<Thread>,
    /// Functions that runtimes made, by process and first address: the last, and the name.
    made: BTreeMap<(i64, u64), (u64, String)>,
    /// Functions that were found, by process and address.
    places: QuickMap<(i64, u64), Location>,
    skipped_bytes: u64,
}

struct Thread {
    key: ThreadKey,
    /// From the latest to the earliest.
    events: Vec<(Option<Nanos>, Event)>,
}

/// Events of a part of the trace. A byte can stand for many, so they are kept only as long as there
/// is memory for them.
struct EventList {
    events: Vec<(EventTime, Event)>,
    share: MemoryShare,
    /// The number of events at which to check the memory next.
    next_check: usize,
    is_too_large: bool,
}

/// Between two checks of the memory: some megabytes.
const EVENTS_PER_CHECK: usize = 1 << 18;

impl Default for EventList {
    fn default() -> EventList {
        let share = MemoryShare::start();
        EventList { events: Vec::new(), share, next_check: EVENTS_PER_CHECK, is_too_large: false }
    }
}

impl Sink for EventList {
    fn event(&mut self, at: EventTime, event: Event) {
        if self.events.len() < self.next_check || self.has_room() {
            self.events.push((at, event));
        }
    }
}

impl EventList {
    fn bytes(&self) -> u64 {
        size_of_val(self.events.as_slice()) as u64
    }

    #[cold]
    fn has_room(&mut self) -> bool {
        self.is_too_large = self.is_too_large || self.share.check(self.bytes()).is_err();
        if !self.is_too_large {
            self.next_check = self.events.len() + EVENTS_PER_CHECK;
        }
        !self.is_too_large
    }
}

impl State<'_> {
    /// Decodes the hardware's trace, if there is one.
    pub(super) fn decode_hardware(&mut self, header: &Header<'_>) -> Result<(), Refusal> {
        let Some((info, pieces)) = aux::read(header) else { return Ok(()) };
        let mut side = Side::new(self.made_code(header, info.scale));
        records::each_record(header, |record| side.take(record));
        side.make_until(u64::MAX);
        self.hardware.info = info;
        let mut threads = Threads::default();
        for queue in queues(&pieces, info.are_snapshots, &side.cuts) {
            self.decode_queue(&queue, &side, &mut threads)?;
        }
        self.hardware.threads = in_order(threads);
        Ok(())
    }

    /// The code that runtimes made while they were recorded, as they wrote it down.
    fn made_code(&mut self, header: &Header<'_>, scale: TickScale) -> Vec<JitFunction> {
        let mut dumps: BTreeSet<(Rc<str>, i32)> = BTreeSet::new();
        records::each_record(header, |record| match record.what {
            records::Body::Mapped { path, pid, .. } if is_jit_dump(&path) => {
                dumps.insert((path.into(), pid));
            }
            _ => {}
        });
        let has_same_clock = header.events.iter().all(|event| event.has_monotonic);
        let mut made = Vec::new();
        let mut known: BTreeSet<Rc<str>> = BTreeSet::new();
        for (path, pid) in dumps {
            // The recorder's copy is that of this process, which may know itself by another number.
            if let Some((name, bytes)) = self.jit_maps.copied_dump(pid) {
                let (name, bytes) = (Rc::from(name), FileBytes::from(bytes));
                if known.insert(Rc::clone(&name)) {
                    let own = jitdump::read(&name, bytes.as_ref(), scale, has_same_clock);
                    made.extend(own.into_iter().map(|made| JitFunction { pid, ..made }));
                    self.files.add(&name, bytes);
                }
            } else if known.insert(Rc::clone(&path))
                && let Some(bytes) = self.files.get(&path)
            {
                made.extend(jitdump::read(&path, bytes.as_ref(), scale, has_same_clock));
            }
        }
        made.sort_by_key(|made| made.since);
        let names = made.iter().map(|JitFunction { pid, mapping, name, .. }| {
            ((i64::from(*pid), mapping.start), (mapping.end, name.clone()))
        });
        self.hardware.made = names.collect();
        made
    }

    /// Decodes what one ring held, with the code of whatever ran there.
    fn decode_queue(
        &mut self,
        queue: &Queue<'_>,
        side: &Side,
        threads: &mut Threads,
    ) -> Result<(), Refusal> {
        let info = self.hardware.info;
        let turns = side.turns(queue.tid, queue.cpu);
        let codes = Codes::new(side, &turns, &mut self.files, &mut self.symbols, self.kernel);
        let program = codes.program(&turns, info.scale);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut end = None;
        for stream in &queue.streams {
            let (parts, counts) =
                decode_parallel::<EventList>(&program, info.options, stream, cores);
            self.hardware.skipped_bytes += counts.skipped_bytes;
            if parts.iter().any(|part| part.is_too_large) {
                return Err(Refusal::TooLarge(parts.iter().map(EventList::bytes).sum()));
            }
            let mut times = Times { scale: info.scale, first: None, latest: None };
            times.first =
                parts.iter().flat_map(|part| &part.events).find_map(|(at, _)| times.of(*at));
            if let Some((time, last)) = end {
                note_gap(threads, &turns, time, last, times.first);
            }
            for (at, event) in parts.into_iter().flat_map(|part| part.events) {
                let turn = turns.get(at.switch as usize).map(|turn| turn.0);
                let key = key_of(turn.unwrap_or(Turn { since: 0, pid: 0, tid: queue.tid }));
                let time = times.next(at);
                threads.entry(key).or_default().push((time, event));
                end = Some((time, key));
            }
        }
        Ok(())
    }

    /// What the hardware recorded up to a time.
    pub(super) fn hardware_until(&mut self, time: Nanos) {
        for at in 0..self.hardware.threads.len() {
            loop {
                let Thread { key, events } = &mut self.hardware.threads[at];
                // Without times all of the other records come first: they say what was mapped.
                let is_due =
                    |(at, _): &mut (Option<Nanos>, Event)| at.unwrap_or(Nanos::MAX) <= time;
                let Some((time, event)) = events.pop_if(is_due) else { break };
                let key = *key;
                let what = self.hardware_event(key, event);
                if matches!(what, RecordContent::Branch(_)) {
                    self.timeline.count_branch();
                }
                self.push_made(key, time, what);
            }
        }
    }

    /// Says that a part of the trace is missing, which is nothing on a timeline.
    pub(super) fn trace_lost(&mut self, offset: u64, why: &str) -> Option<RecordContent> {
        let text = format!("trace of Intel PT: {why}");
        self.timeline.notices.add(NoticeKind::EventsLost, offset, text.as_bytes());
        None
    }

    /// Says how much of the trace could not be read.
    pub(super) fn report_skipped(&mut self) {
        let skipped = self.hardware.skipped_bytes;
        if skipped > 0 {
            let text =
                format!("{skipped} bytes of Intel PT: before the first place to begin, or damaged");
            self.timeline.notices.add(NoticeKind::EventSkipped, NO_OFFSET, text.as_bytes());
        }
    }

    fn hardware_event(&mut self, key: ThreadKey, event: Event) -> RecordContent {
        match event {
            Event::Branch { kind, from, to, is_in_transaction } => {
                let (from, to) = (self.branch_place(key, from), self.branch_place(key, to));
                let (kind, edge) = (kind_of(kind), TraceEdge::Within);
                RecordContent::Branch(Branch { kind, edge, is_in_transaction, from, to })
            }
            Event::Start { to } => RecordContent::Branch(Branch {
                kind: BranchKind::None,
                edge: TraceEdge::Start,
                is_in_transaction: false,
                from: Location::NOWHERE,
                to: self.branch_place(key, to),
            }),
            Event::End { kind, from, to } => RecordContent::Branch(Branch {
                kind: match kind {
                    Some(Kind::Interrupt) => BranchKind::Asynchronous,
                    Some(kind) => kind_of(kind),
                    None => BranchKind::None,
                },
                edge: TraceEdge::End,
                is_in_transaction: false,
                from: self.branch_place(key, from),
                to: self.branch_place(key, to.unwrap_or(0)),
            }),
            Event::Loss(lost) => {
                let (message, ip) = message_of(lost);
                RecordContent::Error { message: self.names().string(message), ip }
            }
            Event::CoreRatio(ratio) => RecordContent::Frequency(self.hardware.info.mhz(ratio)),
            Event::Written(value) => {
                RecordContent::Instant(self.names().string(&format!("ptwrite {value:#x}")))
            }
        }
    }

    fn branch_place(&mut self, key: ThreadKey, ip: u64) -> Location {
        if ip == 0 {
            return Location::NOWHERE;
        }
        if let Some(&known) = self.hardware.places.get(&(key.pid, ip)) {
            return known;
        }
        let pid = i32::try_from(key.pid).unwrap_or(0);
        let made = self.hardware.made.range((key.pid, 0)..=(key.pid, ip)).next_back();
        // One without a name may have it in the runtime's other map.
        let made = made.filter(|(_, (end, name))| ip < *end && !name.is_empty());
        let made = made.map(|(&(_, start), (_, name))| (name.clone(), start == ip));
        let mapping = self.maps.find(pid, ip).cloned();
        let made = made.or_else(|| self.runtime_name(pid, ip, mapping.as_ref()));
        let (function, is_entry) = match mapping {
            mapping if made.is_some() => {
                let (name, is_entry) = made.unwrap_or_default();
                let file = mapping.map_or(Rc::default(), |mapping| mapping.path);
                (self.names().function(&name, &file), is_entry)
            }
            Some(mapping) if ip >> 63 == 0 => self.symbol_at(&mapping, ip),
            _ => {
                let file = if ip >> 63 == 1 { "[kernel.kallsyms]" } else { "" };
                let found = self.kernel_function(file, ip);
                (found.function, found.is_entry)
            }
        };
        let place = Location { ip, function, is_entry, is_inlined: false, ..Location::NOWHERE };
        self.hardware.places.insert((key.pid, ip), place);
        place
    }
}

impl Hardware {
    /// Something else was mapped: other functions may be at the same addresses.
    pub(super) fn forget_places(&mut self) {
        self.places.clear();
    }
}

/// Threads by number; the events of each with their times, as they were found.
type Threads = BTreeMap<ThreadKey, Vec<(Option<Nanos>, Event)>>;

/// Times of a stream, which never go back.
struct Times {
    scale: TickScale,
    /// Holds for what comes before the first known time.
    first: Option<Nanos>,
    latest: Option<Nanos>,
}

impl Times {
    fn of(&self, at: EventTime) -> Option<Nanos> {
        let is_known = at.ticks != 0 && self.scale.factor != 0;
        is_known.then(|| Nanos::try_from(self.scale.nanos(at.ticks)).ok()).flatten()
    }

    fn next(&mut self, at: EventTime) -> Option<Nanos> {
        self.latest = self.latest.max(self.of(at)).or(self.first);
        self.latest
    }
}

/// Between two streams of a ring nothing was kept: what is known of those who ran ends.
fn note_gap(
    threads: &mut Threads,
    turns: &[(Turn, usize)],
    end: Option<Nanos>,
    last: ThreadKey,
    start: Option<Nanos>,
) {
    let until = start.map_or(0, |start| start as u64);
    let since = end.map_or(u64::MAX, |end| end as u64);
    let ran = turns.iter().map(|turn| turn.0).filter(|turn| (since..until).contains(&turn.since));
    for key in ran.map(key_of).chain([last]).collect::<BTreeSet<_>>() {
        threads.entry(key).or_default().push((end, Event::Loss(Loss::Gap)));
    }
}

fn key_of(turn: Turn) -> ThreadKey {
    ThreadKey { pid: turn.pid.into(), tid: turn.tid.into() }
}

/// Threads that ran on several processors have their events from several streams.
fn in_order(threads: Threads) -> Vec<Thread> {
    let threads = threads.into_iter().map(|(key, mut events)| {
        events.sort_by_key(|event| event.0);
        events.reverse();
        Thread { key, events }
    });
    threads.collect()
}

fn kind_of(kind: Kind) -> BranchKind {
    match kind {
        Kind::Call => BranchKind::Call,
        Kind::Return => BranchKind::Return,
        Kind::Jump => BranchKind::Jump,
        Kind::Syscall => BranchKind::Syscall,
        Kind::SyscallReturn => BranchKind::SyscallReturn,
        Kind::SoftwareInterrupt => BranchKind::Interrupt,
        Kind::Interrupt => BranchKind::HardwareInterrupt,
        Kind::InterruptReturn => BranchKind::InterruptReturn,
        Kind::TransactionAbort => BranchKind::TransactionAbort,
    }
}

fn message_of(lost: Loss) -> (&'static str, u64) {
    match lost {
        Loss::Overflow => ("the processor had no room for its packets", 0),
        Loss::Gap => ("nothing was kept for a while", 0),
        Loss::Packet(_) => ("bytes that are no packet of Intel PT", 0),
        Loss::NoCode(ip) => ("no code is known where the program went on", ip),
        Loss::Mismatch(ip) => ("the code is not what the processor ran", ip),
        Loss::NoReturnAddress(ip) => ("a return from a call that was not seen", ip),
        Loss::EndlessLoop(ip) => ("code that goes around for ever", ip),
    }
}
