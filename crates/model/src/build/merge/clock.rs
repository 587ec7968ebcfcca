//! One clock for the parts of a merge.

use std::collections::BTreeMap;

use super::{MergePart, kind_of};
use crate::{BOOT_PROPERTY, Nanos, SourceInfo, Trace, Track};

/// How the times of the parts relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergedClock {
    /// Every part says when it was recorded.
    Common,
    /// Not every part does: each begins at zero.
    StartsAligned,
}

/// Times from here on count since 1970 by themselves: as anything else, this would be a
/// machine that has run for thirty years.
const CALENDAR_FROM_NS: Nanos = 1_000_000_000_000_000_000;

/// What to add to the times of each part.
pub(super) fn shifts(parts: &[MergePart]) -> (MergedClock, Vec<Nanos>) {
    let traces = || parts.iter().map(|part| &part.trace);
    let common = || -> Option<Vec<Nanos>> {
        let bases = bases(&traces().collect::<Vec<_>>())?;
        let first = *bases.iter().min()?;
        let shifts = bases.iter().map(|base| base.checked_sub(first));
        shifts.zip(traces()).map(|(shift, trace)| fitting(trace, shift?)).collect()
    };
    match common() {
        Some(shifts) => (MergedClock::Common, shifts),
        None => (MergedClock::StartsAligned, traces().map(to_zero).collect()),
    }
}

/// When each trace begins, counted from the one that begins first; nothing where one of them does
/// not say when it was recorded.
pub fn starts_on_one_clock(traces: &[&Trace]) -> Option<Vec<Nanos>> {
    let start = |(base, trace): (Nanos, &&Trace)| base.checked_add(trace.window()?.0);
    let bases = bases(traces)?.into_iter();
    let starts: Vec<Nanos> = bases.zip(traces).map(start).collect::<Option<_>>()?;
    let first = *starts.iter().min()?;
    starts.into_iter().map(|start| start.checked_sub(first)).collect()
}

/// What is added to the times of each trace to get those of the calendar. Traces of one boot
/// share its monotonic clock: one base serves them all, however the calendar was set meanwhile.
fn bases(traces: &[&Trace]) -> Option<Vec<Nanos>> {
    let mut of_boots: BTreeMap<&str, Nanos> = BTreeMap::new();
    let mut bases = Vec::new();
    for trace in traces {
        let base = base_of(trace)?;
        let boot = trace.info.properties.get(BOOT_PROPERTY);
        bases.push(boot.map_or(base, |boot| *of_boots.entry(boot).or_insert(base)));
    }
    Some(bases)
}

fn base_of(trace: &Trace) -> Option<Nanos> {
    let is_calendar = || trace.window().is_some_and(|(first, _)| first >= CALENDAR_FROM_NS);
    trace.info.base_time_ns.or_else(|| is_calendar().then_some(0))
}

/// What moves the start of a trace to zero; nothing where its times are too far apart.
fn to_zero(trace: &Trace) -> Nanos {
    let first = trace.window().map(|(first, _)| first).or(extent(trace).map(|(first, _)| first));
    let shift = first.and_then(Nanos::checked_neg);
    shift.and_then(|shift| fitting(trace, shift)).unwrap_or(0)
}

/// The shift, if no time of the trace overflows by it.
fn fitting(trace: &Trace, shift: Nanos) -> Option<Nanos> {
    let Some((first, last)) = extent(trace) else { return Some(shift) };
    first.checked_add(shift).and(last.checked_add(shift)).map(|_| shift)
}

/// The earliest and the latest time of anything.
fn extent(trace: &Trace) -> Option<(Nanos, Nanos)> {
    let ends = trace.spans.start.iter().zip(trace.spans.dur.iter());
    let ends = ends.map(|(&start, &dur)| (start, start + dur));
    let others = trace.instants.time.iter().chain(trace.counters.time.iter());
    let all = ends.chain(others.map(|&time| (time, time)));
    all.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
}

/// How many rows at the start of a track stay where they are: GPU work whose time the
/// recorder lost is known by its two zeros. Not where that would break the order.
pub(super) fn lost_rows(trace: &Trace, track: &Track, shift: Nanos) -> usize {
    let rows = track.rows();
    let is_lost = |row: &usize| {
        let times = (trace.spans.start[*row], trace.spans.dur[*row]);
        times == (0, 0) && kind_of(trace, *row).is_gpu_work()
    };
    let lost = rows.clone().take_while(is_lost).count();
    match trace.spans.start[rows].get(lost) {
        Some(next) if next + shift <= 0 => 0,
        _ => lost,
    }
}

/// What the parts say of themselves together: what all agree on, sums of counts, every
/// device once. There is no rank.
pub(super) fn info_of(parts: &[MergePart], clock: MergedClock, shifts: &[Nanos]) -> SourceInfo {
    let infos = || parts.iter().map(|part| &part.trace.info);
    let mut info = infos().next().cloned().unwrap_or_default();
    info.rank = None;
    // The part that did not move is the one whose base they share.
    let unmoved = parts.iter().zip(shifts).find(|(_, shift)| **shift == 0);
    info.base_time_ns = match clock {
        MergedClock::Common => unmoved.and_then(|(part, _)| base_of(&part.trace)),
        MergedClock::StartsAligned => None,
    };
    info.text_bytes = infos().fold(0, |sum: u64, info| sum.saturating_add(info.text_bytes));
    info.events_by_phase = BTreeMap::new();
    info.devices = Vec::new();
    info.counted_calls = infos().flat_map(|part| part.counted_calls.clone()).collect();
    info.braked_calls = infos().flat_map(|part| part.braked_calls.clone()).collect();
    for part in infos() {
        if part.format != info.format {
            info.format = "several formats".to_owned();
        }
        if part.compression != info.compression {
            info.compression = String::new();
        }
        info.world_size = info.world_size.filter(|_| part.world_size == info.world_size);
        info.backend = info.backend.take().filter(|backend| part.backend.as_ref() == Some(backend));
        info.properties.retain(|key, value| part.properties.get(key) == Some(value));
        for (phase, count) in &part.events_by_phase {
            let sum = info.events_by_phase.entry(phase.clone()).or_insert(0);
            *sum = sum.saturating_add(*count);
        }
        for device in &part.devices {
            if !info.devices.contains(device) {
                info.devices.push(device.clone());
            }
        }
    }
    info
}
