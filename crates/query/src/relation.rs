//! A table: columns over rows, filters and orders on them.
//!
//! Filters are loops over a column that give the rows which fulfill them. A column in whose order
//! rows are asked for, or one whose values are looked up again and again (the inner side of a
//! join), gets a permutation of the rows in its order, made once.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering as Atomic};
use std::sync::{Arc, OnceLock};

use crate::dictionary::{Dictionary, NO_TEXT};
use crate::running::must_stop_before;

/// Gives a number of a row; `None` is SQL's null.
type IntOf = Box<dyn Fn(usize) -> Option<i64> + Send + Sync>;
type RealOf = Box<dyn Fn(usize) -> f64 + Send + Sync>;
type CodeOf = Box<dyn Fn(usize) -> u32 + Send + Sync>;

/// Where the values of a column come from.
pub(crate) enum Source {
    Int(IntOf),
    Real(RealOf),
    /// Numbers of texts of a dictionary.
    Text(CodeOf, Arc<Dictionary>),
}

pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) source: Source,
    order: OnceLock<Vec<u32>>,
    lookups: AtomicU32,
}

impl Column {
    pub(crate) fn new(name: &'static str, about: &'static str, source: Source) -> Self {
        Column { name, about, source, order: OnceLock::new(), lookups: AtomicU32::new(0) }
    }

    /// A number that sorts as the value does; nothing for null, which sorts before all.
    fn key(&self, row: usize) -> Option<i64> {
        match &self.source {
            Source::Int(value) => value(row),
            // The bits of a float sort as it does, once those below zero are turned around.
            Source::Real(value) => {
                let bits = value(row).to_bits() as i64;
                Some(bits ^ (((bits >> 63) as u64) >> 1) as i64)
            }
            Source::Text(code, dictionary) => match code(row) {
                NO_TEXT => None,
                code => Some(i64::from(dictionary.rank(code))),
            },
        }
    }

    /// All rows in order of this column, then of rows.
    fn order(&self, rows: usize) -> &[u32] {
        self.order.get_or_init(|| {
            let mut keyed: Vec<(Option<i64>, u32)> =
                (0..rows).map(|row| (self.key(row), row as u32)).collect();
            keyed.sort_unstable();
            keyed.into_iter().map(|(_, row)| row).collect()
        })
    }
}

/// A condition on one column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    pub(crate) column: usize,
    pub(crate) test: Test,
    pub(crate) value: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    Equal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// What a column is compared with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bound {
    Int(i64),
    Text(String),
    /// No comparison with it holds.
    Null,
    /// Something that only SQLite knows how to compare: it does.
    Other,
}

/// The rows that a question is about.
pub(crate) enum Rows {
    All(usize),
    Some(Vec<u32>),
}

impl Rows {
    fn len(&self) -> usize {
        match self {
            Rows::All(count) => *count,
            Rows::Some(rows) => rows.len(),
        }
    }

    /// What a list of rows takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Rows::All(_) => 0,
            Rows::Some(rows) => rows.capacity() * size_of::<u32>(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<usize> {
        match self {
            Rows::All(count) => (at < *count).then_some(at),
            Rows::Some(rows) => rows.get(at).map(|&row| row as usize),
        }
    }
}

pub(crate) struct Relation {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) rows: usize,
    /// The first is `id`: the number of the row.
    pub(crate) columns: Vec<Column>,
    pub(crate) ascending: Option<Ascending>,
}

/// A column of numbers by which the rows of each run ascend: what lies between two bounds is found
/// without reading every row.
pub(crate) struct Ascending {
    pub(crate) column: usize,
    pub(crate) runs: Vec<Range<usize>>,
}

/// A column is searched so often before its order is made.
const LOOKUPS_MAX: u32 = 3;

impl Relation {
    /// Rows that may fulfill the filters, in the order that is asked for. SQLite checks each
    /// condition again, so a filter that cannot be judged here may be passed over. Nothing where
    /// the query must stop: all this is one step of SQLite's, between whose steps it is asked.
    pub(crate) fn select(&self, filters: &[Filter], order: &[(usize, bool)]) -> Option<Rows> {
        // Rows without a parent or a launch are many: each would be compared with all others.
        if filters.iter().any(|filter| filter.value == Bound::Null) {
            return Some(Rows::Some(Vec::new()));
        }
        if let Some(rows) = self.by_id(filters) {
            return Some(Rows::Some(rows));
        }
        let mut rows = self.narrowed(filters);
        if must_stop_before(rows.len()) {
            return None;
        }
        for filter in filters {
            rows = self.filtered(rows, filter);
        }
        Some(self.ordered(rows, order))
    }

    /// At most one row, where the filters say which.
    fn by_id(&self, filters: &[Filter]) -> Option<Vec<u32>> {
        let id = filters.iter().find_map(|filter| {
            match (filter.column, filter.test, &filter.value) {
                (0, Test::Equal, Bound::Int(id)) => Some(*id),
                _ => None,
            }
        })?;
        let row = usize::try_from(id).ok().filter(|&row| row < self.rows);
        Some(row.into_iter().map(|row| row as u32).collect())
    }

    /// The fewest rows that are known without reading each.
    fn narrowed(&self, filters: &[Filter]) -> Rows {
        let ranges = self.by_runs(filters);
        let count = |ranges: &[Range<usize>]| ranges.iter().map(Range::len).sum::<usize>();
        match (ranges, self.by_lookup(filters)) {
            (Some(ranges), Rows::Some(rows)) if rows.len() <= count(&ranges) => Rows::Some(rows),
            (Some(ranges), _) => {
                let mut rows = Vec::with_capacity(count(&ranges));
                rows.extend(ranges.into_iter().flatten().map(|row| row as u32));
                Rows::Some(rows)
            }
            (None, rows) => rows,
        }
    }

    /// The part of each run that fulfils the filters on the column it ascends by.
    fn by_runs(&self, filters: &[Filter]) -> Option<Vec<Range<usize>>> {
        let ascending = self.ascending.as_ref()?;
        let column = &self.columns[ascending.column];
        let (mut least, mut most) = (i64::MIN, i64::MAX);
        for filter in filters.iter().filter(|filter| filter.column == ascending.column) {
            let Bound::Int(bound) = filter.value else { continue };
            match filter.test {
                Test::Equal => (least, most) = (least.max(bound), most.min(bound)),
                Test::Less => most = most.min(bound.checked_sub(1)?),
                Test::AtMost => most = most.min(bound),
                Test::More => least = least.max(bound.checked_add(1)?),
                Test::AtLeast => least = least.max(bound),
            }
        }
        if (least, most) == (i64::MIN, i64::MAX) {
            return None;
        }
        let parts = ascending.runs.iter().map(|run| {
            let begin = first_row(run.clone(), |row| column.key(row) >= Some(least));
            let end = first_row(begin..run.end, |row| column.key(row) > Some(most));
            begin..end
        });
        Some(parts.collect())
    }

    /// The rows of one value of a column, which is looked up again and again.
    fn by_lookup(&self, filters: &[Filter]) -> Rows {
        for filter in filters.iter().filter(|filter| filter.test == Test::Equal) {
            let column = &self.columns[filter.column];
            let is_often = column.lookups.fetch_add(1, Atomic::Relaxed) >= LOOKUPS_MAX;
            let Some(key) = column.key_of(&filter.value).filter(|_| is_often) else { continue };
            let order = column.order(self.rows);
            let key = Some(key);
            let begin = order.partition_point(|&row| column.key(row as usize) < key);
            let end = order.partition_point(|&row| column.key(row as usize) <= key);
            return Rows::Some(order[begin..end].to_vec());
        }
        Rows::All(self.rows)
    }

    fn filtered(&self, rows: Rows, filter: &Filter) -> Rows {
        let column = &self.columns[filter.column];
        match (&column.source, &filter.value) {
            (Source::Int(value), Bound::Int(bound)) => kept(rows, |row| {
                value(row).is_some_and(|value| filter.test.holds(value.cmp(bound)))
            }),
            (Source::Text(code, dictionary), Bound::Text(bound)) if filter.test == Test::Equal => {
                match dictionary.find(bound) {
                    Some(wanted) => kept(rows, |row| code(row) == wanted),
                    None => Rows::Some(Vec::new()),
                }
            }
            _ => rows,
        }
    }

    fn ordered(&self, rows: Rows, order: &[(usize, bool)]) -> Rows {
        let mut keyed = match (rows, order) {
            (rows, []) => return rows,
            (Rows::All(count), [(column, is_descending)]) => {
                let order = self.columns[*column].order(count);
                return Rows::Some(match is_descending {
                    false => order.to_vec(),
                    true => order.iter().rev().copied().collect(),
                });
            }
            (Rows::All(count), _) => (0..count as u32).collect(),
            (Rows::Some(rows), _) => rows,
        };
        // Each sort keeps the order of the ones before it among equals.
        for &(column, is_descending) in order.iter().rev() {
            let key = |row: &u32| self.columns[column].key(*row as usize);
            match is_descending {
                false => keyed.sort_by_cached_key(key),
                true => keyed.sort_by_cached_key(|row| std::cmp::Reverse(key(row))),
            }
        }
        Rows::Some(keyed)
    }
}

impl Column {
    fn key_of(&self, bound: &Bound) -> Option<i64> {
        match (&self.source, bound) {
            (Source::Int(_), Bound::Int(value)) => Some(*value),
            (Source::Text(_, dictionary), Bound::Text(text)) => {
                dictionary.find(text).map(|number| i64::from(dictionary.rank(number)))
            }
            _ => None,
        }
    }
}

impl Test {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Test::Equal => ordering.is_eq(),
            Test::Less => ordering.is_lt(),
            Test::AtMost => ordering.is_le(),
            Test::More => ordering.is_gt(),
            Test::AtLeast => ordering.is_ge(),
        }
    }
}

/// The first row of those that fulfils a condition, which all behind it do too.
fn first_row(rows: Range<usize>, is_reached: impl Fn(usize) -> bool) -> usize {
    let (mut begin, mut end) = (rows.start, rows.end);
    while begin < end {
        let middle = begin + (end - begin) / 2;
        match is_reached(middle) {
            true => end = middle,
            false => begin = middle + 1,
        }
    }
    begin
}

fn kept(rows: Rows, keeps: impl Fn(usize) -> bool) -> Rows {
    Rows::Some(match rows {
        Rows::All(count) => (0..count as u32).filter(|&row| keeps(row as usize)).collect(),
        Rows::Some(mut rows) => {
            rows.retain(|&row| keeps(row as usize));
            rows
        }
    })
}
