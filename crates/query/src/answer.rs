//! A query's rows, no more than asked for, and no longer than allowed.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::QueryError;

/// How much of an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub rows_max: usize,
    /// A query that takes longer is ended.
    pub time_max: Option<Duration>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(usize),
}

/// Rows under named columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    /// Whether there are more rows than were wanted.
    pub has_more: bool,
}

/// So many steps of SQLite's machine lie between two looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

pub(crate) fn ask(
    connection: &mut Connection,
    sql: &str,
    limits: Limits,
) -> Result<Answer, QueryError> {
    let end = limits.time_max.and_then(|time| Instant::now().checked_add(time));
    let is_over = move || end.is_some_and(|end| Instant::now() >= end);
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over))?;
    let answer = rows(connection, sql, limits.rows_max);
    connection.progress_handler(0, None::<fn() -> bool>)?;
    answer.map_err(|error| match (is_over(), limits.time_max) {
        (true, Some(time)) => {
            QueryError(format!("it takes longer than {} s: ask for less", time.as_secs()))
        }
        _ => error,
    })
}

fn rows(connection: &Connection, sql: &str, rows_max: usize) -> Result<Answer, QueryError> {
    let mut statement = connection.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut answer = Answer { columns, rows: Vec::new(), has_more: false };
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if answer.rows.len() == rows_max {
            answer.has_more = true;
            break;
        }
        let values = (0..answer.columns.len()).map(|at| Ok(value(row.get_ref(at)?)));
        answer.rows.push(values.collect::<Result<_, rusqlite::Error>>()?);
    }
    Ok(answer)
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.len()),
    }
}
