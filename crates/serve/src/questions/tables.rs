//! Answers that are tables: the report, a range, a comparison.

use spanwise_analyze::{NameUse, range_use};
use spanwise_write::{Document, range_sections};

use crate::http::Response;
use crate::route::{Asked, Refusal};

pub(crate) fn report(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let viewed = asked.trace()?;
    let make = || {
        let document = (asked.session.shell.report)(&viewed.trace, &viewed.file);
        text(&document)
    };
    Ok(Response::json(viewed.report.get_or_init(make).clone()))
}

pub(crate) fn range(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let viewed = asked.trace()?;
    let window = asked.window(viewed)?;
    let found: Vec<NameUse> = range_use(&viewed.trace, window);
    let sections = range_sections(&viewed.trace, window, &found);
    Ok(Response::json(text(&Document { sections, hints: Vec::new() })))
}

pub(crate) fn compare(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let base = asked.trace_named("base")?;
    let other = asked.trace_named("other")?;
    let document = (asked.session.shell.compare)(base, other);
    Ok(Response::json(text(&document)))
}

fn text(document: &Document) -> String {
    let mut out = Vec::new();
    // A vector takes everything, and what is written is text.
    drop(document.write_for_page(&mut out));
    String::from_utf8_lossy(&out).into_owned()
}
