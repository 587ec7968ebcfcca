//! Answers that are tables: the report, a range, a comparison.

use std::ops::Range;

use spanwise_analyze::{Facts, NameUse, cpu_functions_within, off_cpu_reasons_within, range_use};
use spanwise_answer::{Asked as Report, compare_traces};
use spanwise_model::Nanos;
use spanwise_write::{
    Document, Section, SidePlaces, Top, cpu_section, off_cpu_reasons_section, range_sections,
};

use crate::http::Response;
use crate::route::{Asked, Refusal};
use crate::viewed::Viewed;

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
    let mut sections = range_sections(&viewed.trace, window, &found);
    sections.extend(observed_sections(viewed, window.0..window.1));
    Ok(Response::json(text(&Document { sections, hints: Vec::new() }, None)))
}

/// What samples and thread states say of a range, where there are any.
fn observed_sections(viewed: &Viewed, window: Range<Nanos>) -> Vec<Section> {
    let trace = &*viewed.trace;
    let mut sections = Vec::new();
    if !trace.samples().is_empty() {
        let time = viewed.cpu_time();
        let functions = cpu_functions_within(trace, time, window.clone());
        sections.push(cpu_section(&functions, time, REPORT_ROWS));
    }
    if !trace.thread_states().is_empty() {
        let reasons = off_cpu_reasons_within(trace, window);
        sections.push(off_cpu_reasons_section(&reasons, REPORT_ROWS));
    }
    sections
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
