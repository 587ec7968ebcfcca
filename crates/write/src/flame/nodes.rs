//! A flame graph as numbers, for a page that draws it itself.

use std::collections::BTreeMap;
use std::io::{self, Write};

use spanwise_model::Profile;

use super::tree;
use crate::escape::write_json_string;

/// Writes the stacks of a profile, by the column of that name, as JSON: parents before their
/// children, the whole first. What is narrower than the `nodes_max`-th part of it is counted only.
pub fn write_flame_nodes(
    profile: &Profile,
    value: &str,
    nodes_max: i128,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(column) = profile.value_types.iter().position(|known| known.name == value) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such column of values"));
    };
    let (nodes, sum) = tree::nodes(profile, column);
    let own =
        sum - nodes.iter().filter(|node| node.depth == 0).map(|node| node.total).sum::<i128>();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rows: Vec<(i64, usize, i128, i128)> = vec![(-1, 0, sum, own)];
    names.insert("all", 0);
    let mut row_of: BTreeMap<usize, i64> = BTreeMap::from([(0, 0)]);
    let mut dropped = 0;
    for node in &nodes {
        let parent = profile.stack_parents[node.stack.index()] as usize;
        // A child is no wider than its parent: where that one is dropped, so is this.
        let parent = row_of.get(&parent).copied();
        let Some(parent) = parent.filter(|_| node.total * nodes_max >= sum) else {
            dropped += 1;
            continue;
        };
        let frame = profile.frames_of(node.stack).next();
        let name = frame.map_or("", |frame| profile.text(frame.name));
        let next = names.len();
        let name = *names.entry(name).or_insert(next);
        row_of.insert(node.stack.index(), rows.len() as i64);
        rows.push((parent, name, node.total, node.own));
    }
    let unit = match &*profile.value_types[column].unit {
        "nanoseconds" => "nanos",
        "bytes" => "bytes",
        _ => "count",
    };
    write!(out, "{{\"value\": \"{value}\", \"unit\": \"{unit}\", \"total\": {sum}, ")?;
    write!(out, "\"dropped\": {dropped}, \"names\": [")?;
    let mut by_number: Vec<(usize, &str)> = names.iter().map(|(&name, &at)| (at, name)).collect();
    by_number.sort_unstable();
    for (at, name) in by_number {
        out.write_all(if at == 0 { b"" } else { b", " })?;
        write_json_string(name, out)?;
    }
    out.write_all(b"]")?;
    write_numbers("parent", rows.iter().map(|row| i128::from(row.0)), out)?;
    write_numbers("name", rows.iter().map(|row| row.1 as i128), out)?;
    write_numbers("weight", rows.iter().map(|row| row.2), out)?;
    write_numbers("self", rows.iter().map(|row| row.3), out)?;
    out.write_all(b"}")
}

fn write_numbers(
    key: &str,
    numbers: impl Iterator<Item = i128>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, ", \"{key}\": [")?;
    for (at, number) in numbers.enumerate() {
        write!(out, "{}{number}", if at == 0 { "" } else { "," })?;
    }
    out.write_all(b"]")
}

#[cfg(test)]
mod tests {
    use spanwise_model::{ProfileBuilder, ProfileFrame, StackId, StrId};

    use super::*;

    #[test]
    fn narrow_stacks_are_counted_and_sums_stay() {
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")], 0);
        let stack = |builder: &mut ProfileBuilder, path: &[&str], value| {
            let mut stack = StackId::EMPTY;
            for name in path {
                let name = builder.string(name);
                let (group, file) = (StrId::EMPTY, StrId::EMPTY);
                let frame = builder.frame(ProfileFrame { name, group, file, line: 0 });
                stack = builder.push(stack, frame);
            }
            let labels = builder.labels(Vec::new());
            builder.add(stack, labels, 0, value);
        };
        stack(&mut builder, &["a"], 60);
        stack(&mut builder, &["a", "b"], 39);
        stack(&mut builder, &["a", "<script>"], 1);
        let mut out = Vec::new();
        write_flame_nodes(&builder.finish(), "wall", 50, &mut out).expect("a vector takes all");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            concat!(
                "{\"value\": \"wall\", \"unit\": \"nanos\", \"total\": 100, \"dropped\": 1, ",
                "\"names\": [\"all\", \"a\", \"b\"], \"parent\": [-1,0,1], \"name\": [0,1,2], ",
                "\"weight\": [100,100,39], \"self\": [0,60,39]}",
            )
        );
    }
}
