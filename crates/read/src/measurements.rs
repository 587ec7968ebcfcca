//! Reads what was measured beside traces: a table as CSV or as JSON.
//!
//! CSV has a header line; commas, semicolons or tabs between cells, whichever the
//! header has most of. JSON is a list of objects, one object a line, an object of lists
//! (a column each) or an object of objects (a run each, whose key becomes `run`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use spanwise_model::{MeasuredRow, Measurements};

/// Why a table could not be read: file, place and what was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasurementsError {
    /// The system did not give the file's bytes.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is no table that is read here.
    #[error("{}:{line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong there, with what was found.
        what: String,
    },
}

/// Tables that people make have some megabytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

type TableError = (u64, String);

/// Reads the file; its content decides on the format: JSON begins with a bracket.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("runs.csv");
/// std::fs::write(&path, "run,loss\nfirst,0.25\nsecond,0.5\n")?;
/// let table = spanwise_read::open_measurements(&path)?;
/// assert_eq!(table.columns, ["run", "loss"]);
/// assert_eq!(table.rows[1].cells[1].as_deref(), Some("0.5"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_measurements(path: &Path) -> Result<Measurements, MeasurementsError> {
    let bytes = spanwise_files::read_at_most(path, FILE_BYTES_MAX)
        .map_err(|error| MeasurementsError::Io { path: path.to_owned(), error })?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}');
    let read = if text.trim_start().starts_with(['[', '{']) { json(text) } else { csv(text) };
    read.map_err(|(line, what)| MeasurementsError::Malformed { path: path.to_owned(), line, what })
}

fn csv(text: &str) -> Result<Measurements, TableError> {
    let head = text.lines().next().unwrap_or_default();
    let count = |separator: &char| head.matches(*separator).count();
    let separator = [',', ';', '\t'].into_iter().rev().max_by_key(count).unwrap_or(',');
    let mut records = records(text, separator)?.into_iter();
    let Some((_, columns)) = records.next() else {
        return Err((1, "no header line".to_owned()));
    };
    let columns: Vec<String> = columns.into_iter().map(Option::unwrap_or_default).collect();
    check_columns(&columns)?;
    let mut rows = Vec::new();
    for (place, cells) in records {
        if cells.len() != columns.len() {
            let (found, wanted) = (cells.len(), columns.len());
            return Err((place, format!("{found} cells where the header has {wanted}")));
        }
        rows.push(MeasuredRow { place, cells });
    }
    Ok(Measurements { columns, rows })
}

fn check_columns(columns: &[String]) -> Result<(), TableError> {
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].contains(column) {
            return Err((1, format!("two columns are called {column:?}")));
        }
    }
    Ok(())
}

type Record = (u64, Vec<Option<String>>);

/// Records with the line they begin on; RFC 4180, blank lines passed over.
fn records(text: &str, separator: char) -> Result<Vec<Record>, TableError> {
    let mut records = Vec::new();
    let (mut line, mut rest) = (1, text);
    while !rest.is_empty() {
        let begin = line;
        let mut cells = Vec::new();
        loop {
            let (cell, after) = cell(rest, separator).ok_or((begin, quote_open(rest)))?;
            line += rest[..rest.len() - after.len()].matches('\n').count() as u64;
            let cell = cell.trim();
            cells.push((!cell.is_empty()).then(|| cell.to_owned()));
            match after.strip_prefix(separator) {
                Some(next) => rest = next,
                None => {
                    let after = after.strip_prefix('\r').unwrap_or(after);
                    rest = after.strip_prefix('\n').unwrap_or(after);
                    line += 1;
                    break;
                }
            }
        }
        if cells != [None] {
            records.push((begin, cells));
        }
    }
    Ok(records)
}

fn quote_open(rest: &str) -> String {
    let found: String = rest.chars().take(30).collect();
    format!("a quote that is not closed, or text behind one ({found:?})")
}

/// The first cell and what follows it: a separator, the end of the line or nothing.
fn cell(text: &str, separator: char) -> Option<(String, &str)> {
    let Some(mut quoted) = text.strip_prefix('"') else {
        let end = text.find([separator, '\r', '\n']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    loop {
        let (before, after) = quoted.split_once('"')?;
        value.push_str(before);
        match after.strip_prefix('"') {
            Some(next) => {
                value.push('"');
                quoted = next;
            }
            None => {
                let is_end = after.is_empty() || after.starts_with([separator, '\r', '\n']);
                return is_end.then_some((value, after));
            }
        }
    }
}

fn json(text: &str) -> Result<Measurements, TableError> {
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        values.push(value.map_err(|error| (error.line() as u64, error.to_string()))?);
    }
    let objects = match values.as_slice() {
        [Value::Array(rows)] => objects(rows)?,
        [Value::Object(map)] if map.values().all(Value::is_array) => transposed(map)?,
        [Value::Object(map)] if map.values().all(Value::is_object) => named(map),
        rows => objects(rows)?,
    };
    let mut columns: BTreeMap<&str, usize> = BTreeMap::new();
    for key in objects.iter().flat_map(|object| object.keys()) {
        columns.insert(key, 0);
    }
    for (at, place) in columns.values_mut().enumerate() {
        *place = at;
    }
    let mut rows = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        let place = at as u64 + 1;
        let mut cells = vec![None; columns.len()];
        for (key, value) in object {
            cells[columns[key.as_str()]] = scalar(value)
                .ok_or_else(|| (place, format!("row {place}: {key:?} holds a list or object")))?;
        }
        rows.push(MeasuredRow { place, cells });
    }
    Ok(Measurements { columns: columns.into_keys().map(str::to_owned).collect(), rows })
}

fn objects(rows: &[Value]) -> Result<Vec<Map<String, Value>>, TableError> {
    let object = |(at, row): (usize, &Value)| match row {
        Value::Object(map) => Ok(map.clone()),
        other => {
            let place = at as u64 + 1;
            Err((place, format!("row {place} is no object ({})", shortened(other))))
        }
    };
    rows.iter().enumerate().map(object).collect()
}

/// An object of lists has a column each.
fn transposed(map: &Map<String, Value>) -> Result<Vec<Map<String, Value>>, TableError> {
    let lists = || map.iter().filter_map(|(key, value)| Some((key, value.as_array()?)));
    let length = lists().map(|(_, list)| list.len()).max().unwrap_or(0);
    if let Some((key, list)) = lists().find(|(_, list)| list.len() != length) {
        let found = list.len();
        return Err((1, format!("{key:?} has {found} values where another has {length}")));
    }
    let row = |at: usize| lists().map(|(key, list)| (key.clone(), list[at].clone())).collect();
    Ok((0..length).map(row).collect())
}

/// An object of objects has a run each.
fn named(map: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let row = |(key, value): (&String, &Value)| {
        let mut row = value.as_object().cloned().unwrap_or_default();
        row.entry("run").or_insert_with(|| Value::String(key.clone()));
        row
    };
    map.iter().map(row).collect()
}

/// The text of a value; `None` where it is none of its own.
fn scalar(value: &Value) -> Option<Option<String>> {
    match value {
        Value::Null => Some(None),
        Value::Bool(flag) => Some(Some(u8::from(*flag).to_string())),
        Value::Number(number) => Some(Some(number.to_string())),
        Value::String(text) => Some(Some(text.clone()).filter(|text| !text.trim().is_empty())),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn shortened(value: &Value) -> String {
    value.to_string().chars().take(30).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = fn(&str) -> Result<Measurements, TableError>;

    /// Rows as `place: cell|cell`, a dash where nothing stands.
    #[track_caller]
    fn check(read: Read, text: &str, columns: &str, rows: &[&str]) {
        let table = read(text).expect("a table");
        assert_eq!(table.columns.join("|"), columns);
        let cell = |cell: &Option<String>| cell.clone().unwrap_or("-".to_owned());
        let row = |row: &MeasuredRow| {
            let cells: Vec<String> = row.cells.iter().map(cell).collect();
            format!("{}: {}", row.place, cells.join("|"))
        };
        assert_eq!(table.rows.iter().map(row).collect::<Vec<_>>(), rows);
    }

    #[track_caller]
    fn check_wrong(read: Read, text: &str, line: u64, what: &str) {
        let (found_line, found) = read(text).expect_err("no table");
        assert_eq!(found_line, line, "{found}");
        assert!(found.contains(what), "{found}");
    }

    #[test]
    fn csv_with_quotes_blank_lines_and_any_line_end() {
        check(
            csv,
            "run,loss\r\na, 1.5\r\n\r\n\"b,\n\"\"c\"\"\",\n",
            "run|loss",
            &["2: a|1.5", "4: b,\n\"c\"|-"],
        );
        check(csv, "step;loss\n1;2", "step|loss", &["2: 1|2"]);
        check(csv, "step\tloss\n1\t\n", "step|loss", &["2: 1|-"]);
        check(csv, "loss\n1\n", "loss", &["2: 1"]);
    }

    #[test]
    fn json_in_every_shape() {
        let rows = ["1: 0.5|1", "2: -|2"];
        let check_json = |text| check(json, text, "loss|step", &rows);
        check_json(r#"[{"step": 1, "loss": 0.5}, {"step": 2}]"#);
        check_json("{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2, \"loss\": null}\n");
        check_json(r#"{"step": [1, 2], "loss": [0.5, null]}"#);
        check(
            json,
            r#"{"a": {"loss": 1}, "b": {"loss": true}}"#,
            "loss|run",
            &["1: 1|a", "2: 1|b"],
        );
    }

    #[test]
    fn mistakes_have_a_place() {
        check_wrong(csv, "", 1, "no header");
        check_wrong(csv, "a,b\n1,2\n3\n", 3, "1 cells where the header has 2");
        check_wrong(csv, "a,a\n", 1, "two columns are called \"a\"");
        check_wrong(csv, "a,b\n\"x\"y,2\n", 2, "a quote");
        check_wrong(json, "[{\"a\": 1},\n{]", 2, "key must be a string");
        check_wrong(json, "[1]", 1, "row 1 is no object (1)");
        check_wrong(json, r#"[{"a": [1]}]"#, 1, "\"a\" holds a list");
        check_wrong(json, r#"{"a": [1], "b": [1, 2]}"#, 1, "\"a\" has 1 values");
    }
}
