//! Everything about one span.

use serde_json::{Value, json};
use spanwise_analyze::span_self_ns;
use spanwise_model::{ArgValue, SpanId, SpanKind, StrId};

use super::observed::{sampled, state};
use super::slices::short;
use crate::connection::http::Response;
use crate::route::{Refusal, ViewerRequest};
use crate::viewed::TraceView;

/// Of what may be very many, the first.
const LAUNCHED_MAX: usize = 50;
const LINKS_MAX: usize = 50;
const STACK_MAX: usize = 1000;

pub(crate) fn span(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let span = match asked.text("span") {
        Some(_) => asked.span(viewed)?,
        None => placed(asked, viewed)?,
    };
    let trace = &viewed.trace;
    let spans = trace.spans();
    let category = trace.categories().get(spans.category(span));
    let launched_by = spans.launch(span);
    let around = stack(viewed, launched_by.unwrap_or(span));
    let stack: Vec<Value> =
        stack(viewed, span).into_iter().map(|span| named(viewed, span)).collect();
    let python = around.into_iter().chain(launched_by.is_none().then_some(span));
    let python = python.filter(|&span| trace.kind(span) == SpanKind::Python);
    let python: Vec<Value> = python.map(|span| named(viewed, span)).collect();
    let answer = json!({
        "span": span.0,
        "name": trace.name(span),
        "category": trace.strings().get(category.name),
        "kind": viewed.kind(span),
        "track": spans.track(span).0,
        "row": viewed.rows(spans.track(span)).row_of(span),
        "start": viewed.to_page_time(spans.start(span)) as f64,
        "dur": spans.dur(span) as f64,
        "self": span_self_ns(trace, span) as f64,
        "args": args(viewed, span),
        "stack": stack,
        "launched_by": launched_by.map(|launch| brief(viewed, launch)),
        "launched": launched(viewed, span),
        "python": python,
        "links": links(viewed, span),
        "sampled": sampled(viewed, span),
        "state": state(viewed, span),
        "same_name": same_name(viewed, span),
    });
    Ok(Response::json(answer.to_string()))
}

/// The span that begins at a time in a row of a track: numbers change when a trace grows.
fn placed(asked: &ViewerRequest<'_>, viewed: &TraceView) -> Result<SpanId, Refusal> {
    let track = asked.track(viewed, asked.needed("track")?)?;
    let (start, row) = (viewed.to_trace_time(asked.needed("start")?), asked.needed("row")?);
    let (rows, spans) = (viewed.rows(track), viewed.trace.spans());
    let all = viewed.trace.tracks().get(track).spans.clone();
    let starts = &spans.start_column()[all.start as usize..all.end as usize];
    let first = all.start + starts.partition_point(|&time| time < start) as u32;
    let mut there = (first..all.end).map(SpanId).take_while(|&span| spans.start(span) == start);
    let found = there.find(|&span| rows.row_of(span).is_some_and(|at| i64::from(at) == row));
    found.ok_or_else(|| Refusal::missing("there is no span at this place"))
}

/// What a list of spans says of each.
pub(super) fn brief(viewed: &TraceView, span: SpanId) -> Value {
    let spans = viewed.trace.spans();
    let track = spans.track(span);
    json!({
        "span": span.0,
        "name": short(viewed.trace.name(span)),
        "track": track.0,
        "row": viewed.rows(track).row_of(span),
        "start": viewed.to_page_time(spans.start(span)) as f64,
        "dur": spans.dur(span) as f64,
    })
}

fn named(viewed: &TraceView, span: SpanId) -> Value {
    json!({ "span": span.0, "name": short(viewed.trace.name(span)) })
}

/// The spans around one, outermost first.
fn stack(viewed: &TraceView, span: SpanId) -> Vec<SpanId> {
    let spans = viewed.trace.spans();
    let around = std::iter::successors(spans.parent(span), |&inner| spans.parent(inner));
    let mut stack: Vec<SpanId> = around.take(STACK_MAX).collect();
    stack.reverse();
    stack
}

/// Arguments as text; where they cannot be read, why.
fn args(viewed: &TraceView, span: SpanId) -> Vec<(String, String)> {
    match viewed.trace.args(span) {
        Err(why) => vec![("cannot be read".to_owned(), why)],
        Ok(args) => args.into_iter().map(|(key, value)| (key, arg_text(&value))).collect(),
    }
}

fn arg_text(value: &ArgValue) -> String {
    match value {
        ArgValue::Null => "null".to_owned(),
        ArgValue::Bool(flag) => flag.to_string(),
        ArgValue::Int(number) => number.to_string(),
        ArgValue::Number(text) | ArgValue::Text(text) => text.clone(),
        ArgValue::List(values) => {
            let values: Vec<String> = values.iter().map(arg_text).collect();
            format!("[{}]", values.join(", "))
        }
        ArgValue::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{key}: {}", arg_text(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// GPU work that was launched under it.
fn launched(viewed: &TraceView, span: SpanId) -> Value {
    let work = viewed.facts.launched_work().under(&viewed.trace, span);
    let total: i128 =
        work.iter().map(|&(_, work)| i128::from(viewed.trace.spans().dur(work))).sum();
    let first = work.iter().take(LAUNCHED_MAX).map(|&(_, work)| brief(viewed, work));
    let first: Vec<Value> = first.collect();
    json!({ "count": work.len(), "total": total as f64, "first": first })
}

/// Arrows that begin or end here.
fn links(viewed: &TraceView, span: SpanId) -> Vec<Value> {
    let trace = &viewed.trace;
    let links = trace.links();
    let rows = (0..links.len()).filter(|&row| [links.from[row], links.to[row]].contains(&span.0));
    let about = |row: usize| {
        let goes = links.from[row] == span.0;
        let other = if goes { links.to[row] } else { links.from[row] };
        let category = trace.categories().get(links.category[row].into());
        let category = trace.strings().get(category.name);
        json!({ "category": category, "to": goes, "other": brief(viewed, SpanId(other)) })
    };
    rows.take(LINKS_MAX).map(about).collect()
}

/// The others of its name: how many, and where its length stands among them.
fn same_name(viewed: &TraceView, span: SpanId) -> Value {
    let spans = viewed.trace.spans();
    let StrId(name) = spans.name(span);
    let (mut count, mut total, mut longer) = (0_u64, 0_i128, 0_u64);
    let (mut previous, mut next) = (None, None);
    for (row, _) in spans.name_column().iter().enumerate().filter(|&(_, &other)| other == name) {
        let other = SpanId(row as u32);
        count += 1;
        total += i128::from(spans.dur(other));
        longer += u64::from(spans.dur(other) > spans.dur(span));
        if spans.track(other) == spans.track(span) {
            match other.cmp(&span) {
                std::cmp::Ordering::Less => previous = Some(other.0),
                std::cmp::Ordering::Greater => next = next.or(Some(other.0)),
                std::cmp::Ordering::Equal => {}
            }
        }
    }
    let rank = longer + 1;
    let (total, rank) = (total as f64, rank);
    json!({ "count": count, "total": total, "rank": rank, "previous": previous, "next": next })
}
