//! What is kept of one rank as Arrow tables, which travel; and many ranks put together again.
//!
//! A rank is reduced where its file lies to four small tables: one row about it, its collectives,
//! what it spends time on, and the sections of the report that were asked for. `file_number` is
//! the place of the file in the list of files: two files may say the same rank, or none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use spanwise_analyze::{
    Activity, CollectiveKey, CollectiveOp, RankDigest, RankDigester, TotalNanos,
};
use spanwise_model::Nanos;
use spanwise_report::{
    RanksRequest, ReportRequest, UnreadFile, files_of, rank_of, ranks_report, report_sections,
};
use spanwise_write::{Document, Section, Top};

use super::error::{asked, of_report};
use super::opened::{Trace, rows_shown, table_of, written};
use super::tables::rows;
use super::worker::work;
use crate::trace::tables::concat::{text, with_constants};
use crate::trace::tables::table::{Table, of_arrow};

const RANKS: &str = "ranks";
const CALLS: &str = "calls";
const ACTIVITIES: &str = "activities";

type Named = (String, RecordBatch);

/// Reduces an opened trace to small tables: "ranks", "calls", "activities" and the sections of a
/// report that are named, each with the file's number and rank in every row.
#[pyfunction]
pub(crate) fn rank_tables(
    py: Python<'_>,
    trace: &Bound<'_, Trace>,
    file: String,
    file_number: i64,
    sections: Vec<String>,
) -> PyResult<Vec<(String, Table)>> {
    let held = Arc::clone(&trace.get().held);
    let batches = work(py, None, move |_| {
        held.ask(|facts| {
            let hint = rank_of(Path::new(&file));
            let digest = RankDigester::default().digest(facts, &file, hint);
            let spans = facts.trace().spans().len() as i64;
            let request = ReportRequest::new(facts, &file, Top::All, &sections);
            let found = if sections.is_empty() { Vec::new() } else { report_sections(&request) };
            taken_apart(&digest, file_number, spans, &found)
        })
    })?;
    let batches = batches.map_err(of_arrow)?;
    Ok(batches.into_iter().map(|(name, batch)| (name, Table::new(batch))).collect())
}

fn taken_apart(
    digest: &RankDigest,
    file_number: i64,
    spans: i64,
    sections: &[Section],
) -> Result<Vec<Named>, ArrowError> {
    let mut tables = vec![
        (RANKS, row(digest, spans)?),
        (CALLS, calls(digest)?),
        (ACTIVITIES, activities(digest)?),
    ];
    for section in sections {
        tables.push((section.key, rows::batch(section.table())?));
    }
    let named = |(name, batch): (&str, RecordBatch)| {
        Ok((name.to_owned(), tagged(&batch, file_number, digest.rank)?))
    };
    tables.into_iter().map(named).collect()
}

/// A table with the number of its file and the rank before its own columns, in each row.
fn tagged(
    batch: &RecordBatch,
    file_number: i64,
    rank: Option<i64>,
) -> Result<RecordBatch, ArrowError> {
    let rows = batch.num_rows();
    let numbers = Int64Array::from_value(file_number, rows);
    let ranks: Int64Array = std::iter::repeat_n(rank, rows).collect();
    with_constants(batch, &[("file_number", Arc::new(numbers)), ("rank", Arc::new(ranks))])
}

/// The same for any table.
#[pyfunction]
pub(crate) fn tag_table(
    table: &Bound<'_, Table>,
    file_number: i64,
    rank: Option<i64>,
) -> PyResult<Table> {
    let batch = tagged(table.get().batch(), file_number, rank).map_err(of_arrow)?;
    Ok(Table::titled(batch, table.get().about(), 0))
}

/// The traces in a folder.
#[pyfunction]
pub(crate) fn trace_files(folder: PathBuf) -> PyResult<Vec<String>> {
    let files = files_of(&[folder]).map_err(|error| of_report(&error))?;
    Ok(files.iter().map(|file| file.display().to_string()).collect())
}

/// Whole numbers of a rank: what a column is called, where a digest has it.
type Sum = (&'static str, fn(&RankDigest) -> TotalNanos, fn(&mut RankDigest, TotalNanos));

const SUMS: [Sum; 11] = [
    // First: the window counts from it.
    ("base_ns", |d| d.base_ns, |d, ns| d.base_ns = ns),
    ("start_ns", |d| d.window.0 - d.base_ns, |d, ns| d.window.0 = d.base_ns + ns),
    ("end_ns", |d| d.window.1 - d.base_ns, |d, ns| d.window.1 = d.base_ns + ns),
    ("compute_ns", |d| d.compute_ns, |d, ns| d.compute_ns = ns),
    (
        "exposed_communication_ns",
        |d| d.exposed_communication_ns,
        |d, ns| d.exposed_communication_ns = ns,
    ),
    ("exposed_copy_ns", |d| d.exposed_copy_ns, |d, ns| d.exposed_copy_ns = ns),
    ("idle_ns", |d| d.idle_ns, |d, ns| d.idle_ns = ns),
    ("gpu_work_ns", |d| d.gpu_work_ns, |d, ns| d.gpu_work_ns = ns),
    ("host_working_ns", |d| d.host_working_ns, |d, ns| d.host_working_ns = ns),
    ("host_waiting_ns", |d| d.host_waiting_ns, |d, ns| d.host_waiting_ns = ns),
    ("collectives_ns", |d| d.collective_ns, |d, ns| d.collective_ns = ns),
];

/// Three hundred years are the most that a column holds.
fn nanos(total: TotalNanos) -> Nanos {
    total.clamp(Nanos::MIN.into(), Nanos::MAX.into()) as Nanos
}

fn one(value: Option<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

fn row(digest: &RankDigest, spans: i64) -> Result<RecordBatch, ArrowError> {
    let file: ArrayRef = Arc::new(StringArray::from(vec![digest.file.as_str()]));
    let unknown: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let head = [
        ("file", file),
        ("error", unknown),
        ("world_size", one(digest.world_size)),
        ("spans", one(Some(spans))),
        ("steps", one(i64::try_from(digest.steps).ok())),
    ];
    let sums = SUMS.iter().map(|(name, of, _)| (*name, one(Some(nanos(of(digest))))));
    let columns = head.into_iter().chain(sums);
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
}

fn calls(digest: &RankDigest) -> Result<RecordBatch, ArrowError> {
    let calls = digest.calls();
    let times = |of: fn(&spanwise_analyze::CollectiveCall) -> Nanos| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(calls.iter().map(of)))
    };
    let ops: DictionaryArray<UInt32Type> =
        calls.iter().map(|call| Some(call.key.op.text())).collect();
    let groups: DictionaryArray<UInt32Type> =
        calls.iter().map(|call| Some(call.key.group.as_str())).collect();
    let bytes = calls.iter().map(|call| i64::try_from(call.key.bytes?).ok());
    let columns: [(&str, ArrayRef); 5] = [
        ("start_ns", times(|call| call.start)),
        ("end_ns", times(|call| call.end)),
        ("op", Arc::new(ops)),
        ("group", Arc::new(groups)),
        ("message_bytes", Arc::new(bytes.collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
}

fn activities(digest: &RankDigest) -> Result<RecordBatch, ArrowError> {
    let rows = || digest.activities();
    let names: DictionaryArray<UInt32Type> =
        rows().map(|(doing, _)| Some(doing.name.as_str())).collect();
    let lines: DictionaryArray<UInt32Type> =
        rows().map(|(doing, _)| doing.line.as_deref()).collect();
    let is_gpu: BooleanArray = rows().map(|(doing, _)| Some(doing.is_gpu)).collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("is_gpu", Arc::new(is_gpu)),
        ("name", Arc::new(names)),
        ("line", Arc::new(lines)),
        ("total_ns", Arc::new(Int64Array::from_iter_values(rows().map(|(_, ns)| ns)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
}

/// Columns by name, of the types that [`rank_tables`] gives them.
struct Columns<'b>(&'b RecordBatch);

impl<'b> Columns<'b> {
    fn get(&self, name: &str) -> PyResult<&'b ArrayRef> {
        let missing = || asked(&format!("not a table of ranks: no column {name}"));
        self.0.column_by_name(name).ok_or_else(missing)
    }

    fn numbers(&self, name: &str) -> PyResult<&'b Int64Array> {
        let other = || asked(&format!("not a table of ranks: {name} has no whole numbers"));
        self.get(name)?.as_primitive_opt::<Int64Type>().ok_or_else(other)
    }
}

fn known(array: &Int64Array, row: usize) -> Option<i64> {
    array.is_valid(row).then(|| array.value(row))
}

/// The rows of each file, by its number.
fn by_file(batch: &RecordBatch) -> PyResult<BTreeMap<i64, Vec<usize>>> {
    let mut rows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (row, file) in Columns(batch).numbers("file_number")?.values().iter().enumerate() {
        rows.entry(*file).or_default().push(row);
    }
    Ok(rows)
}

/// Calls or activities of all files, file by file.
type Listed<T> = BTreeMap<i64, Vec<T>>;

fn listed_calls(batch: &RecordBatch) -> PyResult<Listed<(CollectiveKey, Nanos, Nanos)>> {
    let columns = Columns(batch);
    let (ops, groups) = (columns.get("op")?, columns.get("group")?);
    let bytes = columns.numbers("message_bytes")?;
    let (starts, ends) = (columns.numbers("start_ns")?, columns.numbers("end_ns")?);
    let call = |&row: &usize| {
        let key = CollectiveKey {
            op: text(ops, row).and_then(CollectiveOp::parse).unwrap_or(CollectiveOp::Other),
            group: text(groups, row).unwrap_or_default().to_owned(),
            bytes: known(bytes, row).and_then(|bytes| u64::try_from(bytes).ok()),
        };
        (key, starts.value(row), ends.value(row))
    };
    let files = by_file(batch)?.into_iter();
    Ok(files.map(|(file, rows)| (file, rows.iter().map(call).collect())).collect())
}

fn listed_activities(batch: &RecordBatch) -> PyResult<Listed<(Activity, Nanos)>> {
    let columns = Columns(batch);
    let (names, lines) = (columns.get("name")?, columns.get("line")?);
    let totals = columns.numbers("total_ns")?;
    let other = || asked("not a table of ranks: is_gpu has no flags");
    let is_gpu = columns.get("is_gpu")?.as_boolean_opt().ok_or_else(other)?;
    let doing = |&row: &usize| {
        let name = text(names, row).unwrap_or_default().to_owned();
        let line = text(lines, row).map(str::to_owned);
        (Activity { is_gpu: is_gpu.value(row), name, line }, totals.value(row))
    };
    let files = by_file(batch)?.into_iter();
    Ok(files.map(|(file, rows)| (file, rows.iter().map(doing).collect())).collect())
}

/// What ranks show together; and the files that could not be read, with why.
struct Together {
    ranks: spanwise_analyze::Ranks,
    unread: Vec<UnreadFile>,
}

/// What the ranks of a run show together: tables for programs, a report for people.
#[pyclass(frozen, module = "spanwise._native")]
pub(crate) struct Ranks(Arc<Together>);

/// Puts the ranks of many files together, from the tables that [`rank_tables`] made of each.
#[pyfunction]
pub(crate) fn reduce_ranks(
    py: Python<'_>,
    ranks: &Bound<'_, Table>,
    calls: &Bound<'_, Table>,
    activities: &Bound<'_, Table>,
) -> PyResult<Ranks> {
    let batches = [ranks, calls, activities].map(|table| table.get().batch().clone());
    let together = work(py, None, move |_| put_together(&batches))??;
    Ok(Ranks(Arc::new(together)))
}

fn put_together([ranks, calls, activities]: &[RecordBatch; 3]) -> PyResult<Together> {
    let columns = Columns(ranks);
    let (files, errors) = (columns.get("file")?, columns.get("error")?);
    let numbers = columns.numbers("file_number")?;
    let (mut calls, mut activities) = (listed_calls(calls)?, listed_activities(activities)?);
    let digester = RankDigester::default();
    let (mut digests, mut unread) = (Vec::new(), Vec::new());
    for row in 0..ranks.num_rows() {
        let file = text(files, row).unwrap_or_default().to_owned();
        if let Some(error) = text(errors, row) {
            unread.push(UnreadFile { file, reason: error.to_owned() });
            continue;
        }
        let mut digest = RankDigest::default();
        for (name, _, set) in SUMS {
            set(&mut digest, columns.numbers(name)?.value(row).into());
        }
        digest.file = file;
        digest.rank = known(columns.numbers("rank")?, row);
        digest.world_size = known(columns.numbers("world_size")?, row);
        digest.steps = known(columns.numbers("steps")?, row).unwrap_or(0) as u64;
        let number = numbers.value(row);
        let calls = calls.remove(&number).unwrap_or_default().into_iter();
        let activities = activities.remove(&number).unwrap_or_default().into_iter();
        digests.push(digester.assemble(digest, calls, activities));
    }
    Ok(Together { ranks: spanwise_analyze::ranks(digests), unread })
}

impl Together {
    /// The sections that are named; the usual ones where none is.
    fn document(&self, named: &[String], top: Option<usize>) -> Document {
        ranks_report(&RanksRequest {
            ranks: &self.ranks,
            unread: &self.unread,
            top: rows_shown(top),
            sections: named,
        })
    }
}

#[pymethods]
impl Ranks {
    /// Collectives that were found on two ranks or more.
    #[getter]
    fn matched(&self) -> u64 {
        self.0.ranks.matched
    }

    /// A section about many ranks, such as "straggler": all rows or the first.
    #[pyo3(signature = (key, top = None))]
    fn section(&self, key: String, top: Option<usize>) -> PyResult<Table> {
        let document = self.0.document(std::slice::from_ref(&key), top);
        let missing = || asked(&format!("no section {key} about many ranks"));
        table_of(document.sections.first().ok_or_else(missing)?)
    }

    /// The report on many ranks, or the sections that are named.
    fn report(
        &self,
        py: Python<'_>,
        named: Vec<String>,
        top: Option<usize>,
        width: usize,
        format: String,
    ) -> PyResult<String> {
        let together = Arc::clone(&self.0);
        work(py, None, move |_| written(&together.document(&named, top), "Ranks", width, &format))?
    }
}
