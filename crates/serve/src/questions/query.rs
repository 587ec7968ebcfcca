//! SQL about everything that is open.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use spanwise_query::{Database, Limits, Value};

use crate::http::Response;
use crate::route::{Asked, Refusal};

/// A page shows no more, and people do not wait longer.
const LIMITS: Limits = Limits { rows_max: 5000, time_max: Some(Duration::from_secs(60)) };

pub(crate) fn query(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let sql = std::str::from_utf8(asked.body()).map_err(|_| Refusal::wrong("not text"))?;
    let wrong = |error: spanwise_query::QueryError| Refusal::wrong(error.to_string());
    let ask = |database: &mut Database| {
        let start = Instant::now();
        let answer = database.ask(sql, LIMITS)?;
        Ok((answer, start.elapsed().as_nanos() as u64))
    };
    let (answer, took_ns) = asked.session.ask(ask).map_err(wrong)?;
    let rows: Vec<Vec<Json>> =
        answer.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let (columns, more) = (answer.columns, answer.has_more);
    let answer = json!({ "columns": columns, "rows": rows, "more": more, "took_ns": took_ns });
    Ok(Response::json(answer.to_string()))
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
