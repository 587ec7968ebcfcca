//! The table of spans.

use std::sync::Arc;

use spanwise_analyze::{ClassRules, Facts, span_classes};
use spanwise_model::{SpanId, StrId};

use super::{Opened, Traces, int};
use crate::dictionary::NO_TEXT;
use crate::relation::{Column, Relation, Source};

/// What `kind` says, in the order of `SpanKind`.
pub(super) const KINDS: [&str; 14] = [
    "other",
    "python",
    "operator",
    "annotation",
    "runtime",
    "kernel",
    "memcpy",
    "memset",
    "sync",
    "gpu_annotation",
    "overhead",
    "window",
    "off_cpu",
    "lock_wait",
];

pub(super) fn spans(traces: &Arc<Traces>) -> Relation {
    let rows = traces.traces.iter().map(|opened| opened.trace.spans().len()).sum();
    Relation { name: "spans", about: "every span of every track", rows, columns: columns(traces) }
}

fn columns(traces: &Arc<Traces>) -> Vec<Column> {
    let kinds: Vec<u32> =
        KINDS.iter().map(|kind| traces.texts.find(kind).unwrap_or(NO_TEXT)).collect();
    let kind_of = move |opened: &Opened, span| kinds[opened.trace.kind(span) as usize];
    vec![
        int("id", "its number", |row| Some(row as i64)),
        number(traces, "trace", "number of the trace, from 0", |_, at, _| Some(at as i64)),
        number(traces, "start", "nanoseconds since the trace began", |opened, _, span| {
            Some(opened.told(opened.trace.spans().start(span)))
        }),
        number(traces, "dur", "its length in nanoseconds", |opened, _, span| {
            Some(opened.trace.spans().dur(span))
        }),
        number(traces, "end", "start + dur", |opened, _, span| {
            Some(opened.told(opened.trace.spans().end(span)))
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
    text(traces, "class", "what sort of GPU work it is: docs/classes.md", move |opened, span| {
        let make = || {
            let found = span_classes(&Facts::new(&opened.trace), &ClassRules::standard());
            let codes = found.classes.iter().map(|class| texts.find(class).unwrap_or(NO_TEXT));
            let codes: Vec<u32> = codes.collect();
            let code = |class: Option<u32>| class.map_or(NO_TEXT, |class| codes[class as usize]);
            found.of_span.into_iter().map(code).collect()
        };
        opened.classes.get_or_init(make)[span.index()]
    })
}

impl Opened {
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
    value: impl Fn(&Opened, usize, SpanId) -> Option<i64> + Send + Sync + 'static,
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
    code: impl Fn(&Opened, SpanId) -> u32 + Send + Sync + 'static,
) -> Column {
    let (texts, traces) = (Arc::clone(&traces.texts), Arc::clone(traces));
    let code = move |row| {
        let at = traces.of_row(row, |opened| opened.first_span).unwrap_or(0);
        let opened = &traces.traces[at];
        code(opened, SpanId((row - opened.first_span) as u32))
    };
    Column::new(name, about, Source::Text(Box::new(code), texts))
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;

    #[test]
    fn kinds_are_named_as_elsewhere() {
        assert_eq!(KINDS.len(), SpanKind::ALL.len());
        for kind in SpanKind::ALL {
            let named = format!("{kind:?}").to_lowercase();
            assert_eq!(KINDS[kind as usize].replace('_', ""), named);
        }
    }
}
