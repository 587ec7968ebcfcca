//! Knowledge that is data: a file of rules, read with its mistakes reported by line.
//!
//! The project's own tables are files in the same form, compiled in.

use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use crate::gpu::classes::RuleText;
use crate::gpu::roofline::DeviceText;

/// All that a file may hold: rules for classes, and devices.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TablesText {
    #[serde(default)]
    pub(crate) rule: Vec<Spanned<RuleText>>,
    #[serde(default)]
    pub(crate) device: Vec<Spanned<DeviceText>>,
}

/// What is wrong with a table, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    /// Counted from 1.
    pub line: usize,
    pub what: String,
    /// The text that was found there, shortened.
    pub found: String,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {} ({:?})", self.line, self.what, self.found)
    }
}

impl std::error::Error for TableError {}

impl TableError {
    pub(crate) fn at(text: &str, place: Range<usize>, what: impl Into<String>) -> Self {
        const FOUND_MAX: usize = 60;
        let start = place.start.min(text.len());
        let line = 1 + text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count();
        let found = text.get(start..place.end.min(text.len())).unwrap_or_default();
        let found = found.lines().next().unwrap_or_default();
        TableError { line, what: what.into(), found: found.chars().take(FOUND_MAX).collect() }
    }
}

/// Reads a table as TOML.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, TableError> {
    toml::from_str(text).map_err(|error| {
        let what = error.message().lines().next().unwrap_or_default().to_owned();
        TableError::at(text, error.span().unwrap_or(0..0), what)
    })
}
