//! A document for the viewer's page: tables with their units, and where in the timeline rows are.

use std::io;

use spanwise_analyze::NameUse;
use spanwise_model::{Nanos, Trace};

use crate::document::{Body, Document, Section};
use crate::escape::write_json_string;
use crate::table::{Cell, Column, Table, Unit};
use crate::units::nanos_text;

/// How many rows of each table a range shows.
const RANGE_ROWS_MAX: usize = 50;

impl Document {
    /// Writes JSON.
    pub fn write_for_page(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(b"{\"sections\": ")?;
        write_list(&self.sections, out, |section, out| section.write_for_page(out))?;
        out.write_all(b", \"hints\": ")?;
        write_list(&self.hints, out, |hint, out| write_json_string(hint, out))?;
        out.write_all(b"}")
    }
}

impl Section {
    fn write_for_page(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let (table, prose) = match &self.body {
            Body::Record(table) | Body::Rows(table) => (table, &[][..]),
            Body::Prose(table, prose) => (table, prose.as_slice()),
        };
        out.write_all(b"{\"key\": ")?;
        write_json_string(self.key, out)?;
        out.write_all(b", \"title\": ")?;
        write_json_string(&self.title, out)?;
        write!(out, ", \"left_out\": {}, \"when_empty\": ", self.left_out)?;
        match self.when_empty {
            Some(text) => write_json_string(text, out)?,
            None => out.write_all(b"null")?,
        }
        write!(out, ", \"is_record\": {}", matches!(self.body, Body::Record(_)))?;
        out.write_all(b", \"columns\": ")?;
        write_list(table.columns(), out, write_column)?;
        out.write_all(b", \"rows\": ")?;
        let rows: Vec<usize> = (0..table.rows().len()).collect();
        write_list(&rows, out, |&row, out| table.write_row_for_page(row, out))?;
        out.write_all(b", \"notes\": ")?;
        write_list(table.notes(), out, |note, out| write_json_string(note, out))?;
        out.write_all(b", \"prose\": ")?;
        write_list(prose, out, |paragraph, out| {
            out.write_all(b"{\"title\": ")?;
            write_json_string(&paragraph.title, out)?;
            out.write_all(b", \"evidence\": ")?;
            write_json_string(&paragraph.evidence, out)?;
            out.write_all(b", \"advice\": ")?;
            write_json_string(&paragraph.advice, out)?;
            out.write_all(b"}")
        })?;
        out.write_all(b", \"places\": ")?;
        write_list(&places(table), out, |place, out| match place {
            Some((from, to)) => write!(out, "{{\"from\": {from}, \"to\": {to}, \"track\": null}}"),
            None => out.write_all(b"null"),
        })?;
        out.write_all(b"}")
    }
}

/// Where rows lie, for tables that say it; else nothing at all. Answers tell times since the
/// trace began, as the page does.
fn places(table: &Table) -> Vec<Option<(i128, i128)>> {
    let column = |key: &str| {
        table.columns().iter().position(|column| column.key == key && column.unit == Unit::Nanos)
    };
    let (Some(from), Some(to)) = (column("from"), column("to")) else { return Vec::new() };
    let time = |cell: &Cell| match cell {
        Cell::Int(time) => Some(*time),
        _ => None,
    };
    table.rows().iter().map(|row| time(&row[from]).zip(time(&row[to]))).collect()
}

fn write_column(column: &Column, out: &mut dyn io::Write) -> io::Result<()> {
    let unit = match column.unit {
        Unit::Text => "text",
        Unit::Status => "status",
        Unit::Count => "count",
        Unit::Nanos => "nanos",
        Unit::Bytes => "bytes",
        Unit::Percent => "share",
    };
    out.write_all(b"{\"key\": ")?;
    write_json_string(&column.full_key(), out)?;
    out.write_all(b", \"title\": ")?;
    write_json_string(&column.title, out)?;
    write!(out, ", \"unit\": \"{unit}\", \"shown\": {}}}", column.in_text)
}

fn write_list<T>(
    entries: &[T],
    out: &mut dyn io::Write,
    mut write: impl FnMut(&T, &mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            out.write_all(b", ")?;
        }
        write(entry, out)?;
    }
    out.write_all(b"]")
}

impl Table {
    /// Cells as people read them, and the number behind each for sorting.
    fn write_row_for_page(&self, row: usize, out: &mut dyn io::Write) -> io::Result<()> {
        let cells: Vec<(&Cell, Unit)> =
            self.rows()[row].iter().zip(self.columns()).map(|(cell, c)| (cell, c.unit)).collect();
        write_list(&cells, out, |&(cell, unit), out| match cell {
            Cell::None => out.write_all(b"null"),
            Cell::Text(text) => write_json_string(text, out),
            _ => {
                let text = crate::text::value_text(cell, unit);
                write!(out, "{{\"text\": ")?;
                write_json_string(&text, out)?;
                write!(out, ", \"value\": {}}}", sort_value(cell))
            }
        })
    }
}

/// Numbers that a page can sort by.
fn sort_value(cell: &Cell) -> f64 {
    let value = match cell {
        Cell::None | Cell::Text(_) => 0.0,
        Cell::Int(value) | Cell::Amount(value, _) | Cell::Change(value) => *value as f64,
        Cell::Decimal(text) => text.parse().unwrap_or(0.0),
        Cell::Flag(flag) => f64::from(u8::from(*flag)),
        Cell::Share(part, whole) => *part as f64 / (*whole).max(1) as f64,
        Cell::Mean(sum, count) => *sum as f64 / (*count).max(1) as f64,
    };
    if value.is_finite() { value } else { 0.0 }
}

/// What lies in a stretch of time.
pub fn range_sections(trace: &Trace, window: (Nanos, Nanos), rows: &[NameUse]) -> Vec<Section> {
    let length = i128::from(window.1) - i128::from(window.0);
    let part = |is_on_gpu: bool, key, title: &str| {
        let mut table = Table::new([
            Column::new("name", "name", Unit::Text),
            Column::new("own", if is_on_gpu { "GPU time" } else { "self time" }, Unit::Nanos),
            Column::new("share", "of the range", Unit::Percent),
            Column::new("count", "count", Unit::Count),
        ]);
        let rows = rows.iter().filter(|row| row.is_on_gpu == is_on_gpu);
        let rows: Vec<&NameUse> = rows.collect();
        for row in rows.iter().take(RANGE_ROWS_MAX) {
            table.push([
                trace.strings().get(row.name).into(),
                row.own_ns.into(),
                Cell::Share(row.own_ns, length.max(1)),
                row.count.into(),
            ]);
        }
        Section {
            key,
            title: format!("{title} in {}", nanos_text(length)),
            left_out: rows.len() - table.rows().len(),
            body: Body::Rows(table),
            when_empty: None,
        }
    };
    vec![part(true, "range_gpu", "GPU work"), part(false, "range_threads", "Work of threads")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_with_units_and_places() {
        let mut table = Table::new([
            Column::new("name", "name", Unit::Text),
            Column::new("from", "from", Unit::Nanos),
            Column::hidden("to", Unit::Nanos),
        ]);
        table.push(["</script>".into(), 1_500_i64.into(), 2_500_i64.into()]);
        table.push([Cell::None, Cell::None, 2_500_i64.into()]);
        let section = Section {
            key: "rows",
            title: "Rows".to_owned(),
            body: Body::Rows(table),
            when_empty: None,
            left_out: 0,
        };
        let mut out = Vec::new();
        let document = Document { sections: vec![section], hints: vec!["h".to_owned()] };
        document.write_for_page(&mut out).expect("a vector takes everything");
        let expected = concat!(
            "{\"sections\": [{\"key\": \"rows\", \"title\": \"Rows\", \"left_out\": 0, ",
            "\"when_empty\": null, \"is_record\": false, \"columns\": [",
            "{\"key\": \"name\", \"title\": \"name\", \"unit\": \"text\", \"shown\": true}, ",
            "{\"key\": \"from_ns\", \"title\": \"from\", \"unit\": \"nanos\", \"shown\": true}, ",
            "{\"key\": \"to_ns\", \"title\": \"\", \"unit\": \"nanos\", \"shown\": false}], ",
            "\"rows\": [[\"</script>\", {\"text\": \"1.500 µs\", \"value\": 1500}, ",
            "{\"text\": \"2.500 µs\", \"value\": 2500}], ",
            "[null, null, {\"text\": \"2.500 µs\", \"value\": 2500}]], ",
            "\"notes\": [\"\", \"\"], \"prose\": [], ",
            "\"places\": [{\"from\": 1500, \"to\": 2500, \"track\": null}, null]}], ",
            "\"hints\": [\"h\"]}",
        );
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
