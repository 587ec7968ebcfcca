//! Rules such as those of `--fail-if`: when a comparison makes a build fail.
//!
//! A rule reads `slower > 3% in decode on gpu measured`: a word, then what may follow it in
//! that order. A rule holds back where the verdict does: noise fails no build. What a rule
//! names and neither side has makes it fail, for a gate that cannot see must not be open.

use spanwise_analyze::{ComparePlace, CompareRow, Comparison, Phase, Verdict};
use spanwise_write::nanos_text;

use crate::{GateRow, ReportError};

/// One rule, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    text: String,
    what: RuleVerdict,
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

#[derive(Debug, Clone, Copy, PartialEq)]
enum Amount {
    Percent(f64),
    Nanos(f64),
}

const WHATS: [(&str, RuleVerdict); 4] = [
    ("slower", RuleVerdict::Slower),
    ("faster", RuleVerdict::Faster),
    ("changed", RuleVerdict::Changed),
    ("unsure", RuleVerdict::Unsure),
];

const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// A word of a rule and where it begins, in characters.
type Word = (usize, String);

/// Words by spaces; `>` is one of its own; quotes keep a name together.
fn words(text: &str) -> Result<Vec<Word>, ReportError> {
    let mut words: Vec<Word> = Vec::new();
    let mut rest = text.chars().enumerate().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            c if c.is_whitespace() => {}
            '>' => words.push((at, ">".to_owned())),
            '\'' | '"' => {
                let mut name = String::new();
                loop {
                    match rest.next() {
                        Some((_, end)) if end == c => break,
                        Some((_, inside)) => name.push(inside),
                        None => return Err(mistake(text, at, "a quote that is not closed")),
                    }
                }
                words.push((at, name));
            }
            c => {
                let mut word = c.to_string();
                while let Some((_, more)) = rest.next_if(|(_, c)| !c.is_whitespace() && *c != '>') {
                    word.push(more);
                }
                words.push((at, word));
            }
        }
    }
    Ok(words)
}

/// An error that points at its place.
fn mistake(text: &str, at: usize, what: &str) -> ReportError {
    ReportError::Request(format!("{text:?}, character {}: {what}", at + 1))
}

impl Rule {
    pub fn parse(text: &str) -> Result<Self, ReportError> {
        let words = words(text)?;
        let end = text.chars().count();
        let mut next = words.into_iter().peekable();
        let (at, word) = next.next().unwrap_or((0, String::new()));
        let Some(&(_, what)) = WHATS.iter().find(|(name, _)| *name == word) else {
            return Err(mistake(text, at, "a rule begins with slower, faster, changed or unsure"));
        };
        let mut rule = Rule {
            text: text.trim().to_owned(),
            what,
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
            rule.more_than = Some(amount(&word).ok_or_else(|| mistake(text, at, wanted))?);
            if what == RuleVerdict::Unsure {
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
            if what == RuleVerdict::Unsure {
                return Err(mistake(text, at, "what is unsure is never measured"));
            }
        }
        match next.next() {
            None => Ok(rule),
            Some((at, _)) => {
                let what = "expected > AMOUNT, in NAME, on PLACE or measured, in this order";
                Err(mistake(text, at, what))
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
        let found: Vec<&CompareRow> = rows.filter(|row| matches(name, &row.key)).collect();
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
        let is_this_way = match (self.what, self.is_measured) {
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
                Some(Amount::Nanos(ns)) => change.abs() as f64 > ns,
                // Of nothing, any change is more than any part.
                Some(Amount::Percent(percent)) => {
                    change.abs() as f64 * 100.0 > row.base.step_ns() as f64 * percent
                }
            }
    }
}

fn is_unit(text: &str) -> bool {
    UNITS.iter().any(|(unit, _)| *unit == text)
}

fn amount(text: &str) -> Option<Amount> {
    let number = |digits: &str| {
        let number: f64 = digits.trim().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    };
    if let Some(digits) = text.strip_suffix('%') {
        return number(digits).map(Amount::Percent);
    }
    let unit = UNITS.iter().find_map(|&(unit, size)| Some((text.strip_suffix(unit)?, size)));
    unit.and_then(|(digits, size)| Some(Amount::Nanos(number(digits)? * size)))
}

/// Whether a pattern, in which `*` stands for anything, is the whole name.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
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
pub fn check_rules(rules: &[Rule], comparison: &Comparison) -> Result<Vec<GateRow>, ReportError> {
    let mut rows = Vec::new();
    for rule in rules {
        rows.extend(rule.check(comparison)?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_error(text: &str, place: usize, what: &str) {
        let error = Rule::parse(text).expect_err("no rule").to_string();
        let expected = format!("{text:?}, character {}: {what}", place + 1);
        assert_eq!(error, expected);
    }

    #[test]
    fn errors_point_at_their_place() {
        check_error("", 0, "a rule begins with slower, faster, changed or unsure");
        check_error("slow", 0, "a rule begins with slower, faster, changed or unsure");
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
        let rule = Rule::parse("slower>2.5 % in \"aten::mm *\" on gpu measured").expect("a rule");
        assert_eq!((rule.what, rule.more_than), (RuleVerdict::Slower, Some(Amount::Percent(2.5))));
        assert_eq!(rule.name.as_deref(), Some("aten::mm *"));
        assert_eq!((rule.place, rule.is_measured), (Some(ComparePlace::Gpu), true));
        let rule = Rule::parse("changed > 2ms").expect("a rule");
        assert_eq!(rule.more_than, Some(Amount::Nanos(2e6)));
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, expected) in [
            ("aten::mm", "aten::mm", true),
            ("aten::mm", "aten::mm2", false),
            ("aten::*", "aten::mm", true),
            ("*mm", "aten::mm", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
