//! Several tables under titles, in any format.
//!
//! Text shows sections one below the other. JSON is one object with a key a
//! section. CSV writes a `# key` line above each table and a blank line between
//! them; a single section is a plain CSV file.

use std::io;

use crate::document::escape::{printable, write_json_string};
use crate::document::table::Table;
use crate::document::text::{self, Style};
use crate::{Format, Unit};

/// One answer of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub key: &'static str,
    pub title: String,
    pub body: Body,
    /// What to say to people when there are no rows; `None` leaves it out.
    pub when_empty: Option<&'static str>,
    /// Rows that the limit on rows has left out.
    pub left_out: usize,
}

/// How a section's table reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A single row: "key  value" lines for people, an object in JSON.
    Record(Table),
    Rows(Table),
    /// A table for programs, paragraphs for people.
    Prose(Table, Vec<Paragraph>),
}

/// A numbered paragraph: a title, what supports it, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paragraph {
    pub title: String,
    pub evidence: String,
    pub advice: String,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    pub sections: Vec<Section>,
    /// Lines at the end, for people only.
    pub hints: Vec<String>,
}

impl Body {
    fn table(&self) -> &Table {
        match self {
            Body::Record(table) | Body::Rows(table) | Body::Prose(table, _) => table,
        }
    }

    pub fn into_table(self) -> Table {
        match self {
            Body::Record(table) | Body::Rows(table) | Body::Prose(table, _) => table,
        }
    }
}

impl Document {
    pub fn write(&self, format: Format, style: Style, out: &mut dyn io::Write) -> io::Result<()> {
        match format {
            Format::Text => self.write_text(style, out),
            Format::Json => self.write_json(out),
            Format::Csv => self.write_csv(out),
        }
    }

    fn write_text(&self, style: Style, out: &mut dyn io::Write) -> io::Result<()> {
        let shown =
            |section: &&Section| !section.body.table().is_empty() || section.when_empty.is_some();
        for (at, section) in self.sections.iter().filter(shown).enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            section.write_text(style, out)?;
        }
        if !self.hints.is_empty() {
            writeln!(out)?;
        }
        for hint in &self.hints {
            for line in text::wrapped(&printable(hint), style.width) {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(b"{")?;
        for (at, section) in self.sections.iter().enumerate() {
            out.write_all(if at == 0 { b"\n  " } else { b",\n  " })?;
            write_json_string(section.key, out)?;
            out.write_all(b": ")?;
            section.write_json(2, out)?;
        }
        out.write_all(b"\n}\n")
    }

    fn write_csv(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for (at, section) in self.sections.iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            writeln!(out, "# {}", section.key)?;
            section.body.table().write_csv(out)?;
        }
        Ok(())
    }
}

/// A section of rows, of which there are `rows` in all.
pub(crate) fn section(key: &'static str, title: &str, table: Table, rows: usize) -> Section {
    let left_out = rows - table.rows().len();
    Section { key, title: title.to_owned(), body: Body::Rows(table), when_empty: None, left_out }
}

impl Section {
    /// Whether it has no rows to show.
    pub fn is_empty(&self) -> bool {
        self.body.table().is_empty()
    }

    pub fn row_count(&self) -> usize {
        self.body.table().rows().len()
    }

    /// What programs read of it.
    pub fn table(&self) -> &Table {
        self.body.table()
    }

    /// The section alone: clean CSV, or JSON without a key around it.
    pub fn write(&self, format: Format, style: Style, out: &mut dyn io::Write) -> io::Result<()> {
        match format {
            Format::Text if self.body.table().is_empty() && self.when_empty.is_none() => {
                writeln!(out, "{}\n  none", style.bold(&printable(&self.title)))
            }
            Format::Text => self.write_text(style, out),
            Format::Json => {
                self.write_json(0, out)?;
                writeln!(out)
            }
            Format::Csv => self.body.table().write_csv(out),
        }
    }

    fn write_text(&self, style: Style, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "{}", style.bold(&printable(&self.title)))?;
        if self.body.table().is_empty() {
            return writeln!(out, "  {}", self.when_empty.unwrap_or("none"));
        }
        match &self.body {
            Body::Record(table) => write_record(table, style, out)?,
            Body::Rows(table) => text::write_table(table, style, out)?,
            Body::Prose(_, paragraphs) => write_paragraphs(paragraphs, style, out)?,
        }
        match self.left_out {
            0 => Ok(()),
            left => {
                let more =
                    format!("  … {} more (--top 0 shows all)", crate::count_text(left as i128));
                writeln!(out, "{}", style.dim(&more))
            }
        }
    }

    fn write_json(&self, indent: usize, out: &mut dyn io::Write) -> io::Result<()> {
        match &self.body {
            Body::Record(table) if !table.is_empty() => table.write_json_row(0, out),
            Body::Record(_) => out.write_all(b"{}"),
            body => body.table().write_json(indent, out),
        }
    }
}

/// "key  value" lines, without those whose value is unknown.
fn write_record(table: &Table, style: Style, out: &mut dyn io::Write) -> io::Result<()> {
    let Some(row) = table.rows().first() else { return Ok(()) };
    let shown = |at: &usize| table.columns()[*at].in_text && row[*at] != crate::Cell::None;
    let fields: Vec<usize> = (0..row.len()).filter(shown).collect();
    let titles = fields.iter().map(|&at| text::display_width(&table.columns()[at].title));
    let title_width = titles.max().unwrap_or(0);
    for at in fields {
        let column = &table.columns()[at];
        let value = text::value_text(&row[at], column.unit);
        let padding = " ".repeat(title_width - text::display_width(&column.title));
        let room = match column.unit {
            Unit::Text => style.width.saturating_sub(title_width + 4).max(40),
            _ => usize::MAX,
        };
        let value = text::shortened(&value, room);
        writeln!(out, "  {}{padding}  {value}", style.dim(&column.title))?;
    }
    Ok(())
}

fn write_paragraphs(
    paragraphs: &[Paragraph],
    style: Style,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    const INDENT: usize = 5;
    let room = style.width.saturating_sub(INDENT).max(40);
    let mut write = |first: &str, text: &str, paint: fn(Style, &str) -> String| {
        let hanging = text::display_width(first).saturating_sub(INDENT);
        for (at, line) in text::wrapped(&printable(text), room - hanging).iter().enumerate() {
            let lead = if at == 0 { first } else { &" ".repeat(INDENT + hanging) };
            writeln!(out, "{lead}{}", paint(style, line))?;
        }
        Ok::<(), io::Error>(())
    };
    for (at, paragraph) in paragraphs.iter().enumerate() {
        write(&format!("{:>3}. ", at + 1), &paragraph.title, Style::bold)?;
        write("     ", &paragraph.evidence, |_, line| line.to_owned())?;
        write("     → ", &paragraph.advice, |_, line| line.to_owned())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Column};

    fn sample() -> Document {
        let mut record = Table::new([
            Column::new("file", "file", Unit::Text),
            Column::new("wall", "wall time", Unit::Nanos),
            Column::new("rank", "rank", Unit::Count),
        ]);
        record.push(["a.json".into(), 1500_i64.into(), Cell::None]);
        let mut rows = Table::new([Column::new("name", "name", Unit::Text)]);
        rows.push(["f".into()]);
        let section = |key, title: &str, body, left_out| Section {
            key,
            title: title.to_owned(),
            body,
            when_empty: None,
            left_out,
        };
        let empty = Table::new([Column::new("name", "name", Unit::Text)]);
        Document {
            sections: vec![
                section("trace", "Trace", Body::Record(record), 0),
                section("functions", "Functions", Body::Rows(rows), 3),
                section("gpu", "GPU", Body::Rows(empty), 0),
            ],
            hints: vec!["That is all.".to_owned()],
        }
    }

    #[track_caller]
    fn check(format: Format, expected: &str) {
        let mut out = Vec::new();
        let style = Style { color: false, width: 80 };
        sample().write(format, style, &mut out).expect("a vector takes everything");
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn text_leaves_out_what_is_empty() {
        check(
            Format::Text,
            concat!(
                "Trace\n  file       a.json\n  wall time  1.500 µs\n\n",
                "Functions\n  name\n  f\n  … 3 more (--top 0 shows all)\n\nThat is all.\n",
            ),
        );
    }

    #[test]
    fn json_has_a_key_a_section() {
        check(
            Format::Json,
            concat!(
                "{\n  \"trace\": {\"file\": \"a.json\", \"wall_ns\": 1500, \"rank\": null},\n",
                "  \"functions\": [\n    {\"name\": \"f\"}\n  ],\n  \"gpu\": []\n}\n",
            ),
        );
    }

    #[test]
    fn csv_names_its_sections() {
        check(
            Format::Csv,
            "# trace\nfile,wall_ns,rank\na.json,1500,\n\n# functions\nname\nf\n\n# gpu\nname\n",
        );
    }
}
