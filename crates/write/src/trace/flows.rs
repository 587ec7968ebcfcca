//! Arrows as the formats draw them: between times, not between spans.
//!
//! A time stands for the innermost span open then. So for each end of an arrow a
//! time is searched for at which its span is innermost; where there is none, since
//! other spans cover it whole, its start has to do.

use spanwise_model::{Nanos, SpanId, Trace};

/// How many times of a span are tried before its start has to do.
const TRIES_MAX: usize = 4096;

/// An arrow between two spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: SpanId,
    pub(super) to: SpanId,
    /// Row of the link; `None` for the launch of GPU work.
    pub(super) link: Option<usize>,
}

/// Launches first, by the span that was launched; then links, without those that
/// repeat a launch.
pub(super) fn arrows(trace: &Trace) -> impl Iterator<Item = Arrow> {
    let spans = trace.spans();
    let launches = spans.ids().filter_map(|to| {
        let from = spans.launch(to)?;
        Some(Arrow { from, to, link: None })
    });
    let links = trace.links().iter().enumerate();
    let links = links.filter(|&(_, (from, to))| spans.launch(to) != Some(from));
    launches.chain(links.map(|(row, (from, to))| Arrow { from, to, link: Some(row) }))
}

/// A time from `not_before` on at which `span` is the innermost one of its track.
pub(super) fn innermost_time(trace: &Trace, span: SpanId, not_before: Nanos) -> Option<Nanos> {
    let spans = trace.spans();
    let (start, end) = (spans.start(span), spans.end(span));
    let first = start.max(not_before);
    if innermost_at(trace, span, first) == Some(span) {
        return Some(first);
    }
    let rows_end = trace.tracks().get(spans.track(span)).spans.end;
    let later = (span.0 + 1..rows_end).map(SpanId).take(TRIES_MAX);
    let mut ends =
        later.take_while(|&inner| spans.start(inner) < end).map(|inner| spans.end(inner));
    ends.find(|&time| time >= first && time < end && innermost_at(trace, span, time) == Some(span))
}

/// The innermost span at a time, on the track of `span`.
fn innermost_at(trace: &Trace, span: SpanId, time: Nanos) -> Option<SpanId> {
    let spans = trace.spans();
    let range = trace.tracks().get(spans.track(span)).rows();
    let began = spans.start_column()[range.clone()].partition_point(|&start| start <= time);
    let mut inner = SpanId((range.start + began.checked_sub(1)?) as u32);
    loop {
        let is_instant = spans.dur(inner) == 0 && spans.start(inner) == time;
        if time < spans.end(inner) || is_instant {
            return Some(inner);
        }
        inner = spans.parent(inner)?;
    }
}

/// Whether no span before `span` begins with it: then "the next to begin" is this one.
pub(super) fn is_first_to_begin(trace: &Trace, span: SpanId) -> bool {
    let spans = trace.spans();
    let rows = &trace.tracks().get(spans.track(span)).spans;
    span.0 == rows.start || spans.start(SpanId(span.0 - 1)) < spans.start(span)
}
