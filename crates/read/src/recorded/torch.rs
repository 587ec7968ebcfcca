//! A recording in which PyTorch's profiler ran as well: its traces lie in the same folder, and
//! become one trace with the records, on the recording's clock.
//!
//! PyTorch records times since 1970, the kernel those of its monotonic clock. How far these two are
//! apart was noted when the recording began and when it ended; the middle of both is used, and
//! what they differ by is how far off it can be.

use std::path::{Path, PathBuf};

use spanwise_files::FileBytes;
use spanwise_model::{MergePart, NO_OFFSET, Nanos, NoticeKind, Trace, merge};
use spanwise_recording::{AboutClock, ClockReading, records_file};

use crate::{OpenOptions, ReadError, ReadErrorKind, error_at, open_file};

/// What the trace says of itself: how far off PyTorch's times can be.
pub const TORCH_CLOCK_PROPERTY: &str = "torch_clock_within_ns";

/// From here on times count since 1970 by themselves, as they did in older versions of PyTorch.
const CALENDAR_FROM_NS: Nanos = 1_000_000_000_000_000_000;

/// Two readings of clocks one after the other, and those of PyTorch itself.
const READING_NS: Nanos = 1_000;

/// The records and the traces beside them as one.
pub(crate) fn open(
    folder: &Path,
    traces: &[PathBuf],
    options: &OpenOptions<'_>,
) -> Result<Trace, ReadError> {
    let records = open_file(&records_file(folder), FileBytes::open_regular, options)?;
    let clock = Clock::of(folder);
    let base = records.info().base_time_ns;
    // The first part keeps its numbers, and those of GPUs are what people know them by.
    let mut parts = Vec::new();
    let mut unread = Vec::new();
    for path in traces {
        match open_file(path, FileBytes::open_beside, options) {
            Ok(trace) => {
                let is_calendar =
                    trace.window().is_some_and(|(first, _)| first >= CALENDAR_FROM_NS);
                let own = trace.info().base_time_ns.or(is_calendar.then_some(0));
                // What the times of the records count from is not quite the middle.
                let moved = |own: Nanos| own.checked_sub(clock?.middle)?.checked_add(base?);
                let moved = own.and_then(|own| moved(own).or(Some(own)));
                let trace = trace.with_metadata(|info, _| info.base_time_ns = moved);
                parts.push(MergePart { name: "PyTorch".to_owned(), trace });
            }
            Err(error) => unread.push(error),
        }
    }
    parts.push(MergePart { name: "samples".to_owned(), trace: records });
    let merged = merge(parts).map_err(|violation| {
        let (what, found) = ("a recording with PyTorch's traces", violation.to_string());
        error_at(folder, ReadErrorKind::NotATrace { offset: 0, what, found })
    })?;
    Ok(merged.trace.with_metadata(|info, notices| {
        let within = clock.map_or_else(|| "unknown".to_owned(), |clock| clock.within.to_string());
        info.properties.insert(TORCH_CLOCK_PROPERTY.to_owned(), within);
        for error in unread {
            notices.add(NoticeKind::TooDamaged, NO_OFFSET, error.to_string().as_bytes());
        }
    }))
}

/// Nanoseconds since 1970 minus those of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clock {
    middle: Nanos,
    within: Nanos,
}

impl Clock {
    fn of(folder: &Path) -> Option<Clock> {
        let clock = AboutClock::read(folder).ok()??;
        let apart = |reading: ClockReading| reading.since_1970_ns.checked_sub(reading.monotonic_ns);
        let (start, end) = (apart(clock.start?)?, apart(clock.end?)?);
        let half = end.checked_sub(start)? / 2;
        Some(Clock { middle: start + half, within: half.abs() + READING_NS })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_middle_of_two_readings_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let check = |about: &str, expected: Option<(Nanos, Nanos)>| {
            fs::write(folder.path().join("recording.json"), about).expect("writable");
            let found = Clock::of(folder.path()).map(|clock| (clock.middle, clock.within));
            assert_eq!(found, expected, "{about}");
        };
        let start = r#""start_ns": 5, "start_since_1970_ns": 105"#;
        let end = |since| format!(r#""end_ns": 50, "end_since_1970_ns": {since}"#);
        check(&format!("{{{start}, {}}}", end(150)), Some((100, 1000)));
        check(&format!("{{{start}, {}}}", end(158)), Some((104, 1004)));
        check(&format!("{{{start}, {}}}", end(130)), Some((90, 1010)));
        check(&format!("{{{start}}}"), None);
        check("[]", None);
    }
}
