//! Answers that are tables: the report, a range, a comparison.

use spanwise_analyze::{Facts, NameUse, range_use};
use spanwise_answer::{Asked as Report, compare_traces};
use spanwise_write::{Document, SidePlaces, Top, range_sections};

use crate::http::Response;
use crate::route::{Asked, Refusal};

/// Rows of each table of the report.
const REPORT_ROWS: Top = Top::First(50);

pub(crate) fn report(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let make = || {
        let facts = Facts::new(&viewed.trace);
        let report = Report::new(&facts, &viewed.file, REPORT_ROWS, &[]);
        text(&spanwise_answer::report(&report), None)
    };
    Ok(Response::json(viewed.report.get_or_init(make).clone()))
}

pub(crate) fn range(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let window = asked.window(viewed)?;
    let found: Vec<NameUse> = range_use(&viewed.trace, window);
    let sections = range_sections(&viewed.trace, window, &found);
    Ok(Response::json(text(&Document { sections, hints: Vec::new() }, None)))
}

pub(crate) fn compare(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let base = asked.trace_named("base")?;
    let other = asked.trace_named("other")?;
    let (document, places) = compare_traces(&base.trace, &other.trace);
    Ok(Response::json(text(&document, Some(&places))))
}

fn text(document: &Document, places: Option<&SidePlaces>) -> String {
    let mut out = Vec::new();
    // A vector takes everything, and what is written is text.
    drop(document.write_for_page(places, &mut out));
    String::from_utf8_lossy(&out).into_owned()
}
