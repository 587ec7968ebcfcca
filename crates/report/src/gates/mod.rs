//! Gates: rules that make a build fail, about one trace or about the change between two.
//!
//! One grammar for both. A rule that begins with a verdict, such as `slower > 3% in decode`, is
//! about a comparison; any other compares a metric of one trace with a limit, such as
//! `gpu_utilization >= 60%`. Each command takes those that it can answer, and says of the others
//! where they belong.

mod changes;
mod limits;
mod words;

pub use changes::{ChangeRule, check_changes};
pub use limits::{LimitRule, check_limits, parse_limits};
use words::{mistake, words};

use crate::ReportError;

/// What a rule may be.
const FORMS: &str = "a rule begins with slower, faster, changed or unsure, or compares a metric \
                     with a limit, as in gpu_utilization >= 60%";
const CHANGE: &str = "a rule about two traces, for compare --fail-if";
const LIMIT: &str = "a rule about one trace, for report --check";

/// One rule, read.
#[derive(Debug, Clone, PartialEq)]
pub enum GateRule {
    Change(ChangeRule),
    Limit(LimitRule),
}

impl GateRule {
    pub fn parse(text: &str) -> Result<Self, ReportError> {
        let words = words(text)?;
        match words.list.first() {
            Some((_, word)) if changes::is_verdict(word) => {
                ChangeRule::of_words(words).map(GateRule::Change)
            }
            Some(_) => match LimitRule::of_text(text)? {
                Some(rule) => Ok(GateRule::Limit(rule)),
                None => Err(mistake(text, 0, FORMS)),
            },
            None => Err(mistake(text, 0, FORMS)),
        }
    }
}
