//! A part of a trace, as a trace of its own.

use crate::{
    Batch, CategoryId, CounterRow, Frame, FrameId, InstantRow, NO_KEY, Nanos, ObservedTables,
    SampleEvent, SampleRow, SpanId, SpanRow, StackId, StateRow, StrId, Trace, TraceBuilder,
    TrackId, TrackLabel,
};

/// The part of a trace to keep.
pub struct Selection<'a> {
    /// Whether to keep each track.
    pub tracks: Vec<bool>,
    /// Time ranges, ascending and disjoint; spans are cut to them. `None` for all.
    pub windows: Option<Vec<(Nanos, Nanos)>>,
    /// Whether a span is kept.
    pub keeps_span: &'a dyn Fn(SpanId) -> bool,
}

/// A trace with the selected rows. A span whose caller is not selected gets the next caller that
/// is. Arguments, and links other than launches, are not kept.
pub fn select(trace: &Trace, selection: &Selection<'_>, threads: usize) -> Trace {
    let mut part = Part { trace, batch: Batch::default(), tracks: Vec::new() };
    part.add_tracks(&selection.tracks);
    for span in trace.spans.ids() {
        if (selection.keeps_span)(span) {
            part.add_span(span, selection);
        }
    }
    part.add_events(selection);
    part.add_observed(selection);
    let mut batch = part.batch;
    batch.notices = trace.notices.clone();
    batch.seal();
    let mut builder = TraceBuilder::new(threads);
    builder.push(batch);
    let mut info = trace.info.clone();
    // Counts are of what was read, and the batch counts nothing anew.
    let phases = std::mem::take(&mut info.events_by_phase);
    let mut selected = builder.finish(info, None);
    selected.info.events_by_phase = phases;
    selected
}

struct Part<'a> {
    trace: &'a Trace,
    batch: Batch,
    /// The new number of each track that is kept.
    tracks: Vec<Option<TrackId>>,
}

impl Part<'_> {
    fn add_tracks(&mut self, keeps: &[bool]) {
        let trace = self.trace;
        for (track, &keeps) in trace.tracks.rows().iter().zip(keeps) {
            if !keeps {
                self.tracks.push(None);
                continue;
            }
            let text = |id: StrId| trace.strings.get(id);
            let new = self.batch.track(track.kind, text(track.process), text(track.thread));
            for (name, label) in [
                (track.process_name, TrackLabel::ProcessName as fn(StrId) -> TrackLabel),
                (track.thread_name, TrackLabel::ThreadName),
            ] {
                if name != StrId::EMPTY {
                    let name = self.batch.string(text(name));
                    self.batch.label(new, label(name));
                }
            }
            self.batch.label(new, TrackLabel::ThreadSort(track.sort_index));
            self.tracks.push(Some(new));
        }
    }

    fn category(&mut self, id: CategoryId) -> CategoryId {
        let category = self.trace.categories.get(id);
        self.batch.category(self.trace.strings.get(category.name), category.kind)
    }

    fn add_span(&mut self, span: SpanId, selection: &Selection<'_>) {
        let spans = &self.trace.spans;
        let Some(track) = self.tracks[spans.track(span).index()] else { return };
        let (start, end) = (spans.start(span), spans.end(span));
        let name = self.batch.string(self.trace.name(span));
        let category = self.category(spans.category(span));
        let key = match spans.launch(span) {
            Some(launch) => u64::from(launch.0),
            None if self.trace.kind(span) == crate::SpanKind::Runtime => u64::from(span.0),
            None => NO_KEY,
        };
        // Ties between equal spans are kept by their rows.
        let offset = u64::from(span.0);
        for (start, end) in cut((start, end), selection.windows.as_deref()) {
            let row = SpanRow { start, dur: end - start, key, offset, name, category };
            self.batch.push_span(track, row);
        }
    }

    fn add_events(&mut self, selection: &Selection<'_>) {
        let trace = self.trace;
        let is_inside = |time: Nanos| match &selection.windows {
            None => true,
            Some(windows) => windows.iter().any(|&(from, to)| (from..to).contains(&time)),
        };
        let instants = &trace.instants;
        for row in (0..instants.len()).filter(|&row| is_inside(instants.time[row])) {
            let Some(track) = self.tracks[instants.track[row] as usize] else { continue };
            let name = self.batch.string(trace.strings.get(StrId(instants.name[row])));
            let category = self.category(instants.category[row].into());
            let (time, offset) = (instants.time[row], row as u64);
            self.batch.instants.push(InstantRow { time, offset, name, track, category });
        }
        let counters = &trace.counters;
        for row in (0..counters.len()).filter(|&row| is_inside(counters.time[row])) {
            let Some(track) = self.tracks[counters.track[row] as usize] else { continue };
            let (time, value) = (counters.time[row], counters.value[row]);
            self.batch.counters.push(CounterRow { time, offset: row as u64, value, track });
        }
    }
}

impl Part<'_> {
    /// Samples inside the windows, and the parts of states that lie in them.
    fn add_observed(&mut self, selection: &Selection<'_>) {
        let ObservedTables { samples, states, events, .. } = &self.trace.observed;
        let windows = selection.windows.as_deref();
        let is_inside = |time: Nanos| {
            windows
                .is_none_or(|windows| windows.iter().any(|&(from, to)| (from..to).contains(&time)))
        };
        let mut stacks = CopiedStacks::default();
        let copied: Vec<u16> = events.rows().iter().map(|&event| self.event(event)).collect();
        for row in samples.iter().filter(|row| is_inside(row.time)) {
            let Some(track) = self.tracks[row.track.index()] else { continue };
            let stack = stacks.copy(self, row.stack);
            let event = copied[usize::from(row.event)];
            self.batch.observed.samples.push(SampleRow { track, stack, event, ..row });
        }
        // The wait that was sampled may be outside of the windows.
        for row in states.iter_counted() {
            let Some(track) = self.tracks[row.track.index()] else { continue };
            let stack = stacks.copy(self, row.stack);
            let waker = row.waker.and_then(|waker| self.tracks[waker.index()]);
            let waker_stack = match waker {
                Some(_) => stacks.copy(self, row.waker_stack),
                None => StackId::EMPTY,
            };
            for (start, end) in cut((row.start, row.start + row.dur), windows) {
                let dur = end - start;
                let row = StateRow { start, dur, track, stack, waker, waker_stack, ..row };
                self.batch.observed.states.push(row);
            }
        }
    }

    fn string(&mut self, id: StrId) -> StrId {
        self.batch.string(self.trace.strings.get(id))
    }

    fn event(&mut self, event: SampleEvent) -> u16 {
        let (name, unit) = (self.string(event.name), self.string(event.unit));
        self.batch.observed.event(SampleEvent { name, unit, ..event })
    }
}

/// The stacks of the whole trace that the part has, under its numbers.
#[derive(Default)]
struct CopiedStacks(Vec<Option<StackId>>);

impl CopiedStacks {
    fn copy(&mut self, part: &mut Part<'_>, stack: StackId) -> StackId {
        let stacks = &part.trace.observed.stacks;
        self.0.resize(stacks.len(), None);
        self.0[0] = Some(StackId::EMPTY);
        let mut missing = Vec::new();
        let mut at = stack;
        let mut copy = loop {
            match self.0[at.index()] {
                Some(known) => break known,
                None => missing.push(at),
            }
            at = stacks.parent(at);
        };
        while let Some(stack) = missing.pop() {
            let frame = part.trace.observed.frames.get(FrameId(stacks.frame[stack.index()]));
            let frame = Frame {
                function: part.string(frame.function),
                file: part.string(frame.file),
                mapping: part.string(frame.mapping),
                ..frame
            };
            let frame = part.batch.observed.frame(frame);
            copy = part.batch.observed.stack(copy, frame);
            self.0[stack.index()] = Some(copy);
        }
        copy
    }
}

/// The parts of a span that lie in the windows. One that touches none has no part.
fn cut(span: (Nanos, Nanos), windows: Option<&[(Nanos, Nanos)]>) -> Vec<(Nanos, Nanos)> {
    let (start, end) = span;
    let Some(windows) = windows else { return vec![(start, end)] };
    let first = windows.partition_point(|&(_, to)| to <= start);
    let touching = windows[first..].iter().take_while(|&&(from, _)| from < end || from == start);
    touching.map(|&(from, to)| (start.max(from), end.min(to))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_to_the_windows() {
        let windows = [(10, 20), (30, 40)];
        let check = |span, expected: &[(Nanos, Nanos)]| {
            assert_eq!(cut(span, Some(&windows)), expected, "{span:?}");
        };
        check((0, 10), &[]);
        check((0, 11), &[(10, 11)]);
        check((12, 15), &[(12, 15)]);
        check((15, 35), &[(15, 20), (30, 35)]);
        check((20, 30), &[]);
        check((10, 10), &[(10, 10)]);
        check((20, 20), &[]);
        check((0, 50), &[(10, 20), (30, 40)]);
        assert_eq!(cut((3, 4), None), [(3, 4)]);
    }
}
