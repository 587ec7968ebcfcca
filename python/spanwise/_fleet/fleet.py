"""Fleets: the traces of many ranks, read where they lie, and asked together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .. import _native
from .compare import FleetComparison, compare_fleets
from .files import Path, brought_near, find_files, in_words
from .run import OnRay, Status, Tables, Threads, ReportProgress, runner, timed
from .._traces.table import Table
from .._traces.trace import Trace, _Bar, open

#: Sections of the report on one trace that are kept of every rank from the first.
_SECTIONS = ("breakdown", "findings")
#: How many results are put together at once.
_FAN_IN = 16


def fleet(
    paths: Path | Iterable[Path],
    *,
    cluster: str | None = None,
    workers: int = 0,
    index: bool = False,
    sections: Iterable[str] = _SECTIONS,
    fan_in: int = _FAN_IN,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | ReportProgress = False,
) -> Fleet:
    """Read the traces of many ranks, each to a small digest, and put the digests together.

    `paths` are files, folders, patterns such as "run/rank*.json.gz", or addresses such as
    "s3://bucket/run/rank*.json.gz", for which fsspec and its package for that store are needed;
    `storage_options` go to fsspec. Files are read one at a time by each of `workers`: threads of
    this program, 0 for one a core; with `cluster`, workers of Ray (`pip install
    'spanwise[ray]'`): "local" starts a cluster on this machine, "auto" joins the one that is
    there, "ray://host:port" one elsewhere, where spanwise must be installed too. What comes out
    is the same to the byte.

    A file that cannot be read is a row in `files()`, with why. `sections` names further sections
    of `spanwise report` to be kept of every rank in the same pass. `progress` shows a bar, or is
    called with files done and files in all.

    >>> import spanwise as sw
    >>> fleet = sw.fleet("ddp_rank*.json.gz")
    >>> fleet
    <Fleet: 4 ranks, 28 collectives matched>
    >>> [row["rank"] for row in fleet.stragglers(top=1)]
    [2]
    """
    if fan_in < 2:
        raise ValueError("fan_in: 2 or more results are put together at once")
    there = runner(cluster, workers)
    try:
        storage = dict(storage_options or {})
        files = there.call(find_files, _plain(paths), storage)
        found = Fleet(there, files, index, fan_in, storage, progress)
        found._read(tuple(dict.fromkeys((*_SECTIONS, *sections))))
        return found
    except BaseException:
        there.close()
        raise


class _Job(NamedTuple):
    """One file, and what is to be kept of it."""

    number: int
    file: str
    sections: tuple[str, ...]
    use_index: bool
    threads: int
    storage: Mapping[str, Any]


def with_trace(job: Any, use: Callable[[Trace], Tables]) -> tuple[str | None, Tables]:
    """Opens the file of a job and uses it; gives an error in words where that fails."""
    try:
        with brought_near(job.file, job.storage) as path:
            return None, use(open(path, index=job.use_index, threads=job.threads))
    except Exception as reason:
        return in_words(reason, job.file), {}


def _reduce(job: _Job) -> tuple[Status, Tables]:
    """What is kept of one file; also how it is called where Ray shows its tasks."""
    return timed(_reduced, job)


def _reduced(job: _Job) -> tuple[str | None, Tables]:
    def use(trace: Trace) -> Tables:
        named = list(job.sections)
        found = _native.rank_tables(trace._trace, job.file, job.number, named)
        return {name: Table(table) for name, table in found}

    error, tables = with_trace(job, use)
    return error, tables if error is None else _unread(job, error)


def _unread(job: _Job, error: str) -> Tables:
    """A row about a file that could not be read."""
    row = [("file_number", "int64", [job.number]), ("rank", "int64", [None])]
    row += [("file", "string", [job.file]), ("error", "string", [error])]
    return {"ranks": Table(_native.make_table(row))}


def _plain(paths: Path | Iterable[Path]) -> str | list[str]:
    """Paths as other machines understand them."""
    if isinstance(paths, (str, os.PathLike)):
        return os.fspath(paths)
    return [os.fspath(path) for path in paths]


class Fleet:
    """Many ranks of one run; `spanwise.fleet` makes it.

    Each answer is a `Table`. `file_number` is the place of a file in `files()`; `rank` is what
    the trace says, or else the name of the file. Where a cluster was joined or started, `close`
    leaves or ends it, and so does the end of a `with` block.
    """

    def __init__(
        self,
        there: Threads | OnRay,
        files: list[str],
        index: bool,
        fan_in: int,
        storage: dict[str, Any],
        progress: bool | ReportProgress,
    ) -> None:
        self._there = there
        self._files = files
        self._index = index
        self._fan_in = fan_in
        self._storage = storage
        self._progress = progress
        self._tables: Tables = {}
        self._statuses: list[Status] = []
        self._ranks: _native.Ranks | None = None

    # How it is read.

    def _run(self, step: Any, jobs: list[Any], lost: Any) -> tuple[list[Status], Tables]:
        """A step with each job, with the progress that was asked for."""
        bar = _Bar("files") if self._progress is True else None
        report = bar or (self._progress if callable(self._progress) else None)
        try:
            return self._there.run(step, jobs, lost, self._fan_in, report)
        finally:
            if bar is not None:
                bar.close()

    def _jobs(self, sections: tuple[str, ...]) -> list[_Job]:
        # Threads of a worker are for other files; where there is but one file, for that.
        threads = 0 if len(self._files) == 1 else 1
        rest = (sections, self._index, threads, self._storage)
        return [_Job(number, file, *rest) for number, file in enumerate(self._files)]

    def _read(self, sections: tuple[str, ...]) -> None:
        known = [key for key, _, _ in _native.section_names()]
        for name in sections:
            if name not in known:
                raise _native.TraceError(f"no section {name}; there are {', '.join(known)}")
        statuses, tables = self._run(_reduce, self._jobs(sections), _unread)
        if not self._statuses:
            self._statuses = statuses
        self._tables = {**tables, **self._tables}

    def _kept(self, name: str) -> Table:
        """A table of all files; one without a row where no file could be read."""
        if name not in self._tables:
            return _made([], file_number="int64", rank="int64")
        return self._tables[name]

    def _together(self) -> _native.Ranks:
        if self._ranks is None:
            if "calls" not in self._tables:
                raise _native.TraceError(f"no file could be read: {self.unread[0][1]}")
            parts = (self._tables[name]._table for name in ("ranks", "calls", "activities"))
            self._ranks = _native.reduce_ranks(*parts)
        return self._ranks

    def close(self) -> None:
        """End what was started for it; answers that were given stay."""
        self._there.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What was read.

    def __len__(self) -> int:
        return len(self._files)

    @property
    def unread(self) -> list[tuple[str, str]]:
        """Files that could not be read, with why."""
        files = self.files()
        pairs = zip(files["file"], files["error"])
        return [(file, error) for file, error in pairs if error is not None]

    def files(self) -> Table:
        """Each file: rank, what it holds, sums over its recording; or the error."""
        return self._kept("ranks")

    def costs(self) -> Table:
        """What reading each file took: the process, seconds, the most memory it has had.

        The only answer that is another one each time.
        """
        kinds = {"error": "string", "worker": "int64", "seconds": "double", "peak_bytes": "int64"}
        columns: list[tuple[str, str, Any]] = [("file_number", "int64", [*range(len(self))])]
        for at, (name, kind) in enumerate(kinds.items()):
            columns.append((name, kind, [status[at] for status in self._statuses]))
        return Table(_native.make_table(columns))

    def calls(self) -> Table:
        """Each collective of each rank, on the rank's own clock: `base_ns` of `files` leads to
        nanoseconds since 1970."""
        return self._kept("calls")

    def activities(self) -> Table:
        """What each rank spends its time on: functions of its threads, work of its GPUs."""
        return self._kept("activities")

    # What every rank answers by itself.

    def section(self, key: str) -> Table:
        """A section of `spanwise report` of every rank; files are read again for a new one."""
        if key not in self._tables:
            self._read((key,))
        return self._kept(key)

    def breakdown(self) -> Table:
        """Compute, exposed communication and copies, idle; by rank, GPU and step."""
        return self._kept("breakdown")

    def findings(self) -> Table:
        """What deserves attention first on each rank, with numbers and advice."""
        return self._kept("findings")

    def findings_by_kind(self) -> Table:
        """Each kind of finding: on how many ranks, and where it costs most."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in self.findings():
            rows.setdefault(row["finding"], []).append(row)
        sums = []
        for kind, of_kind in rows.items():
            worst = max(of_kind, key=lambda row: row["about_ns"] or 0)
            total = sum(row["about_ns"] or 0 for row in of_kind)
            ranks = len({row["file_number"] for row in of_kind})
            sums.append((kind, ranks, total, worst["rank"], worst["title"]))
        sums.sort(key=lambda row: (-row[1], -row[2], row[0]))
        return _made(
            sums,
            finding="string",
            ranks="int64",
            about_ns="int64",
            worst_rank="int64",
            worst_title="string",
        )

    # What ranks show together.

    def ranks(self) -> Table:
        """Each rank beside the others: GPU, host, collectives, who waited and made wait."""
        return Table(self._together().section("ranks"))

    def straggler(self) -> Table:
        """The rank that the others wait for, and what it does meanwhile; or no row."""
        return Table(self._together().section("straggler"))

    def stragglers(self, *, top: int | None = None) -> Table:
        """Ranks that others waited for, those that cost most first."""
        columns = ("rank", "made_wait_ns", "last_count", "waited_ns", "compute_ns", "file")
        rows = [tuple(row[name] for name in columns) for row in self.ranks()]
        rows = sorted((row for row in rows if row[1]), key=lambda row: -row[1])[:top]
        kinds = dict.fromkeys(columns, "int64")
        return _made(rows, **{**kinds, "file": "string"})

    def waits(self, *, top: int | None = None) -> Table:
        """Who waited for whom, most time first."""
        return Table(self._together().section("rank-waits", top))

    def collectives(self, *, top: int | None = None) -> Table:
        """Collectives by kind and size: skew, transfer, bandwidth."""
        return Table(self._together().section("collectives", top))

    def collective_instances(self, *, top: int | None = None) -> Table:
        """Each collective that several ranks took part in: who came first and last, what was waited."""
        return Table(self._together().section("collective-instances", top))

    def report(
        self, *sections: str, top: int | None = 15, width: int = 100, format: str = "text"
    ) -> str:
        """The report of the command line on many ranks, or the sections that are named."""
        return self._together().report(list(sections), top, width, format)

    # Two runs.

    def compare(
        self,
        other: Fleet,
        *,
        by: str = "op",
        phase: str | None = None,
        steps: tuple[int, int] | None = None,
    ) -> FleetComparison:
        """Say what changed from this run to another, rank by rank, as `spanwise.compare` does.

        Each rank is compared with the same rank of the other run, by the same workers.
        """
        return compare_fleets(self, other, (by, phase, steps, False))

    # For other tools.

    def to_parquet(self, folder: Path, *, tables: Iterable[str] | None = None) -> list[str]:
        """Write a dataset of Parquet files, `<table>/rank=…/`, for DuckDB, Polars, Spark.

        `tables` are "ranks", "calls", "activities", "breakdown", "findings" where none is named;
        "spans" and "kernels" are read and written by the workers, file by file. Gives the names
        of the files. docs/reference/python/fleet.md describes the columns. Needs PyArrow.
        """
        from .parquet import write

        return write(self, os.fspath(folder), tables)

    def __repr__(self) -> str:
        unread = len(self.unread)
        ranks = f"{len(self) - unread} rank{'s' * (len(self) - unread != 1)}"
        parts = [ranks] + ([f"{unread} unread"] if unread else [])
        if unread < len(self):
            matched = self._together().matched
            parts.append(f"{matched:,} collective{'s' * (matched != 1)} matched")
        return f"<Fleet: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.report())}</pre>"


def _made(rows: list[Any], **kinds: str) -> Table:
    """A table of rows."""
    columns = [
        (name, kind, [row[at] for row in rows]) for at, (name, kind) in enumerate(kinds.items())
    ]
    return Table(_native.make_table(columns))
