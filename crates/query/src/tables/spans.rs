//! The table of spans.

use std::sync::Arc;

use spanwise_model::{SpanId, SpanKind, StrId};

use super::{QueriedTrace, Traces, int};
use crate::dictionary::NO_TEXT;
use crate::relation::{Ascending, Column, Relation, Source};

pub(super) fn spans(traces: &Arc<Traces>) -> Relation {
    let rows = traces.traces.iter().map(|opened| opened.trace.spans().len()).sum();
    let columns = columns(traces);
    let (name, about) = ("spans", "every span of every track");
    Relation { name, about, rows, ascending: Some(by_start(traces, &columns)), columns }
}

/// Spans of a track stand in the order of their starts (I3).
fn by_start(traces: &Traces, columns: &[Column]) -> Ascending {
    let runs = traces.traces.iter().flat_map(|opened| {
        let tracks = opened.trace.tracks().rows().iter();
        let row = |span: u32| opened.first_span + span as usize;
        tracks.map(move |track| row(track.spans.start)..row(track.spans.end))
    });
    let column = columns.iter().position(|column| column.name == "start").unwrap_or(0);
    Ascending { column, runs: runs.collect() }
}

fn columns(traces: &Arc<Traces>) -> Vec<Column> {
    let kinds = SpanKind::ALL.map(|kind| traces.texts.find(kind.text()).unwrap_or(NO_TEXT));
    let kind_of = move |opened: &QueriedTrace, span| kinds[opened.trace.kind(span) as usize];
    vec![
        int("id", "its number", |row| Some(row as i64)),
        number(traces, "trace", "number of the trace, from 0", |_, at, _| Some(at as i64)),
        number(traces, "start", "nanoseconds since the trace began", |opened, _, span| {
            Some(opened.since_start(opened.trace.spans().start(span)))
        }),
        number(traces, "dur", "its length in nanoseconds", |opened, _, span| {
            Some(opened.trace.spans().dur(span))
        }),
        number(traces, "end", "start + dur", |opened, _, span| {
            Some(opened.since_start(opened.trace.spans().end(span)))
        }),
        number(traces, "self", "the part of dur that no inner span has", |opened, _, span| {
            Some(opened.self_ns(span))
        }),
        text(traces, "name", "what it is", |opened, span| {
            opened.codes[opened.trace.spans().name(span).index()]
        }),
        text(traces, "category", "the source's own word for its sort", |opened, span| {
            let category = opened.trace.categories().get(opened.trace.spans().category(span));
            opened.codes[category.name.index()]
        }),
        text(traces, "kind", "what it means: kernel, operator, python, runtime …", kind_of),
        number(traces, "track", "id in tracks", |opened, _, span| {
            Some((opened.first_track + opened.trace.spans().track(span).index()) as i64)
        }),
        number(
            traces,
            "depth",
            "its row in the timeline; 0 is the outermost",
            |opened, _, span| Some(opened.depth(span).into()),
        ),
        number(traces, "parent", "id of the span around it", |opened, _, span| {
            opened.id(opened.trace.spans().parent(span))
        }),
        number(
            traces,
            "launch",
            "id of the call that launched this GPU work",
            |opened, _, span| opened.id(opened.trace.spans().launch(span)),
        ),
        text(
            traces,
            "operator",
            "the operator it ran under, or was launched under",
            |opened, span| opened.name_of(opened.frames().operator(opened.launch_or(span))),
        ),
        text(
            traces,
            "line",
            "the Python line it ran under, or was launched under",
            |opened, span| opened.name_of(opened.frames().line(opened.launch_or(span))),
        ),
        number(
            traces,
            "step",
            "number of the step it began in, or was launched in",
            |opened, _, span| opened.step(span),
        ),
        class(traces),
    ]
}

/// The class of GPU work, such as `matmul`; null for everything else.
fn class(traces: &Arc<Traces>) -> Column {
    let texts = Arc::clone(&traces.texts);
    text(traces, "class", "class of GPU work: docs/reference/classes.md", move |opened, span| {
        let make = || {
            let found = opened.facts.span_classes();
            let codes = found.classes.iter().map(|class| texts.find(class).unwrap_or(NO_TEXT));
            let codes: Vec<u32> = codes.collect();
            let code = |class: Option<u32>| class.map_or(NO_TEXT, |class| codes[class as usize]);
            found.of_span.iter().copied().map(code).collect()
        };
        opened.classes.get_or_init(make)[span.index()]
    })
}

impl QueriedTrace {
    fn id(&self, span: Option<SpanId>) -> Option<i64> {
        span.map(|span| (self.first_span + span.index()) as i64)
    }

    fn launch_or(&self, span: SpanId) -> SpanId {
        self.trace.spans().launch(span).unwrap_or(span)
    }

    fn name_of(&self, span: Option<SpanId>) -> u32 {
        span.map_or(NO_TEXT, |span| {
            let StrId(name) = self.trace.spans().name(span);
            self.codes[name as usize]
        })
    }
}

fn number(
    traces: &Arc<Traces>,
    name: &'static str,
    about: &'static str,
    value: impl Fn(&QueriedTrace, usize, SpanId) -> Option<i64> + Send + Sync + 'static,
) -> Column {
    let traces = Arc::clone(traces);
    int(name, about, move |row| {
        let at = traces.of_row(row, |opened| opened.first_span)?;
        let opened = &traces.traces[at];
        value(opened, at, SpanId((row - opened.first_span) as u32))
    })
}

fn text(
    traces: &Arc<Traces>,
    name: &'static str,
    about: &'static str,
    code: impl Fn(&QueriedTrace, SpanId) -> u32 + Send + Sync + 'static,
) -> Column {
    let (texts, traces) = (Arc::clone(&traces.texts), Arc::clone(traces));
    let code = move |row| {
        let at = traces.of_row(row, |opened| opened.first_span).unwrap_or(0);
        let opened = &traces.traces[at];
        code(opened, SpanId((row - opened.first_span) as u32))
    };
    Column::new(name, about, Source::Text(Box::new(code), texts))
}
