//! SQL over traces: SQLite asks, our columns answer.
//!
//! Each table is a virtual one over the columns of the open traces: nothing is copied or
//! imported. Filters on columns and orders are pushed down to loops over the columns
//! ([`relation`]), so that a grouping over millions of spans needs no sort of SQLite's own. What
//! SQL is bad at, such as self time, parents, launches, Python lines and steps, stands there as
//! columns.
//!
//! A database reads only: it has no file, cannot attach one, and refuses every statement that
//! would write. Sorts and intermediate tables stay in memory, counted per query.

mod allocator;
mod answer;
mod dictionary;
mod functions;
mod library;
mod plan;
mod relation;
mod running;
mod tables;
mod vtab;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use spanwise_analyze::Facts;
use spanwise_model::Trace;

pub use answer::{Answer, AnswerLimit, Limits, Value};
pub use library::{TableHelp, tables_help};

use relation::Relation;

/// The longest query.
const SQL_BYTES_MAX: i32 = 1 << 20;
/// The longest pattern of LIKE and GLOB: one comparison cannot be interrupted.
const PATTERN_BYTES_MAX: i32 = 4096;
/// Steps of SQLite's machine between two reads of the clock.
const STEPS_BETWEEN_CHECKS: i32 = 1000;
/// Connections that are kept for the next queries.
const IDLE_MAX: usize = 4;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// What SQLite says of it.
    #[error("{0}")]
    Sql(String),
    #[error("the query takes longer than {} s: narrow it down with WHERE or LIMIT", .0.as_secs())]
    TooLong(Duration),
    #[error(
        "the query needs more than {} MiB of memory for its sorts and intermediate rows: narrow it \
         down with WHERE, or select fewer columns before sorting or grouping",
        .0 >> 20
    )]
    TooMuchMemory(usize),
    #[error("a value is longer than {} KiB: shorten it with substr()", .0 >> 10)]
    ValueTooLong(usize),
    /// Nobody waits for it any more.
    #[error("the query was canceled")]
    Canceled,
}

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        QueryError::Sql(match error {
            rusqlite::Error::SqlInputError { msg, sql, offset, .. } => {
                let at = usize::try_from(offset).unwrap_or(0);
                let line = sql.get(at..).unwrap_or_default().lines().next().unwrap_or_default();
                format!("{msg} (at {line:?})")
            }
            other => other.to_string(),
        })
    }
}

/// Open traces, as tables. Any number of threads may ask at the same time.
pub struct Database {
    traces: Arc<tables::Traces>,
    relations: Vec<Arc<Relation>>,
    /// Each query has one for itself, so that none waits for another.
    idle: Mutex<Vec<Connection>>,
}

impl Database {
    /// All traces in the same tables; the column `trace` distinguishes them.
    pub fn new(traces: Vec<Arc<Trace>>) -> Result<Self, QueryError> {
        Database::of_facts(traces.iter().map(|trace| Arc::new(Facts::new(trace))).collect())
    }

    /// The same for traces that are used otherwise, too: what their reports have computed is not
    /// computed again.
    pub fn of_facts(traces: Vec<Arc<Facts>>) -> Result<Self, QueryError> {
        let traces = Arc::new(tables::Traces::new(traces));
        let relations = tables::relations(&traces).into_iter().map(Arc::new).collect();
        let database = Database { traces, relations, idle: Mutex::default() };
        let first = database.connect()?;
        database.idle().push(first);
        Ok(database)
    }

    /// What a query says.
    pub fn ask(&self, sql: &str, limits: Limits) -> Result<Answer, QueryError> {
        self.ask_while(sql, limits, || true)
    }

    /// The same; a query ends soon after the answer is no longer wanted.
    pub fn ask_while(
        &self,
        sql: &str,
        limits: Limits,
        is_wanted: impl Fn() -> bool + 'static,
    ) -> Result<Answer, QueryError> {
        if sql.len() > SQL_BYTES_MAX as usize {
            return Err(QueryError::Sql(format!("longer than {} KiB", SQL_BYTES_MAX >> 10)));
        }
        let idle = self.idle().pop();
        let connection = idle.map_or_else(|| self.connect(), Ok)?;
        let answer = answer::ask(&connection, sql, limits, Box::new(is_wanted));
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        answer
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self) -> Result<Connection, QueryError> {
        let refused =
            |code| QueryError::Sql(format!("SQLite cannot count its memory: code {code}"));
        allocator::install().map_err(refused)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_in_memory_with_flags(flags)?;
        for (limit, most) in [
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES_MAX),
        ] {
            connection.set_limit(limit, most)?;
        }
        // By default sorts and intermediate tables go to files in /var/tmp.
        connection.execute_batch("PRAGMA temp_store = MEMORY")?;
        for relation in &self.relations {
            vtab::register(&connection, Arc::clone(relation))?;
        }
        functions::register(&connection, &self.traces)?;
        connection.execute_batch(&library::views())?;
        connection.authorizer(Some(may))?;
        connection.progress_handler(STEPS_BETWEEN_CHECKS, Some(running::must_stop))?;
        Ok(connection)
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
