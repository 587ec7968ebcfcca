"""A fleet as a dataset of Parquet files.

docs/reference/python/fleet.md is the contract, `VERSION` its version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _native
from .files import brought_near, in_words, joined, written_whole
from .run import Status, Tables, timed
from .._traces.table import Table, _library
from .._traces.trace import open

if TYPE_CHECKING:
    from .fleet import Fleet

#: Goes up when a column changes its meaning or type, or goes; not when one is added.
VERSION = "1"
#: What says so, in each file and in the manifest.
VERSION_KEY = "spanwise.fleet.version"
MANIFEST = "_spanwise_fleet.json"

_INT, _TEXT, _FLAG = "int64", "string", "bool"

#: The columns of each table, in order; `rank` is the name of the folder.
COLUMNS: dict[str, dict[str, str]] = {
    "ranks": {
        "file_number": _INT,
        "file": _TEXT,
        "error": _TEXT,
        "world_size": _INT,
        "spans": _INT,
        "steps": _INT,
        "base_ns": _INT,
        "start_ns": _INT,
        "end_ns": _INT,
        "compute_ns": _INT,
        "exposed_communication_ns": _INT,
        "exposed_copy_ns": _INT,
        "idle_ns": _INT,
        "gpu_work_ns": _INT,
        "host_working_ns": _INT,
        "host_waiting_ns": _INT,
        "collectives_ns": _INT,
    },
    "calls": {
        "file_number": _INT,
        "start_ns": _INT,
        "end_ns": _INT,
        "op": _TEXT,
        "group": _TEXT,
        "message_bytes": _INT,
    },
    "activities": {
        "file_number": _INT,
        "is_gpu": _FLAG,
        "name": _TEXT,
        "line": _TEXT,
        "total_ns": _INT,
    },
    "breakdown": {
        "file_number": _INT,
        "device": _TEXT,
        "step": _TEXT,
        "window_ns": _INT,
        "compute_ns": _INT,
        "exposed_communication_ns": _INT,
        "exposed_copy_ns": _INT,
        "idle_ns": _INT,
        "busy_ns": _INT,
        "communication_ns": _INT,
        "copy_ns": _INT,
        "host_and_device_ns": _INT,
        "host_only_ns": _INT,
        "device_only_ns": _INT,
        "neither_ns": _INT,
    },
    "findings": {
        "file_number": _INT,
        "finding": _TEXT,
        "title": _TEXT,
        "evidence": _TEXT,
        "advice": _TEXT,
        "about_ns": _INT,
        "gain_max_ns": _INT,
        "from_ns": _INT,
        "to_ns": _INT,
        "line": _TEXT,
    },
    "spans": {
        "file_number": _INT,
        "start_ns": _INT,
        "dur_ns": _INT,
        "name": _TEXT,
        "category": _TEXT,
        "track": _INT,
        "parent": _INT,
        "launch": _INT,
    },
    "kernels": {
        "file_number": _INT,
        "span": _INT,
        "start_ns": _INT,
        "dur_ns": _INT,
        "name": _TEXT,
        "kind": _TEXT,
        "device": _TEXT,
        "stream": _TEXT,
        "python_line": _TEXT,
        "operator": _TEXT,
        "origin": _TEXT,
        "launch": _INT,
    },
    "samples": {
        "file_number": _INT,
        "time_ns": _INT,
        "process": _TEXT,
        "process_name": _TEXT,
        "thread": _TEXT,
        "thread_name": _TEXT,
        "cpu": _INT,
        "event": _TEXT,
        "unit": _TEXT,
        "weight": _INT,
        "cpu_ns": _INT,
        "function": _TEXT,
        "file": _TEXT,
        "line": _INT,
        "mapping": _TEXT,
        "stack": _TEXT,
    },
    "thread_states": {
        "file_number": _INT,
        "start_ns": _INT,
        "dur_ns": _INT,
        "process": _TEXT,
        "process_name": _TEXT,
        "thread": _TEXT,
        "thread_name": _TEXT,
        "cpu": _INT,
        "state": _TEXT,
        "wait_reason": _TEXT,
        "idle": _FLAG,
        "stack": _TEXT,
        "waker": _TEXT,
        "waker_stack": _TEXT,
        "lock": _INT,
    },
}

#: Small, and known already; the others are read from the traces.
REDUCED = ("ranks", "calls", "activities", "breakdown", "findings")

#: What a rank that was not recorded has nothing of: no file then. The value is the table of a
#: trace whose rows can be read alone.
_RESOLVED = {"samples": "resolved_samples", "thread_states": "resolved_thread_states"}

#: "None" among row numbers.
_NO_ROW = 4294967295


class _Job(NamedTuple):
    """One file whose tables are to be written by a worker."""

    number: int
    rank: int | None
    file: str
    use_index: bool
    storage: Mapping[str, Any]
    folder: str
    tables: tuple[str, ...]


def write(fleet: Fleet, folder: str, tables: Iterable[str] | None) -> list[str]:
    """Writes tables of a fleet; gives the names of the files."""
    _library("pyarrow.parquet")
    names = REDUCED if tables is None else tuple(tables)
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"no table {name}; there are {', '.join(COLUMNS)}")
    written: list[str] = []
    for name in names:
        if name in REDUCED:
            written += _write_reduced(fleet, folder, name)
    read = tuple(name for name in names if name not in REDUCED)
    if read:
        written += _write_read(fleet, folder, read)
    _write_manifest(fleet, folder, names)
    return written


def _write_reduced(fleet: Fleet, folder: str, name: str) -> list[str]:
    """A table that is here, cut into files."""
    table = fleet.section(name) if name in ("breakdown", "findings") else fleet._kept(name)
    numbers = table["file_number"]
    written = []
    start = 0
    while start < len(table):
        end = start
        while end < len(table) and numbers[end] == numbers[start]:
            end += 1
        part = table.slice(start, end - start)
        written.append(_write_part(part, name, folder, fleet._storage))
        start = end
    return written


def _write_read(fleet: Fleet, folder: str, names: tuple[str, ...]) -> list[str]:
    """Tables that are in the traces, written where those are read."""
    files = fleet.files()
    rows = zip(files["file_number"], files["rank"], files["file"], files["error"])
    jobs = [
        _Job(number, rank, file, fleet._index, fleet._storage, folder, names)
        for number, rank, file, error in rows
        if error is None
    ]
    if not jobs:
        return []
    statuses, tables = fleet._run(_write_file, jobs, _lost)
    errors = [status.error for status in statuses if status.error is not None]
    if errors:
        raise OSError(f"{len(errors)} of {len(jobs)} files were not written: {errors[0]}")
    return tables["written"]["file"]


def _write_file(job: _Job) -> tuple[Status, Tables]:
    return timed(_written_file, job)


def _written_file(job: _Job) -> tuple[str | None, Tables]:
    written = []
    try:
        with brought_near(job.file, job.storage) as path:
            trace = open(path, index=job.use_index, threads=1)
            for name in job.tables:
                found = trace._trace.table(_RESOLVED.get(name, name))
                if name in _RESOLVED and len(found) == 0:
                    continue
                table = _native.tag_table(found, job.number, job.rank)
                written.append(_write_part(Table(table), name, job.folder, job.storage))
    except Exception as reason:
        error = in_words(reason, job.file)
        return error, _lost(job, error)
    return None, {"written": Table(_native.make_table([("file", "string", written)]))}


def _lost(job: _Job, error: str) -> Tables:
    return {"written": Table(_native.make_table([("file", "string", [])]))}


def _write_part(table: Table, name: str, folder: str, storage: Mapping[str, Any]) -> str:
    """The rows of one file as a file of the dataset; gives its name."""
    first = table.head(1)
    rank, number = first["rank"], first["file_number"]
    # What readers of such datasets take for an unknown value.
    place = "__HIVE_DEFAULT_PARTITION__" if not rank or rank[0] is None else str(rank[0])
    part = f"part-{number[0] if number else 0}.parquet"
    path = joined(folder, name, f"rank={place}", part)
    parquet = _library("pyarrow.parquet")
    with written_whole(path, storage) as out:
        parquet.write_table(_promised(table, name), out, compression="zstd")
    return path


def _promised(table: Table, name: str) -> Any:
    """A table as the contract has it: its columns, its types, its version."""
    arrow = _library("pyarrow")
    have = arrow.table(table)
    types = {_INT: arrow.int64(), _TEXT: arrow.string(), _FLAG: arrow.bool_()}
    fields = [arrow.field(column, types[kind]) for column, kind in COLUMNS[name].items()]
    columns = []
    for field in fields:
        if field.name not in have.column_names:
            columns.append(arrow.nulls(have.num_rows, field.type))
            continue
        column = have[field.name]
        # Where tables have nulls, the number that stands for "none" elsewhere is none.
        if column.type == arrow.uint32() and name not in _RESOLVED:
            column = _without_no_row(column)
        columns.append(column.cast(field.type))
    metadata = {VERSION_KEY: VERSION, "spanwise.fleet.table": name}
    return arrow.Table.from_arrays(columns, schema=arrow.schema(fields, metadata=metadata))


def _without_no_row(column: Any) -> Any:
    compute = _library("pyarrow.compute")
    arrow = _library("pyarrow")
    none = arrow.scalar(_NO_ROW, column.type)
    return compute.if_else(compute.equal(column, none), arrow.scalar(None, column.type), column)


def _write_manifest(fleet: Fleet, folder: str, names: tuple[str, ...]) -> None:
    manifest = {
        VERSION_KEY: VERSION,
        "tables": {name: COLUMNS[name] for name in names},
        "files": len(fleet),
        "unread": [{"file": file, "error": error} for file, error in fleet.unread],
    }
    with written_whole(joined(folder, MANIFEST), fleet._storage) as out:
        out.write((json.dumps(manifest, indent=2) + "\n").encode())
