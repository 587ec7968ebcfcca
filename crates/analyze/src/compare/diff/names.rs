//! Which frames of two profiles are the same function.
//!
//! A name, and the file where one is known: never the line, since code that only moved
//! down its file is the same code. Python's profiler names the line of a definition
//! (`model.py(12): forward`), and one file often defines a name many times, a `forward`
//! a class. These stay apart: definitions of both sides are paired in the order of
//! their lines, or, where one side has more of them, by the shift that most agree on.
//! Lines of other profiles are those that ran, and are left out.
//!
//! The group of a frame does not count: it may be the path of a binary, which changes
//! with each build.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use spanwise_model::{Profile, ProfileFrame};

/// This many pairs of lines are searched for a common shift; more is no real file.
const PAIRS_MAX: usize = 1 << 14;

/// A function of either profile or of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) key: Key,
    pub(crate) group: String,
    /// Where its definition begins: in the base, in the other.
    pub(crate) lines: [Option<i64>; 2],
}

/// What must agree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// Empty where none is known, or where one of the two profiles knows none.
    pub(crate) file: String,
    pub(crate) form: Form,
}

/// How the frame's name is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// `file(line): name`, with the line of the definition.
    Definition,
    /// `name (file:line)`, with a line that ran.
    Place,
    /// The name alone.
    Plain,
}

/// All functions, and which of them each frame of the two profiles is.
pub(crate) struct Functions {
    pub(crate) rows: Vec<Function>,
    pub(crate) of_frames: [Vec<u32>; 2],
}

impl Functions {
    pub(crate) fn new(profiles: [&Profile; 2]) -> Self {
        let has_files = profiles.map(|profile| {
            let mut files = profile.frames.iter().map(|frame| profile.text(frame.file));
            files.any(|file| !file.is_empty())
        });
        let uses_files = has_files == [true, true];
        let keys = profiles.map(|profile| -> Vec<(Key, Option<i64>)> {
            profile.frames.iter().map(|frame| key_of(profile, frame, uses_files)).collect()
        });
        let mut lines: BTreeMap<&Key, [BTreeSet<i64>; 2]> = BTreeMap::new();
        for (side, keys) in keys.iter().enumerate() {
            for (key, line) in keys {
                lines.entry(key).or_default()[side].extend(line);
            }
        }
        let mut rows = Vec::new();
        let mut numbers: BTreeMap<(&Key, usize, Option<i64>), u32> = BTreeMap::new();
        for (key, [base, other]) in &lines {
            let mut pairs = paired(base, other);
            if pairs.is_empty() {
                pairs.push([None, None]);
            }
            for lines in pairs {
                for (side, line) in lines.iter().enumerate() {
                    numbers.insert((key, side, *line), rows.len() as u32);
                }
                let (key, group) = ((*key).clone(), String::new());
                rows.push(Function { key, group, lines });
            }
        }
        let mut of_frames = [Vec::new(), Vec::new()];
        for (side, keys) in keys.iter().enumerate() {
            for ((key, line), frame) in keys.iter().zip(&profiles[side].frames) {
                let number = numbers[&(key, side, *line)];
                let group = profiles[side].text(frame.group);
                let known = &mut rows[number as usize].group;
                // Of several groups the first in order: that of frames is not canonical.
                if known.is_empty() || (!group.is_empty() && group < known.as_str()) {
                    group.clone_into(known);
                }
                of_frames[side].push(number);
            }
        }
        Functions { rows, of_frames }
    }
}

impl Function {
    /// As the profile named it; with both lines where the definition moved.
    pub(crate) fn label(&self) -> String {
        let Key { name, file, form } = &self.key;
        match (form, self.lines) {
            (Form::Definition, [Some(base), Some(other)]) if base != other => {
                format!("{file}({base}→{other}): {name}")
            }
            (Form::Definition, [base, other]) => match other.or(base) {
                Some(line) => format!("{file}({line}): {name}"),
                None => format!("{file}: {name}"),
            },
            (Form::Place, _) => format!("{name} ({file})"),
            (Form::Plain, _) => name.clone(),
        }
    }

    /// The frame's name where both profiles are to agree on one: that of the other,
    /// which is the newer code.
    pub(crate) fn common_name(&self) -> String {
        match self.lines {
            [Some(_), Some(line)] => Function { lines: [None, Some(line)], ..self.clone() }.label(),
            _ => self.label(),
        }
    }
}

/// The key of a frame and the line of its definition.
fn key_of(profile: &Profile, frame: &ProfileFrame, uses_files: bool) -> (Key, Option<i64>) {
    let name = profile.text(frame.name);
    if let Some((file, line, name)) = definition(name) {
        return (Key { name: name.into(), file: file.into(), form: Form::Definition }, Some(line));
    }
    if let Some((name, file)) = place(name) {
        return (Key { name: name.into(), file: file.into(), form: Form::Place }, None);
    }
    let file = if uses_files { profile.text(frame.file) } else { "" };
    // Steps are numbered through the run; they are one function.
    let is_step = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
    let name = match name.strip_prefix("ProfilerStep#") {
        Some(number) if is_step(number) => "ProfilerStep#",
        _ => name,
    };
    (Key { name: name.into(), file: file.into(), form: Form::Plain }, None)
}

/// The parts of `file(line): name`.
pub(crate) fn definition(text: &str) -> Option<(&str, i64, &str)> {
    let (place, name) = text.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    Some((file, line.parse().ok()?, name))
}

/// The name and the file of `name (file:line)`.
fn place(text: &str) -> Option<(&str, &str)> {
    let (name, place) = text.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, line) = place.rsplit_once(':')?;
    let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    (is_line && !name.is_empty() && !file.is_empty()).then_some((name, file))
}

/// Which lines of both sides are one definition.
pub(crate) fn paired(base: &BTreeSet<i64>, other: &BTreeSet<i64>) -> Vec<[Option<i64>; 2]> {
    if base.len() == other.len() {
        return base.iter().zip(other).map(|(&a, &b)| [Some(a), Some(b)]).collect();
    }
    let shift = common_shift(base, other);
    let moved = |line: i64| line.checked_add(shift).filter(|line| other.contains(line));
    let mut pairs: Vec<[Option<i64>; 2]> =
        base.iter().map(|&line| [Some(line), moved(line)]).collect();
    let taken: BTreeSet<i64> = pairs.iter().filter_map(|pair| pair[1]).collect();
    pairs.extend(other.difference(&taken).map(|&line| [None, Some(line)]));
    pairs
}

/// By how many lines most definitions moved. Of what ties the least, and then that of
/// the uppermost pair, so that the answer is the same from either side.
fn common_shift(base: &BTreeSet<i64>, other: &BTreeSet<i64>) -> i64 {
    if base.len().saturating_mul(other.len()) > PAIRS_MAX {
        return 0;
    }
    let mut pairs: BTreeMap<i64, Vec<i128>> = BTreeMap::new();
    for &from in base {
        for &to in other {
            let height = i128::from(from) + i128::from(to);
            pairs.entry(to.saturating_sub(from)).or_default().push(height);
        }
    }
    let best = pairs.iter().min_by_key(|(shift, heights)| {
        (Reverse(heights.len()), shift.unsigned_abs(), heights.first().copied())
    });
    best.map_or(0, |(&shift, _)| shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_definitions_and_places() {
        assert_eq!(definition("a/b.py(12): f"), Some(("a/b.py", 12, "f")));
        assert_eq!(definition("at::native::k(int): x"), None);
        assert_eq!(place("f (a/b.py:3)"), Some(("f", "a/b.py")));
        assert_eq!(place("Memcpy DtoH (Device -> Pageable)"), None);
        assert_eq!(place("k (a:b)"), None);
    }

    #[track_caller]
    fn check_pairs(base: &[i64], other: &[i64], expected: &[(i64, i64)]) {
        let lines = |lines: &[i64]| lines.iter().copied().collect::<BTreeSet<i64>>();
        let pairs = paired(&lines(base), &lines(other));
        let number = |line: Option<i64>| line.unwrap_or(-1);
        let found: Vec<(i64, i64)> =
            pairs.iter().map(|&[base, other]| (number(base), number(other))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn definitions_pair_in_the_order_of_their_lines() {
        check_pairs(&[10, 50], &[10, 50], &[(10, 10), (50, 50)]);
        check_pairs(&[10, 50], &[20, 75], &[(10, 20), (50, 75)]);
    }

    #[test]
    fn one_that_is_missing_leaves_the_others_paired() {
        check_pairs(&[10, 50, 90], &[10, 90], &[(10, 10), (50, -1), (90, 90)]);
        check_pairs(&[10, 50], &[12, 52, 92], &[(10, 12), (50, 52), (-1, 92)]);
        check_pairs(&[], &[7], &[(-1, 7)]);
    }
}
