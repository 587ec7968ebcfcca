//! The words of rules, their amounts, and errors that point at their place.

use spanwise_model::Nanos;

use crate::ReportError;
use crate::duration::parse_duration;

/// A word of a rule and where it begins, in characters.
pub(super) type Word = (usize, String);

/// A rule and its words.
pub(super) struct Words<'t> {
    pub(super) text: &'t str,
    pub(super) list: Vec<Word>,
}

/// Words by spaces; `>` is one of its own; quotes keep a name together.
pub(super) fn words(text: &str) -> Result<Words<'_>, ReportError> {
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
    Ok(Words { text, list: words })
}

/// An error that points at its place.
pub(super) fn mistake(text: &str, at: usize, what: &str) -> ReportError {
    ReportError::Request(format!("{text:?}, character {}: {what}", at + 1))
}

/// What a rule compares with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Amount {
    Number(f64),
    Percent(f64),
    Nanos(Nanos),
}

impl Amount {
    /// A number, a number of percent, or a duration.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str| {
            let number: f64 = digits.trim().parse().ok()?;
            number.is_finite().then_some(number)
        };
        if let Some(digits) = text.strip_suffix('%') {
            return number(digits).map(Amount::Percent);
        }
        parse_duration(text).map(Amount::Nanos).or_else(|| number(text).map(Amount::Number))
    }

    /// Whether a change may be more than this.
    pub(super) fn is_of_change(&self) -> bool {
        match *self {
            Amount::Number(_) => false,
            Amount::Percent(percent) => percent >= 0.0,
            Amount::Nanos(ns) => ns >= 0,
        }
    }
}
