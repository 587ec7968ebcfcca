//! Lines that ask for memory very many times in a short time.

use std::collections::BTreeMap;

use spanwise_model::{Nanos, StrId};

use super::{Finding, FindingKind, Thresholds};
use crate::memory::{caller, is_short_lived};
use crate::{Allocation, DeviceMemory, Facts, TotalBytes, TotalNanos};

/// Time ranges in which one place asked for memory again and again. Times count
/// from the start of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocationStorm {
    pub device: String,
    /// The line of Python; without one the operator, if there is any.
    pub place: Option<String>,
    /// Whether the place is a line.
    pub is_line: bool,
    /// Allocations in the ranges, their bytes, and those freed at once.
    pub count: u64,
    pub bytes: TotalBytes,
    pub short_lived: u64,
    /// The ranges together, and the longest of them.
    pub total_ns: TotalNanos,
    pub longest_from: TotalNanos,
    pub longest_ns: TotalNanos,
    /// The most that the device held at once.
    pub peak: TotalBytes,
}

/// One finding for each place.
pub(super) fn storms(facts: &Facts, thresholds: &Thresholds) -> Vec<Finding> {
    let devices = facts.memory().devices.iter();
    devices.flat_map(|device| storms_on(facts, device, thresholds)).collect()
}

/// A line, or an operator where there is no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct AllocationSite {
    is_line: bool,
    name: Option<StrId>,
}

fn storms_on(facts: &Facts, device: &DeviceMemory, thresholds: &Thresholds) -> Vec<Finding> {
    let least = usize::try_from(thresholds.allocation_storm_min).unwrap_or(usize::MAX).max(1);
    // Most traces have too few of them altogether.
    if device.replayed.allocations.len() < least {
        return Vec::new();
    }
    let mut by_site: BTreeMap<AllocationSite, Vec<&Allocation>> = BTreeMap::new();
    for row in &device.replayed.allocations {
        let (line, operator) = caller(facts, row);
        let site = AllocationSite { is_line: line.is_some(), name: line.or(operator) };
        by_site.entry(site).or_default().push(row);
    }
    let storm = |(site, rows): (AllocationSite, Vec<&Allocation>)| {
        let times: Vec<Nanos> = rows.iter().map(|row| row.from).collect();
        let ranges = dense(&times, least, thresholds.allocation_storm_ns);
        (!ranges.is_empty()).then(|| finding(facts, device, site, &rows, &ranges))
    };
    by_site.into_iter().filter_map(storm).collect()
}

/// Ranges, ends included, whose every instant belongs to `least` of the times that lie
/// within `within_ns`; apart, and in order. `times` ascends.
fn dense(times: &[Nanos], least: usize, within_ns: Nanos) -> Vec<(Nanos, Nanos)> {
    debug_assert!(times.is_sorted());
    let mut ranges: Vec<(Nanos, Nanos)> = Vec::new();
    for group in times.windows(least) {
        let (from, to) = (group[0], group[group.len() - 1]);
        if i128::from(to) - i128::from(from) > i128::from(within_ns) {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if from <= last.1 => last.1 = to,
            _ => ranges.push((from, to)),
        }
    }
    ranges
}

fn finding(
    facts: &Facts,
    device: &DeviceMemory,
    site: AllocationSite,
    rows: &[&Allocation],
    ranges: &[(Nanos, Nanos)],
) -> Finding {
    let length = |&(from, to): &(Nanos, Nanos)| i128::from(to) - i128::from(from);
    let total_ns = ranges.iter().map(length).sum();
    // Of equals the first.
    let longest = ranges.iter().rev().max_by_key(|range| length(range));
    let longest = *longest.expect("only called with some");
    let is_inside = |row: &&&Allocation| {
        let at = ranges.partition_point(|range| range.1 < row.from);
        ranges.get(at).is_some_and(|range| range.0 <= row.from)
    };
    let inside: Vec<&&Allocation> = rows.iter().filter(is_inside).collect();
    let storm = AllocationStorm {
        device: device.name.clone(),
        place: site.name.map(|name| facts.text(name)),
        is_line: site.is_line,
        count: inside.len() as u64,
        bytes: inside.iter().map(|row| i128::from(row.bytes)).sum(),
        short_lived: inside.iter().filter(|row| is_short_lived(row)).count() as u64,
        total_ns,
        longest_from: facts.since_start(longest.0),
        longest_ns: length(&longest),
        peak: device.peak_level().allocated,
    };
    // How much of that time asking for memory took is not recorded.
    Finding { kind: FindingKind::AllocationStorm(storm), about_ns: total_ns, gain_ns: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;
    use crate::{Thresholds, findings};

    /// Allocations each `every_ns` under one line, each freed at once.
    fn looping(count: i64, every_ns: i64) -> Vec<FindingKind> {
        let mut sample = Sample::default();
        sample.span("1", SpanKind::Python, "a.py(1): main", 0, 400_000_000);
        sample.span("1", SpanKind::Python, "a.py(9): scale", 1_000_000, count * every_ns);
        for at in 0..count {
            let time = 1_000_000 + at * every_ns;
            sample.memory("1", time, 0, 64, 100, 100);
            sample.memory("1", time + 1, 0, 64, -100, 0);
        }
        let trace = sample.finish();
        let found = findings(&Facts::new(&trace), &Thresholds::default());
        let is_storm = |kind: &FindingKind| matches!(kind, FindingKind::AllocationStorm(_));
        found.into_iter().map(|row| row.kind).filter(is_storm).collect()
    }

    #[test]
    fn a_thousand_allocations_in_ten_milliseconds_are_a_storm() {
        let storm = FindingKind::AllocationStorm(AllocationStorm {
            device: "CPU".into(),
            place: Some("a.py(9): scale".into()),
            is_line: true,
            count: 1200,
            bytes: 120_000,
            short_lived: 1200,
            total_ns: 1199 * 9_000,
            longest_from: 1_000_000,
            longest_ns: 1199 * 9_000,
            peak: 100,
        });
        assert_eq!(looping(1200, 9_000), [storm]);
    }

    #[test]
    fn fewer_or_slower_ones_are_none() {
        assert_eq!(looping(999, 9_000), []);
        assert_eq!(looping(1200, 11_000), []);
    }

    #[test]
    fn dense_ranges_join_where_they_touch() {
        assert_eq!(dense(&[0, 5, 10, 90, 91, 92, 93, 200], 3, 10), [(0, 10), (90, 93)]);
        assert_eq!(dense(&[0, 5, 10, 15, 20], 3, 10), [(0, 20)]);
        assert_eq!(dense(&[0, 5], 3, 10), []);
        assert_eq!(dense(&[i64::MIN, i64::MAX], 2, i64::MAX), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_time_is_in_a_range_where_some_group_has_it(
            times in prop::collection::vec(0..200_i64, 0..40),
            least in 1..6_usize,
            within in 0..20_i64,
        ) {
            let mut times = times;
            times.sort_unstable();
            let ranges = dense(&times, least, within);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            for time in 0..200 {
                let is_inside = ranges.iter().any(|&(from, to)| from <= time && time <= to);
                // Any group of neighbors, from its first to its last.
                let in_group = (0..times.len()).any(|first| {
                    times.get(first + least - 1).is_some_and(|&last| {
                        last - times[first] <= within && (times[first]..=last).contains(&time)
                    })
                });
                prop_assert_eq!(is_inside, in_group, "{}", time);
            }
        }
    }
}
