//! Recordings of Intel PT: every call and return of the last moments.
//!
//! The hardware's trace is decoded with the files that were mapped, processor by processor or
//! thread by thread, and sorted in among the other records by time. The kernel's code is not in
//! a recording, so what runs there is not followed.

mod aux;
mod code;
mod side;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use spanwise_flow::{Branch, BranchKind, FunctionId, Place, ThreadKey, TraceEdge};
use spanwise_model::{NO_OFFSET, Nanos, NoticeKind, StrId};
use spanwise_pt::{At, BranchKind as Kind, Event, Lost, Sink, decode_parallel};

use super::State;
use super::header::Header;
use super::records;
use crate::perf::record::{Record, What};
use aux::{Info, Piece};
use code::Codes;
use side::{Side, Turn};

/// What was decoded, and is not yet taken.
#[derive(Default)]
pub(super) struct Hardware {
    info: Info,
    threads: Vec<Thread>,
    /// Functions that were found, by file and offset in it.
    places: HashMap<(Rc<str>, u64), (FunctionId, bool)>,
    skipped_bytes: u64,
}

struct Thread {
    key: ThreadKey,
    /// From the latest to the earliest.
    events: Vec<(Option<Nanos>, Event)>,
}

#[derive(Default)]
struct Collected(Vec<(At, Event)>);

impl Sink for Collected {
    fn event(&mut self, at: At, event: Event) {
        self.0.push((at, event));
    }
}

impl State<'_> {
    /// Decodes the hardware's trace, if there is one.
    pub(super) fn decode_hardware(&mut self, header: &Header<'_>) {
        let Some((info, pieces)) = aux::read(header) else { return };
        let mut side = Side::default();
        records::each_record(header, |record| side.take(record));
        self.hardware.info = info;
        let mut threads: BTreeMap<ThreadKey, Vec<(Option<Nanos>, Event)>> = BTreeMap::new();
        for (whose, streams) in streams(&pieces, info.is_snapshots) {
            let turns = side.turns(whose.0, whose.1);
            let codes = Codes::new(&side, &turns, &mut self.files, &mut self.symbols);
            let program = codes.program(&turns, info.scale);
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let mut latest = 0;
            for stream in streams {
                let (parts, counts) =
                    decode_parallel::<Collected>(&program, info.options, &stream, cores);
                self.hardware.skipped_bytes += counts.skipped_bytes;
                // Copies of a ring hold what the copy before held, too.
                let repeated = latest;
                for (at, event) in parts.into_iter().flat_map(|part| part.0) {
                    if at.ticks != 0 && at.ticks < repeated {
                        continue;
                    }
                    latest = latest.max(at.ticks);
                    let time = (latest != 0).then(|| info.scale.nanos(latest));
                    let time = time.and_then(|time| Nanos::try_from(time).ok());
                    let turn = turns.get(at.stretch as usize).map(|turn| turn.0);
                    let key = key_of(turn.unwrap_or(Turn { since: 0, pid: 0, tid: whose.0 }));
                    threads.entry(key).or_default().push((time, event));
                }
            }
        }
        self.hardware.threads = in_order(threads);
    }

    /// What the hardware recorded up to a time.
    pub(super) fn hardware_until(&mut self, time: Nanos) {
        for at in 0..self.hardware.threads.len() {
            loop {
                let Thread { key, events } = &mut self.hardware.threads[at];
                let is_due = |(at, _): &mut (Option<Nanos>, Event)| at.is_none_or(|at| at <= time);
                let Some((time, event)) = events.pop_if(is_due) else { break };
                let key = *key;
                let what = self.hardware_event(key, event);
                let (offset, comm) = (NO_OFFSET, StrId::EMPTY);
                let record = Record { offset, thread: key, comm, time, cpu: None, what };
                self.timeline.count_branch();
                self.timeline.push(record);
            }
        }
    }

    /// Says how much of the trace could not be read.
    pub(super) fn tell_skipped(&mut self) {
        let skipped = self.hardware.skipped_bytes;
        if skipped > 0 {
            let text = format!("{skipped} bytes of Intel PT before the first place to begin");
            self.timeline.notices.add(NoticeKind::EventSkipped, NO_OFFSET, text.as_bytes());
        }
    }

    fn hardware_event(&mut self, key: ThreadKey, event: Event) -> What {
        match event {
            Event::Branch { kind, from, to, is_in_transaction } => {
                let (from, to) = (self.branch_place(key, from), self.branch_place(key, to));
                let (kind, edge) = (kind_of(kind), TraceEdge::Within);
                What::Branch(Branch { kind, edge, is_in_transaction, from, to })
            }
            Event::Start { to } => What::Branch(Branch {
                kind: BranchKind::None,
                edge: TraceEdge::Start,
                is_in_transaction: false,
                from: Place::NOWHERE,
                to: self.branch_place(key, to),
            }),
            Event::End { kind, from, to } => What::Branch(Branch {
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
            Event::Lost(lost) => {
                let (message, ip) = message_of(lost);
                What::Error { message: self.names().string(message), ip }
            }
            Event::CoreRatio(ratio) => What::Frequency(self.hardware.info.mhz(ratio)),
            Event::Written(value) => {
                What::Moment(self.names().string(&format!("ptwrite {value:#x}")))
            }
        }
    }

    fn branch_place(&mut self, key: ThreadKey, ip: u64) -> Place {
        if ip == 0 {
            return Place::NOWHERE;
        }
        let pid = i32::try_from(key.pid).unwrap_or(0);
        let mapping = self.maps.find(pid, ip).cloned();
        let (function, is_entry) = match mapping {
            Some(mapping) if ip >> 63 == 0 => {
                let offset = ip.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
                let known = (Rc::clone(&mapping.path), offset);
                match self.hardware.places.get(&known) {
                    Some(&found) => found,
                    None => {
                        let symbol = self.symbols.find(&mut self.files, &mapping, ip);
                        let found = match symbol {
                            Some(symbol) => {
                                let name = &symbol.name;
                                (self.names().function(name, &mapping.path), symbol.is_entry)
                            }
                            None => (self.made_or_unknown(ip, &mapping.path), false),
                        };
                        self.hardware.places.insert(known, found);
                        found
                    }
                }
            }
            mapping => {
                let file = mapping.map_or("", |_| "[kernel.kallsyms]");
                let found = self.kernel_function(file, ip);
                (found.function, found.is_entry)
            }
        };
        Place { ip, function, is_entry, is_inlined: false }
    }
}

fn key_of(turn: Turn) -> ThreadKey {
    ThreadKey { pid: turn.pid.into(), tid: turn.tid.into() }
}

/// A thread and a processor, one of them negative.
type Whose = (i32, i32);

/// The bytes of each queue in one piece; those of copies apart.
fn streams(pieces: &[Piece<'_>], is_snapshots: bool) -> Vec<(Whose, Vec<Vec<u8>>)> {
    let mut found: BTreeMap<u32, (Whose, Vec<Vec<u8>>)> = BTreeMap::new();
    for piece in pieces {
        let entry = found.entry(piece.queue).or_insert(((piece.tid, piece.cpu), Vec::new()));
        match entry.1.last_mut() {
            Some(stream) if !is_snapshots => stream.extend_from_slice(piece.bytes),
            _ => entry.1.push(piece.bytes.to_vec()),
        }
    }
    found.into_values().collect()
}

/// Threads that ran on several processors have their events from several streams.
fn in_order(threads: BTreeMap<ThreadKey, Vec<(Option<Nanos>, Event)>>) -> Vec<Thread> {
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

fn message_of(lost: Lost) -> (&'static str, u64) {
    match lost {
        Lost::Overflow => ("the processor had no room for its packets", 0),
        Lost::Packet(_) => ("bytes that are no packet of Intel PT", 0),
        Lost::NoCode(ip) => ("no code is known where the program went on", ip),
        Lost::Mismatch(ip) => ("the code is not what the processor ran", ip),
        Lost::NoReturnAddress(ip) => ("a return from a call that was not seen", ip),
        Lost::EndlessLoop(ip) => ("code that goes around for ever", ip),
    }
}
