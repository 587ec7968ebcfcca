//! Memory: who asked for it, who held it at the peak and at the end, how often.
//!
//! PyTorch's profiler records each allocation and each free as an instant called `[memory]`
//! when it is set to (`profile_memory=True`). Here they are read once, separated by
//! device and played again in order of time, whatever thread recorded them. Lines and
//! operators are those of the span that was open on the thread at that instant.

mod open_spans;
mod replay;
mod rows;
mod timeline;

use std::collections::BTreeMap;

use spanwise_model::{ArgValue, StrId, Trace, TrackId, map_items};

use open_spans::innermost_at;

use crate::cpu::self_time::takes_part;
pub use replay::{Allocation, Level, Replayed};
use replay::{Event, replay};
pub use rows::{
    BEFORE_RECORDING, MemoryPlace, MemoryUse, NO_ADDRESS, SHORT_LIVED_NS, memory_churn,
    memory_peak, memory_use,
};
pub(crate) use rows::{caller, is_short_lived};
pub use timeline::{MemorySlice, memory_timeline};

/// A sum of bytes; wide, so that no input makes it overflow.
pub type TotalBytes = i128;

/// How the profiler names the instants at which memory is allocated or freed.
const MEMORY: &str = "[memory]";

const KEYS: [&str; 6] =
    ["Device Type", "Device Id", "Addr", "Bytes", "Total Allocated", "Total Reserved"];

/// Whose memory it is. Addresses mean nothing outside of their process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryOf {
    pub(crate) process: StrId,
    /// As PyTorch numbers its sorts of device.
    sort: i64,
    number: i64,
}

impl MemoryOf {
    /// "CPU", "GPU 0".
    pub fn name(self) -> String {
        match self.sort {
            0 => "CPU".to_owned(),
            // CUDA, HIP, XPU and MPS.
            1 | 6 | 12 | 13 => format!("GPU {}", self.number.max(0)),
            sort => format!("device {sort}:{}", self.number),
        }
    }

    /// What labels of profiles call it: "cpu", "gpu0".
    pub(crate) fn label(self) -> String {
        self.name().to_lowercase().replace(' ', "")
    }

    pub fn is_cpu(self) -> bool {
        self.sort == 0
    }

    /// The process that used it, as its threads name it.
    pub fn process(self) -> StrId {
        self.process
    }
}

/// The memory of one device, as one process used it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMemory {
    pub of: MemoryOf,
    /// Its name, with the process where the trace has several.
    pub name: String,
    pub replayed: Replayed,
    /// The first of the levels at which most was held.
    pub peak: usize,
}

impl DeviceMemory {
    pub fn peak_level(&self) -> &Level {
        &self.replayed.levels[self.peak]
    }

    /// The level that stands when the recording ends.
    pub fn last(&self) -> usize {
        self.replayed.levels.len() - 1
    }

    pub fn last_level(&self) -> &Level {
        &self.replayed.levels[self.last()]
    }

    /// Who holds what is no known allocation.
    pub(crate) fn early_holder(&self) -> &'static str {
        if self.replayed.unpaired > 0 { NO_ADDRESS } else { BEFORE_RECORDING }
    }
}

/// All memory events of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// GPUs in order of their numbers, then other devices, then the CPU.
    pub devices: Vec<DeviceMemory>,
    /// Events that do not say how many bytes of which device.
    pub unread: u64,
}

impl Memory {
    /// All of it, with who asked for each allocation.
    pub fn with_callers(trace: &Trace) -> Self {
        let mut memory = Memory::new(trace);
        memory.find_callers(trace);
        memory
    }

    /// Gives each allocation the innermost span that was open on its thread.
    fn find_callers(&mut self, trace: &Trace) {
        let instants = trace.instants();
        let devices = self.devices.iter_mut();
        let mut asked: Vec<&mut Allocation> =
            devices.flat_map(|device| &mut device.replayed.allocations).collect();
        // Instants stand in order of (track, time).
        asked.sort_unstable_by_key(|allocation| allocation.row);
        if asked.is_empty() {
            return;
        }
        let takes_part = takes_part(trace);
        for of_thread in asked.chunk_by_mut(|a, b| instants.track[a.row] == instants.track[b.row]) {
            let times: Vec<i64> = of_thread.iter().map(|allocation| allocation.from).collect();
            let thread = TrackId(instants.track[of_thread[0].row]);
            let spans = innermost_at(trace, thread, &takes_part, &times);
            for (allocation, span) in of_thread.iter_mut().zip(spans) {
                allocation.span = span;
            }
        }
    }

    /// All of it, without the spans that asked.
    pub fn new(trace: &Trace) -> Self {
        let (mut by_device, unread) = events(trace);
        let start = trace.window().map_or(0, |window| window.0);
        let processes = processes(&by_device);
        let device = |(of, events): (MemoryOf, &mut Vec<Event>)| {
            // At one time, the order of the source decides.
            let offsets = &trace.instants().offset;
            events.sort_by_key(|event| (event.time, offsets[event.row]));
            let start = events.first().map_or(start, |first| start.min(first.time));
            let replayed = replay(events, start);
            let levels = replayed.levels.iter().enumerate();
            let peak = levels.rev().max_by_key(|(_, level)| level.allocated);
            let peak = peak.map_or(0, |(at, _)| at);
            let process = trace.strings().get(of.process);
            let name = match processes {
                0 | 1 => of.name(),
                _ => format!("{} (process {process})", of.name()),
            };
            DeviceMemory { of, name, replayed, peak }
        };
        let mut devices: Vec<DeviceMemory> =
            by_device.iter_mut().map(|(&of, events)| device((of, events))).collect();
        let order = |of: MemoryOf| (of.is_cpu(), of.sort, of.number, of.process);
        devices.sort_by_key(|device| order(device.of));
        Memory { devices, unread }
    }

    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }
}

fn processes(by_device: &BTreeMap<MemoryOf, Vec<Event>>) -> usize {
    let mut processes: Vec<StrId> = by_device.keys().map(|of| of.process).collect();
    processes.sort_unstable();
    processes.dedup();
    processes.len()
}

/// The events of each device, thread by thread; and how many say too little.
fn events(trace: &Trace) -> (BTreeMap<MemoryOf, Vec<Event>>, u64) {
    let instants = trace.instants();
    let strings = trace.strings();
    let is_memory = |id: u32| strings.get(StrId(id)) == MEMORY;
    let names: Vec<bool> = (0..strings.len() as u32).map(is_memory).collect();
    let rows: Vec<usize> =
        (0..instants.len()).filter(|&row| names[instants.name[row] as usize]).collect();
    let mut by_device: BTreeMap<MemoryOf, Vec<Event>> = BTreeMap::new();
    let mut unread = 0;
    let values = map_items(&rows, |&row| values(trace, row));
    for (&row, values) in rows.iter().zip(values) {
        let [Some(sort), number, address, Some(bytes), total, reserved] = values else {
            unread += 1;
            continue;
        };
        let process = trace.tracks().get(TrackId(instants.track[row])).process;
        let of = MemoryOf { process, sort, number: number.unwrap_or(0) };
        by_device.entry(of).or_default().push(Event {
            time: instants.time[row],
            address,
            bytes,
            total,
            reserved: reserved.filter(|&reserved| reserved > 0),
            row,
        });
    }
    (by_device, unread)
}

/// What the instant says for each of [`KEYS`].
fn values(trace: &Trace, row: usize) -> [Option<i64>; KEYS.len()] {
    let args = trace.pick_args_at(trace.instants().offset[row], &KEYS).unwrap_or_default();
    std::array::from_fn(|key| args.get(key)?.as_ref().and_then(ArgValue::as_i64))
}
