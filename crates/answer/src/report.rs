//! A report on one trace, as a document.

use spanwise_analyze::{ClassRules, DevicePeaks, Facts, Thresholds};
use spanwise_model::{Notice, Notices};
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
    let hint = notices_hint(asked.facts.trace().notices(), asked.source.file);
    Document { sections: chosen(asked), hints: hint.into_iter().collect() }
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
