//! The tables of a trace as Arrow arrays over its own buffers.
//!
//! Nothing is copied: a column of Arrow holds the buffer of the trace, which may be a mapped
//! index, and keeps it alive. Such a map does not change, whatever happens to its file
//! (`spanwise_files::Frozen`). Names are dictionary columns: their row numbers over the strings
//! of the trace. Row numbers that stand for "none" stay 4294967295, as in the index: a bitmap
//! of those that are valid would be a copy.

use std::sync::Arc;

use arrow_array::types::{ArrowDictionaryKeyType, UInt16Type, UInt32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, PrimitiveArray, RecordBatch, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use spanwise_analyze::{Facts, Origin, work_rows};
use spanwise_model::{StrId, Trace, Track, TrackKind};

use super::observed;

pub(in crate::trace) type Columns = Vec<(&'static str, ArrayRef)>;

/// Those of which something is chosen or worked out: made once and kept.
pub(in crate::trace) const GATHERED: [&str; 4] = ["kernels", "span_stacks", "stacks", "samples"];

/// The tables that a trace hands over, by name.
pub(in crate::trace) fn table(
    facts: &Facts,
    name: &str,
) -> Option<Result<RecordBatch, ArrowError>> {
    let trace = facts.trace();
    if let Some(columns) = observed::table(facts, name) {
        // What is unknown in one trace is known in another: all have the same schema.
        let columns = columns.into_iter().map(|(name, column)| (name, column, true));
        return Some(RecordBatch::try_from_iter_with_nullable(columns));
    }
    let columns = match name {
        "spans" => spans(trace),
        "instants" => instants(trace),
        "counters" => counters(trace),
        "links" => links(trace),
        "tracks" => tracks(trace),
        "categories" => categories(trace),
        "strings" => vec![("text", Arc::new(strings(trace)) as ArrayRef)],
        "kernels" => gpu_work(facts),
        "span_stacks" => span_stacks(facts),
        _ => return None,
    };
    Some(RecordBatch::try_from_iter(columns))
}

pub(in crate::trace) fn strings(trace: &Trace) -> StringArray {
    let strings = trace.strings();
    let offsets = OffsetBuffer::new(strings.offsets().clone());
    // SAFETY: `Strings` is valid UTF-8 that is cut between characters, by its constructors; it is
    // memory of this process, never that of a file.
    unsafe { StringArray::new_unchecked(offsets, strings.bytes().clone(), None) }
}

/// Row numbers over values.
fn coded<K: ArrowDictionaryKeyType>(keys: &ScalarBuffer<K::Native>, values: ArrayRef) -> ArrayRef {
    let keys = PrimitiveArray::<K>::new(keys.clone(), None);
    // SAFETY: a finished trace has no row number without a row (I2, checked where it is made), and
    // its columns do not change after that.
    Arc::new(unsafe { DictionaryArray::<K>::new_unchecked(keys, values) })
}

pub(in crate::trace) fn named(trace: &Trace, keys: &ScalarBuffer<u32>) -> ArrayRef {
    coded::<UInt32Type>(keys, Arc::new(strings(trace)))
}

/// The source's names of categories, which pandas wants to be different from each other.
fn category_names(trace: &Trace) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(trace.categories().distinct_names(trace.strings())))
}

fn categorised(trace: &Trace, keys: &ScalarBuffer<u16>) -> ArrayRef {
    coded::<UInt16Type>(keys, category_names(trace))
}

pub(in crate::trace) fn integers(column: &ScalarBuffer<i64>) -> ArrayRef {
    Arc::new(Int64Array::new(column.clone(), None))
}

pub(in crate::trace) fn rows(column: &ScalarBuffer<u32>) -> ArrayRef {
    Arc::new(UInt32Array::new(column.clone(), None))
}

fn offsets(column: &ScalarBuffer<u64>) -> ArrayRef {
    Arc::new(UInt64Array::new(column.clone(), None))
}

fn spans(trace: &Trace) -> Columns {
    let spans = trace.spans();
    vec![
        ("start_ns", integers(spans.start_column())),
        ("dur_ns", integers(spans.dur_column())),
        ("name", named(trace, spans.name_column())),
        ("category", categorised(trace, spans.category_column())),
        ("track", rows(spans.track_column())),
        ("parent", rows(spans.parent_column())),
        ("launch", rows(spans.launch_column())),
        ("offset", offsets(spans.offset_column())),
    ]
}

fn instants(trace: &Trace) -> Columns {
    let instants = trace.instants();
    vec![
        ("time_ns", integers(&instants.time)),
        ("name", named(trace, &instants.name)),
        ("category", categorised(trace, &instants.category)),
        ("track", rows(&instants.track)),
        ("offset", offsets(&instants.offset)),
    ]
}

fn counters(trace: &Trace) -> Columns {
    let counters = trace.counters();
    vec![
        ("time_ns", integers(&counters.time)),
        ("track", rows(&counters.track)),
        ("value", Arc::new(Float64Array::new(counters.value.clone(), None))),
    ]
}

fn links(trace: &Trace) -> Columns {
    let links = trace.links();
    vec![
        ("from", rows(&links.from)),
        ("to", rows(&links.to)),
        ("category", categorised(trace, &links.category)),
    ]
}

/// Few rows: made of the structs that the trace holds.
fn tracks(trace: &Trace) -> Columns {
    let all = trace.tracks().rows();
    let text = |of: fn(&Track) -> StrId| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            all.iter().map(|track| trace.strings().get(of(track))),
        ))
    };
    let kinds = all.iter().map(|track| track_text(track.kind));
    let sort: Vec<i64> = all.iter().map(|track| track.sort_index).collect();
    let end = |at: fn(&Track) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(all.iter().map(at)))
    };
    vec![
        ("track", Arc::new(UInt32Array::from_iter_values(0..all.len() as u32))),
        ("kind", Arc::new(StringArray::from_iter_values(kinds))),
        ("process", text(|track| track.process)),
        ("thread", text(|track| track.thread)),
        ("process_name", text(|track| track.process_name)),
        ("thread_name", text(|track| track.thread_name)),
        ("sort_index", Arc::new(Int64Array::from(sort))),
        ("spans_from", end(|track| track.spans.start)),
        ("spans_to", end(|track| track.spans.end)),
    ]
}

fn categories(trace: &Trace) -> Columns {
    let kinds = trace.categories().rows().iter().map(|row| row.kind.text());
    vec![
        ("category", category_names(trace)),
        ("kind", Arc::new(StringArray::from_iter_values(kinds))),
    ]
}

/// Kernels, copies and fills with what launched them: a choice of spans, so a copy.
fn gpu_work(facts: &Facts) -> Columns {
    let trace = facts.trace();
    let work = work_rows(facts);
    let spans = trace.spans();
    let track = |row: usize| trace.tracks().get(spans.track(work[row].span));
    let count = work.len();
    let times = |of: &dyn Fn(usize) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..count).map(of)))
    };
    let numbers = |of: &dyn Fn(usize) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values((0..count).map(of)))
    };
    let texts = |of: &dyn Fn(usize) -> Option<StrId>| texts(facts, (0..count).map(of));
    let words = |of: &dyn Fn(usize) -> &'static str| -> ArrayRef {
        Arc::new((0..count).map(of).collect::<DictionaryArray<UInt16Type>>())
    };
    vec![
        ("span", numbers(&|row| work[row].span.0)),
        ("start_ns", times(&|row| spans.start(work[row].span))),
        ("dur_ns", times(&|row| spans.dur(work[row].span))),
        ("name", texts(&|row| Some(spans.name(work[row].span)))),
        ("kind", words(&|row| trace.kind(work[row].span).text())),
        ("device", texts(&|row| Some(track(row).process))),
        ("stream", texts(&|row| Some(track(row).thread))),
        ("python_line", texts(&|row| work[row].line)),
        ("operator", texts(&|row| work[row].operator)),
        ("origin", words(&|row| origin_text(work[row].origin))),
        ("launch", numbers(&|row| spans.launch(work[row].span).map_or(u32::MAX, |call| call.0))),
    ]
}

/// Self time of threads by stack of spans.
fn span_stacks(facts: &Facts) -> Columns {
    let rows = spanwise_analyze::span_stacks(facts);
    let parents: UInt32Array = rows.iter().map(|row| row.parent).collect();
    let counts = rows.iter().map(|row| row.count as i64);
    vec![
        ("stack", Arc::new(UInt32Array::from_iter_values(0..rows.len() as u32))),
        ("parent", Arc::new(parents)),
        ("depth", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.depth)))),
        ("name", texts(facts, rows.iter().map(|row| Some(row.name)))),
        ("count", Arc::new(Int64Array::from_iter_values(counts))),
        ("self_ns", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.own_ns)))),
    ]
}

/// A dictionary column of names. Merged, so that no two texts are equal: pandas wants it so.
fn texts(facts: &Facts, ids: impl Iterator<Item = Option<StrId>>) -> ArrayRef {
    let names = facts.names();
    let mut builder = Texts::default();
    let mut key = |id| builder.key(names.merged(id), |id| names.text(id));
    let keys: UInt32Array = ids.map(|id| id.map(&mut key)).collect();
    // SAFETY: the keys are those of the values that the builder has counted.
    Arc::new(unsafe { DictionaryArray::<UInt32Type>::new_unchecked(keys, builder.finish()) })
}

/// The texts of a dictionary column, in order of first use.
#[derive(Default)]
struct Texts {
    keys: std::collections::HashMap<StrId, u32>,
    texts: Vec<String>,
}

impl Texts {
    fn key<'t>(&mut self, id: StrId, text: impl FnOnce(StrId) -> std::borrow::Cow<'t, str>) -> u32 {
        *self.keys.entry(id).or_insert_with(|| {
            self.texts.push(text(id).into_owned());
            self.texts.len() as u32 - 1
        })
    }

    fn finish(self) -> ArrayRef {
        Arc::new(StringArray::from(self.texts))
    }
}

fn track_text(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Thread => "thread",
        TrackKind::GpuStream => "gpu_stream",
        TrackKind::Async => "async",
        TrackKind::Counter => "counter",
        TrackKind::Profiler => "profiler",
    }
}

fn origin_text(origin: Origin) -> &'static str {
    match origin {
        Origin::Python => "python",
        Origin::BackwardOf => "backward_of",
        Origin::NoPython => "no_python",
        Origin::NotRecorded => "not_recorded",
    }
}
