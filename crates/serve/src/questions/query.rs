//! SQL about everything that is open.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use spanwise_query::{Database, Limits, Value};

use crate::http::Response;
use crate::route::{Asked, Refusal};

/// A page shows no more, and people do not wait longer.
const LIMITS: Limits = Limits { rows_max: 5000, time_max: Some(Duration::from_secs(60)) };

pub(crate) fn query(asked: &Asked<'_>) -> Result<Response, Refusal> {
    let sql = std::str::from_utf8(asked.body()).map_err(|_| Refusal::wrong("not text"))?;
    let wrong = |error: spanwise_query::QueryError| Refusal::wrong(error.to_string());
    let mut slot = asked.session.database.lock().unwrap_or_else(|broken| broken.into_inner());
    let database = match &mut *slot {
        Some(database) => database,
        none => {
            let traces = asked.session.traces.iter().map(|viewed| Arc::clone(&viewed.trace));
            none.insert(Database::new(traces.collect()).map_err(wrong)?)
        }
    };
    let answer = database.ask(sql, LIMITS).map_err(wrong)?;
    let rows: Vec<Vec<Json>> =
        answer.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let answer = json!({ "columns": answer.columns, "rows": rows, "more": answer.has_more });
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
