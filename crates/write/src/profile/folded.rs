//! Collapsed stacks: a line per stack, frames from the root on, then the value.
//!
//! What flame graph scripts, difffolded and Pyroscope read. The format has no escapes
//! of its own, so a name that holds what separates (`;`, a line break) has it spelled
//! `\x3b`, `\x0a` or `\x0d`: scripts split where they should and people see what was
//! there. A backslash stays, unless it would read as one of these.

use std::borrow::Cow;
use std::io::{self, Write as _};

use spanwise_model::{Profile, ProfileFrame};

use super::{NO_STACK, root_first, value_type};

/// One line per stack that the chosen value is not 0 for; labels are added up.
pub fn write_folded(profile: &Profile, value: usize, out: &mut dyn io::Write) -> io::Result<()> {
    value_type(profile, value)?;
    write_columns(profile, &[value], out)
}

/// Lines with two values, of a profile whose columns are the base and the other: what
/// flame graph scripts draw as a difference.
pub fn write_folded_pair(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    value_type(profile, 1)?;
    write_columns(profile, &[0, 1], out)
}

fn write_columns(profile: &Profile, columns: &[usize], out: &mut dyn io::Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let (mut frames, mut line) = (Vec::new(), String::new());
    let mut row = 0;
    while row < profile.samples.len() {
        let stack = profile.samples[row].stack;
        let mut totals = vec![0i128; columns.len()];
        // Samples of a stack stand side by side, whatever their labels.
        while profile.samples.get(row).is_some_and(|sample| sample.stack == stack) {
            for (total, &column) in totals.iter_mut().zip(columns) {
                *total += i128::from(profile.values_of(row)[column]);
            }
            row += 1;
        }
        if totals.iter().all(|&total| total == 0) {
            continue;
        }
        root_first(profile, stack, &mut frames);
        line.clear();
        push_stack(profile, &frames, &mut line);
        write!(out, "{line}")?;
        for total in totals {
            write!(out, " {total}")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// The frames' names, escaped and joined.
pub(super) fn push_stack(profile: &Profile, frames: &[&ProfileFrame], line: &mut String) {
    if frames.is_empty() {
        line.push_str(NO_STACK);
    }
    for (at, frame) in frames.iter().enumerate() {
        if at > 0 {
            line.push(';');
        }
        line.push_str(&escaped(profile.text(frame.name)));
    }
}

/// What a name may not hold as it stands, and how it is spelled.
const ESCAPES: [(char, &str); 4] =
    [(';', "\\x3b"), ('\n', "\\x0a"), ('\r', "\\x0d"), ('\\', "\\x5c")];

fn escaped(name: &str) -> Cow<'_, str> {
    if !name.contains([';', '\n', '\r', '\\']) {
        return Cow::Borrowed(name);
    }
    let mut safe = String::with_capacity(name.len() + 8);
    for (at, c) in name.char_indices() {
        let escape = ESCAPES.iter().find(|escape| escape.0 == c);
        let reads_as_escape = || ESCAPES.iter().any(|escape| name[at..].starts_with(escape.1));
        match escape {
            Some((_, spelled)) if c != '\\' || reads_as_escape() => safe.push_str(spelled),
            _ => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_spelled_out() {
        assert_eq!(escaped("a;b\r\nc"), "a\\x3bb\\x0d\\x0ac");
    }

    #[test]
    fn a_backslash_stays_unless_it_would_read_as_an_escape() {
        assert_eq!(escaped("C:\\new\\x86"), "C:\\new\\x86");
        assert_eq!(escaped("\\x3b"), "\\x5cx3b");
        assert_eq!(escaped("\\\\x5c"), "\\\\x5cx5c");
    }
}
