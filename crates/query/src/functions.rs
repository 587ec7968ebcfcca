//! Functions about spans and stacks, for what is no column.

use std::sync::Arc;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value;
use rusqlite::{Connection, Error, Result, ffi};
use spanwise_analyze::share_error_percent;
use spanwise_model::{ArgValue, SpanId, Trace};

use crate::running::value_bytes_max;
use crate::tables::Traces;

/// `arg(span, key)`, `args(span)`, `stack(span)`, `call_stack(stack)`,
/// `overlap(start, dur, start, dur)`, and `share_error(samples, all)`.
pub(crate) fn register(connection: &Connection, traces: &Arc<Traces>) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    let of = Arc::clone(traces);
    connection.create_scalar_function("arg", 2, flags, move |context| {
        let Some((trace, span)) = span(&of, context)? else { return Ok(Value::Null) };
        let key: String = context.get(1)?;
        let found = trace.pick_args(span, &[&key]).map_err(failed)?;
        Ok(found.into_iter().flatten().next().map_or(Value::Null, |value| sql_value(&value)))
    })?;
    let of = Arc::clone(traces);
    connection.create_scalar_function("args", 1, flags, move |context| {
        let Some((trace, span)) = span(&of, context)? else { return Ok(None) };
        Ok(Some(json(&ArgValue::Map(trace.args(span).map_err(failed)?))))
    })?;
    let of = Arc::clone(traces);
    connection.create_scalar_function("stack", 1, flags, move |context| {
        let Some((trace, span)) = span(&of, context)? else { return Ok(None) };
        let around = std::iter::successors(Some(span), |&inner| trace.spans().parent(inner));
        let mut names: Vec<&str> = around.map(|span| trace.name(span)).collect();
        let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
        if bytes > value_bytes_max() {
            return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), None));
        }
        names.reverse();
        Ok(Some(names.join(";")))
    })?;
    let of = Arc::clone(traces);
    connection.create_scalar_function("call_stack", 1, flags, move |context| {
        let id: Option<i64> = context.get(0)?;
        let Some(id) = id.and_then(|id| usize::try_from(id).ok()) else { return Ok(None) };
        let Some(names) = of.call_stack(id, value_bytes_max()) else { return Ok(None) };
        let text = names.join(";");
        if text.len() > value_bytes_max() {
            return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), None));
        }
        Ok(Some(text))
    })?;
    connection.create_scalar_function("overlap", 4, flags, |context| {
        let time = |at| context.get::<i64>(at).map(i128::from);
        let (a, a_dur, b, b_dur) = (time(0)?, time(1)?, time(2)?, time(3)?);
        let both = (a + a_dur).min(b + b_dur) - a.max(b);
        Ok(i64::try_from(both.max(0)).unwrap_or(i64::MAX))
    })?;
    connection.create_scalar_function("share_error", 2, flags, |context| {
        let count = |at| {
            let count = context.get::<Option<i64>>(at)?;
            Ok::<_, Error>(count.and_then(|count| u64::try_from(count).ok()))
        };
        let (samples, all) = (count(0)?, count(1)?);
        Ok(samples.zip(all).and_then(|(samples, all)| share_error_percent(samples, all)))
    })
}

/// The span that the first argument names; nothing for null, or for one that is not there.
fn span<'t>(traces: &'t Traces, context: &Context<'_>) -> Result<Option<(&'t Trace, SpanId)>> {
    let id: Option<i64> = context.get(0)?;
    let Some(id) = id.and_then(|id| usize::try_from(id).ok()) else { return Ok(None) };
    Ok(traces.span(id))
}

fn failed(why: String) -> Error {
    Error::UserFunctionError(why.into())
}

fn sql_value(value: &ArgValue) -> Value {
    match value {
        ArgValue::Null => Value::Null,
        ArgValue::Bool(flag) => Value::Integer((*flag).into()),
        ArgValue::Int(number) => Value::Integer(*number),
        ArgValue::Number(text) => {
            text.parse().map_or_else(|_| Value::Text(text.clone()), Value::Real)
        }
        ArgValue::Text(text) => Value::Text(text.clone()),
        ArgValue::List(_) | ArgValue::Map(_) => Value::Text(json(value)),
    }
}

fn json(value: &ArgValue) -> String {
    match value {
        ArgValue::Null => "null".to_owned(),
        ArgValue::Bool(flag) => flag.to_string(),
        ArgValue::Int(number) => number.to_string(),
        ArgValue::Number(text) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => text.clone(),
            _ => json_text(text),
        },
        ArgValue::Text(text) => json_text(text),
        ArgValue::List(values) => {
            format!("[{}]", values.iter().map(json).collect::<Vec<_>>().join(","))
        }
        ArgValue::Map(pairs) => {
            let pairs =
                pairs.iter().map(|(key, value)| format!("{}:{}", json_text(key), json(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
    }
}

fn json_text(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
