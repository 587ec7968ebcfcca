//! SQL about everything that is open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use spanwise_query::{AnswerLimit, Database, Limits, QueryError, Value};

use crate::connection::http::Response;
use crate::route::{Refusal, ViewerRequest};
use crate::session::QUERIES_MAX;

/// A page shows no more rows, and people do not wait longer.
const ROWS_MAX: usize = 5000;
const BYTES_MAX: usize = 8 << 20;
const TIME_MAX: Duration = Duration::from_secs(60);
/// Comparing two values is one step, which cannot be stopped: of this length it takes seconds.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// All queries together get at most half of the memory that the process may still use.
const MEMORY_PARTS: usize = 2 * QUERIES_MAX;
const MEMORY_LEAST: usize = 64 << 20;
const MEMORY_MOST: usize = 1 << 30;

fn limits() -> Limits {
    let left = usize::try_from(spanwise_report::memory_left()).unwrap_or(usize::MAX);
    Limits {
        rows_max: ROWS_MAX,
        bytes_max: BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
        memory_max: (left / MEMORY_PARTS).clamp(MEMORY_LEAST, MEMORY_MOST),
        time_max: Some(TIME_MAX),
    }
}

pub(crate) fn query(asked: &ViewerRequest<'_>) -> Result<Response, Refusal> {
    let sql = std::str::from_utf8(asked.body()).map_err(|_| Refusal::wrong("not text"))?;
    let wrong = |error: QueryError| Refusal::wrong(error.to_string());
    let peer = Arc::clone(asked.peer);
    let ask = |database: &Database| {
        let start = Instant::now();
        let answer = database.ask_while(sql, limits(), move || peer.is_there())?;
        Ok((answer, start.elapsed().as_nanos() as u64))
    };
    let busy = || {
        let why = format!("{QUERIES_MAX} queries are running: wait for one, or cancel it");
        Refusal::busy(why)
    };
    let (answer, took_ns) = asked.session.ask(ask).ok_or_else(busy)?.map_err(wrong)?;
    let rows: Vec<Vec<Json>> =
        answer.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let (more, cut) = (answer.cut.is_some(), answer.cut.map(cut_text));
    let columns = answer.columns;
    let answer = json!({
        "columns": columns, "rows": rows, "more": more, "cut": cut, "took_ns": took_ns,
    });
    Ok(Response::json(answer.to_string()))
}

/// What is not there, and what to do about it.
fn cut_text(cut: AnswerLimit) -> String {
    match cut {
        AnswerLimit::Rows => {
            format!("only the first {ROWS_MAX} rows are shown: use LIMIT and OFFSET")
        }
        AnswerLimit::Bytes => format!(
            "only what fits into {} MiB is shown: select fewer columns, or shorten texts with \
             substr()",
            BYTES_MAX >> 20
        ),
    }
}

fn cell(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Int(number) => json!(number),
        Value::Real(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Bytes(count) => json!(format!("{count} bytes")),
    }
}
