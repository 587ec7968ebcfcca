//! Collapsed stacks: `root;caller;callee 42`.
//!
//! Names may hold spaces: the value is what follows the last one. `\x3b`, `\x0a`,
//! `\x0d` and `\x5c` stand for `;`, line breaks and a backslash. Lines that begin with `# ` are
//! comments; those of austin say what the values count.

use std::borrow::Cow;

use spanwise_model::{Profile, ProfileBuilder, StackId};

use super::{NO_STACK, NotAProfile, excerpt, stack_of_names};

/// Whether the first line that says something ends in a number.
pub(super) fn seems_folded(text: &[u8]) -> bool {
    let line = lines(text).map(|(_, line)| line).find(|line| says_something(line));
    line.and_then(split).is_some()
}

pub(crate) fn read(text: &[u8]) -> Result<Profile, NotAProfile> {
    let comments = lines(text).filter_map(|(_, line)| line.strip_prefix(b"# "));
    let comments: Vec<Cow<'_, str>> = comments.map(String::from_utf8_lossy).collect();
    let mut builder = ProfileBuilder::new(&[value_type(&comments)], 0);
    builder.comments = comments.iter().map(|comment| comment.trim().to_owned()).collect();
    let labels = builder.labels(Vec::new());
    for (offset, line) in lines(text).filter(|(_, line)| says_something(line)) {
        let Some((stack, value)) = split(line) else {
            let what = "a line without a number at its end";
            return Err(NotAProfile { offset: offset as u64, what, found: excerpt(line) });
        };
        let stack = String::from_utf8_lossy(stack);
        let stack = match &*stack {
            NO_STACK => StackId::EMPTY,
            stack => {
                let names: Vec<Cow<'_, str>> = stack.split(';').map(unescaped).collect();
                stack_of_names(names.iter().map(|name| &**name), &mut builder)
            }
        };
        builder.add(stack, labels, 0, value);
    }
    Ok(builder.finish())
}

/// Lines with their places, without what ends them.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut offset = 0;
    text.split(|&byte| byte == b'\n').map(move |line| {
        let start = offset;
        offset += line.len() + 1;
        (start, line.strip_suffix(b"\r").unwrap_or(line))
    })
}

fn says_something(line: &[u8]) -> bool {
    !line.is_empty() && !line.starts_with(b"# ")
}

/// What the values are: samples, where austin does not say that it measured.
fn value_type(comments: &[Cow<'_, str>]) -> (&'static str, &'static str) {
    let said = |key: &str| {
        let values = comments.iter().filter_map(|comment| comment.split_once(':'));
        let mut values = values.filter(|(other, _)| *other == key).map(|(_, value)| value.trim());
        values.next()
    };
    match (said("austin"), said("mode")) {
        (Some(_), Some("wall")) => ("wall", "microseconds"),
        (Some(_), Some("cpu")) => ("cpu", "microseconds"),
        _ => ("samples", "count"),
    }
}

/// The stack and the value of a line.
fn split(line: &[u8]) -> Option<(&[u8], i64)> {
    let at = memchr::memrchr2(b' ', b'\t', line)?;
    Some((&line[..at], whole(&line[at + 1..])?))
}

/// A whole number; decimals, which some scripts write, are rounded.
fn whole(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A sum of several samples may be more than a sample holds.
    let value: i128 = whole.parse().ok()?;
    let value = value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    let is_more = decimals.as_bytes().first().is_some_and(|&digit| digit >= b'5');
    let step = if whole.starts_with('-') { -1 } else { 1 };
    Some(if is_more { value.saturating_add(step) } else { value })
}

fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains("\\x") {
        return Cow::Borrowed(name);
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("\\x") {
        plain.push_str(&rest[..at]);
        let (text, len) = match rest.get(at + 2..at + 4) {
            Some("3b") => (";", 4),
            Some("0a") => ("\n", 4),
            Some("0d") => ("\r", 4),
            Some("5c") => ("\\", 4),
            _ => ("\\", 1),
        };
        plain.push_str(text);
        rest = &rest[at + len..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples as `frames value`, frames joined by `|`.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert!(seems_folded(text.as_bytes()));
        let profile = read(text.as_bytes()).expect("collapsed stacks");
        let line = |(row, sample): (usize, &spanwise_model::Sample)| {
            let frames = profile.frames_of(sample.stack);
            let mut names: Vec<&str> = frames.map(|frame| profile.text(frame.name)).collect();
            names.reverse();
            format!("{} {}", names.join("|"), profile.values_of(row)[0])
        };
        let lines: Vec<String> = profile.samples.iter().enumerate().map(line).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_line_is_a_stack_and_a_value() {
        check("a;b c;d 3\na 1\r\n\na;b c;d 4\n", &["a 1", "a|b c|d 7"]);
        check("\nf (x.py:3) 12", &["f (x.py:3) 12"]);
    }

    #[test]
    fn comments_are_kept_apart() {
        check("# made by: x\r\n\r\na;b 3\n# interval: 100\n#f 4\n", &["#f 4", "a|b 3"]);
        let profile = read(b"# austin: 3.0.0\n# mode: wall\n\nP1;T1;f 7\n").expect("stacks");
        assert_eq!(profile.comments, ["austin: 3.0.0", "mode: wall"]);
        let [of_values] = &profile.value_types[..] else { unreachable!("one column") };
        assert_eq!((&*of_values.name, &*of_values.unit), ("wall", "microseconds"));
    }

    #[test]
    fn decimals_are_rounded() {
        check("a 1.5\nb 2.4999\nc -1.5\nd 3.", &["a 2", "b 2", "c -2", "d 3"]);
    }

    #[test]
    fn escapes_are_resolved_and_other_backslashes_stay() {
        check("a\\x3bb;C:\\new\\x86;\\x5cx3b 1", &["a;b|C:\\new\\x86|\\x3b 1"]);
    }

    #[test]
    fn a_line_without_a_value_is_an_error_with_its_place() {
        let error = read(b"a 1\nb\n").expect_err("no value");
        let expected = "byte 4: not a profile: a line without a number at its end (\"b\")";
        assert_eq!(error.to_string(), expected);
    }
}
