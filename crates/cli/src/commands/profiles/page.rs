//! Pages that open anywhere: answers, charts, a timeline and a flame graph in one file.
//!
//! They are made to be sent to others: where files lie, and what a trace says about the machine,
//! is left out unless it is asked for.

use std::path::Path;

use spanwise_analyze::{ClassRules, Facts, ProfileOptions, StepClasses, step_classes};
use spanwise_model::{Profile, Trace};
use spanwise_write::{CHART_CLASSES_MAX, Document, ReportPage, Top, write_report_page};

use super::{Target, write_file};
use crate::args::PageArgs;
use crate::commands::report;
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
    trace: &Trace,
    name: &str,
    options: &PageArgs,
    target: Target<'_>,
) -> anyhow::Result<()> {
    let mut document = report::named(trace, name, Top::First(ROWS), &[]);
    if options.with_metadata {
        document.sections.push(spanwise_write::properties_section(trace.info()));
    }
    write_traces(name, &document, [None, Some(trace)], options, target)
}

/// A document with pictures of the second trace, and of what changed since the first.
pub(in crate::commands) fn write_traces(
    title: &str,
    document: &Document,
    traces: [Option<&Trace>; 2],
    options: &PageArgs,
    target: Target<'_>,
) -> anyhow::Result<()> {
    let [base, profile] = traces.map(|trace| trace.map(profile_of));
    let steps = traces[1].map(steps_of);
    let page = ReportPage {
        title,
        document,
        steps: steps.as_ref(),
        trace: traces[1],
        profile: profile.as_ref().map(|profile| (profile, profile.default_value)),
        base: base.as_ref(),
        bytes_max: options.bytes_max(),
    };
    write(&page, target)
}

pub(in crate::commands) fn write(page: &ReportPage<'_>, target: Target<'_>) -> anyhow::Result<()> {
    let sections = page.document.sections.len();
    write_file(target, (sections, "sections"), |out| write_report_page(page, out))
}

fn steps_of(trace: &Trace) -> StepClasses {
    step_classes(&Facts::new(trace), &ClassRules::standard(), CHART_CLASSES_MAX)
}

fn profile_of(trace: &Trace) -> Profile {
    spanwise_analyze::profile(trace, &ProfileOptions::default())
}
