//! A table of figures that somebody measured beside the traces: loss, speed, memory.

/// Named columns; every row has one cell a column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measurements {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, with a value per column.
    pub rows: Vec<MeasuredRow>,
}

/// One run or one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredRow {
    /// Where it stands in its file, counted from 1: the line, or the place in a list.
    pub place: u64,
    /// As written; `None` where nothing stands.
    pub cells: Vec<Option<String>>,
}
