//! The tables, as relations over the columns of all open traces.

mod events;
mod observed;
mod parts;
mod samples;
mod spans;

use std::sync::{Arc, OnceLock};

use observed::SampleLookups;
use spanwise_analyze::{ClassRules, Facts, Frames};
use spanwise_model::{Nanos, SpanId, SpanKind, StrId, Trace, TrackKind};

use crate::dictionary::Dictionary;
use crate::relation::{Column, Relation, Source};

/// The open traces, with what tables need of them, each computed when a query needs it.
pub(crate) struct Traces {
    traces: Vec<QueriedTrace>,
    /// Texts of all traces.
    texts: Arc<Dictionary>,
}

struct QueriedTrace {
    trace: Arc<Trace>,
    /// The number of its first span among all.
    first_span: usize,
    /// The same for tracks.
    first_track: usize,
    zero: Nanos,
    /// The number in `texts` of each string.
    codes: Vec<u32>,
    /// What the tables share with reports on the same trace.
    facts: Arc<Facts>,
    /// The class of each span's work, as a number in `texts`.
    classes: OnceLock<Vec<u32>>,
    observed: SampleLookups,
}

impl Traces {
    pub(crate) fn new(traces: Vec<Arc<Facts>>) -> Self {
        let mut texts = Dictionary::default();
        let (mut first_span, mut first_track) = (0, 0);
        let mut first = observed::FirstRows::default();
        let mut opened = Vec::with_capacity(traces.len());
        for facts in traces {
            let trace = facts.shared_trace();
            let strings = trace.strings();
            let codes = (0..strings.len() as u32).map(|id| texts.number(strings.get(StrId(id))));
            let codes = codes.collect();
            let (spans, tracks) = (trace.spans().len(), trace.tracks().len());
            let observed = SampleLookups::new(first);
            first = first.behind(&trace);
            opened.push(QueriedTrace {
                first_span,
                first_track,
                zero: trace.window().map_or(0, |(from, _)| from),
                codes,
                trace,
                facts,
                classes: OnceLock::new(),
                observed,
            });
            (first_span, first_track) = (first_span + spans, first_track + tracks);
        }
        for class in ClassRules::standard().class_names() {
            texts.number(class);
        }
        let of_spans = SpanKind::ALL.map(SpanKind::text);
        let of_tracks = TrackKind::ALL.map(TrackKind::text);
        let all = of_spans.into_iter().chain(of_tracks).chain(observed::words());
        for word in all {
            texts.number(word);
        }
        Traces { traces: opened, texts: Arc::new(texts) }
    }

    /// A span by its number among all.
    pub(crate) fn span(&self, id: usize) -> Option<(&Trace, SpanId)> {
        let opened = &self.traces[self.of_row(id, |opened| opened.first_span)?];
        let span = id - opened.first_span;
        (span < opened.trace.spans().len()).then_some((&*opened.trace, SpanId(span as u32)))
    }

    /// The trace that a row belongs to, by where the rows of each begin.
    fn of_row(&self, row: usize, first: impl Fn(&QueriedTrace) -> usize) -> Option<usize> {
        // Most of the time there is one.
        match self.traces.len() {
            1 => Some(0),
            _ => self.traces.partition_point(|opened| first(opened) <= row).checked_sub(1),
        }
    }
}

impl QueriedTrace {
    fn self_ns(&self, span: SpanId) -> Nanos {
        let time = self.facts.self_time();
        let track = self.trace.spans().track(span);
        match self.trace.tracks().get(track).kind {
            TrackKind::Thread => time.span_ns[span.index()],
            _ => self.trace.spans().dur(span),
        }
    }

    fn frames(&self) -> &Frames {
        self.facts.frames()
    }

    fn depth(&self, span: SpanId) -> u32 {
        self.facts.depths()[span.index()]
    }

    fn step(&self, span: SpanId) -> Option<i64> {
        self.facts.step_numbers()[span.index()]
    }

    /// A time as tables have it: since the start of the trace.
    fn since_start(&self, time: Nanos) -> i64 {
        time.saturating_sub(self.zero)
    }
}

/// All tables.
pub(crate) fn relations(traces: &Arc<Traces>) -> Vec<Relation> {
    vec![
        spans::spans(traces),
        events::tracks(traces),
        events::instants(traces),
        events::counters(traces),
        events::links(traces),
        samples::sample_events(traces),
        samples::frames(traces),
        samples::stacks(traces),
        samples::samples(traces),
        observed::thread_states(traces),
    ]
}

fn int(
    name: &'static str,
    about: &'static str,
    value: impl Fn(usize) -> Option<i64> + Send + Sync + 'static,
) -> Column {
    Column::new(name, about, Source::Int(Box::new(value)))
}
