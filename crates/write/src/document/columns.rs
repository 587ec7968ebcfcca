//! Typed columns: each stands beside the function that fills it from a row.
//!
//! A cell cannot end up under the heading of another, which two parallel lists of columns and of
//! cells would allow whenever both hold, say, nanoseconds.

use crate::Top;
use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table};

/// What a column shows of a row, or the line under it.
type OfRow<'a, R, T> = Box<dyn Fn(&R) -> T + 'a>;

/// The columns of a table whose rows are of type `R`.
pub struct Columns<'a, R> {
    columns: Vec<Column>,
    cells: Vec<OfRow<'a, R, Cell>>,
    note: Option<OfRow<'a, R, String>>,
}

impl<R> Default for Columns<'_, R> {
    fn default() -> Self {
        Columns { columns: Vec::new(), cells: Vec::new(), note: None }
    }
}

impl<'a, R> Columns<'a, R> {
    pub fn new() -> Self {
        Columns::default()
    }

    /// A further column, and what it shows of a row.
    #[must_use]
    pub fn add(mut self, column: Column, cell: impl Fn(&R) -> Cell + 'a) -> Self {
        self.columns.push(column);
        self.cells.push(Box::new(cell));
        self
    }

    /// A line under each row, for people only; empty for none.
    #[must_use]
    pub fn note(mut self, note: impl Fn(&R) -> String + 'a) -> Self {
        self.note = Some(Box::new(note));
        self
    }

    /// All rows as a table.
    pub fn table<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> Table
    where
        R: 'r,
    {
        let mut table = Table::new(self.columns.clone());
        for row in rows {
            let cells: Vec<Cell> = self.cells.iter().map(|cell| cell(row)).collect();
            let note = self.note.as_ref().map(|note| note(row)).unwrap_or_default();
            table.push_with_note(cells, note);
        }
        table
    }

    /// The first rows as what a section shows.
    pub fn content(&self, rows: &[R], top: Top) -> Content {
        let table = self.table(top.of(rows));
        let left_out = rows.len() - table.rows().len();
        Content { body: Body::Rows(table), title: None, when_empty: None, left_out }
    }
}

/// What a section shows; its key and its usual title are declared with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub body: Body,
    /// Instead of the usual title.
    pub title: Option<String>,
    /// What to say to people when there are no rows; `None` leaves it out.
    pub when_empty: Option<&'static str>,
    /// Rows that the limit on rows has left out.
    pub left_out: usize,
}

impl Content {
    /// A single row: "key  value" lines for people, an object in JSON.
    pub fn record(fields: Vec<(Column, Cell)>) -> Self {
        let (columns, cells): (Vec<Column>, Vec<Cell>) = fields.into_iter().unzip();
        let mut table = Table::new(columns);
        table.push(cells);
        Content { body: Body::Record(table), title: None, when_empty: None, left_out: 0 }
    }

    #[must_use]
    pub fn titled(mut self, title: String) -> Self {
        self.title = Some(title);
        self
    }

    #[must_use]
    pub fn when_empty(mut self, text: &'static str) -> Self {
        self.when_empty = Some(text);
        self
    }

    /// A row beneath the others with cells in a few columns; the other cells are unknown.
    ///
    /// Panics where there is no column of such a key.
    pub fn push(&mut self, cells: impl IntoIterator<Item = (&'static str, Cell)>) {
        let (Body::Rows(table) | Body::Record(table) | Body::Prose(table, _)) = &mut self.body;
        let mut row = vec![Cell::None; table.columns().len()];
        for (key, cell) in cells {
            let at = table.columns().iter().position(|column| column.key == key);
            row[at.expect("a column has this key")] = cell;
        }
        table.push(row);
    }

    /// The section under its key and title.
    pub fn section(self, key: &'static str, title: &str) -> Section {
        let Content { body, title: own, when_empty, left_out } = self;
        Section { key, title: own.unwrap_or_else(|| title.to_owned()), body, when_empty, left_out }
    }
}
