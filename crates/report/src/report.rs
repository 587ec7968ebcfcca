//! A report on one trace, as a document.

use spanwise_analyze::{ClassRules, DevicePeaks, Facts, Thresholds, ignored_steps};
use spanwise_model::{Notice, Notices, Trace};
use spanwise_write::{Document, Source, Top};

use crate::sections::{Answers, Asked, chosen};

impl<'a, 't> Asked<'a, 't> {
    /// Asks with the thresholds and tables of the project.
    pub fn new(facts: &'a Facts<'t>, file: &'a str, top: Top, named: &'a [String]) -> Self {
        let trace = facts.trace();
        Asked {
            facts,
            source: Source { file, info: trace.info(), window: trace.window() },
            thresholds: Thresholds::default(),
            classes: ClassRules::standard(),
            devices: DevicePeaks::standard(),
            top,
            named,
            answers: Answers::default(),
        }
    }
}

/// The sections that are named, or the usual ones where none is.
pub fn report(asked: &Asked<'_, '_>) -> Document {
    let trace = asked.facts.trace();
    let hints = notices_hint(trace.notices(), asked.source.file).into_iter();
    Document { sections: chosen(asked), hints: hints.chain(steps_hint(trace)).collect() }
}

/// One line for those who miss the steps of a trace.
fn steps_hint(trace: &Trace) -> Option<String> {
    let marks = ignored_steps(trace)?;
    let count = spanwise_write::count_text(marks as i128);
    Some(format!("{count} marks of steps are not taken as steps: too many for its tracks"))
}

/// One line for those who would believe the numbers without knowing.
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
