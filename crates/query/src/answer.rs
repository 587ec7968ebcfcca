//! A query's rows, no more than asked for, and no longer than allowed.

use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};

use crate::QueryError;
use crate::running::{Running, StopReason};

/// How much of an answer is wanted, and what it may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub rows_max: usize,
    /// All values together, as they are held here.
    pub bytes_max: usize,
    /// One text or blob, in the answer or on the way to it.
    pub value_bytes_max: usize,
    /// What sorts, groups and subqueries may hold. Nothing of it goes to disk.
    pub memory_max: usize,
    /// A query that takes longer is ended.
    pub time_max: Option<Duration>,
}

impl Limits {
    /// Everything, however large it is and however long it takes.
    pub const NONE: Limits = Limits {
        rows_max: usize::MAX,
        bytes_max: usize::MAX,
        value_bytes_max: 64 << 20,
        memory_max: usize::MAX,
        time_max: None,
    };
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
    /// Why there are rows that are not here.
    pub cut: Option<AnswerLimit>,
}

/// The limit that an answer has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerLimit {
    Rows,
    Bytes,
}

pub(crate) fn ask(
    connection: &Connection,
    sql: &str,
    limits: Limits,
    is_wanted: Box<dyn Fn() -> bool>,
) -> Result<Answer, QueryError> {
    let longest = i32::try_from(limits.value_bytes_max).unwrap_or(i32::MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest)?;
    let running = Running::start(limits, is_wanted);
    let answer = rows(connection, sql, limits);
    answer.map_err(|error| match (running.stopped(), error.sqlite_error_code()) {
        (Some(StopReason::Unwanted), _) => QueryError::Canceled,
        (Some(StopReason::Time), _) => QueryError::TooLong(limits.time_max.unwrap_or_default()),
        (None, Some(ErrorCode::OutOfMemory)) => QueryError::TooMuchMemory(limits.memory_max),
        (None, Some(ErrorCode::TooBig)) => QueryError::ValueTooLong(limits.value_bytes_max),
        (None, _) => error.into(),
    })
}

fn rows(connection: &Connection, sql: &str, limits: Limits) -> Result<Answer, rusqlite::Error> {
    let mut statement = connection.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut answer = Answer { columns, rows: Vec::new(), cut: None };
    let mut rows = statement.query([])?;
    let mut bytes_left = limits.bytes_max;
    while let Some(row) = rows.next()? {
        if answer.rows.len() == limits.rows_max {
            answer.cut = Some(AnswerLimit::Rows);
            break;
        }
        let mut bytes = size_of::<Vec<Value>>();
        for at in 0..answer.columns.len() {
            bytes += size_of::<Value>() + text_bytes(row.get_ref(at)?);
        }
        let Some(left) = bytes_left.checked_sub(bytes) else {
            answer.cut = Some(AnswerLimit::Bytes);
            break;
        };
        bytes_left = left;
        let values = (0..answer.columns.len()).map(|at| Ok(value(row.get_ref(at)?)));
        answer.rows.push(values.collect::<Result<_, rusqlite::Error>>()?);
    }
    Ok(answer)
}

fn text_bytes(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) => text.len(),
        _ => 0,
    }
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
