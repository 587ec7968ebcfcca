//! Calls that were counted instead of being recorded one by one, by function.

use std::collections::BTreeMap;

use spanwise_model::BrakedLevel;

use crate::{Facts, TotalNanos};

/// One function, all threads together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountedCallsRow {
    pub function: String,
    pub file: String,
    /// Calls that were counted; none where it was only recorded less closely.
    pub calls: Option<u64>,
    /// Those whose length is known, and how long these took together.
    pub timed: u64,
    pub total_ns: TotalNanos,
    /// At least half of them, and 99 of 100, are shorter than this.
    pub half_below_ns: Option<u64>,
    pub most_below_ns: Option<u64>,
    /// How it was watched at last, from when on, and how often it had been called by then.
    pub braked: Option<(BrakedLevel, i64, u64)>,
}

/// The most called first.
pub fn counted_calls(facts: &Facts) -> Vec<CountedCallsRow> {
    let info = facts.trace().info();
    let mut rows: BTreeMap<(&str, &str), (CountedCallsRow, Vec<u64>)> = BTreeMap::new();
    for counted in &info.counted_calls {
        let key = (counted.function.as_str(), counted.file.as_str());
        let (row, lengths) = rows.entry(key).or_default();
        row.calls = Some(row.calls.unwrap_or(0).saturating_add(counted.calls));
        row.timed = row.timed.saturating_add(counted.timed);
        row.total_ns += TotalNanos::from(counted.total_ns);
        lengths.resize(lengths.len().max(counted.by_length.len()), 0);
        for (sum, &count) in lengths.iter_mut().zip(&counted.by_length) {
            *sum = u64::saturating_add(*sum, count);
        }
    }
    for braked in &info.braked_calls {
        let key = (braked.function.as_str(), braked.file.as_str());
        // The last is what it came to.
        let (row, _) = rows.entry(key).or_default();
        row.braked = Some((braked.level, braked.time_ns, braked.calls));
    }
    let finish =
        |((function, file), (row, lengths)): ((&str, &str), (CountedCallsRow, Vec<u64>))| {
            CountedCallsRow {
                function: function.to_owned(),
                file: file.to_owned(),
                half_below_ns: below(&lengths, row.timed, 50),
                most_below_ns: below(&lengths, row.timed, 99),
                ..row
            }
        };
    let mut rows: Vec<CountedCallsRow> = rows.into_iter().map(finish).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.calls));
    rows
}

/// A length that so many percent of the calls are below.
fn below(lengths: &[u64], timed: u64, percent: u64) -> Option<u64> {
    let wanted = (u128::from(timed) * u128::from(percent)).div_ceil(100);
    let mut seen = 0_u128;
    let bit = lengths.iter().position(|&count| {
        seen += u128::from(count);
        wanted > 0 && seen >= wanted
    })?;
    1_u64.checked_shl(bit as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_known_to_a_power_of_two() {
        let check = |lengths: &[u64], percent, expected| {
            assert_eq!(below(lengths, lengths.iter().sum(), percent), expected, "{lengths:?}");
        };
        check(&[], 50, None);
        check(&[0, 0], 50, None);
        check(&[0, 0, 0, 10], 50, Some(16));
        check(&[0, 50, 49, 1], 50, Some(4));
        check(&[0, 50, 49, 1], 99, Some(8));
        check(&[1, 0, 0, 99], 99, Some(16));
    }
}
