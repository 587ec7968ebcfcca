//! Spans by a part of their name.

use serde_json::{Value, json};
use spanwise_analyze::find_named;

use super::slices::short;
use super::span::brief;
use crate::connection::http::Response;
use crate::route::{Refusal, ViewerRequest};

const NAMES_MAX: usize = 100;
const SPANS_MAX: usize = 200;

pub(crate) fn search(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let window = asked.window(viewed)?;
    let text = asked.text("text").unwrap_or_default();
    if text.is_empty() {
        return Err(Refusal::wrong("text is missing"));
    }
    let found = find_named(&viewed.trace, text, window, SPANS_MAX);
    let names: Vec<Value> = found
        .names
        .iter()
        .take(NAMES_MAX)
        .map(|row| {
            let name = short(viewed.trace.strings().get(row.name));
            let total = row.total_ns as f64;
            json!({ "name": name, "count": row.count, "total": total, "first": row.first.0 })
        })
        .collect();
    let spans: Vec<Value> = found.spans.iter().map(|&span| brief(viewed, span)).collect();
    let answer = json!({ "count": found.count, "names": names, "spans": spans });
    Ok(Response::json(answer.to_string()))
}
