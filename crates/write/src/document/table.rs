//! A table of named, typed columns: what every answer becomes.
//!
//! Values stay integers; only text output turns them into units. In CSV and JSON
//! the unit stands in the key, as in `self_ns`.

use std::borrow::Cow;
use std::io;

use crate::document::escape::{printable, write_csv_field, write_json_string};
use crate::document::text::value_text;
use crate::document::units::decimal;
use crate::names::short_names;

/// What the values of a column mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Text,
    /// Text out of a few known words; colored where color is on.
    Status,
    /// Yes or no.
    Flag,
    Count,
    Nanos,
    Bytes,
    Percent,
}

/// One column. `key` is for programs, `title` for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub key: Cow<'static, str>,
    pub title: Cow<'static, str>,
    pub unit: Unit,
    /// Whether people see it; programs always do.
    pub in_text: bool,
    /// Left out for people whose screen is narrow.
    pub is_optional: bool,
    /// Shown to people as it is: a text that somebody has asked for by its name, or a number that
    /// counts nothing.
    pub is_literal: bool,
}

impl Column {
    pub const fn new(key: &'static str, title: &'static str, unit: Unit) -> Self {
        let (key, title) = (Cow::Borrowed(key), Cow::Borrowed(title));
        Column { key, title, unit, in_text: true, is_optional: false, is_literal: false }
    }

    pub const fn text(key: &'static str, title: &'static str) -> Self {
        Column::new(key, title, Unit::Text)
    }

    pub const fn count(key: &'static str, title: &'static str) -> Self {
        Column::new(key, title, Unit::Count)
    }

    /// A number that names something, such as a line.
    pub const fn number(key: &'static str, title: &'static str) -> Self {
        let mut column = Column::count(key, title);
        column.is_literal = true;
        column
    }

    pub const fn nanos(key: &'static str, title: &'static str) -> Self {
        Column::new(key, title, Unit::Nanos)
    }

    pub const fn bytes(key: &'static str, title: &'static str) -> Self {
        Column::new(key, title, Unit::Bytes)
    }

    pub const fn percent(key: &'static str, title: &'static str) -> Self {
        Column::new(key, title, Unit::Percent)
    }

    /// A column that only CSV and JSON have.
    pub const fn hidden(key: &'static str, unit: Unit) -> Self {
        let (key, title) = (Cow::Borrowed(key), Cow::Borrowed(""));
        Column { key, title, unit, in_text: false, is_optional: false, is_literal: false }
    }

    /// A column that a narrow screen does without.
    pub const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// A column that people see if it says something about these rows.
    pub const fn in_text_if(mut self, says_something: bool) -> Self {
        self.in_text = says_something;
        self
    }

    /// A column whose name somebody else has chosen: `gpu_ns` is in nanoseconds.
    pub fn named(name: &str, is_number: bool) -> Self {
        let (key, unit) = match name.strip_suffix("_ns").filter(|_| is_number) {
            Some(key) => (key, Unit::Nanos),
            None => (name, if is_number { Unit::Count } else { Unit::Text }),
        };
        let (key, title) = (Cow::Owned(key.to_owned()), Cow::Owned(name.to_owned()));
        let is_literal = !is_number;
        Column { key, title, unit, in_text: true, is_optional: false, is_literal }
    }

    /// The key with its unit, such as `self_ns`.
    pub fn full_key(&self) -> String {
        let suffix = match self.unit {
            Unit::Text | Unit::Status | Unit::Flag | Unit::Count => "",
            Unit::Nanos => "_ns",
            Unit::Bytes => "_bytes",
            Unit::Percent => "_percent",
        };
        format!("{}{suffix}", self.key)
    }
}

/// One value; `None` is unknown, which is not 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    None,
    Text(String),
    Int(i128),
    /// A number with decimals, already written out.
    Decimal(String),
    Flag(bool),
    /// Part and whole.
    Share(i128, i128),
    /// A sum, and over how many it was taken: people see the mean, programs the sum.
    Mean(i128, u64),
    /// An amount whose unit is not that of its column.
    Amount(i128, Unit),
    /// A difference: people see its sign also where it is more than nothing.
    Change(i128),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<i128> for Cell {
    fn from(value: i128) -> Self {
        Cell::Int(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Cell::Int(value.into())
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Cell::Int(value.into())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::None, Into::into)
    }
}

/// Rows under typed columns; each row has one cell a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// A line under each row, for people only; empty for none.
    notes: Vec<String>,
}

impl Table {
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Table { columns: columns.into(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Panics when the row has another number of cells than there are columns.
    pub fn push(&mut self, row: impl Into<Vec<Cell>>) {
        self.push_with_note(row, String::new());
    }

    pub fn push_with_note(&mut self, row: impl Into<Vec<Cell>>, note: String) {
        let row = row.into();
        assert_eq!(row.len(), self.columns.len(), "one cell a column");
        self.rows.push(row);
        self.notes.push(note);
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Leaves the first rows.
    pub(crate) fn truncate(&mut self, rows_max: usize) {
        self.rows.truncate(rows_max);
        self.notes.truncate(rows_max);
    }

    /// The cells of a column for people, names shortened; one per row.
    pub(crate) fn column_texts(&self, at: usize) -> Vec<String> {
        let column = &self.columns[at];
        let has_names = column.unit == Unit::Text && !column.is_literal;
        let names = self.rows.iter().map(|row| match &row[at] {
            Cell::Text(name) if has_names => name.as_str(),
            _ => "",
        });
        let names: Vec<&str> = names.collect();
        let short = short_names(&names).into_iter();
        let texts = short.zip(&self.rows).map(|(name, row)| match &row[at] {
            Cell::Int(number) if column.is_literal => number.to_string(),
            cell if name.is_empty() => value_text(cell, column.unit),
            _ => printable(&name).into_owned(),
        });
        texts.collect()
    }

    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// RFC 4180, with a header; lines end in LF, as every tool here expects.
    pub fn write_csv(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for (at, column) in self.columns.iter().enumerate() {
            write_separator(at, out)?;
            write_csv_field(&column.full_key(), out)?;
        }
        writeln!(out)?;
        for row in &self.rows {
            for (at, cell) in row.iter().enumerate() {
                write_separator(at, out)?;
                match cell {
                    Cell::None => {}
                    Cell::Text(text) => write_csv_field(text, out)?,
                    Cell::Decimal(number) => out.write_all(number.as_bytes())?,
                    Cell::Int(value)
                    | Cell::Mean(value, _)
                    | Cell::Amount(value, _)
                    | Cell::Change(value) => {
                        write!(out, "{value}")?;
                    }
                    Cell::Flag(value) => write!(out, "{value}")?,
                    Cell::Share(part, whole) => {
                        out.write_all(share(*part, *whole, "").as_bytes())?
                    }
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// An array with an object a row.
    pub fn write_json(&self, indent: usize, out: &mut dyn io::Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return out.write_all(b"[]");
        }
        out.write_all(b"[")?;
        for row in 0..self.rows.len() {
            let comma = if row == 0 { "" } else { "," };
            write!(out, "{comma}\n{:indent$}", "", indent = indent + 2)?;
            self.write_json_row(row, out)?;
        }
        write!(out, "\n{:indent$}]", "")
    }

    /// The object of one row, on one line: lists stay easy to scan and to diff.
    pub(crate) fn write_json_row(&self, row: usize, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(b"{")?;
        for (at, (column, cell)) in self.columns.iter().zip(&self.rows[row]).enumerate() {
            if at > 0 {
                out.write_all(b", ")?;
            }
            write_json_string(&column.full_key(), out)?;
            out.write_all(b": ")?;
            match cell {
                Cell::None => out.write_all(b"null")?,
                Cell::Text(text) => write_json_string(text, out)?,
                Cell::Decimal(number) => out.write_all(number.as_bytes())?,
                Cell::Int(value)
                | Cell::Mean(value, _)
                | Cell::Amount(value, _)
                | Cell::Change(value) => {
                    write!(out, "{value}")?;
                }
                Cell::Flag(value) => write!(out, "{value}")?,
                Cell::Share(part, whole) => {
                    out.write_all(share(*part, *whole, "null").as_bytes())?
                }
            }
        }
        out.write_all(b"}")
    }
}

fn write_separator(at: usize, out: &mut dyn io::Write) -> io::Result<()> {
    if at > 0 { out.write_all(b",") } else { Ok(()) }
}

/// A percentage with four decimals, without a float.
fn share(part: i128, whole: i128, without: &str) -> String {
    match whole {
        0 => without.to_owned(),
        whole => decimal(part.saturating_mul(100), whole, 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let columns = [
            Column::new("name", "function", Unit::Text),
            Column::new("self", "self", Unit::Nanos),
            Column::new("share", "", Unit::Percent),
            Column::hidden("rank", Unit::Count),
        ];
        let mut table = Table::new(columns);
        table.push(["a, \"b\"".into(), 1500_i64.into(), Cell::Share(1, 3), Cell::None]);
        table.push(["c\nd".into(), i128::MAX.into(), Cell::Share(0, 0), 1_u64.into()]);
        table
    }

    #[track_caller]
    fn check(write: impl Fn(&Table, &mut dyn io::Write) -> io::Result<()>, expected: &str) {
        let mut out = Vec::new();
        write(&sample(), &mut out).expect("a vector takes everything");
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn csv_has_units_in_its_header_and_raw_numbers() {
        check(
            Table::write_csv,
            "name,self_ns,share_percent,rank\n\"a, \"\"b\"\"\",1500,33.3333,\n\"c\nd\",\
             170141183460469231731687303715884105727,,1\n",
        );
    }

    #[test]
    fn json_is_an_array_of_objects() {
        check(
            |table, out| table.write_json(0, out),
            "[\n  {\"name\": \"a, \\\"b\\\"\", \"self_ns\": 1500, \"share_percent\": 33.3333, \
             \"rank\": null},\n  {\"name\": \"c\\nd\", \"self_ns\": \
             170141183460469231731687303715884105727, \"share_percent\": null, \"rank\": 1}\n]",
        );
    }
}
