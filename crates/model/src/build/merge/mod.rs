//! Several traces become one: the ranks of a run on one timeline.
//!
//! The parts are finished, so their rows are renumbered and set one behind the other;
//! nothing is joined again, and no launch or link leads from one part to another.
//! Processes of the parts are kept apart by their ids, and distinguished by a name before
//! theirs. What readers of a copy would join by ([`args`]) is kept apart as well.

mod args;
mod clock;
mod names;

use crate::columns::category::CategoryTable;
use crate::observed::RowNumbers;
use crate::{
    Counters, Instants, Links, NO_OFFSET, NO_ROW, Nanos, Notice, NoticeKind, Notices, ObservedRows,
    Parts, SourceInfo, SpanKind, Spans, StrId, StringsBuilder, Trace, Track, TrackId, Tracks,
    Violation,
};
use args::SeveralSources;
pub use clock::{MergedClock, starts_on_one_clock};
use names::ProcessIds;

/// A trace, and what to call it beside the others, such as "rank 2".
pub struct MergePart {
    /// Its name, the prefix of its processes.
    pub name: String,
    /// The trace.
    pub trace: Trace,
}

/// All parts in one.
pub struct MergedTrace {
    /// The trace.
    pub trace: Trace,
    /// How the times of the parts relate.
    pub clock: MergedClock,
}

/// Joins the parts in their order. Fails where there are more spans than can be numbered.
pub fn merge(parts: Vec<MergePart>) -> Result<MergedTrace, Violation> {
    let rows: usize = parts.iter().map(|part| part.trace.spans.len()).sum();
    if rows >= NO_ROW as usize {
        let what = format!("{rows} spans, more than can be numbered");
        return Err(Violation { table: "spans", row: NO_ROW as usize, what });
    }
    let (clock, shifts) = clock::shifts(&parts);
    let ids = ProcessIds::of(&parts);
    let mut sum = Sum::default();
    let mut sources = SeveralSources::default();
    let info = clock::info_of(&parts, clock, &shifts);
    for ((place, part), shift) in parts.into_iter().enumerate().zip(shifts) {
        let offsets_from = sources.next_offset();
        sum.add(&part, &ids, place, Shift { time: shift, offsets_from });
        sources.push(part.trace, place);
    }
    let trace = sum.finish(info, sources)?;
    Ok(MergedTrace { trace, clock })
}

/// How far times and offsets of a part move.
#[derive(Clone, Copy)]
struct Shift {
    time: Nanos,
    offsets_from: u64,
}

impl Shift {
    fn offset(self, offset: u64) -> u64 {
        match offset {
            NO_OFFSET => NO_OFFSET,
            offset => self.offsets_from.saturating_add(offset),
        }
    }
}

/// The tables so far.
#[derive(Default)]
struct Sum {
    strings: StringsBuilder,
    categories: CategoryTable,
    tracks: Vec<Track>,
    spans: SpanVectors,
    instants: InstantVectors,
    counters: (Vec<Nanos>, Vec<u32>, Vec<f64>),
    links: (Vec<u32>, Vec<u32>, Vec<u16>),
    observed: ObservedRows,
    notices: Notices,
}

#[derive(Default)]
struct SpanVectors {
    start: Vec<Nanos>,
    dur: Vec<Nanos>,
    name: Vec<u32>,
    category: Vec<u16>,
    track: Vec<u32>,
    parent: Vec<u32>,
    launch: Vec<u32>,
    offset: Vec<u64>,
}

#[derive(Default)]
struct InstantVectors {
    time: Vec<Nanos>,
    name: Vec<u32>,
    category: Vec<u16>,
    track: Vec<u32>,
    offset: Vec<u64>,
}

/// The new numbers of a part's texts, categories, tracks and rows.
struct Numbers {
    strings: Vec<u32>,
    categories: Vec<u16>,
    first_track: u32,
    first_row: u32,
}

impl Numbers {
    fn row(&self, row: u32) -> u32 {
        if row == NO_ROW { NO_ROW } else { self.first_row + row }
    }
}

impl RowNumbers for Numbers {
    fn string(&self, id: StrId) -> StrId {
        StrId(self.strings[id.index()])
    }

    fn track(&self, id: TrackId) -> TrackId {
        TrackId(self.first_track + id.0)
    }
}

impl Sum {
    fn add(&mut self, part: &MergePart, ids: &ProcessIds, place: usize, shift: Shift) {
        let trace = &part.trace;
        let numbers = self.numbers(trace);
        self.add_tracks(part, ids, place, &numbers);
        self.add_spans(trace, &numbers, shift);
        self.add_events(trace, &numbers, shift);
        self.observed.add(trace.observed.to_rows(shift.time), &numbers);
        let moved = |notice: &Notice| Notice {
            first_offset: shift.offset(notice.first_offset),
            ..notice.clone()
        };
        self.notices.merge(&trace.notices.iter().map(moved).collect());
    }

    fn numbers(&mut self, trace: &Trace) -> Numbers {
        let texts = (0..trace.strings.len() as u32).map(|id| trace.strings.get(StrId(id)));
        let strings: Vec<u32> = texts.map(|text| self.strings.intern(text).0).collect();
        let categories = trace.categories.rows().iter().map(|category| {
            let name = StrId(strings[category.name.index()]);
            self.categories.id((name, Some(category.kind)), category.kind, &mut self.strings)
        });
        Numbers {
            categories: categories.collect(),
            strings,
            first_track: self.tracks.len() as u32,
            first_row: self.spans.start.len() as u32,
        }
    }

    fn add_tracks(&mut self, part: &MergePart, ids: &ProcessIds, place: usize, numbers: &Numbers) {
        let names = names::process_names(part);
        for track in part.trace.tracks.rows() {
            let process = part.trace.strings.get(track.process);
            self.tracks.push(Track {
                process: self.strings.intern(&ids.apart(process, place, &part.name)),
                process_name: self.strings.intern(&names[&track.process]),
                thread: StrId(numbers.strings[track.thread.index()]),
                thread_name: StrId(numbers.strings[track.thread_name.index()]),
                spans: numbers.row(track.spans.start)..numbers.row(track.spans.end),
                ..*track
            });
        }
    }

    fn add_spans(&mut self, trace: &Trace, numbers: &Numbers, shift: Shift) {
        let (from, to) = (&trace.spans, &mut self.spans);
        for track in trace.tracks.rows() {
            let starts = &from.start[track.rows()];
            let lost = clock::lost_rows(trace, track, shift.time);
            to.start.extend_from_slice(&starts[..lost]);
            to.start.extend(starts[lost..].iter().map(|start| start + shift.time));
        }
        to.dur.extend_from_slice(&from.dur);
        to.name.extend(from.name.iter().map(|&id| numbers.strings[id as usize]));
        to.category.extend(from.category.iter().map(|&id| numbers.categories[usize::from(id)]));
        to.track.extend(from.track.iter().map(|&id| numbers.first_track + id));
        to.parent.extend(from.parent.iter().map(|&row| numbers.row(row)));
        to.launch.extend(from.launch.iter().map(|&row| numbers.row(row)));
        to.offset.extend(from.offset.iter().map(|&offset| shift.offset(offset)));
    }

    fn add_events(&mut self, trace: &Trace, numbers: &Numbers, shift: Shift) {
        let moved = |time: &Nanos| time + shift.time;
        let track = |id: &u32| numbers.first_track + id;
        let category = |&id: &u16| numbers.categories[usize::from(id)];
        let (instants, counters) = (&trace.instants, &trace.counters);
        self.instants.time.extend(instants.time.iter().map(moved));
        self.instants.name.extend(instants.name.iter().map(|&id| numbers.strings[id as usize]));
        self.instants.category.extend(instants.category.iter().map(category));
        self.instants.track.extend(instants.track.iter().map(track));
        self.instants.offset.extend(instants.offset.iter().map(|&offset| shift.offset(offset)));
        self.counters.0.extend(counters.time.iter().map(moved));
        self.counters.1.extend(counters.track.iter().map(track));
        self.counters.2.extend_from_slice(&counters.value);
        self.links.0.extend(trace.links.from.iter().map(|&row| numbers.row(row)));
        self.links.1.extend(trace.links.to.iter().map(|&row| numbers.row(row)));
        self.links.2.extend(trace.links.category.iter().map(category));
    }

    fn finish(mut self, info: SourceInfo, args: SeveralSources) -> Result<Trace, Violation> {
        self.categories.notice(&mut self.notices);
        let left_out = self.strings.left_out();
        self.notices.add_count(NoticeKind::NamesLeftOut, left_out, NO_OFFSET);
        let SpanVectors { start, dur, name, category, track, parent, launch, offset } = self.spans;
        let spans = Spans {
            start: start.into(),
            dur: dur.into(),
            name: name.into(),
            category: category.into(),
            track: track.into(),
            parent: parent.into(),
            launch: launch.into(),
            offset: offset.into(),
        };
        let InstantVectors { time, name, category, track, offset } = self.instants;
        let instants = Instants {
            time: time.into(),
            name: name.into(),
            category: category.into(),
            track: track.into(),
            offset: offset.into(),
        };
        let (time, track, value) = self.counters;
        let (from, to, category) = self.links;
        Trace::from_parts(Parts {
            strings: self.strings.finish(),
            categories: self.categories.finish(),
            tracks: Tracks::new(self.tracks),
            spans,
            instants,
            counters: Counters { time: time.into(), track: track.into(), value: value.into() },
            links: Links { from: from.into(), to: to.into(), category: category.into() },
            observed: self.observed.finish(),
            info,
            notices: self.notices,
            args: Some(Box::new(args)),
        })
    }
}

/// The kind of a row's category.
fn kind_of(trace: &Trace, row: usize) -> SpanKind {
    trace.categories.get(trace.spans.category[row].into()).kind
}
