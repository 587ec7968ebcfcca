//! Tables as other tools name them: what `--compat` prints.
//!
//! The numbers of another tool are its own: floats, microseconds and all. They are
//! kept apart from ours by their type, so that none leaks into a native answer.

/// A table in another tool's words.
#[derive(Debug, Clone, PartialEq)]
pub struct CompatTable {
    pub key: &'static str,
    pub title: &'static str,
    pub columns: Vec<&'static str>,
    /// One value a column.
    pub rows: Vec<Vec<CompatValue>>,
    /// What of the trace is not in it.
    pub left_out: Option<String>,
}

/// One value as the other tool gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum CompatValue {
    Text(String),
    Int(i64),
    /// Not a number where the other tool has none.
    Float(f64),
}

impl From<&str> for CompatValue {
    fn from(text: &str) -> Self {
        CompatValue::Text(text.to_owned())
    }
}

impl From<i64> for CompatValue {
    fn from(value: i64) -> Self {
        CompatValue::Int(value)
    }
}

impl From<f64> for CompatValue {
    fn from(value: f64) -> Self {
        CompatValue::Float(value)
    }
}
