//! Rules about two traces: when a comparison makes a build fail.
//!
//! A rule reads `slower > 3% in decode on gpu measured`: a word, then what may follow it in
//! that order. A rule holds back where the verdict does: noise fails no build. What a rule
//! names and neither side has makes it fail, for a gate that cannot see must not be open.

use spanwise_analyze::{ComparePlace, CompareRow, Comparison, Phase, Verdict};
use spanwise_glob::Glob;
use spanwise_write::nanos_text;

use super::words::{Amount, Word, Words, mistake};
use super::{GateRule, LIMIT};
use crate::duration::is_unit;
use crate::{GateRow, ReportError};

/// One rule about the change between two traces.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeRule {
    text: String,
    verdict: RuleVerdict,
    more_than: Option<Amount>,
    name: Option<String>,
    place: Option<ComparePlace>,
    /// Whatever the verdict.
    is_measured: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleVerdict {
    Slower,
    Faster,
    Changed,
    Unsure,
}

const VERDICTS: [(&str, RuleVerdict); 4] = [
    ("slower", RuleVerdict::Slower),
    ("faster", RuleVerdict::Faster),
    ("changed", RuleVerdict::Changed),
    ("unsure", RuleVerdict::Unsure),
];

/// Whether a rule that begins with this word is about the change between two traces.
pub(super) fn is_verdict(word: &str) -> bool {
    VERDICTS.iter().any(|(name, _)| *name == word)
}

impl ChangeRule {
    /// Reads a rule. One about a single trace is an error.
    pub fn parse(text: &str) -> Result<Self, ReportError> {
        match GateRule::parse(text)? {
            GateRule::Change(rule) => Ok(rule),
            GateRule::Limit(_) => Err(mistake(text, 0, LIMIT)),
        }
    }

    /// Reads a rule that begins with a verdict.
    pub(super) fn of_words(words: Words<'_>) -> Result<Self, ReportError> {
        let text = words.text;
        let end = text.chars().count();
        let mut next = words.list.into_iter().peekable();
        let (_, word) = next.next().unwrap_or_default();
        let known = VERDICTS.iter().find(|(name, _)| *name == word);
        let verdict = known.map_or(RuleVerdict::Changed, |&(_, verdict)| verdict);
        let mut rule = ChangeRule {
            text: text.trim().to_owned(),
            verdict,
            more_than: None,
            name: None,
            place: None,
            is_measured: false,
        };
        let argument = |next: &mut dyn Iterator<Item = Word>, wanted: &str| match next.next() {
            Some(word) => Ok(word),
            None => Err(mistake(text, end, wanted)),
        };
        let wanted = "an amount such as 3% or 2ms is needed here";
        if next.next_if(|(_, word)| word == ">").is_some() {
            let (at, mut word) = argument(&mut next, wanted)?;
            // "3 %" and "2 ms".
            if let Some((_, unit)) = next.next_if(|(_, unit)| unit == "%" || is_unit(unit)) {
                word.push_str(&unit);
            }
            let amount = Amount::parse(&word).filter(Amount::is_of_change);
            rule.more_than = Some(amount.ok_or_else(|| mistake(text, at, wanted))?);
            if verdict == RuleVerdict::Unsure {
                return Err(mistake(text, at, "what is unsure has no amount"));
            }
        }
        if next.next_if(|(_, word)| word == "in").is_some() {
            rule.name = Some(argument(&mut next, "a name is needed here, or any")?.1);
        }
        if next.next_if(|(_, word)| word == "on").is_some() {
            let wanted = "a place is needed here: gpu, host or waiting";
            let (at, word) = argument(&mut next, wanted)?;
            let place = ComparePlace::parse(&word).filter(|&place| place != ComparePlace::Wall);
            rule.place = Some(place.ok_or_else(|| mistake(text, at, wanted))?);
        }
        if let Some((at, _)) = next.next_if(|(_, word)| word == "measured") {
            rule.is_measured = true;
            if verdict == RuleVerdict::Unsure {
                return Err(mistake(text, at, "what is unsure is never measured"));
            }
        }
        match next.next() {
            None => Ok(rule),
            Some((at, _)) => {
                let order = "expected > AMOUNT, in NAME, on PLACE or measured, in this order";
                Err(mistake(text, at, order))
            }
        }
    }

    fn check(&self, comparison: &Comparison) -> Result<Vec<GateRow>, ReportError> {
        let row = |found: String, holds| GateRow { rule: self.text.clone(), found, holds };
        let rows = self.rows(comparison)?;
        if rows.is_empty() {
            return Ok(vec![row("nothing of that name on either side".to_owned(), false)]);
        }
        let fired: Vec<GateRow> = rows
            .iter()
            .filter(|compared| self.fires(compared))
            .map(|compared| row(found_text(compared), false))
            .collect();
        match (fired.is_empty(), rows.as_slice()) {
            (false, _) => Ok(fired),
            (true, [only]) => Ok(vec![row(found_text(only), true)]),
            (true, rows) => Ok(vec![row(format!("none of {} rows", rows.len()), true)]),
        }
    }

    /// What the rule speaks of.
    fn rows<'c>(&self, comparison: &'c Comparison) -> Result<Vec<&'c CompareRow>, ReportError> {
        let Some(name) = &self.name else {
            let Some(place) = self.place else { return Ok(vec![&comparison.wall]) };
            return Ok(comparison.overall.iter().filter(|row| row.place == place).collect());
        };
        let is_here = |row: &&CompareRow| self.place.is_none_or(|place| row.place == place);
        let rows = comparison.rows.iter().filter(is_here);
        if name == "any" {
            return Ok(rows.collect());
        }
        // Names may hold stars themselves, such as `operator*`.
        let pattern = Glob::new(name);
        let is_named = |row: &&CompareRow| row.key == *name || pattern.fits(&row.key);
        let found: Vec<&CompareRow> = rows.filter(is_named).collect();
        if !found.is_empty() || Phase::parse(name).is_none() {
            return Ok(found);
        }
        if self.place.is_some() {
            let what = "`on` a place in a phase needs --by phase";
            return Err(ReportError::Request(format!("{:?}: {what}", self.text)));
        }
        let is_phase = |row: &&CompareRow| row.place == ComparePlace::Wall && row.key == *name;
        Ok(comparison.overall.iter().filter(is_phase).collect())
    }

    fn fires(&self, row: &CompareRow) -> bool {
        let change = row.change_ns();
        let is_this_way = match (self.verdict, self.is_measured) {
            (RuleVerdict::Unsure, _) => row.verdict == Verdict::Inconclusive,
            (RuleVerdict::Slower, true) => change > 0,
            (RuleVerdict::Faster, true) => change < 0,
            (RuleVerdict::Changed, true) => change != 0,
            (RuleVerdict::Slower, false) => row.verdict == Verdict::Slower,
            (RuleVerdict::Faster, false) => row.verdict == Verdict::Faster,
            (RuleVerdict::Changed, false) => row.is_changed(),
        };
        is_this_way
            && match self.more_than {
                None => true,
                Some(Amount::Nanos(ns)) => change.abs() > i128::from(ns),
                // Of nothing, any change is more than any part.
                Some(Amount::Percent(percent)) => {
                    change.abs() as f64 * 100.0 > row.base.step_ns() as f64 * percent
                }
                // Not read as an amount of change.
                Some(Amount::Number(_)) => false,
            }
    }
}

/// "aten::mm on host: slower, 1.165 ms → 1.332 ms".
fn found_text(row: &CompareRow) -> String {
    let place = match row.place {
        ComparePlace::Wall => String::new(),
        place => format!(" on {}", place.text()),
    };
    let times = [row.base.step_ns(), row.other.step_ns()].map(nanos_text);
    format!("{}{place}: {}, {} → {}", row.key, row.verdict.text(), times[0], times[1])
}

/// Each rule beside what was found; rules that fire have a row for each place.
pub fn check_changes(
    rules: &[ChangeRule],
    comparison: &Comparison,
) -> Result<Vec<GateRow>, ReportError> {
    let mut rows = Vec::new();
    for rule in rules {
        rows.extend(rule.check(comparison)?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::super::FORMS;
    use super::*;

    #[track_caller]
    fn check_error(text: &str, place: usize, what: &str) {
        let error = ChangeRule::parse(text).expect_err("no rule").to_string();
        let expected = format!("{text:?}, character {}: {what}", place + 1);
        assert_eq!(error, expected);
    }

    #[test]
    fn errors_point_at_their_place() {
        check_error("", 0, FORMS);
        check_error("slow", 0, FORMS);
        check_error("gpu_utilization > 60%", 0, LIMIT);
        check_error("slower >> 3%", 8, "an amount such as 3% or 2ms is needed here");
        check_error("slower > 3", 9, "an amount such as 3% or 2ms is needed here");
        check_error("slower >", 8, "an amount such as 3% or 2ms is needed here");
        check_error("slower in", 9, "a name is needed here, or any");
        check_error("slower on wall", 10, "a place is needed here: gpu, host or waiting");
        check_error("slower in 'a b", 10, "a quote that is not closed");
        check_error("unsure > 3%", 9, "what is unsure has no amount");
        let order = "expected > AMOUNT, in NAME, on PLACE or measured, in this order";
        check_error("slower on gpu in x", 14, order);
    }

    #[test]
    fn rules_are_read() {
        let rule =
            ChangeRule::parse("slower>2.5 % in \"aten::mm *\" on gpu measured").expect("a rule");
        assert_eq!(
            (rule.verdict, rule.more_than),
            (RuleVerdict::Slower, Some(Amount::Percent(2.5)))
        );
        assert_eq!(rule.name.as_deref(), Some("aten::mm *"));
        assert_eq!((rule.place, rule.is_measured), (Some(ComparePlace::Gpu), true));
        let rule = ChangeRule::parse("changed > 2ms").expect("a rule");
        assert_eq!(rule.more_than, Some(Amount::Nanos(2_000_000)));
    }
}
