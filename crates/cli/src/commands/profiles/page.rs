//! Pages that open anywhere: answers, charts, a timeline and a flame graph in one file.
//!
//! They are made to be sent to others: where files lie, and what a trace says about the machine,
//! is left out unless it is asked for.

use std::path::Path;

use spanwise_analyze::{Facts, step_classes};
use spanwise_model::Trace;
use spanwise_report::{ReportRequest, report};
use spanwise_write::{CHART_CLASSES_MAX, Document, ReportPage, Top, write_report_page};

use super::{Target, write_file};
use crate::args::PageArgs;
use crate::commands::viewing::view::name_of;

/// Rows of each table of a report.
const ROWS: usize = 30;

const BYTES_MAX: usize = 5 << 20;

impl PageArgs {
    /// What a page calls a file.
    pub(in crate::commands) fn shown_name(&self, path: &Path) -> String {
        if self.with_metadata { path.display().to_string() } else { name_of(path) }
    }

    pub(in crate::commands) fn bytes_max(&self) -> usize {
        self.max_size.unwrap_or(BYTES_MAX)
    }
}

/// The report on a trace, under a name.
pub(in crate::commands) fn write_report(
    trace: Trace,
    name: &str,
    options: &PageArgs,
    target: Target<'_>,
) -> anyhow::Result<()> {
    let facts = Facts::new(&trace.into());
    let mut document = report(&ReportRequest::new(&facts, name, Top::First(ROWS), &[]));
    if options.with_metadata {
        let properties = spanwise_write::properties_section(facts.trace().info());
        document.sections.push(properties);
    }
    write_traces(name, &document, [None, Some(&facts)], options, target)
}

/// A document with pictures of the second trace, and of what changed since the first.
pub(in crate::commands) fn write_traces(
    title: &str,
    document: &Document,
    traces: [Option<&Facts>; 2],
    options: &PageArgs,
    target: Target<'_>,
) -> anyhow::Result<()> {
    let [base, profile] = traces.map(|facts| facts.map(Facts::profile));
    let steps = traces[1].map(|facts| step_classes(facts, CHART_CLASSES_MAX));
    let page = ReportPage {
        title,
        document,
        steps: steps.as_ref(),
        trace: traces[1].map(Facts::trace),
        profile: profile.map(|profile| (profile, profile.default_value)),
        base,
        bytes_max: options.bytes_max(),
    };
    write(&page, target)
}

pub(in crate::commands) fn write(page: &ReportPage<'_>, target: Target<'_>) -> anyhow::Result<()> {
    let sections = page.document.sections.len();
    write_file(target, sections, "sections", |out| write_report_page(page, out))
}
