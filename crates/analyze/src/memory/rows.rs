//! Memory by device, and by the line and the operator that asked for it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::{Nanos, SpanId, StrId};

use super::{Allocation, DeviceMemory, Level, TotalBytes};
use crate::{Facts, TotalNanos};

/// What is freed sooner than this was hardly worth asking for.
pub const SHORT_LIVED_NS: Nanos = 1_000_000;

/// Who holds what was there when the recording began.
pub const BEFORE_RECORDING: &str = "[allocated before the recording]";

/// Who holds what no address identifies.
pub const NO_ADDRESS: &str = "[no address recorded]";

/// How one device's memory was used. Times count from the start of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    pub device: String,
    pub peak: TotalBytes,
    pub peak_at: TotalNanos,
    pub at_start: TotalBytes,
    pub at_end: TotalBytes,
    /// Taken from the driver at the peak; `None` where the device reserves nothing.
    pub reserved_at_peak: Option<TotalBytes>,
    /// Reserved and not allocated: at the peak, and when it was most.
    pub unused_at_peak: Option<TotalBytes>,
    pub unused_most: Option<TotalBytes>,
    pub unused_most_at: Option<TotalNanos>,
    pub allocations: u64,
    pub frees: u64,
    /// Of the frees, those of memory from before the recording.
    pub early_frees: u64,
    pub early_freed: TotalBytes,
    /// The bytes of all allocations together, and the largest.
    pub allocated: TotalBytes,
    pub largest: i64,
    /// Allocations freed sooner than [`SHORT_LIVED_NS`], and their bytes; not known where
    /// events have no address.
    pub short_lived: Option<u64>,
    pub short_lived_bytes: Option<TotalBytes>,
    /// Allocations of the recording that are held at its end, and their bytes.
    pub held_at_end: Option<u64>,
    pub held_at_end_bytes: Option<TotalBytes>,
    /// Events without an address, and events whose total contradicts those before.
    pub unpaired: u64,
    pub contradictions: u64,
}

/// Memory that one place asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlace {
    pub device: String,
    /// The line of Python, or in brackets why there is none.
    pub line: Option<String>,
    /// The outermost operator below the line: what was asked for.
    pub operator: Option<String>,
    /// How many allocations; not known of what was there before.
    pub count: Option<u64>,
    pub bytes: TotalBytes,
    /// All that the bytes are a part of.
    pub of_bytes: TotalBytes,
    /// Those freed sooner than [`SHORT_LIVED_NS`]; not known where events have no address.
    pub short_lived: Option<u64>,
}

/// Each device's memory.
pub fn memory_use(facts: &Facts) -> Vec<MemoryUse> {
    facts.memory().devices.iter().map(|device| device_use(facts, device)).collect()
}

fn device_use(facts: &Facts, device: &DeviceMemory) -> MemoryUse {
    let replayed = &device.replayed;
    let (peak, last) = (device.peak_level(), device.last_level());
    let since_start = |time: Nanos| i128::from(time) - i128::from(facts.window().0);
    let rev = replayed.levels.iter().rev();
    let most: Option<&Level> = rev.max_by_key(|level| level.unused());
    let most = most.filter(|level| level.unused().is_some());
    let held = || replayed.allocations.iter().filter(|row| row.is_held_at(device.last()));
    let short = || replayed.allocations.iter().filter(|row| is_short_lived(row));
    let bytes = |row: &Allocation| i128::from(row.bytes);
    let is_paired = replayed.unpaired == 0;
    MemoryUse {
        device: device.name.clone(),
        peak: peak.allocated,
        peak_at: since_start(peak.time),
        at_start: replayed.levels[0].allocated,
        at_end: last.allocated,
        reserved_at_peak: peak.reserved,
        unused_at_peak: peak.unused(),
        unused_most: most.and_then(Level::unused),
        unused_most_at: most.map(|level| since_start(level.time)),
        allocations: replayed.allocations.len() as u64,
        frees: replayed.frees,
        early_frees: replayed.early_frees.len() as u64,
        early_freed: replayed.early_frees.iter().map(|free| free.1).sum(),
        allocated: replayed.allocations.iter().map(bytes).sum(),
        largest: replayed.allocations.iter().map(|row| row.bytes).max().unwrap_or(0),
        short_lived: is_paired.then(|| short().count() as u64),
        short_lived_bytes: is_paired.then(|| short().map(bytes).sum()),
        held_at_end: is_paired.then(|| held().count() as u64),
        held_at_end_bytes: is_paired.then_some(last.known),
        unpaired: replayed.unpaired,
        contradictions: replayed.contradictions,
    }
}

pub(crate) fn is_short_lived(allocation: &Allocation) -> bool {
    allocation.lifetime_ns().is_some_and(|ns| ns < i128::from(SHORT_LIVED_NS))
}

/// The line and the operator that an allocation is asked for by.
pub(crate) type MemoryCaller = (Option<StrId>, Option<StrId>);

pub(crate) fn caller(facts: &Facts, allocation: &Allocation) -> MemoryCaller {
    let name = |span: SpanId| facts.names().merged(facts.trace().spans().name(span));
    let line = allocation.span.and_then(|span| facts.frames().line(span));
    (line.map(name), facts.asked_operators().around(allocation.span).map(name))
}

/// Who held the memory of each device at its peak, the largest share first. The rows of a
/// device add up to its peak.
pub fn memory_peak(facts: &Facts) -> Vec<MemoryPlace> {
    let mut rows = Vec::new();
    for device in &facts.memory().devices {
        let is_held = |row: &Allocation| row.is_held_at(device.peak);
        let peak = device.peak_level();
        rows.extend(places(facts, device, peak.allocated, is_held));
        if peak.before() > 0 {
            rows.push(MemoryPlace {
                device: device.name.clone(),
                line: Some(device.early_holder().to_owned()),
                operator: None,
                count: None,
                bytes: peak.before(),
                of_bytes: peak.allocated,
                short_lived: None,
            });
        }
    }
    rows.sort_by_key(|row| Reverse(row.bytes));
    rows
}

/// All allocations by place, the most frequent first.
pub fn memory_churn(facts: &Facts) -> Vec<MemoryPlace> {
    let devices = facts.memory().devices.iter();
    let mut rows: Vec<MemoryPlace> = devices
        .flat_map(|device| {
            let all = device.replayed.allocations.iter().map(|row| i128::from(row.bytes)).sum();
            places(facts, device, all, |_| true)
        })
        .collect();
    rows.sort_by_key(|row| Reverse((row.count, row.bytes)));
    rows
}

/// Those allocations of a device by place, in order of names.
fn places(
    facts: &Facts,
    device: &DeviceMemory,
    of_bytes: TotalBytes,
    is_counted: impl Fn(&Allocation) -> bool,
) -> Vec<MemoryPlace> {
    let mut sums: BTreeMap<MemoryCaller, (u64, TotalBytes, u64)> = BTreeMap::new();
    for row in device.replayed.allocations.iter().filter(|row| is_counted(row)) {
        let (count, bytes, short_lived) = sums.entry(caller(facts, row)).or_default();
        *count += 1;
        *bytes += i128::from(row.bytes);
        *short_lived += u64::from(is_short_lived(row));
    }
    let text = |name: StrId| facts.names().text(name).into_owned();
    let place = |((line, operator), (count, bytes, short_lived)): (MemoryCaller, _)| MemoryPlace {
        device: device.name.clone(),
        line: line.map(text),
        operator: operator.map(text),
        count: Some(count),
        bytes,
        of_bytes,
        short_lived: (device.replayed.unpaired == 0).then_some(short_lived),
    };
    let mut rows: Vec<MemoryPlace> = sums.into_iter().map(place).collect();
    rows.sort_by(|a, b| (&a.line, &a.operator).cmp(&(&b.line, &b.operator)));
    rows
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spanwise_model::{SpanKind, Trace};

    use super::*;
    use crate::base::sample::Sample;

    /// 500 bytes are there from before; two lines and a backward thread ask for more.
    fn traced() -> Arc<Trace> {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "a.py(1): f", 0, 3_000_000);
        sample.span("1", SpanKind::Operator, "aten::linear", 10, 500);
        sample.span("1", SpanKind::Operator, "aten::empty", 20, 100);
        sample.span("2", SpanKind::Operator, "MmBackward", 5_000, 1_000);
        sample.memory("1", 30, 1, 64, 100, 600);
        sample.memory("2", 5_500, 1, 65, 300, 900);
        sample.memory("1", 6_000, 1, 99, -200, 700);
        sample.memory("1", 7_000, 1, 65, -300, 400);
        sample.memory("1", 2_000_000, 1, 64, -100, 300);
        sample.memory("1", 2_500_000, 1, 66, 50, 350);
        sample.memory("1", 2_500_000, 0, 64, 7, 7);
        sample.finish()
    }

    #[test]
    fn peak_end_and_churn_of_a_device() {
        let trace = traced();
        let rows = memory_use(&Facts::new(&trace));
        assert_eq!(rows.iter().map(|row| &*row.device).collect::<Vec<_>>(), ["GPU 0", "CPU"]);
        let expected = MemoryUse {
            device: "GPU 0".into(),
            peak: 900,
            peak_at: 5_500,
            at_start: 500,
            at_end: 350,
            reserved_at_peak: Some(1000),
            unused_at_peak: Some(100),
            unused_most: Some(700),
            unused_most_at: Some(2_000_000),
            allocations: 3,
            frees: 3,
            early_frees: 1,
            early_freed: 200,
            allocated: 450,
            largest: 300,
            short_lived: Some(1),
            short_lived_bytes: Some(300),
            held_at_end: Some(1),
            held_at_end_bytes: Some(50),
            unpaired: 0,
            contradictions: 0,
        };
        assert_eq!(rows[0], expected);
        // The CPU reserves nothing, so nothing is unused.
        assert_eq!((rows[1].reserved_at_peak, rows[1].unused_most_at), (None, None));
    }

    /// Rows as (device, line, operator, count, bytes).
    #[track_caller]
    fn check(rows: &[MemoryPlace], expected: &[(&str, &str, &str, u64, i128)]) {
        let row = |row: &MemoryPlace| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (line, operator) = (text(&row.line), text(&row.operator));
            (row.device.clone(), line, operator, row.count.unwrap_or(0), row.bytes)
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let owned = |&(device, line, operator, count, bytes): &(&str, &str, &str, u64, i128)| {
            (device.to_owned(), line.to_owned(), operator.to_owned(), count, bytes)
        };
        assert_eq!(rows, expected.iter().map(owned).collect::<Vec<_>>());
    }

    #[test]
    fn holders_add_up_to_the_peak() {
        let trace = traced();
        let rows = memory_peak(&Facts::new(&trace));
        let expected = [
            ("GPU 0", BEFORE_RECORDING, "", 0, 500),
            ("GPU 0", "", "MmBackward", 1, 300),
            ("GPU 0", "a.py(1): f", "aten::linear", 1, 100),
            ("CPU", "a.py(1): f", "", 1, 7),
        ];
        check(&rows, &expected);
    }

    #[test]
    fn churn_counts_every_allocation() {
        let trace = traced();
        let rows = memory_churn(&Facts::new(&trace));
        let expected = [
            ("GPU 0", "", "MmBackward", 1, 300),
            ("GPU 0", "a.py(1): f", "aten::linear", 1, 100),
            ("GPU 0", "a.py(1): f", "", 1, 50),
            ("CPU", "a.py(1): f", "", 1, 7),
        ];
        check(&rows, &expected);
    }
}
