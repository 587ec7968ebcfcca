//! Memory on the stack that asked for it: all of it, what is held at the end, and what was
//! held at the peak of its device.

use spanwise_model::{Nanos, ProfileBuilder, RowId, StackId, Trace, TrackId};

use super::frames::made_up;
use super::labels::{Context, Labels};
use super::{ProfileOptions, value};
use crate::memory::{DeviceMemory, Memory, MemoryOf};

/// One allocation, as profiles count it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocated {
    pub(crate) thread: TrackId,
    pub(crate) time: Nanos,
    pub(crate) of: MemoryOf,
    bytes: i64,
    is_held_at_end: bool,
    is_held_at_peak: bool,
}

impl Allocated {
    pub(crate) fn add(self, builder: &mut ProfileBuilder, row: RowId) {
        let mut add = |space: usize, objects: usize| {
            builder.add_to(row, space, self.bytes);
            builder.add_to(row, objects, 1);
        };
        add(value::ALLOC_BYTES, value::ALLOC_OBJECTS);
        if self.is_held_at_end {
            add(value::INUSE_BYTES, value::INUSE_OBJECTS);
        }
        if self.is_held_at_peak {
            add(value::PEAK_BYTES, value::PEAK_OBJECTS);
        }
    }
}

/// All allocations, in order of (thread, time).
pub(crate) fn allocations(trace: &Trace, memory: &Memory) -> Vec<Allocated> {
    let of_device = |device: &'_ DeviceMemory| {
        let (of, peak, last) = (device.of, device.peak, device.last());
        let row = move |row: &crate::Allocation| {
            let allocated = Allocated {
                thread: TrackId(trace.instants().track[row.row]),
                time: row.from,
                of,
                bytes: row.bytes,
                is_held_at_end: row.is_held_at(last),
                is_held_at_peak: row.is_held_at(peak),
            };
            (row.row, allocated)
        };
        device.replayed.allocations.iter().map(row).collect::<Vec<_>>()
    };
    let mut rows: Vec<(usize, Allocated)> = memory.devices.iter().flat_map(of_device).collect();
    // Instants stand in order of (track, time).
    rows.sort_by_key(|row| row.0);
    rows.into_iter().map(|row| row.1).collect()
}

/// Adds what was there before the recording, under a root of its own. How many pieces it
/// was is known only of those that are freed later.
pub(crate) fn before(
    trace: &Trace,
    options: &ProfileOptions,
    memory: &Memory,
    builder: &mut ProfileBuilder,
) {
    let mut labels = Labels::new(trace, options.rank);
    for device in &memory.devices {
        let (at_end, at_peak) = (device.last_level().before(), device.peak_level().before());
        if at_end == 0 && at_peak == 0 {
            continue;
        }
        let root = made_up(builder, device.early_holder());
        let stack = builder.push(StackId::EMPTY, root);
        let context = Context { memory: Some(device.of), ..Context::default() };
        let labels = labels.of(builder, context);
        let later = device.replayed.early_frees.iter().filter(|free| free.0 > device.peak);
        let bytes = |bytes: i128| i64::try_from(bytes).unwrap_or(i64::MAX);
        builder.add(stack, labels, value::INUSE_BYTES, bytes(at_end));
        builder.add(stack, labels, value::PEAK_BYTES, bytes(at_peak));
        builder.add(stack, labels, value::PEAK_OBJECTS, later.count() as i64);
    }
}
