//! SQL over traces: SQLite asks, our columns answer.
//!
//! Each table is a virtual one over the columns of the open traces: nothing is copied or
//! imported. Filters on columns and orders are pushed down to loops over the columns
//! ([`relation`]), so that a grouping over millions of spans needs no sort of SQLite's own. What
//! SQL is bad at, such as self time, parents, launches, Python lines and steps, stands there as
//! columns.
//!
//! A database reads only: it has no file, cannot attach one, and refuses every statement that
//! would write.

mod answer;
mod dictionary;
mod functions;
mod library;
mod plan;
mod relation;
mod tables;
mod vtab;

use std::sync::Arc;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use spanwise_model::Trace;

pub use answer::{Answer, Limits, Value};
pub use library::{TableHelp, tables_help};

/// What SQLite says of a query that it cannot answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct QueryError(String);

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        QueryError(match error {
            rusqlite::Error::SqlInputError { msg, sql, offset, .. } => {
                let at = usize::try_from(offset).unwrap_or(0);
                let line = sql.get(at..).unwrap_or_default().lines().next().unwrap_or_default();
                format!("{msg} (at {line:?})")
            }
            other => other.to_string(),
        })
    }
}

/// Open traces, as tables.
pub struct Database {
    connection: Connection,
}

impl Database {
    /// All traces in the same tables; the column `trace` tells them apart.
    pub fn new(traces: Vec<Arc<Trace>>) -> Result<Self, QueryError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_in_memory_with_flags(flags)?;
        for (limit, most) in [
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
            (Limit::SQLITE_LIMIT_LENGTH, 64 << 20),
        ] {
            connection.set_limit(limit, most)?;
        }
        let traces = Arc::new(tables::Traces::new(traces));
        for relation in tables::relations(&traces) {
            vtab::register(&connection, Arc::new(relation))?;
        }
        functions::register(&connection, &traces)?;
        connection.execute_batch(&library::views())?;
        connection.authorizer(Some(may))?;
        Ok(Database { connection })
    }

    /// What a query says.
    pub fn ask(&mut self, sql: &str, limits: Limits) -> Result<Answer, QueryError> {
        answer::ask(&mut self.connection, sql, limits)
    }
}

/// Reading is all that anybody may.
fn may(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive => Authorization::Allow,
        _ => Authorization::Deny,
    }
}
