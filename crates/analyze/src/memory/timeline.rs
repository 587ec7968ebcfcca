//! Memory over time, in as many slices as there is room for.

use spanwise_model::Nanos;

use super::{DeviceMemory, Level, TotalBytes};
use crate::{Facts, TotalNanos};

/// The most that a device held in one slice of time, counted from the start of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySlice {
    pub device: String,
    pub from: TotalNanos,
    pub to: TotalNanos,
    pub allocated: TotalBytes,
    pub reserved: Option<TotalBytes>,
    /// Allocations and frees in it.
    pub events: u64,
}

/// Each device's memory in `slices` equal parts of the window; without a number, a slice
/// from each event to the next.
pub fn memory_timeline(facts: &Facts, slices: Option<usize>) -> Vec<MemorySlice> {
    let devices = facts.memory().devices.iter();
    devices
        .flat_map(|device| {
            let levels = &device.replayed.levels;
            let ends = [levels[0].time, device.last_level().time];
            let (from, to) = facts.window();
            let window = (from.min(ends[0]), to.max(ends[1]));
            let borders = match slices {
                Some(slices) => equal_parts(window, slices),
                None => {
                    let times = levels.iter().map(|level| level.time);
                    times.chain([window.1]).map(i128::from).collect()
                }
            };
            cut(device, &borders, from)
        })
        .collect()
}

/// The borders of `parts` equal parts of a time range.
fn equal_parts(range: (Nanos, Nanos), parts: usize) -> Vec<TotalNanos> {
    let (from, to) = range;
    let (from, ns) = (i128::from(from), i128::from(to) - i128::from(from));
    let parts = parts as i128;
    (0..=parts).map(|at| from + ns * at / parts.max(1)).collect()
}

/// `borders` ascend. The last slice holds its end too.
fn cut(device: &DeviceMemory, borders: &[TotalNanos], start: Nanos) -> Vec<MemorySlice> {
    let levels = &device.replayed.levels;
    let mut next = 0;
    let mut standing: &Level = &levels[0];
    let mut rows = Vec::new();
    for (at, pair) in borders.windows(2).enumerate() {
        let (from, to) = (pair[0], pair[1]);
        let is_last = at + 2 == borders.len();
        // A slice without length between two events at one time holds nothing.
        if from == to && !is_last {
            continue;
        }
        let first = next;
        while next < levels.len() && (i128::from(levels[next].time) < to || is_last) {
            next += 1;
        }
        let inside = &levels[first..next];
        // What stood before counts until the first event of the slice.
        let is_carried = inside.first().is_none_or(|level| i128::from(level.time) > from);
        let counted = inside.iter().chain(is_carried.then_some(standing));
        let most =
            |value: fn(&Level) -> Option<TotalBytes>| counted.clone().filter_map(value).max();
        let since_start = |time: TotalNanos| time - i128::from(start);
        rows.push(MemorySlice {
            device: device.name.clone(),
            from: since_start(from),
            to: since_start(to),
            allocated: most(|level| Some(level.allocated)).unwrap_or(0),
            reserved: most(|level| level.reserved),
            // The first level is no event.
            events: (inside.len() - usize::from(first == 0 && next > 0)) as u64,
        });
        standing = inside.last().unwrap_or(standing);
    }
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::replay::{Event, replay};
    use super::super::{MemoryOf, StrId};
    use super::*;

    /// Allocations and frees as (time, bytes), from 100 bytes on.
    fn device(events: &[(i64, i64)]) -> DeviceMemory {
        let mut total = 100;
        let event = |(row, &(time, bytes)): (usize, &(i64, i64))| {
            total += bytes;
            let (address, total) = (Some(row as i64), Some(total));
            Event { time, address, bytes, total, reserved: None, row }
        };
        let events: Vec<Event> = events.iter().enumerate().map(event).collect();
        let of = MemoryOf { process: StrId(0), sort: 1, number: 0 };
        let replayed = replay(&events, 0);
        DeviceMemory { of, name: of.name(), replayed, peak: 0 }
    }

    /// Slices as (end, most, events).
    #[track_caller]
    fn check(events: &[(i64, i64)], parts: usize, expected: &[(i128, i128, u64)]) {
        let rows = cut(&device(events), &equal_parts((0, 100), parts), 0);
        let rows: Vec<_> = rows.iter().map(|row| (row.to, row.allocated, row.events)).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_slice_without_events_keeps_what_stood() {
        let events = [(10, 50), (20, -30), (90, 1)];
        check(&events, 4, &[(25, 150, 2), (50, 120, 0), (75, 120, 0), (100, 121, 1)]);
    }

    #[test]
    fn an_event_on_the_border_belongs_to_the_later_slice() {
        // What stood before it does not: it ended at the border.
        check(&[(50, -30)], 2, &[(50, 100, 0), (100, 70, 1)]);
        check(&[(100, 30)], 2, &[(50, 100, 0), (100, 130, 1)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn slices_have_every_event_and_the_peak(
            events in prop::collection::vec((0..=100_i64, -2..50_i64), 1..30),
            parts in 1..12_usize,
        ) {
            let mut events = events;
            events.sort_unstable();
            let device = device(&events);
            let rows = cut(&device, &equal_parts((0, 100), parts), 0);
            let sum: u64 = rows.iter().map(|row| row.events).sum();
            prop_assert_eq!(sum, events.len() as u64);
            // Also a level that lasted no time is seen.
            let levels = &device.replayed.levels;
            let peak = levels.iter().map(|level| level.allocated).max();
            prop_assert_eq!(rows.iter().map(|row| row.allocated).max(), peak);
        }
    }
}
