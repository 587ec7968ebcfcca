//! A report on one trace, as a document: the only place that assembles one.

use std::sync::Arc;

use spanwise_analyze::{
    CriticalPath, DevicePeaks, Facts, Finding, Thresholds, findings, ignored_steps,
};
use spanwise_model::{Notice, Notices, Trace};
use spanwise_write::{Document, Source, Top};

use crate::sections::gpu::usage::no_lines_hint;
use crate::sections::{ALL, report_sections};

/// What a report on one trace is to show.
pub struct ReportRequest<'a> {
    pub facts: &'a Facts,
    /// As the user named it.
    pub file: &'a str,
    pub thresholds: Thresholds,
    pub devices: DevicePeaks,
    pub top: Top,
    /// The sections that were named; none for the usual ones.
    pub sections: &'a [String],
}

impl<'a> ReportRequest<'a> {
    /// A request with the thresholds and tables of the project.
    pub fn new(facts: &'a Facts, file: &'a str, top: Top, sections: &'a [String]) -> Self {
        ReportRequest {
            facts,
            file,
            thresholds: Thresholds::default(),
            devices: DevicePeaks::standard(),
            top,
            sections,
        }
    }

    pub fn findings(&self) -> Vec<Finding> {
        findings(self.facts, &self.thresholds)
    }

    pub(crate) fn source(&self) -> Source<'a> {
        let trace = self.facts.trace();
        Source { file: self.file, info: trace.info(), window: trace.window() }
    }

    pub(crate) fn has_named(&self, key: &str) -> bool {
        self.sections.iter().any(|name| name == key || name == ALL)
    }

    /// Potential gains are expensive, and computed only for those who see the items.
    pub(crate) fn critical_path(&self) -> Arc<CriticalPath> {
        self.facts.critical_path(if self.has_named("critical-items") { self.top.rows() } else { 0 })
    }

    /// Events of memory that could not be read.
    pub(crate) fn unread_memory(&self) -> u64 {
        self.facts.memory().unread
    }
}

/// The sections that are named, or the usual ones with hints about what the numbers rest on.
pub fn report(request: &ReportRequest<'_>) -> Document {
    // Sections first: on several cores they compute at once what hints need as well.
    let sections = report_sections(request);
    let hints = if request.sections.is_empty() { hints(request) } else { Vec::new() };
    Document { sections, hints }
}

fn hints(request: &ReportRequest<'_>) -> Vec<String> {
    let trace = request.facts.trace();
    let hints = [
        no_lines_hint(request.facts.gpu()),
        notices_hint(trace.notices(), request.file),
        steps_hint(trace),
    ];
    hints.into_iter().flatten().collect()
}

/// A note where marks of steps exist that are not taken as steps.
fn steps_hint(trace: &Trace) -> Option<String> {
    let marks = ignored_steps(trace)?;
    let count = spanwise_write::count_text(marks as i128);
    Some(format!("{count} marks of steps are not taken as steps: too many for its tracks"))
}

/// A note where the reader repaired or lost something.
pub fn notices_hint(notices: &Notices, file: &str) -> Option<String> {
    if notices.is_empty() {
        return None;
    }
    let sum = |count: fn(&&Notice) -> bool| -> u64 {
        notices.iter().filter(count).map(|notice| notice.count).sum()
    };
    let (all, lost) = (sum(|_| true), sum(|notice| notice.kind.is_loss()));
    let number = |count: u64| spanwise_write::count_text(count.into());
    let loss = match lost {
        0 => "nothing was lost".to_owned(),
        lost => format!("{} lost", number(lost)),
    };
    let notices = if all == 1 { "notice" } else { "notices" };
    Some(format!("{} {notices} about the data, {loss}: spanwise info {file}", number(all)))
}
