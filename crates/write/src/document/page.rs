//! A document for the viewer's page: tables with their units, and where in the timeline rows are.

use std::io;

use spanwise_model::{SpanId, Trace, TrackId};

use crate::document::escape::{printable, write_json_string};
use crate::document::sectioned::{Body, Document, Section};
use crate::document::table::{Cell, Column, Table, Unit};

/// Where in the timeline a row is, in nanoseconds since its trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagePlace {
    pub from: i128,
    pub to: i128,
    /// The track and the span, where it is one.
    pub span: Option<(TrackId, SpanId)>,
}

impl PagePlace {
    /// The place of a span.
    pub fn of(trace: &Trace, span: SpanId) -> Self {
        let zero = trace.window().map_or(0, |(from, _)| i128::from(from));
        let spans = trace.spans();
        let from = i128::from(spans.start(span)) - zero;
        let track = spans.track(span);
        PagePlace { from, to: from + i128::from(spans.dur(span)), span: Some((track, span)) }
    }
}

/// Where the rows of one section of a comparison are in each of the traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidePlaces {
    pub section: &'static str,
    pub base: Vec<Option<PagePlace>>,
    pub other: Vec<Option<PagePlace>>,
}

impl Document {
    /// Writes JSON; of a comparison, rows may have places on both sides.
    pub fn write_for_page(
        &self,
        places: Option<&SidePlaces>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        out.write_all(b"{\"sections\": ")?;
        write_list(&self.sections, out, |section, out| {
            let places = places.filter(|places| places.section == section.key);
            section.write_for_page(places, out)
        })?;
        out.write_all(b", \"hints\": ")?;
        write_list(&self.hints, out, |hint, out| write_json_string(hint, out))?;
        out.write_all(b"}")
    }
}

impl Section {
    fn write_for_page(
        &self,
        sides: Option<&SidePlaces>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
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
        let columns = 0..table.columns().len();
        let texts: Vec<Vec<String>> = columns.map(|at| table.column_texts(at)).collect();
        let rows: Vec<usize> = (0..table.rows().len()).collect();
        write_list(&rows, out, |&row, out| table.write_row_for_page(row, &texts, out))?;
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
        match sides {
            None => write_list(&places(table), out, write_place)?,
            Some(sides) => {
                write_list(&sides.base, out, write_place)?;
                out.write_all(b", \"other_places\": ")?;
                write_list(&sides.other, out, write_place)?;
            }
        }
        out.write_all(b"}")
    }
}

/// Where rows lie, for tables that say it; else nothing at all. Times in answers are since the
/// trace began, as the page does.
fn places(table: &Table) -> Vec<Option<PagePlace>> {
    let column = |key: &str| {
        table.columns().iter().position(|column| column.key == key && column.unit == Unit::Nanos)
    };
    let (Some(from), Some(to)) = (column("from"), column("to")) else { return Vec::new() };
    let time = |cell: &Cell| match cell {
        Cell::Int(time) => Some(*time),
        _ => None,
    };
    let place = |row: &Vec<Cell>| {
        let (from, to) = time(&row[from]).zip(time(&row[to]))?;
        Some(PagePlace { from, to, span: None })
    };
    table.rows().iter().map(place).collect()
}

fn write_place(place: &Option<PagePlace>, out: &mut dyn io::Write) -> io::Result<()> {
    let Some(PagePlace { from, to, span }) = place else { return out.write_all(b"null") };
    write!(out, "{{\"from\": {from}, \"to\": {to}, ")?;
    match span {
        None => write!(out, "\"track\": null}}"),
        Some((track, span)) => write!(out, "\"track\": {}, \"span\": {}}}", track.0, span.0),
    }
}

fn write_column(column: &Column, out: &mut dyn io::Write) -> io::Result<()> {
    let unit = match column.unit {
        Unit::Text | Unit::Flag => "text",
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
    fn write_row_for_page(
        &self,
        row: usize,
        texts: &[Vec<String>],
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let cells: Vec<(&Cell, &str)> =
            self.rows()[row].iter().zip(texts).map(|(cell, texts)| (cell, &*texts[row])).collect();
        write_list(&cells, out, |&(cell, text), out| match cell {
            Cell::None => out.write_all(b"null"),
            Cell::Text(whole) if whole.is_empty() || *printable(whole) == *text => {
                write_json_string(whole, out)
            }
            Cell::Text(whole) => {
                write!(out, "{{\"text\": ")?;
                write_json_string(text, out)?;
                write!(out, ", \"whole\": ")?;
                write_json_string(whole, out)?;
                write!(out, "}}")
            }
            _ => {
                write!(out, "{{\"text\": ")?;
                write_json_string(text, out)?;
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
        document.write_for_page(None, &mut out).expect("a vector takes everything");
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
        let place = PagePlace { from: 5, to: 9, span: Some((TrackId(2), SpanId(7))) };
        let sides =
            SidePlaces { section: "rows", base: vec![None, Some(place)], other: vec![None, None] };
        let mut out = Vec::new();
        document.write_for_page(Some(&sides), &mut out).expect("a vector takes everything");
        let expected = concat!(
            "\"places\": [null, {\"from\": 5, \"to\": 9, \"track\": 2, \"span\": 7}], ",
            "\"other_places\": [null, null]}], \"hints\": [\"h\"]}",
        );
        assert!(String::from_utf8_lossy(&out).ends_with(expected));
    }
}
