//! Those calls of a trace that somebody wants to see, as a trace.

use std::collections::HashMap;

use spanwise_model::{Nanos, Selection, SpanId, StrId, Trace, Track, TrackKind, select};

use super::NamePattern;

/// What is asked for; an empty list asks for everything.
#[derive(Debug, Clone, Default)]
pub struct CallSelection {
    /// Only calls of these, and what they call.
    pub include: Vec<NamePattern>,
    /// No calls of these, nor what they call.
    pub exclude: Vec<NamePattern>,
    /// Only from a call of the first up to the next call of the second.
    pub between: Option<(NamePattern, NamePattern)>,
    /// Only threads of these numbers or names.
    pub threads: Vec<NamePattern>,
    /// Only this range, counted from the beginning of the recording.
    pub time: (Option<Nanos>, Option<Nanos>),
}

impl CallSelection {
    pub fn is_everything(&self) -> bool {
        let has_names = !self.include.is_empty() || !self.exclude.is_empty();
        let has_places = self.between.is_some() || !self.threads.is_empty();
        !has_names && !has_places && self.time == (None, None)
    }
}

/// Takes the part that is asked for out of a trace.
pub fn select_calls(trace: &Trace, wanted: &CallSelection, threads: usize) -> Trace {
    let include = WithCallees::new(trace, &wanted.include);
    let exclude = WithCallees::new(trace, &wanted.exclude);
    let keeps_span =
        |span: SpanId| (wanted.include.is_empty() || include.holds(span)) && !exclude.holds(span);
    let keeps_track = |track: &Track| wanted.threads.is_empty() || is_named(trace, track, wanted);
    let selection = Selection {
        tracks: trace.tracks().rows().iter().map(keeps_track).collect(),
        windows: windows(trace, wanted),
        keeps_span: &keeps_span,
    };
    select(trace, &selection, threads)
}

fn is_named(trace: &Trace, track: &Track, wanted: &CallSelection) -> bool {
    let names = [track.thread, track.thread_name].map(|name| trace.strings().get(name));
    wanted.threads.iter().any(|pattern| names.iter().any(|name| pattern.fits(name)))
}

/// Which names fit any of the patterns.
fn fitting(trace: &Trace, patterns: &[NamePattern]) -> Vec<bool> {
    let names = (0..trace.strings().len() as u32).map(|id| trace.strings().get(StrId(id)));
    names.map(|name| patterns.iter().any(|pattern| pattern.fits(name))).collect()
}

/// The spans of some names, and all below them.
struct WithCallees(Vec<bool>);

impl WithCallees {
    fn new(trace: &Trace, patterns: &[NamePattern]) -> Self {
        if patterns.is_empty() {
            return WithCallees(Vec::new());
        }
        let fits = fitting(trace, patterns);
        let spans = trace.spans();
        let mut held = vec![false; spans.len()];
        // A caller stands before what it calls (I3).
        for span in spans.ids() {
            let is_below = spans.parent(span).is_some_and(|parent| held[parent.index()]);
            held[span.index()] = is_below || fits[spans.name(span).index()];
        }
        WithCallees(held)
    }

    fn holds(&self, span: SpanId) -> bool {
        self.0.get(span.index()).copied().unwrap_or(false)
    }
}

/// The time ranges to keep, in order.
fn windows(trace: &Trace, wanted: &CallSelection) -> Option<Vec<(Nanos, Nanos)>> {
    let (first, _) = trace.window().unwrap_or((0, 0));
    let at =
        |time: Option<Nanos>, otherwise| time.map_or(otherwise, |time| first.saturating_add(time));
    let (from, to) = (at(wanted.time.0, Nanos::MIN), at(wanted.time.1, Nanos::MAX));
    let between = match &wanted.between {
        Some((start, stop)) => between(trace, start, stop),
        None if wanted.time == (None, None) => return None,
        None => vec![(Nanos::MIN, Nanos::MAX)],
    };
    let cut = between.into_iter().map(|(start, end)| (start.max(from), end.min(to)));
    Some(cut.filter(|(start, end)| start < end).collect())
}

/// From each call of `start` to the next call of `stop`. A later call of `start` takes
/// the place of one that no `stop` has followed.
fn between(trace: &Trace, start: &NamePattern, stop: &NamePattern) -> Vec<(Nanos, Nanos)> {
    let starts = fitting(trace, std::slice::from_ref(start));
    let stops = fitting(trace, std::slice::from_ref(stop));
    let spans = trace.spans();
    let kinds: HashMap<u32, TrackKind> =
        trace.tracks().iter().map(|(id, track)| (id.0, track.kind)).collect();
    let mut calls: Vec<(Nanos, SpanId)> = spans
        .ids()
        .filter(|&span| kinds.get(&spans.track(span).0) == Some(&TrackKind::Thread))
        .filter(|&span| starts[spans.name(span).index()] || stops[spans.name(span).index()])
        .map(|span| (spans.start(span), span))
        .collect();
    calls.sort_unstable();
    let mut open = None;
    let mut windows = Vec::new();
    for (time, span) in calls {
        let name = spans.name(span).index();
        if stops[name]
            && let Some(from) = open.take()
        {
            windows.push((from, time));
        }
        if starts[name] {
            open = Some(time);
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(wanted: &CallSelection, expected: &[(&str, Nanos, Nanos)]) {
        let mut sample = Sample::default();
        for (thread, name, start, dur) in [
            ("1", "main", 100, 100),
            ("1", "f", 110, 40),
            ("1", "g", 120, 10),
            ("1", "log", 160, 20),
            ("1", "write", 165, 10),
            ("2", "f", 130, 5),
        ] {
            sample.span(thread, SpanKind::Other, name, start, dur);
        }
        let trace = sample.finish();
        let part = select_calls(&trace, wanted, 1);
        assert_eq!(part.check(), Ok(()));
        let spans = part.spans();
        let found: Vec<(&str, Nanos, Nanos)> =
            spans.ids().map(|span| (part.name(span), spans.start(span), spans.end(span))).collect();
        assert_eq!(found, expected);
    }

    fn names(patterns: &[&str]) -> Vec<NamePattern> {
        patterns.iter().map(|pattern| NamePattern::new(pattern)).collect()
    }

    #[test]
    fn functions_come_with_what_they_call() {
        let wanted = CallSelection { include: names(&["f"]), ..Default::default() };
        check(&wanted, &[("f", 110, 150), ("g", 120, 130), ("f", 130, 135)]);
        let wanted = CallSelection { exclude: names(&["l?g", "f"]), ..Default::default() };
        check(&wanted, &[("main", 100, 200)]);
    }

    #[test]
    fn time_and_threads_are_cut_out() {
        let time = (Some(25), Some(62));
        let wanted = CallSelection { time, threads: names(&["1"]), ..Default::default() };
        check(&wanted, &[("main", 125, 162), ("f", 125, 150), ("g", 125, 130), ("log", 160, 162)]);
    }

    #[test]
    fn a_range_lies_between_two_calls() {
        let between = Some((NamePattern::new("g"), NamePattern::new("write")));
        let wanted = CallSelection { between, threads: names(&["1"]), ..Default::default() };
        let expected = [("main", 120, 165), ("f", 120, 150), ("g", 120, 130), ("log", 160, 165)];
        check(&wanted, &expected);
        let between = Some((NamePattern::new("write"), NamePattern::new("g")));
        check(&CallSelection { between, ..Default::default() }, &[]);
    }
}
