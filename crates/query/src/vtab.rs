//! A [`Relation`] as a virtual table of SQLite.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::sync::Arc;

use rusqlite::ffi;
use rusqlite::types::{Null, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection,
    VTabCursor,
};
use rusqlite::{Connection, Error, Result};

use crate::plan::Plan;
use crate::relation::{Bound, Filter, Relation, Rows, Source, Test};
use crate::running::{give_memory, take_memory};

/// Makes the relation a table of the connection.
pub(crate) fn register(connection: &Connection, relation: Arc<Relation>) -> Result<()> {
    const MODULE: &Module<'static, Table> = &Module::eponymous_only_module();
    connection.create_module(relation.name, MODULE, Some(relation))
}

#[repr(C)]
struct Table {
    /// Must be the first: SQLite knows the table by it.
    base: ffi::sqlite3_vtab,
    relation: Arc<Relation>,
}

// SAFETY: `repr(C)` with `base` first, as the trait asks for.
unsafe impl<'vtab> VTab<'vtab> for Table {
    type Aux = Arc<Relation>;
    type Cursor = Cursor<'vtab>;

    fn connect(
        connection: &mut VTabConnection,
        relation: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        // Views may use it, and nothing of it can do harm.
        connection.config(VTabConfig::Innocuous)?;
        let relation = relation.ok_or(Error::InvalidQuery)?;
        let columns = relation.columns.iter().map(|column| {
            let sort = match column.source {
                Source::Int(_) => "INTEGER",
                Source::Real(_) => "REAL",
                Source::Text(..) => "TEXT",
            };
            format!("\"{}\" {sort}", column.name)
        });
        let columns: Vec<String> = columns.collect();
        let schema = format!("CREATE TABLE x({})", columns.join(", "));
        let table = Table { base: ffi::sqlite3_vtab::default(), relation: Arc::clone(relation) };
        Ok((Cow::Owned(CString::new(schema)?), table))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let mut plan = Plan::default();
        let mut rows = self.relation.rows.max(1) as f64;
        let count = info.constraints().count();
        let is_binary: Vec<bool> =
            (0..count).map(|at| matches!(info.collation(at), Ok("BINARY"))).collect();
        for ((constraint, mut usage), is_binary) in info.constraints_and_usages().zip(is_binary) {
            let test = match constraint.operator() {
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => Test::Equal,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT => Test::Less,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => Test::AtMost,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT => Test::More,
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => Test::AtLeast,
                _ => continue,
            };
            // SQLite's own number of a row, -1, is our first column.
            let column = constraint.column().max(0) as usize;
            // Other collations compare texts in ways that only SQLite knows.
            if !constraint.is_usable() || !is_binary || column >= self.relation.columns.len() {
                continue;
            }
            plan.filters.push((column, test));
            usage.set_argv_index(plan.filters.len() as c_int);
            rows = match (column, test) {
                (0, Test::Equal) => 1.0,
                (_, Test::Equal) => (rows / 50.0).max(1.0),
                _ => (rows / 4.0).max(1.0),
            };
        }
        let order: Vec<(usize, bool)> = info
            .order_bys()
            .map(|row| (row.column().max(0) as usize, row.is_order_by_desc()))
            .collect();
        if !order.is_empty() {
            info.set_order_by_consumed(true);
            plan.order = order;
        }
        info.set_estimated_cost(rows);
        info.set_estimated_rows(rows as i64);
        info.set_idx_str(&plan.encode());
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor<'vtab>> {
        Ok(Cursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            relation: Arc::clone(&self.relation),
            rows: Rows::All(0),
            at: 0,
            current: None,
            table: PhantomData,
        })
    }
}

#[repr(C)]
struct Cursor<'vtab> {
    base: ffi::sqlite3_vtab_cursor,
    relation: Arc<Relation>,
    rows: Rows,
    at: usize,
    current: Option<usize>,
    table: PhantomData<&'vtab Table>,
}

impl Cursor<'_> {
    fn forget_rows(&mut self) {
        give_memory(self.rows.bytes());
        self.rows = Rows::All(0);
        self.current = None;
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        self.forget_rows();
    }
}

fn failure(code: c_int) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), None)
}

// SAFETY: `repr(C)` with `base` first, as the trait asks for.
unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, _: c_int, plan: Option<&str>, args: &Filters<'_>) -> Result<()> {
        let plan = Plan::decode(plan.unwrap_or_default()).ok_or(Error::InvalidQuery)?;
        let values = args.iter().map(|value| match value {
            ValueRef::Integer(value) => Bound::Int(value),
            ValueRef::Text(text) => {
                std::str::from_utf8(text).map_or(Bound::Other, |text| Bound::Text(text.to_owned()))
            }
            ValueRef::Null => Bound::Null,
            ValueRef::Real(_) | ValueRef::Blob(_) => Bound::Other,
        });
        let filters = plan.filters.iter().zip(values);
        let filters = filters.map(|(&(column, test), value)| Filter { column, test, value });
        let filters: Vec<Filter> = filters.collect();
        self.forget_rows();
        let stopped = || failure(ffi::SQLITE_INTERRUPT);
        let rows = self.relation.select(&filters, &plan.order).ok_or_else(stopped)?;
        if !take_memory(rows.bytes()) {
            return Err(failure(ffi::SQLITE_NOMEM));
        }
        self.rows = rows;
        self.at = 0;
        self.current = self.rows.get(0);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        self.current = self.rows.get(self.at);
        Ok(())
    }

    fn eof(&self) -> bool {
        self.current.is_none()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let Some(row) = self.current else { return context.set_result(Null) };
        match &self.relation.columns[column as usize].source {
            Source::Int(value) => context.set_result(value(row)),
            Source::Real(value) => context.set_result(value(row)),
            Source::Text(code, dictionary) => context.set_result(dictionary.text(code(row))),
        }
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.current.unwrap_or(0) as i64)
    }
}
