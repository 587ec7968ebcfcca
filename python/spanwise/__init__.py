"""Find out where the time went: open and compare traces, record programs and your own spans.

>>> import spanwise as sw
>>> trace = sw.open("llama_small.json.gz")
>>> len(trace.spans)
6878

`open`, `compare` and `run` are about traces; `profile`, `span` and `session` record spans of this
program. docs/reference/python/README.md introduces them. Modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._traces.answer import Answer as Answer
    from ._traces.compare import Baseline as Baseline
    from ._traces.compare import Comparison as Comparison
    from ._traces.compare import assert_no_regression as assert_no_regression
    from ._traces.compare import compare as compare
    from ._traces.compare import fusion as fusion
    from ._traces.compare import save_baseline as save_baseline
    from ._traces.experiments import TraceAnalyzer as TraceAnalyzer
    from ._traces.experiments import Tracer as Tracer
    from ._traces.experiments import analyze_traces as analyze_traces
    from ._traces.experiments import classify as classify
    from ._traces.experiments import correlate_traces_with_metrics as correlate_traces_with_metrics
    from ._traces.experiments import detect_architecture as detect_architecture
    from ._traces.experiments import load_trace as load_trace
    from ._traces.experiments import trigger_snapshot as trigger_snapshot
    from ._fleet.fleet import Fleet as Fleet
    from ._fleet.fleet import fleet as fleet
    from ._fleet.compare import FleetComparison as FleetComparison
    from ._native import TraceError as TraceError
    from ._recording.command import run as run
    from ._recording.spans import Session as Session
    from ._recording.spans import profile as profile
    from ._recording.spans import session as session
    from ._recording.spans import span as span
    from ._traces.table import Table as Table
    from ._traces.trace import Trace as Trace
    from ._traces.trace import open as open
    from ._traces.view import Viewer as Viewer

__version__ = "0.1.0"

#: The module of each name; imported when the name is first used.
_HOME = {
    "Answer": "_traces.answer",
    "Baseline": "_traces.compare",
    "Comparison": "_traces.compare",
    "Fleet": "_fleet.fleet",
    "FleetComparison": "_fleet.compare",
    "Session": "_recording.spans",
    "Table": "_traces.table",
    "Trace": "_traces.trace",
    "TraceAnalyzer": "_traces.experiments",
    "TraceError": "_native",
    "Tracer": "_traces.experiments",
    "Viewer": "_traces.view",
    "analyze_traces": "_traces.experiments",
    "assert_no_regression": "_traces.compare",
    "classify": "_traces.experiments",
    "compare": "_traces.compare",
    "correlate_traces_with_metrics": "_traces.experiments",
    "detect_architecture": "_traces.experiments",
    "fleet": "_fleet.fleet",
    "fusion": "_traces.compare",
    "load_trace": "_traces.experiments",
    "open": "_traces.trace",
    "profile": "_recording.spans",
    "run": "_recording.command",
    "save_baseline": "_traces.compare",
    "session": "_recording.spans",
    "span": "_recording.spans",
    "trigger_snapshot": "_traces.experiments",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'spanwise' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
