//! Pieces of JSON, written as they come.

use std::fmt::{self, Display};
use std::io;

use crate::document::escape::write_json_string;

/// A number, or `null`.
pub(super) struct OrNull<T>(pub(super) Option<T>);

impl<T: Display> Display for OrNull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// An array of what needs no quotes.
pub(super) fn write_array<T: Display>(
    values: impl Iterator<Item = T>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (at, value) in values.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(out, "{comma}{value}")?;
    }
    out.write_all(b"]")
}

/// An array of strings.
pub(super) fn write_strings<'a>(
    texts: impl Iterator<Item = &'a str>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (at, text) in texts.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        write_json_string(text, out)?;
    }
    out.write_all(b"]")
}

/// `"key":[…]`, with a comma before it.
pub(super) fn write_column<T: Display>(
    key: &str,
    values: impl Iterator<Item = T>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    write!(out, ",\"{key}\":")?;
    write_array(values, out)
}
