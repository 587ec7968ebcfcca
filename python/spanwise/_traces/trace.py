"""Traces: opened once, asked as often as you like."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union

from .. import _native
from .answer import Answer
from .sections import Sections
from .table import Table

if TYPE_CHECKING:
    from .view import Viewer

Path = Union[str, "os.PathLike[str]"]


def open(
    path: Path | Iterable[Path],
    *,
    index: bool = True,
    threads: int = 0,
    progress: bool = False,
) -> Trace:
    """Open a trace, or several on one timeline, of any format that `spanwise` reads.

    A profile is a trace with samples alone, which have no times.

    The index beside a trace is used and, where there is none, written, as the command line
    does: `index=False` reads the trace itself. `threads` may read at once, 0 for one a core; with
    1, what is asked of the trace keeps to one thread as well.
    `progress` shows how far it is, with tqdm where that is installed. Other Python threads go
    on meanwhile. Raises `OSError` where a file cannot be read, and `spanwise.TraceError`, a
    `ValueError`, with the place where it is no trace.

    >>> import spanwise as sw
    >>> trace = sw.open("llama_small.json.gz")
    >>> trace
    <Trace llama_small.json.gz: 6,878 spans over 99.759 ms>
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    names = [os.fspath(path) for path in paths]
    if not names:
        raise ValueError("no path was given")
    bar = _Bar() if progress else None
    try:
        native = _native.open_trace(names, index, threads, bar)
    finally:
        if bar is not None:
            bar.close()
    if native.starts_aligned:
        from warnings import warn

        what = "not every trace says when it was recorded: all are set to begin at the same time"
        warn(what, stacklevel=2)
    return Trace(native)


class _Bar:
    """How far reading is: a bar of tqdm, or a line on standard error."""

    def __init__(self, unit: str = "B") -> None:
        self._bar: Any = None
        self._unit = unit

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                tqdm = _Line
            self._bar = tqdm(total=total, unit=self._unit, unit_scale=True, desc="reading")
        # The next file of several begins at nothing.
        self._bar.total = total
        self._bar.n = done
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class _Line:
    """What is used of tqdm, for those without."""

    def __init__(self, total: int, **_: object) -> None:
        self.total, self.n = total, 0

    def refresh(self) -> None:
        import sys

        part = 100 * self.n // max(self.total, 1)
        print(f"\rreading {part:3} %", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        import sys

        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Trace(Sections):
    """A trace that was opened; `spanwise.open` makes it.

    Its tables (`spans`, `samples`, `stacks`, `frames`, `thread_states`, `instants`, `counters`,
    `links`, `tracks`, `categories`, `strings`) lie over its own memory, or over the mapped index. Times are whole nanoseconds on the
    trace's own clock. Questions are methods; each gives a `Table` with all rows, or the first
    `top`.

    >>> import spanwise as sw
    >>> trace = sw.open("llama_small.json.gz")
    >>> trace.findings().columns[:3]
    ['finding', 'title', 'evidence']
    """

    __slots__ = ()

    def __init__(self, native: _native.Trace) -> None:
        self._trace = native

    # What it is.

    @property
    def file(self) -> str:
        """The path, or the paths, as they were given."""
        return self._trace.file

    @property
    def format(self) -> str:
        """What wrote it, such as "PyTorch (Kineto)"."""
        return self._trace.format

    @property
    def start_ns(self) -> int:
        """The first nanosecond of what was recorded; 0 in an empty trace."""
        return (self._trace.window or (0, 0))[0]

    @property
    def end_ns(self) -> int:
        """The first nanosecond after what was recorded."""
        return (self._trace.window or (0, 0))[1]

    @property
    def duration_ns(self) -> int:
        """How long the recording is."""
        return self.end_ns - self.start_ns

    @property
    def base_time_ns(self) -> int | None:
        """What to add to a time to get nanoseconds since 1970, where the trace says so."""
        return self._trace.base_time_ns

    # What it holds.

    @property
    def spans(self) -> Table:
        """Everything with a start and a length; 4294967295 stands for "none" in row numbers."""
        return Table(self._trace.table("spans"))

    @property
    def instants(self) -> Table:
        """Point events."""
        return Table(self._trace.table("instants"))

    @property
    def counters(self) -> Table:
        """Values of counters over time; `track` is a row of `tracks`."""
        return Table(self._trace.table("counters"))

    @property
    def links(self) -> Table:
        """Arrows that the source drew from span to span, by row of `spans`."""
        return Table(self._trace.table("links"))

    @property
    def tracks(self) -> Table:
        """Threads, GPU streams, asynchronous lanes and counters, with their rows of `spans`."""
        return Table(self._trace.table("tracks"))

    @property
    def categories(self) -> Table:
        """Categories as the source names them, and what kind of work they mean."""
        return Table(self._trace.table("categories"))

    @property
    def strings(self) -> Table:
        """Every text once; the row is the number that `Table.codes` shows."""
        return Table(self._trace.table("strings"))

    @property
    def kernels(self) -> Table:
        """Every kernel, copy and fill, with the line of Python and operator that launched it.

        A choice of the spans, so a copy, which is made once; `span` is the row in `spans`.
        """
        return Table(self._trace.table("kernels"))

    @property
    def span_stacks(self) -> Table:
        """Self time of threads by stack of spans; `parent` is the row of the stack around it.

        A stack is a name and the names around it. Self times of a thread add up to the time
        that its spans cover. Calls drawn from samples are no part of it.
        """
        return Table(self._trace.table("span_stacks"))

    @property
    def samples(self) -> Table:
        """Stacks seen at an instant, with a weight in the unit of their event.

        `cpu_ns` is the CPU time that a sample stands for, unknown for events that do not stand
        for CPU time; `function` is the innermost. `track`, `stack` and `event` are rows of
        `tracks`, `stacks` and `sample_events`. A trace without samples has no rows.

        >>> import spanwise as sw
        >>> trace = sw.open("recorded.perf")
        >>> rows = zip(trace.samples["function"], trace.samples["cpu_ns"])
        >>> [(function, ns) for function, ns in rows if ns is not None][:2]
        [('main', 1428571), ('hot', 1428571)]
        """
        return Table(self._trace.table("samples"))

    @property
    def sample_events(self) -> Table:
        """The clocks and counters that took samples: unit, interval where that is steady."""
        return Table(self._trace.table("sample_events"))

    @property
    def stacks(self) -> Table:
        """Each stack once: its innermost frame, the row of its caller, its CPU time.

        Row 0 is the empty stack, which no other row refers to. `self_cpu_ns` is of the samples
        with exactly this stack, `total_cpu_ns` of all whose stack begins with it.
        """
        return Table(self._trace.table("stacks"))

    @property
    def frames(self) -> Table:
        """Functions with the line that was executed, the file and what was mapped there."""
        return Table(self._trace.table("frames"))

    @property
    def thread_states(self) -> Table:
        """When each thread ran, could have run or was blocked; on what, where, and who woke it.

        As sums count them: a short wait without a stack of its own has that of the row
        `stack_from`, which was sampled in its place.

        >>> import spanwise as sw
        >>> states = sw.open("recorded.perf").thread_states.to_dicts()
        >>> [(row["state"], row["wait_reason"], row["dur_ns"]) for row in states[:3]]
        [('running', None, 3000000), ('blocked', 'mutex', 3000000), ('runnable', 'woken', 500000)]
        """
        return Table(self._trace.table("thread_states"))

    # Analyses: each section of the report is a method of `Sections`, too.

    def section(self, key: str, *, top: int | None = None) -> Table:
        """A section of the report by its name on the command line, such as "gpu-lines"."""
        return Table(self._trace.section(key, top))

    def latency(self, function: str, *, slowest: int = 10) -> Answer:
        """How long the calls of a function take, and what is different in the slowest.

        `function` is a name, or a pattern in which `*` stands for anything.
        """
        return Answer(_native.trace_latency(self._trace, function, slowest))

    def info(self, *, top: int | None = 15) -> Answer:
        """What the trace is, what it holds and what was repaired: `spanwise info`."""
        return Answer(_native.trace_info(self._trace, top))

    # For people.

    def report(
        self, *sections: str, top: int | None = 15, width: int = 100, format: str = "text"
    ) -> str:
        """The report of the command line, or the sections that are named.

        `format` is "text", "json", "csv" or "html", a page that needs nothing else.

        >>> import spanwise as sw
        >>> text = sw.open("llama_small.json.gz").report("gpu")
        >>> text.splitlines()[1].split()
        ['GPU', 'busy', 'busy', 'idle', 'kernels', 'copies', 'fills', 'launches', 'streams', 'name']
        """
        return self._trace.report(list(sections), top, width, format)

    def view(
        self,
        *others: Trace,
        browser: bool | None = None,
        height_px: int = 640,
        port: int = 0,
    ) -> Viewer:
        """View it: the page of `spanwise view`, with other traces to compare.

        In a notebook the page stands below the cell; elsewhere the browser opens, or as
        `browser` says. It is there until `close()` of what this gives, or the end of the
        program; a script keeps it with `trace.view().wait()`. A notebook on another machine
        needs its `port` forwarded: `ssh -L 8600:localhost:8600 HOST` for `port=8600`.
        """
        from .view import view

        return view([self._trace, *(other._trace for other in others)], browser, height_px, port)

    # For other tools.

    def write(
        self,
        path: Path,
        *,
        to: str | None = None,
        profile: str | None = None,
        value: str | None = None,
        stack: str = "mixed",
        backward: str = "own",
        strip_prefix: str = "",
    ) -> int:
        """Write a profile of it, or the trace itself, in the format of another tool.

        The ending of `path` or `to` says which: "pprof", "folded", "speedscope", "firefox" and
        "csv" are profiles; "chrome", "perfetto" and "fxt" keep every span, and take no other
        option. `profile` is "cpu", "off_cpu", "locks" or "sched" for what threads did; `value`
        the column where only one can be shown; `stack` "mixed", "python", "ops" or "modules".
        Gives the bytes written.

        >>> import spanwise as sw
        >>> size = sw.open("llama_small.json.gz").write("gpu.folded", value="gpu")
        """
        wanted = (profile, value, stack, backward, strip_prefix)
        return _native.convert_trace(self._trace, os.fspath(path), to, wanted)

    def to_pprof(self, path: Path, **options: Any) -> int:
        """Write a profile for pprof; options are those of `write`."""
        return self.write(path, to="pprof", **options)

    def to_folded(self, path: Path, **options: Any) -> int:
        """Write collapsed stacks; options are those of `write`."""
        return self.write(path, to="folded", **options)

    def to_speedscope(self, path: Path, **options: Any) -> int:
        """Write a profile for speedscope; options are those of `write`."""
        return self.write(path, to="speedscope", **options)

    def to_firefox(self, path: Path, **options: Any) -> int:
        """Write a profile for the Firefox Profiler; options are those of `write`."""
        return self.write(path, to="firefox", **options)

    def to_chrome(self, path: Path) -> int:
        """Write the trace as Chrome trace events; compressed where the name ends in .gz."""
        return self.write(path, to="chrome")

    def to_perfetto(self, path: Path) -> int:
        """Write the trace for Perfetto."""
        return self.write(path, to="perfetto")

    def to_fxt(self, path: Path) -> int:
        """Write the trace in Fuchsia's format; compressed where the name ends in .gz."""
        return self.write(path, to="fxt")

    def flame(
        self,
        path: Path,
        *,
        since: Trace | None = None,
        icicle: bool = False,
        profile: str | None = None,
        value: str | None = None,
        stack: str = "mixed",
        backward: str = "own",
        strip_prefix: str = "",
    ) -> int:
        """Draw a flame graph, one .svg or .html file that needs nothing else.

        `since` colours by what grew (red) and shrank (blue) from another trace to this one.
        """
        base = None if since is None else since._trace
        wanted = (profile, value, stack, backward, strip_prefix)
        return _native.draw_flame(self._trace, base, os.fspath(path), icicle, wanted)

    def __repr__(self) -> str:
        spans = self._trace.counts()[0]
        return f"<Trace {self.file}: {spans:,} spans over {_duration(self.duration_ns)}>"

    def _repr_html_(self) -> str:
        from html import escape

        spans, instants, counters, links = self._trace.counts()
        rows = {
            "file": self.file,
            "format": self.format,
            "recorded": _duration(self.duration_ns),
            "spans": f"{spans:,}",
            "instants": f"{instants:,}",
            "counter values": f"{counters:,}",
            "links": f"{links:,}",
        }
        cells = "".join(
            f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>"
            for key, value in rows.items()
        )
        return f"<table><tbody>{cells}</tbody></table>"


def _duration(nanos: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if nanos >= size:
            return f"{nanos / size:.3f} {unit}"
    return f"{nanos} ns"
