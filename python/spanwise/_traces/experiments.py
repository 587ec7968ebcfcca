"""Experiments: recorded with a command, described by a few numbers, set beside their metrics."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .. import _native
from .compare import Comparison, Side, compare
from .._files import replaced
from .table import Table
from .trace import Path, Trace, open

#: What `TraceAnalyzer` measures, and where a number becomes a recommendation.
_METRICS = (
    "data_loading_overhead",
    "gpu_utilization",
    "python_overhead",
    "memory_allocation_cost",
)
_ADVICE = (
    ("gpu_utilization", "<", 0.8, "low GPU utilization: consider larger batches"),
    ("data_loading_overhead", ">", 0.2, "high data loading overhead: consider more workers"),
    ("python_overhead", ">", 0.5, "Python itself takes most of the time: consider compiling"),
    ("memory_allocation_cost", ">", 0.05, "allocations are expensive: reuse buffers, or cache them"),
)


class Tracer:
    """Records commands into a folder, with the recorder of `spanwise run`.

    Needs Linux, and the rights that `spanwise doctor` speaks of.
    """

    def __init__(self, output_dir: Path = "traces") -> None:
        self.output_dir = pathlib.Path(output_dir)

    def trace_experiment(
        self,
        experiment_cmd: str | Sequence[str],
        duration: float | None = None,
        include_patterns: Iterable[str] = (),
        *,
        exclude_patterns: Iterable[str] = (),
        ending: str = ".fxt",
        html: bool = True,
    ) -> pathlib.Path:
        """Run a command, record it for at most `duration` seconds; give the path of the trace.

        The stacks of all threads are sampled, functions of Python included. Every call of native
        functions that fit one of `include_patterns` (`*` stands for anything) is recorded as
        well, but those of `exclude_patterns`. A command that begins with a .py file is run by
        this Python. `ending` is one of the formats of `spanwise convert`; with `html` the report
        lies beside the trace as a page. Raises `RuntimeError` with what the recorder said where
        nothing was recorded; how the command itself ended does not matter.
        """
        import time

        from .._recording.command import record

        self.output_dir.mkdir(parents=True, exist_ok=True)
        trace = self.output_dir / f"trace_{time.time_ns()}{ending}"
        recording = trace.with_name(trace.name + ".spanwise-recording")
        options = ["--recording", str(recording), "--output", str(trace)]
        record(experiment_cmd, trace, options, duration, include_patterns, exclude_patterns)
        if html:
            page = open(recording, index=False).report(format="html")
            with replaced(str(trace.with_suffix(".html"))) as out:
                out.write(page.encode())
        return trace

    def trace_slow(
        self,
        results: Iterable[Mapping[str, Any]],
        command: Callable[[Mapping[str, Any]], str | Sequence[str]],
        *,
        threshold_s: float,
        time_key: str = "avg_time",
        duration: float | None = None,
    ) -> list[tuple[Mapping[str, Any], pathlib.Path]]:
        """The second of two phases: record again what the first has found to be slow.

        `results` are what a cheap first run has measured, seconds under `time_key`; those above
        `threshold_s` are run again by the command that `command` gives for them, recorded, and
        given back with their traces, the slowest first.
        """
        slow = [result for result in results if result[time_key] > threshold_s]
        slow.sort(key=lambda result: -result[time_key])
        return [(result, self.trace_experiment(command(result), duration)) for result in slow]


class TraceAnalyzer:
    """A few numbers that say how well a run used its machine, with recommendations."""

    def analyze_stress_test_trace(self, trace_file: Trace | Path) -> dict[str, Any]:
        """Four shares of the recording, from 0 to 1, and what to do about them.

        `None` stands for what the trace does not hold, which is not 0; `trace.metrics()` says
        what each number means.

        >>> import spanwise as sw
        >>> found = sw.TraceAnalyzer().analyze_stress_test_trace("llama_small.json.gz")
        >>> round(found["gpu_utilization"], 4)
        0.0095
        >>> found["recommendations"][0]
        'low GPU utilization: consider larger batches'
        """
        metrics = _shares(_opened(trace_file))
        found: dict[str, Any] = {name: metrics[name] for name in _METRICS}
        found["recommendations"] = [
            advice
            for name, sign, limit, advice in _ADVICE
            if (value := found[name]) is not None
            and (value < limit if sign == "<" else value > limit)
        ]
        return found


def correlate_traces_with_metrics(
    trace: Trace | Path, metrics: Mapping[str, Any], *, top: int = 10
) -> dict[str, Any]:
    """One trace beside the metrics of its experiment: hot functions and overheads with them.

    `spanwise correlate` ranks what moves with a metric over several runs.

    >>> import spanwise as sw
    >>> both = sw.correlate_traces_with_metrics("llama_small.json.gz", {"accuracy": 0.9}, top=2)
    >>> len(both["hot_functions"]), both["experiment_accuracy"]
    (2, 0.9)
    """
    opened = _opened(trace)
    found: dict[str, Any] = {"hot_functions": opened.hot_functions(top=top).to_dicts()}
    found.update({f"experiment_{name}": value for name, value in metrics.items()})
    found["overhead_analysis"] = _shares(opened)
    return found


def trigger_snapshot(number: int = 0) -> None:
    """Request a snapshot from a `spanwise attach --trigger .` that watches this program.

    Costs next to nothing while nobody watches. `number` goes along with the snapshot.
    """
    _native.take_snapshot(number)


def load_trace(path: Path, **options: Any) -> Trace:
    """The same as `spanwise.open`."""
    return open(path, **options)


def analyze_traces(base: Side, other: Side, **options: Any) -> Comparison:
    """The same as `spanwise.compare`."""
    return compare(base, other, **options)


def classify(kernel: str, operator: str = "") -> str:
    """The class of a kernel by its name, and by that of the operator around its launch.

    >>> import spanwise as sw
    >>> sw.classify("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT")
    'gemm'
    """
    return _native.classify(kernel, operator)


def detect_architecture(trace: Trace | Path) -> Table:
    """What sort of model ran, and what shows it: `Trace.architecture`."""
    return _opened(trace).architecture()


def _opened(trace: Trace | Path) -> Trace:
    return trace if isinstance(trace, Trace) else open(trace)


def _shares(trace: Trace) -> dict[str, float | None]:
    """The metrics that are shares, from 0 to 1."""
    shares: dict[str, float | None] = {}
    for row in trace.metrics():
        if row["metric"] != "wall_time":
            part, whole = row["part_ns"], row["whole_ns"]
            shares[row["metric"]] = part / whole if whole else None
    return shares
