//! How much work was launched and not begun, at each launch and each begin.

use std::collections::BTreeMap;

use super::super::launch::is_launch;
use super::window::Events;

/// By event: what was in its stream's queue, with it or after it.
pub(super) type Lengths = BTreeMap<usize, i64>;

/// True for calls that fill a queue; HTA leaves this one launch out.
pub(super) fn is_queued(events: &Events<'_>, event: usize) -> bool {
    let name = events.name(event);
    is_launch(name) && name != "cuLaunchKernelEx" && events.partner[event].is_some()
}

pub(super) fn queue_lengths(events: &Events<'_>) -> Lengths {
    let mut calls: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for event in (0..events.rows.len()).filter(|&event| is_queued(events, event)) {
        calls.entry(events.rows[event].correlation).or_default().push(event);
    }
    let mut launches: Vec<(i64, i64, usize, i64)> = Vec::new();
    let mut begins: Vec<(i64, i64, usize, i64)> = Vec::new();
    for (event, row) in events.rows.iter().enumerate().filter(|(_, row)| row.stream != -1) {
        let Some(calls) = calls.get(&row.correlation) else { continue };
        launches.extend(calls.iter().map(|&call| (events.rows[call].ts, row.stream, call, 1)));
        begins.push((row.ts, row.stream, event, -1));
    }
    // A launch stands before a start of the same time.
    launches.append(&mut begins);
    launches.sort_by_key(|change| change.0);
    let mut now: BTreeMap<i64, i64> = BTreeMap::new();
    let mut lengths = Lengths::new();
    for (_, stream, event, change) in launches {
        let length = now.entry(stream).or_default();
        *length += change;
        lengths.insert(event, *length);
    }
    lengths
}
