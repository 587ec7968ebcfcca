//! A flame graph as numbers, for a page that draws it itself.

use std::collections::BTreeMap;
use std::io::{self, Write};

use spanwise_model::{Profile, ProfileFrame};

use super::tree::StackSums;
use crate::document::escape::write_json_string;

/// What to write of a profile's stacks.
pub struct FlameNodes<'a> {
    /// The column of values that are the widths.
    pub value: &'a str,
    /// What to set it against.
    pub base: Option<FlameBase<'a>>,
    /// What is narrower than this part of the whole is counted only.
    pub nodes_max: i128,
    /// A number for the kind of a frame.
    pub kind_of: &'a dyn Fn(ProfileFrame) -> u8,
}

/// Another column of the same profile.
pub struct FlameBase<'a> {
    pub column: &'a str,
    /// By how many steps the values of each side were divided, the base's first.
    pub steps: [u64; 2],
}

/// A stack that is written.
struct Node {
    /// The row of its parent.
    parent: i64,
    name: usize,
    kind: u8,
    stack: usize,
}

/// Writes the stacks of a profile as JSON: parents before their children, the whole first.
pub fn write_flame_nodes(
    profile: &Profile,
    asked: &FlameNodes<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (column, sums) = sums_of(profile, asked.value)?;
    let base = asked.base.as_ref().map(|base| sums_of(profile, base.column)).transpose()?;
    let base = base.map(|(_, sums)| sums);
    let most = |stack: usize| {
        sums.total[stack].max(base.as_ref().map_or(0, |base: &StackSums| base.total[stack]))
    };
    let (names, rows, dropped) = wide_enough(profile, asked, most);
    let unit = match &*profile.value_types[column].unit {
        "nanoseconds" => "nanos",
        "bytes" => "bytes",
        _ => "count",
    };
    write!(out, "{{\"value\": \"{}\", \"unit\": \"{unit}\", ", asked.value)?;
    write!(out, "\"total\": {}, \"dropped\": {dropped}, \"names\": [", sums.total[0])?;
    for (at, name) in names.into_iter().enumerate() {
        out.write_all(if at == 0 { b"" } else { b", " })?;
        write_json_string(name, out)?;
    }
    out.write_all(b"], ")?;
    write_numbers("parent", rows.iter().map(|row| i128::from(row.parent)), out)?;
    out.write_all(b", ")?;
    write_numbers("name", rows.iter().map(|row| row.name as i128), out)?;
    out.write_all(b", ")?;
    write_numbers("kind", rows.iter().map(|row| i128::from(row.kind)), out)?;
    out.write_all(b", ")?;
    write_sums(&sums, &rows, out)?;
    if let (Some(sums), Some(FlameBase { steps: [before, after], .. })) = (&base, &asked.base) {
        write!(out, ", \"base\": {{\"total\": {}, ", sums.total[0])?;
        write_sums(sums, &rows, out)?;
        write!(out, ", \"steps\": [{before},{after}]}}")?;
    }
    out.write_all(b"}")
}

fn sums_of(profile: &Profile, name: &str) -> io::Result<(usize, StackSums)> {
    let column = profile.value_types.iter().position(|known| known.name == name);
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "no such column of values");
    let column = column.ok_or_else(none)?;
    Ok((column, StackSums::of(profile, column)))
}

/// The names, the rows that can be seen, the whole first, and how many cannot.
fn wide_enough<'p>(
    profile: &'p Profile,
    asked: &FlameNodes<'_>,
    most: impl Fn(usize) -> i128,
) -> (Vec<&'p str>, Vec<Node>, usize) {
    let whole = most(0);
    let mut names = vec!["all"];
    let mut number_of: BTreeMap<&str, usize> = BTreeMap::from([("all", 0)]);
    let mut rows = vec![Node { parent: -1, name: 0, kind: 0, stack: 0 }];
    let mut row_of: Vec<Option<i64>> = vec![None; profile.stack_parents.len()];
    row_of[0] = Some(0);
    let mut dropped = 0;
    for stack in (1..row_of.len()).filter(|&stack| most(stack) > 0) {
        // A child is no wider than its parent: where that one is dropped, so is this.
        let parent = row_of[profile.stack_parents[stack] as usize];
        let Some(parent) = parent.filter(|_| most(stack) * asked.nodes_max >= whole) else {
            dropped += 1;
            continue;
        };
        let frame = profile.frames[profile.stack_frames[stack] as usize];
        let text = profile.text(frame.name);
        let name = *number_of.entry(text).or_insert_with(|| {
            names.push(text);
            names.len() - 1
        });
        row_of[stack] = Some(rows.len() as i64);
        let kind = (asked.kind_of)(frame);
        rows.push(Node { parent, name, kind, stack });
    }
    (names, rows, dropped)
}

fn write_sums(sums: &StackSums, rows: &[Node], out: &mut dyn Write) -> io::Result<()> {
    write_numbers("weight", rows.iter().map(|row| sums.total[row.stack]), out)?;
    out.write_all(b", ")?;
    write_numbers("self", rows.iter().map(|row| sums.own[row.stack]), out)
}

fn write_numbers(
    key: &str,
    numbers: impl Iterator<Item = i128>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "\"{key}\": [")?;
    for (at, number) in numbers.enumerate() {
        write!(out, "{}{number}", if at == 0 { "" } else { "," })?;
    }
    out.write_all(b"]")
}

#[cfg(test)]
mod tests {
    use spanwise_model::{ProfileBuilder, ProfileFrame, StackId, StrId};

    use super::*;

    /// Stacks as `a;b`, in two columns.
    fn profile(samples: &[(&str, [i64; 2])]) -> Profile {
        let types = [("base", "nanoseconds"), ("wall", "nanoseconds")];
        let mut builder = ProfileBuilder::new(&types, 1);
        for (path, values) in samples {
            let mut stack = StackId::EMPTY;
            for name in path.split(';') {
                let group = builder.string(if name == "b" { "[kernel]" } else { "[python]" });
                let (name, file) = (builder.string(name), StrId::EMPTY);
                let frame = builder.frame(ProfileFrame { name, group, file, line: 0 });
                stack = builder.push(stack, frame);
            }
            let labels = builder.labels(Vec::new());
            for (column, &value) in values.iter().enumerate() {
                builder.add(stack, labels, column, value);
            }
        }
        builder.finish()
    }

    #[track_caller]
    fn check(samples: &[(&str, [i64; 2])], base: Option<FlameBase<'_>>, expected: &str) {
        let profile = profile(samples);
        let is_kernel = |frame: ProfileFrame| profile.text(frame.group) == "[kernel]";
        let kind_of = |frame: ProfileFrame| if is_kernel(frame) { 5 } else { 1 };
        let asked = FlameNodes { value: "wall", base, nodes_max: 50, kind_of: &kind_of };
        let mut out = Vec::new();
        write_flame_nodes(&profile, &asked, &mut out).expect("a vector takes all");
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn narrow_stacks_are_counted_and_sums_stay() {
        check(
            &[("a", [0, 60]), ("a;b", [9, 39]), ("a;<script>", [0, 1])],
            None,
            concat!(
                "{\"value\": \"wall\", \"unit\": \"nanos\", \"total\": 100, \"dropped\": 1, ",
                "\"names\": [\"all\", \"a\", \"b\"], \"parent\": [-1,0,1], \"name\": [0,1,2], ",
                "\"kind\": [0,1,5], \"weight\": [100,100,39], \"self\": [0,60,39]}",
            ),
        );
    }

    #[test]
    fn what_only_one_side_has_is_there_too() {
        check(
            &[("a", [10, 0]), ("a;b", [0, 40]), ("c", [30, 0])],
            Some(FlameBase { column: "base", steps: [2, 3] }),
            concat!(
                "{\"value\": \"wall\", \"unit\": \"nanos\", \"total\": 40, \"dropped\": 0, ",
                "\"names\": [\"all\", \"a\", \"b\", \"c\"], \"parent\": [-1,0,1,0], ",
                "\"name\": [0,1,2,3], \"kind\": [0,1,5,1], ",
                "\"weight\": [40,40,40,0], \"self\": [0,0,40,0], ",
                "\"base\": {\"total\": 40, \"weight\": [40,10,0,30], \"self\": [0,10,0,30], ",
                "\"steps\": [2,3]}}",
            ),
        );
    }
}
