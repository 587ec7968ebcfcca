//! `spanwise query`: ask traces in SQL.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use spanwise_query::{Answer, AnswerLimit, Database, Limits, TableHelp, Value, tables_help};
use spanwise_report::files_of;
use spanwise_write::{Body, Cell, Column, Document, Section, Table, Unit};

use super::profiles::open_as_trace;
use crate::args::QueryArgs;
use crate::failure;
use crate::output::stdout;

pub(super) fn run(args: &QueryArgs) -> anyhow::Result<ExitCode> {
    let mut out = stdout();
    if args.tables {
        let document = help_document(&tables_help());
        document.write(args.output.format, args.output.style(), &mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some((sql, traces)) = args.words.split_last().filter(|(_, traces)| !traces.is_empty())
    else {
        bail!("give a trace and the SQL: spanwise query trace.json.gz \"select …\"");
    };
    let sql = match sql.as_str() {
        "-" => read_stdin()?,
        sql => sql.to_owned(),
    };
    let paths: Vec<PathBuf> = traces.iter().map(PathBuf::from).collect();
    let mut opened = Vec::new();
    for path in files_of(&paths)? {
        opened.push(Arc::new(open_as_trace(&path, &args.read, args.quiet)?));
    }
    let limits = limits(args.limit);
    let answer = Database::new(opened)?.ask(&sql, limits)?;
    rows_section(&answer).write(args.output.format, args.output.style(), &mut out)?;
    out.flush()?;
    if let Some(cut) = answer.cut.filter(|_| !args.quiet) {
        failure::note(&cut_text(cut, &answer, limits));
    }
    Ok(ExitCode::SUCCESS)
}

/// Half of the memory that is left is for the query, an eighth for its answer, which is held
/// as rows and as a table before it is written.
fn limits(rows: usize) -> Limits {
    const MEMORY_LEAST: usize = 64 << 20;
    let left = usize::try_from(spanwise_read::memory_left()).unwrap_or(usize::MAX);
    Limits {
        rows_max: if rows == 0 { usize::MAX } else { rows },
        bytes_max: (left / 8).max(MEMORY_LEAST / 4),
        memory_max: (left / 2).max(MEMORY_LEAST),
        ..Limits::NONE
    }
}

fn cut_text(cut: AnswerLimit, answer: &Answer, limits: Limits) -> String {
    let rows = spanwise_write::count_text(answer.rows.len() as i128);
    match cut {
        AnswerLimit::Rows => format!("only the first {rows} rows are shown; --limit 0 shows all"),
        AnswerLimit::Bytes => format!(
            "only the first {rows} rows are shown, as more do not fit into {} MiB of memory: \
             select fewer columns, or parts with LIMIT and OFFSET",
            limits.bytes_max >> 20
        ),
    }
}

fn rows_section(answer: &Answer) -> Section {
    let is_number = |at: usize| {
        answer
            .rows
            .iter()
            .all(|row| matches!(row[at], Value::Int(_) | Value::Real(_) | Value::Null))
    };
    let columns = answer.columns.iter().enumerate();
    let columns = columns.map(|(at, name)| Column::named(name, is_number(at)));
    let mut table = Table::new(columns.collect::<Vec<_>>());
    for row in &answer.rows {
        table.push(row.iter().map(cell).collect::<Vec<_>>());
    }
    Section {
        key: "rows",
        title: format!("{} rows", spanwise_write::count_text(answer.rows.len() as i128)),
        body: Body::Rows(table),
        when_empty: None,
        left_out: 0,
    }
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::None,
        Value::Int(number) => (*number).into(),
        Value::Real(number) => Cell::Decimal(number.to_string()),
        Value::Text(text) => text.as_str().into(),
        Value::Bytes(count) => format!("{count} bytes").into(),
    }
}

/// A table of all tables, then the columns of each.
fn help_document(tables: &[TableHelp]) -> Document {
    let mut names = Table::new([
        Column::new("name", "table, view or function", Unit::Text),
        Column::new("about", "what it has", Unit::Text),
    ]);
    let mut columns = Table::new([
        Column::new("table", "table", Unit::Text),
        Column::new("column", "column", Unit::Text),
        Column::new("sort", "sort", Unit::Text),
        Column::new("about", "what it says", Unit::Text),
    ]);
    for table in tables {
        names.push([table.name.into(), table.about.into()]);
        for &(column, sort, about) in &table.columns {
            columns.push([table.name.into(), column.into(), sort.into(), about.into()]);
        }
    }
    let section = |key, title: &str, table| Section {
        key,
        title: title.to_owned(),
        body: Body::Rows(table),
        when_empty: None,
        left_out: 0,
    };
    let sections = vec![section("tables", "Tables", names), section("columns", "Columns", columns)];
    Document { sections, hints: Vec::new() }
}

fn read_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().lock().take(1 << 20).read_to_string(&mut text).context("standard input")?;
    Ok(text)
}
