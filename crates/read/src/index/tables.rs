//! The columns of a trace, as Arrow files and back.

use std::io::{self, BufWriter, Write};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt8Array};
use arrow_array::{UInt16Array, UInt32Array, UInt64Array};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_ipc::{MetadataVersion, root_as_footer, root_as_message};
use spanwise_files::FileBytes;
use spanwise_files::{Access, Folder, Frozen, Mapping};
use spanwise_model::{
    ArgsSource, Categories, Category, Column, Counters, Instants, Links, Notices, Parts, SpanKind,
    Spans, StrId, Strings, Trace, Track, TrackKind, Tracks, map_indices,
};

use super::manifest::{ColumnPlace, Manifest, TablePlace};
use super::observed;

/// Pieces of this size are summed up side by side.
const CHECKSUM_BYTES: usize = 4 << 20;

/// Writes all tables into `folder`.
pub(super) fn write(folder: &Folder, trace: &Trace) -> io::Result<Vec<TablePlace>> {
    let write_table = |(name, columns): (&str, NamedColumns)| {
        let file = folder.create_file(&file_name(name))?;
        encode(&columns, BufWriter::new(&file))?;
        place(name, &columns, Mapping::of(&file, Access::Everywhere)?.as_ref())
    };
    all_tables(trace).into_iter().map(write_table).collect()
}

/// All tables as bytes, for tests that change them.
pub(super) fn to_memory(trace: &Trace) -> io::Result<Vec<(TablePlace, Vec<u8>)>> {
    let encode_table = |(name, columns): (&str, NamedColumns)| {
        let mut bytes = Vec::new();
        encode(&columns, &mut bytes)?;
        Ok((place(name, &columns, &bytes)?, bytes))
    };
    all_tables(trace).into_iter().map(encode_table).collect()
}

fn all_tables(trace: &Trace) -> Vec<(&'static str, NamedColumns)> {
    let mut tables = vec![
        ("strings", strings_table(trace)),
        ("categories", categories_table(trace)),
        ("tracks", tracks_table(trace)),
        ("spans", spans_table(trace)),
        ("instants", instants_table(trace)),
        ("counters", counters_table(trace)),
        ("links", links_table(trace)),
    ];
    tables.extend(observed::tables(trace));
    tables
}

fn file_name(table: &str) -> String {
    format!("{table}.arrow")
}

pub(super) type NamedColumns = Vec<(&'static str, ArrayRef)>;

fn strings_table(trace: &Trace) -> NamedColumns {
    let strings = trace.strings();
    let offsets = OffsetBuffer::new(strings.offsets().clone());
    vec![("text", Arc::new(StringArray::new(offsets, strings.bytes().clone(), None)))]
}

fn categories_table(trace: &Trace) -> NamedColumns {
    let rows = trace.categories().rows();
    let name: UInt32Array = rows.iter().map(|row| Some(row.name.0)).collect();
    let kind: UInt8Array = rows.iter().map(|row| Some(row.kind as u8)).collect();
    vec![("name", Arc::new(name)), ("kind", Arc::new(kind))]
}

fn tracks_table(trace: &Trace) -> NamedColumns {
    let rows = trace.tracks().rows();
    let text = |of: fn(&Track) -> StrId| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(of(row).0)).collect::<UInt32Array>())
    };
    let kind: UInt8Array = rows.iter().map(|row| Some(row.kind as u8)).collect();
    let sort: Int64Array = rows.iter().map(|row| Some(row.sort_index)).collect();
    let spans_end: UInt32Array = rows.iter().map(|row| Some(row.spans.end)).collect();
    vec![
        ("kind", Arc::new(kind)),
        ("process", text(|row| row.process)),
        ("thread", text(|row| row.thread)),
        ("process_name", text(|row| row.process_name)),
        ("thread_name", text(|row| row.thread_name)),
        ("sort_index", Arc::new(sort)),
        ("spans_end", Arc::new(spans_end)),
    ]
}

fn spans_table(trace: &Trace) -> NamedColumns {
    let spans = trace.spans();
    vec![
        ("start_ns", Arc::new(Int64Array::new(spans.start_column().clone(), None))),
        ("dur_ns", Arc::new(Int64Array::new(spans.dur_column().clone(), None))),
        ("name", Arc::new(UInt32Array::new(spans.name_column().clone(), None))),
        ("category", Arc::new(UInt16Array::new(spans.category_column().clone(), None))),
        ("track", Arc::new(UInt32Array::new(spans.track_column().clone(), None))),
        ("parent", Arc::new(UInt32Array::new(spans.parent_column().clone(), None))),
        ("launch", Arc::new(UInt32Array::new(spans.launch_column().clone(), None))),
        ("offset", Arc::new(UInt64Array::new(spans.offset_column().clone(), None))),
    ]
}

fn instants_table(trace: &Trace) -> NamedColumns {
    let instants = trace.instants();
    vec![
        ("time_ns", Arc::new(Int64Array::new(instants.time.clone(), None))),
        ("name", Arc::new(UInt32Array::new(instants.name.clone(), None))),
        ("category", Arc::new(UInt16Array::new(instants.category.clone(), None))),
        ("track", Arc::new(UInt32Array::new(instants.track.clone(), None))),
        ("offset", Arc::new(UInt64Array::new(instants.offset.clone(), None))),
    ]
}

fn counters_table(trace: &Trace) -> NamedColumns {
    let counters = trace.counters();
    vec![
        ("time_ns", Arc::new(Int64Array::new(counters.time.clone(), None))),
        ("track", Arc::new(UInt32Array::new(counters.track.clone(), None))),
        ("value", Arc::new(Float64Array::new(counters.value.clone(), None))),
    ]
}

fn links_table(trace: &Trace) -> NamedColumns {
    let links = trace.links();
    vec![
        ("from", Arc::new(UInt32Array::new(links.from.clone(), None))),
        ("to", Arc::new(UInt32Array::new(links.to.clone(), None))),
        ("category", Arc::new(UInt16Array::new(links.category.clone(), None))),
    ]
}

/// Writes one table as an Arrow file.
fn encode(columns: &NamedColumns, out: impl Write) -> io::Result<()> {
    let batch = RecordBatch::try_from_iter(columns.iter().cloned()).map_err(io::Error::other)?;
    // Aligned to 64 bytes, so that a mapped column may be used where it lies.
    let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5);
    let options = options.map_err(io::Error::other)?;
    let mut writer = FileWriter::try_new_with_options(out, &batch.schema(), options)
        .map_err(io::Error::other)?;
    writer.write(&batch).and_then(|()| writer.finish()).map_err(io::Error::other)
}

/// What there is to know about a table that was just written.
fn place(name: &str, columns: &NamedColumns, bytes: &[u8]) -> io::Result<TablePlace> {
    // Arrow keeps text in two buffers: where each one ends, and the characters.
    let names: Vec<&str> = match name {
        "strings" => vec!["offsets", "bytes"],
        _ => columns.iter().map(|&(name, _)| name).collect(),
    };
    let places = value_buffers(bytes).ok_or_else(|| io::Error::other("unexpected layout"))?;
    let column_places = names.iter().zip(places).map(|(&name, (offset, bytes))| ColumnPlace {
        name: name.to_owned(),
        offset,
        bytes,
    });
    Ok(TablePlace {
        file: file_name(name),
        bytes: bytes.len() as u64,
        checksum: checksum(bytes, 1),
        rows: columns.first().map_or(0, |(_, column)| column.len() as u64),
        columns: column_places.collect(),
    })
}

/// Where the buffers of the one record batch lie in a file that we just wrote.
/// Validity buffers are empty there, since no column has nulls.
fn value_buffers(file: &[u8]) -> Option<Vec<(u64, u64)>> {
    let length_at = file.len().checked_sub(10)?;
    let length = u32::from_le_bytes(file[length_at..length_at + 4].try_into().ok()?) as usize;
    let footer = root_as_footer(file.get(length_at.checked_sub(length)?..length_at)?).ok()?;
    let block = footer.recordBatches()?.iter().next()?;
    let message_at = block.offset() as usize;
    let body_at = message_at + block.metaDataLength() as usize;
    // The message follows a marker and its own length, four bytes each.
    let message = root_as_message(file.get(message_at + 8..body_at)?).ok()?;
    let batch = message.header_as_record_batch()?;
    let nodes = batch.nodes()?.len();
    let buffers: Vec<(u64, u64)> = batch
        .buffers()?
        .iter()
        .map(|buffer| (body_at as u64 + buffer.offset() as u64, buffer.length() as u64))
        .collect();
    // Each column has a validity buffer first; text has two buffers behind it.
    let per_column = buffers.len().checked_div(nodes)?;
    let values = buffers.chunks(per_column).flat_map(|column| column[1..].iter().copied());
    Some(values.collect())
}

pub(super) fn checksum(bytes: &[u8], threads: usize) -> u32 {
    let pieces: Vec<&[u8]> = bytes.chunks(CHECKSUM_BYTES).collect();
    let sums = map_indices(pieces.len(), threads, |index| {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(pieces[index]);
        hasher
    });
    let mut all = crc32fast::Hasher::new();
    sums.iter().for_each(|sum| all.combine(sum));
    all.finalize()
}

/// A table of a folder as it is now, whatever is done to its file later: what is checked once
/// stays right.
pub(super) fn freeze_table(folder: &Folder, file_name: &str) -> Result<FileBytes, String> {
    let frozen = folder.open_trusted_file(file_name).and_then(Frozen::of);
    frozen.map(FileBytes::frozen).map_err(|error| format!("{file_name}: {error}"))
}

/// Makes a trace of tables, which `bytes_of` gives by their file name; checks
/// everything about them.
pub(super) fn read(
    bytes_of: impl Fn(&str) -> Result<FileBytes, String>,
    manifest: Manifest,
    args: Box<dyn ArgsSource>,
    threads: usize,
) -> Result<Trace, String> {
    let known = |name: &str| Table::open(&bytes_of, &manifest.tables, name, threads);
    let table = |name: &str| known(name)?.ok_or_else(|| format!("it has no table {name}"));
    let (strings, categories, tracks) = (table("strings")?, table("categories")?, table("tracks")?);
    let (spans, instants) = (table("spans")?, table("instants")?);
    let (counters, links) = (table("counters")?, table("links")?);
    let parts = Parts {
        strings: read_strings(&strings)?,
        categories: read_categories(&categories)?,
        tracks: read_tracks(&tracks)?,
        spans: Spans::from_columns(
            spans.column("start_ns", 0)?,
            spans.column("dur_ns", 0)?,
            spans.column("name", 0)?,
            spans.column("category", 0)?,
            spans.column("track", 0)?,
            spans.column("parent", 0)?,
            spans.column("launch", 0)?,
            spans.column("offset", 0)?,
        ),
        instants: Instants {
            time: instants.column("time_ns", 0)?,
            name: instants.column("name", 0)?,
            category: instants.column("category", 0)?,
            track: instants.column("track", 0)?,
            offset: instants.column("offset", 0)?,
        },
        counters: Counters {
            time: counters.column("time_ns", 0)?,
            track: counters.column("track", 0)?,
            value: counters.column("value", 0)?,
        },
        links: Links {
            from: links.column("from", 0)?,
            to: links.column("to", 0)?,
            category: links.column("category", 0)?,
        },
        observed: observed::read(known)?,
        info: manifest.summary.info,
        notices: manifest.summary.notices.into_iter().collect::<Notices>(),
        args: Some(args),
    };
    Trace::from_parts(parts).map_err(|violation| violation.to_string())
}

/// Copied, since they are few: that they are UTF-8 is checked once and relied on ever after, so it
/// must not rest on what a file system promises.
fn read_strings(table: &Table<'_>) -> Result<Strings, String> {
    let offsets: Column<i32> = table.column("offsets", 1)?;
    let bytes = table.buffer("bytes")?;
    let offsets = Column::from(offsets.to_vec());
    Strings::from_buffers(offsets, Buffer::from_slice_ref(bytes.as_slice()))
}

fn read_categories(table: &Table<'_>) -> Result<Categories, String> {
    let names: Column<u32> = table.column("name", 0)?;
    let kinds: Column<u8> = table.column("kind", 0)?;
    let rows = names.iter().zip(kinds.iter()).map(|(&name, &kind)| {
        let kind = SpanKind::ALL.get(usize::from(kind)).ok_or("an unknown kind of span")?;
        Ok(Category { name: StrId(name), kind: *kind })
    });
    rows.collect::<Result<Vec<_>, String>>().map(Categories::new)
}

fn read_tracks(table: &Table<'_>) -> Result<Tracks, String> {
    let kinds: Column<u8> = table.column("kind", 0)?;
    let process: Column<u32> = table.column("process", 0)?;
    let thread: Column<u32> = table.column("thread", 0)?;
    let process_name: Column<u32> = table.column("process_name", 0)?;
    let thread_name: Column<u32> = table.column("thread_name", 0)?;
    let sort_index: Column<i64> = table.column("sort_index", 0)?;
    let spans_end: Column<u32> = table.column("spans_end", 0)?;
    let mut start = 0;
    let rows = (0..kinds.len()).map(|row| {
        let kind = TrackKind::ALL.get(usize::from(kinds[row])).ok_or("an unknown kind of track")?;
        let spans = start..spans_end[row];
        start = spans.end;
        Ok(Track {
            kind: *kind,
            process: StrId(process[row]),
            thread: StrId(thread[row]),
            process_name: StrId(process_name[row]),
            thread_name: StrId(thread_name[row]),
            sort_index: sort_index[row],
            spans,
        })
    });
    rows.collect::<Result<Vec<_>, String>>().map(Tracks::new)
}

/// A table whose checksum is right.
pub(super) struct Table<'m> {
    place: &'m TablePlace,
    bytes: FileBytes,
}

impl<'m> Table<'m> {
    /// `None` where the index has no such table.
    fn open(
        bytes_of: impl Fn(&str) -> Result<FileBytes, String>,
        places: &'m [TablePlace],
        name: &str,
        threads: usize,
    ) -> Result<Option<Self>, String> {
        let file_name = file_name(name);
        let Some(place) = places.iter().find(|place| place.file == file_name) else {
            return Ok(None);
        };
        let bytes = bytes_of(&file_name)?;
        let is_long = bytes.as_ref().len() as u64 == place.bytes;
        if !is_long || checksum(bytes.as_ref(), threads) != place.checksum {
            return Err(format!("{file_name} is damaged"));
        }
        Ok(Some(Table { place, bytes }))
    }

    fn buffer(&self, name: &str) -> Result<Buffer, String> {
        let missing = || format!("{} has no column {name}", self.place.file);
        let column = self.place.columns.iter().find(|column| column.name == name);
        let column = column.ok_or_else(missing)?;
        let end = column.offset.checked_add(column.bytes).filter(|&end| end <= self.place.bytes);
        let bytes = self.bytes.as_ref();
        let (Some(_), Some(start)) = (end, NonNull::new(bytes.as_ptr().cast_mut())) else {
            return Err(format!("column {name} lies outside {}", self.place.file));
        };
        // SAFETY: the bytes are that many, are never written, stay where they are, and
        // live as long as the buffer, which holds them.
        let whole = unsafe {
            Buffer::from_custom_allocation(start, bytes.len(), Arc::new(self.bytes.clone()))
        };
        Ok(whole.slice_with_length(column.offset as usize, column.bytes as usize))
    }

    /// The values of a column: one per row, and `extra` more.
    pub(super) fn column<T: ArrowNativeType>(
        &self,
        name: &str,
        extra: u64,
    ) -> Result<Column<T>, String> {
        let buffer = self.buffer(name)?;
        let width = std::mem::size_of::<T>() as u64;
        let expected = self.place.rows.checked_add(extra).and_then(|rows| rows.checked_mul(width));
        if expected != Some(buffer.len() as u64)
            || !(buffer.as_ptr() as usize).is_multiple_of(width as usize)
        {
            return Err(format!("column {name} of {} has a wrong length", self.place.file));
        }
        Ok(ScalarBuffer::from(buffer))
    }
}
