//! Why something could not be recorded.

use std::{error, fmt, io};

use crate::Ability;

/// What was tried, what the system answered, and which ability of the machine is missing.
#[derive(Debug)]
pub struct CaptureError {
    what: String,
    source: Option<io::Error>,
    /// What [`crate::examine`] can say more about.
    pub ability: Option<Ability>,
}

impl CaptureError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        CaptureError { what: what.into(), source: None, ability: None }
    }

    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        CaptureError { what: what.into(), source: Some(source), ability: None }
    }

    pub(crate) fn lacks(self, ability: Ability) -> Self {
        CaptureError { ability: Some(ability), ..self }
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl error::Error for CaptureError {}
