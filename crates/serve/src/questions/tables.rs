//! Answers that are tables: the report, a range, a comparison.

use std::ops::Range;

use spanwise_analyze::{NameUse, cpu_functions_within, off_cpu_reasons_within, range_use};
use spanwise_model::Nanos;
use spanwise_report::{
    ReportRequest, compare_traces, range_cpu_section, range_sections, range_waits_section,
};
use spanwise_write::{Document, Section, SidePlaces, Top};

use crate::connection::http::Response;
use crate::route::{Refusal, ViewerRequest};
use crate::viewed::TraceView;

/// Rows of each table of the report.
const REPORT_ROWS: Top = Top::First(50);

pub(crate) fn report(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let make = || {
        let request = ReportRequest::new(&viewed.facts, &viewed.file, REPORT_ROWS, &[]);
        text(&spanwise_report::report(&request), None)
    };
    Ok(Response::json(viewed.report.get_or_init(make).clone()))
}

pub(crate) fn range(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let viewed = &*asked.trace()?;
    let window = asked.window(viewed)?;
    let found: Vec<NameUse> = range_use(&viewed.trace, window);
    let mut sections = range_sections(&viewed.trace, window, &found);
    let observed = observed_sections(viewed, window.0..window.1);
    if !observed.is_empty() {
        // Recordings without annotations have nothing else.
        sections.retain(|section| !section.table().is_empty());
        sections.extend(observed);
    }
    Ok(Response::json(text(&Document { sections, hints: Vec::new() }, None)))
}

/// What samples and thread states say of a range, where there are any.
fn observed_sections(viewed: &TraceView, window: Range<Nanos>) -> Vec<Section> {
    let trace = &*viewed.trace;
    let last = trace.window().map_or(Nanos::MAX, |(_, last)| last);
    // A range ends before its end, but the last sample is taken at the end of its trace.
    let end = if window.end == last { last.saturating_add(1) } else { window.end };
    let window = window.start..end;
    let mut sections = Vec::new();
    if !trace.samples().is_empty() {
        let functions = cpu_functions_within(trace, viewed.facts.cpu_time(), window.clone());
        sections.push(range_cpu_section(&functions));
    }
    if !trace.thread_states().is_empty() {
        sections.push(range_waits_section(&off_cpu_reasons_within(trace, window)));
    }
    sections
}

pub(crate) fn compare(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let base = asked.trace_named("base")?;
    let other = asked.trace_named("other")?;
    let (document, places) = compare_traces(&base.facts, &other.facts);
    Ok(Response::json(text(&document, Some(&places))))
}

fn text(document: &Document, places: Option<&SidePlaces>) -> String {
    let mut out = Vec::new();
    // A vector takes everything, and what is written is text.
    drop(document.write_for_page(places, &mut out));
    String::from_utf8_lossy(&out).into_owned()
}
