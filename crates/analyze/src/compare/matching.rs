//! Which row of a table of measurements belongs to which trace or step.

use spanwise_model::{MeasuredRow, Measurements};

use crate::compare::correlate::Outcome;

/// Columns that name a run, whatever stands in them.
const KEY_NAMES: [&str; 6] = ["trace", "file", "path", "run", "run_name", "name"];
const STEP: &str = "step";

/// Endings that a trace's name may have beside the name of its run.
const ENDINGS: [&str; 12] = [
    ".gz",
    ".zst",
    ".xz",
    ".json",
    ".pt",
    ".trace",
    ".perfetto-trace",
    ".pftrace",
    ".perfetto",
    ".fxt",
    ".pb",
    ".chrome",
];

/// What makes a row belong to a trace or step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedBy {
    Step,
    Path,
    FileName,
    /// The name of the file without its endings.
    RunName,
    /// The name of the folder that the trace lies in.
    Folder,
    /// First row, first trace.
    Order,
}

/// Pairs of samples and rows, in order of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matching {
    pub by: MatchedBy,
    /// The column that was compared.
    pub column: Option<String>,
    /// Sample and row.
    pub pairs: Vec<(usize, usize)>,
    pub samples_alone: usize,
    pub rows_alone: usize,
}

/// Why the table does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchError {
    /// The line of the table or, in JSON, the row; `None` where it is about all of it.
    pub place: Option<u64>,
    pub what: String,
}

impl std::fmt::Display for MatchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place {
            Some(place) => write!(f, "{place}: {}", self.what),
            None => write!(f, " {}", self.what),
        }
    }
}

impl std::error::Error for MatchError {}

fn error<T>(place: Option<u64>, what: String) -> Result<T, MatchError> {
    Err(MatchError { place, what })
}

/// Whether the table speaks of steps.
pub fn has_steps(table: &Measurements) -> bool {
    step_column(table).is_some()
}

fn step_column(table: &Measurements) -> Option<usize> {
    table.columns.iter().position(|column| column.eq_ignore_ascii_case(STEP))
}

/// Rows by the number in the column `step`.
pub fn match_steps(table: &Measurements, steps: &[i64]) -> Result<Matching, MatchError> {
    let Some(column) = step_column(table) else {
        return error(None, "no column is called step".to_owned());
    };
    let mut rows: Vec<(i64, usize)> = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        let cell = row.cells[column].as_deref().unwrap_or_default();
        // Data frames write whole numbers as 3.0.
        let number = cell.strip_suffix(".0").unwrap_or(cell).parse::<i64>();
        let Ok(number) = number else {
            return error(Some(row.place), format!("step: not a whole number: {cell:?}"));
        };
        if rows.iter().any(|&(known, _)| known == number) {
            return error(Some(row.place), format!("step {number} stands there twice"));
        }
        rows.push((number, at));
    }
    let row_of = |step: &i64| rows.iter().find(|(number, _)| number == step);
    let pairs: Vec<(usize, usize)> = steps
        .iter()
        .enumerate()
        .filter_map(|(sample, step)| row_of(step).map(|&(_, row)| (sample, row)))
        .collect();
    if pairs.is_empty() && !rows.is_empty() {
        let range = |numbers: &mut dyn Iterator<Item = i64>| {
            let numbers: Vec<i64> = numbers.collect();
            let ends = (numbers.iter().min(), numbers.iter().max());
            ends.0.zip(ends.1).map_or("none".to_owned(), |(from, to)| format!("{from} to {to}"))
        };
        let (here, there) =
            (range(&mut rows.iter().map(|row| row.0)), range(&mut steps.iter().copied()));
        return error(None, format!("no step in common: {here} here, {there} in the trace"));
    }
    Ok(matching(MatchedBy::Step, Some(column), table, pairs, steps.len()))
}

/// What of a trace's path is compared.
type NameOf = fn(&str) -> &str;

/// Rows by what names their run; where nothing does, by order. `paths` are the traces.
pub fn match_runs(table: &Measurements, paths: &[&str]) -> Result<Matching, MatchError> {
    let names: Vec<usize> = (0..table.columns.len()).filter(|&at| is_name(table, at)).collect();
    if names.is_empty() {
        if table.rows.len() != paths.len() {
            let (rows, traces) = (table.rows.len(), paths.len());
            let what = format!(
                "no column names the runs, and {rows} rows do not pair with {traces} traces: \
                 add a column run with the names of the files"
            );
            return error(None, what);
        }
        let pairs = (0..paths.len()).map(|at| (at, at)).collect();
        return Ok(matching(MatchedBy::Order, None, table, pairs, paths.len()));
    }
    const WAYS: [(MatchedBy, NameOf); 4] = [
        (MatchedBy::Path, |path| path),
        (MatchedBy::FileName, file_name),
        (MatchedBy::RunName, |path| without_endings(file_name(path))),
        (MatchedBy::Folder, |path| {
            path.rsplit_once(['/', '\\']).map_or("", |(folder, _)| file_name(folder))
        }),
    ];
    let mut best: Option<Matching> = None;
    for &column in &names {
        for (by, name) in WAYS {
            let pairs = pairs_by_name(table, column, paths, name);
            if best.as_ref().is_none_or(|best| pairs.len() > best.pairs.len()) {
                best = Some(matching(by, Some(column), table, pairs, paths.len()));
            }
        }
    }
    match best.filter(|best| !best.pairs.is_empty()) {
        Some(best) => distinct(best, table, paths),
        None => {
            let columns: Vec<&str> = names.iter().map(|&at| &*table.columns[at]).collect();
            let column = columns.join(", ");
            let first = |row: &MeasuredRow| Some((row.place, row.cells[names[0]].clone()?));
            let (place, cell) = table.rows.iter().find_map(first).unzip();
            let (cell, trace) = (cell.unwrap_or_default(), paths.first().unwrap_or(&""));
            error(place, format!("no trace is called as {column} says: {cell:?}, {trace:?}"))
        }
    }
}

fn pairs_by_name(
    table: &Measurements,
    column: usize,
    paths: &[&str],
    name: NameOf,
) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (sample, path) in paths.iter().enumerate() {
        let is_it =
            |row: &MeasuredRow| row.cells[column].as_deref().is_some_and(|cell| cell == name(path));
        pairs.extend(table.rows.iter().position(is_it).map(|row| (sample, row)));
    }
    pairs
}

/// One row cannot speak for two traces.
fn distinct(found: Matching, table: &Measurements, paths: &[&str]) -> Result<Matching, MatchError> {
    for (at, &(sample, row)) in found.pairs.iter().enumerate() {
        if let Some(&(other, _)) = found.pairs[..at].iter().find(|pair| pair.1 == row) {
            let what = format!("fits two traces: {:?}, {:?}", paths[other], paths[sample]);
            return error(Some(table.rows[row].place), what);
        }
    }
    Ok(found)
}

fn matching(
    by: MatchedBy,
    column: Option<usize>,
    table: &Measurements,
    pairs: Vec<(usize, usize)>,
    samples: usize,
) -> Matching {
    Matching {
        by,
        column: column.map(|column| table.columns[column].clone()),
        samples_alone: samples - pairs.len(),
        rows_alone: table.rows.len().saturating_sub(pairs.len()),
        pairs,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn without_endings(name: &str) -> &str {
    let mut name = name;
    while let Some(shorter) = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)) {
        name = shorter;
    }
    name
}

fn is_name(table: &Measurements, column: usize) -> bool {
    let is_key = KEY_NAMES.iter().any(|key| table.columns[column].eq_ignore_ascii_case(key));
    let mut cells = table.rows.iter().filter_map(|row| row.cells[column].as_deref()).peekable();
    cells.peek().is_some() && (is_key || cells.all(|cell| number(cell).is_none()))
}

/// A number, or that the cell says there is none; `None` where it is text.
fn number(cell: &str) -> Option<Option<f64>> {
    if ["na", "n/a", "null", "none", "-"].iter().any(|none| cell.eq_ignore_ascii_case(none)) {
        return Some(None);
    }
    // A loss that became NaN or infinite has no place in an order.
    cell.parse::<f64>().ok().map(|value| Some(value).filter(|value| value.is_finite()))
}

/// The metrics of the table for each matched sample: every column of numbers, or those
/// that are asked for.
pub fn outcomes(
    table: &Measurements,
    matching: &Matching,
    asked: &[String],
) -> Result<Vec<Outcome>, MatchError> {
    if let Some(name) = asked.iter().find(|name| !table.columns.contains(name)) {
        let columns = table.columns.join(", ");
        return error(None, format!("no column is called {name}; there are {columns}"));
    }
    let mut outcomes = Vec::new();
    for (column, name) in table.columns.iter().enumerate() {
        let is_asked = asked.contains(name);
        let is_key = matching.column.as_ref() == Some(name) || is_name(table, column);
        if is_asked || (asked.is_empty() && !is_key) {
            outcomes.push(outcome(table, matching, column)?);
        }
    }
    match outcomes.is_empty() {
        true => error(None, "no column holds numbers".to_owned()),
        false => Ok(outcomes),
    }
}

fn outcome(
    table: &Measurements,
    matching: &Matching,
    column: usize,
) -> Result<Outcome, MatchError> {
    let name = &table.columns[column];
    let mut values = Vec::new();
    for row in &table.rows {
        match row.cells[column].as_deref().map(|cell| (cell, number(cell))) {
            None => values.push(None),
            Some((_, Some(value))) => values.push(value),
            Some((cell, None)) => {
                return error(Some(row.place), format!("{name}: not a number: {cell:?}"));
            }
        }
    }
    let values = matching.pairs.iter().map(|&(_, row)| values[row]).collect();
    Ok(Outcome { name: name.clone(), values })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns and rows between bars.
    fn table(columns: &str, rows: &[&str]) -> Measurements {
        let cell = |cell: &str| (!cell.is_empty()).then(|| cell.to_owned());
        let row = |(at, row): (usize, &&str)| MeasuredRow {
            place: at as u64 + 2,
            cells: row.split('|').map(cell).collect(),
        };
        Measurements {
            columns: columns.split('|').map(str::to_owned).collect(),
            rows: rows.iter().enumerate().map(row).collect(),
        }
    }

    #[track_caller]
    fn check(table: &Measurements, by: MatchedBy, pairs: &[(usize, usize)]) {
        let found = match_runs(table, &["x/a.json.gz", "x/b.json.gz"]).expect("it fits");
        assert_eq!((found.by, found.pairs.as_slice()), (by, pairs));
    }

    #[test]
    fn rows_belong_to_traces_by_name_or_order() {
        check(&table("run|loss", &["b|1", "a|2"]), MatchedBy::RunName, &[(0, 1), (1, 0)]);
        check(&table("loss|what", &["1|b.json.gz", "2|c"]), MatchedBy::FileName, &[(1, 0)]);
        check(&table("file|loss", &["x/a.json.gz|1"]), MatchedBy::Path, &[(0, 0)]);
        check(&table("loss", &["1", "2"]), MatchedBy::Order, &[(0, 0), (1, 1)]);
    }

    #[test]
    fn steps_belong_by_number() {
        let found = match_steps(&table("step|loss", &["3|1", "5.0|2"]), &[4, 5]).expect("fits");
        assert_eq!((found.pairs, found.samples_alone, found.rows_alone), (vec![(1, 1)], 1, 1));
    }

    #[test]
    fn numbers_may_be_missing_but_not_text() {
        let rows = ["a|1e3|nan", "b|NA|x"];
        let table = table("run|loss|note", &rows);
        let found = match_runs(&table, &["a", "b"]).expect("fits");
        let loss = outcomes(&table, &found, &["loss".to_owned()]).expect("numbers");
        assert_eq!(loss[0].values, [Some(1000.0), None]);
        let error = outcomes(&table, &found, &[]).expect_err("text");
        assert_eq!(error.to_string(), "3: note: not a number: \"x\"");
    }

    #[track_caller]
    fn check_wrong(found: Result<Matching, MatchError>, expected: &str) {
        assert_eq!(found.expect_err("it does not fit").to_string(), expected);
    }

    #[test]
    fn errors_say_where_and_what() {
        let runs = |table: &Measurements| match_runs(table, &["x/a.json", "y/a.json"]);
        check_wrong(
            runs(&table("run|loss", &["z|1"])),
            "2: no trace is called as run says: \"z\", \"x/a.json\"",
        );
        check_wrong(
            runs(&table("run|loss", &["a|1"])),
            "2: fits two traces: \"x/a.json\", \"y/a.json\"",
        );
        check_wrong(
            match_steps(&table("step", &["1", "2"]), &[7, 9]),
            " no step in common: 1 to 2 here, 7 to 9 in the trace",
        );
        check_wrong(match_steps(&table("step", &["1", "1"]), &[1]), "3: step 1 stands there twice");
        check_wrong(
            match_steps(&table("step", &["x"]), &[1]),
            "2: step: not a whole number: \"x\"",
        );
    }
}
