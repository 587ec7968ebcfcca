//! Memory over time as counters. PyTorch records allocations and frees as instants; what people
//! want is the line that these add up to. They are no tracks of the trace, so they are numbered
//! behind those.

use spanwise_analyze::{DeviceMemory, Level, Memory};
use spanwise_model::{Nanos, StrId, Trace};

/// How much of a device's memory was held, or reserved for it, from each time on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MemoryCounter {
    pub(crate) process: StrId,
    /// "GPU 0 memory, allocated".
    pub(crate) name: String,
    pub(crate) times: Vec<Nanos>,
    pub(crate) bytes: Vec<f64>,
}

/// Those of all devices, in the order of the report; none where the trace has no such events.
pub(crate) fn memory_counters(trace: &Trace) -> Vec<MemoryCounter> {
    let memory = Memory::new(trace);
    memory.devices.iter().flat_map(counters_of).collect()
}

fn counters_of(device: &DeviceMemory) -> impl Iterator<Item = MemoryCounter> {
    let levels = &device.replayed.levels;
    let counter = |what: &str, bytes: Vec<f64>| MemoryCounter {
        process: device.of.process(),
        name: format!("{} memory, {what}", device.name),
        times: levels.iter().map(|level| level.time).collect(),
        bytes,
    };
    let allocated = levels.iter().map(|level| level.allocated as f64).collect();
    let allocated = counter("allocated", allocated);
    let reserved = reserved(levels).map(|bytes| counter("reserved", bytes));
    [Some(allocated), reserved].into_iter().flatten()
}

/// Nothing where no event says it, as those of the CPU.
fn reserved(levels: &[Level]) -> Option<Vec<f64>> {
    let known = |level: &Level| level.reserved.filter(|&bytes| bytes != 0);
    let first = levels.iter().find_map(known)?;
    let mut last = first;
    let bytes = levels.iter().map(|level| {
        last = level.reserved.unwrap_or(last);
        last as f64
    });
    Some(bytes.collect())
}
