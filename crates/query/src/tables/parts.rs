//! Parts of tables with rows of their own in each trace: rows of all traces stand one behind the
//! other.

use std::sync::Arc;

use spanwise_model::{StrId, TrackId};

use super::{QueriedTrace, Traces, int};
use crate::dictionary::NO_TEXT;
use crate::relation::{Column, Relation, Source};

/// How many rows of a table each trace has.
pub(super) type Len = fn(&QueriedTrace) -> usize;

impl QueriedTrace {
    pub(super) fn category(&self, id: u16) -> u32 {
        self.codes[self.trace.categories().get(id.into()).name.index()]
    }

    /// A text of the trace; none where it is empty.
    pub(super) fn known_text(&self, id: u32) -> u32 {
        match StrId(id) {
            StrId::EMPTY => NO_TEXT,
            id => self.codes[id.index()],
        }
    }

    pub(super) fn track(&self, id: u32) -> i64 {
        (self.first_track + TrackId(id).index()) as i64
    }
}

impl Traces {
    /// The trace of a row and its row there.
    pub(super) fn locate(&self, mut row: usize, len: Len) -> (&QueriedTrace, usize) {
        let mut found = &self.traces[0];
        for opened in &self.traces {
            found = opened;
            if row < len(opened) {
                break;
            }
            row -= len(opened);
        }
        (found, row)
    }
}

pub(super) fn relation(
    traces: &Traces,
    name: &'static str,
    about: &'static str,
    len: Len,
    columns: Vec<Column>,
) -> Relation {
    let rows = traces.traces.iter().map(len).sum();
    Relation { name, about, rows, ascending: None, columns }
}

pub(super) fn trace(traces: &Arc<Traces>, len: Len) -> Column {
    let traces = Arc::clone(traces);
    int("trace", "number of the trace, from 0", move |row| {
        let mut rows = 0;
        let behind = |opened: &QueriedTrace| {
            rows += len(opened);
            row < rows
        };
        traces.traces.iter().position(behind).map(|at| at as i64)
    })
}

pub(super) fn number(
    traces: &Arc<Traces>,
    len: Len,
    name: &'static str,
    about: &'static str,
    value: impl Fn(&QueriedTrace, usize) -> i64 + Send + Sync + 'static,
) -> Column {
    let traces = Arc::clone(traces);
    int(name, about, move |row| {
        let (opened, row) = traces.locate(row, len);
        Some(value(opened, row))
    })
}

/// A number that may be unknown.
pub(super) fn known(
    traces: &Arc<Traces>,
    len: Len,
    name: &'static str,
    about: &'static str,
    value: impl Fn(&QueriedTrace, usize) -> Option<i64> + Send + Sync + 'static,
) -> Column {
    let traces = Arc::clone(traces);
    int(name, about, move |row| {
        let (opened, row) = traces.locate(row, len);
        value(opened, row)
    })
}

pub(super) fn text(
    traces: &Arc<Traces>,
    len: Len,
    name: &'static str,
    about: &'static str,
    code: impl Fn(&QueriedTrace, usize) -> u32 + Send + Sync + 'static,
) -> Column {
    let (texts, traces) = (Arc::clone(&traces.texts), Arc::clone(traces));
    let code = move |row| {
        let (opened, row) = traces.locate(row, len);
        code(opened, row)
    };
    Column::new(name, about, Source::Text(Box::new(code), texts))
}
