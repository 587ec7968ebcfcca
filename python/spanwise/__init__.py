"""Where did the time go, and why: open traces, ask, compare; and record your own program.

>>> import spanwise as sw
>>> trace = sw.open("llama_small.json.gz")
>>> len(trace.spans)
6878

`spanwise.profiling` has decorators, sessions and reports; `spanwise.span` is the cheapest
way to time a block. What is not used is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._answer import Answer as Answer
    from ._compare import Baseline as Baseline
    from ._compare import Comparison as Comparison
    from ._compare import assert_no_regression as assert_no_regression
    from ._compare import compare as compare
    from ._compare import fusion as fusion
    from ._compare import save_baseline as save_baseline
    from ._experiments import TraceAnalyzer as TraceAnalyzer
    from ._experiments import Tracer as Tracer
    from ._experiments import analyze_traces as analyze_traces
    from ._experiments import classify as classify
    from ._experiments import correlate_traces_with_metrics as correlate_traces_with_metrics
    from ._experiments import detect_architecture as detect_architecture
    from ._experiments import load_trace as load_trace
    from ._experiments import trigger_snapshot as trigger_snapshot
    from ._fleet.fleet import Fleet as Fleet
    from ._fleet.fleet import fleet as fleet
    from ._fleet.compare import FleetComparison as FleetComparison
    from ._native import TraceError as TraceError
    from ._table import Table as Table
    from ._trace import Trace as Trace
    from ._trace import open as open
    from ._view import Viewer as Viewer

__version__ = "0.1.0"

#: Where each name of the package is found when it is first asked for.
_HOME = {
    "Answer": "_answer",
    "Baseline": "_compare",
    "Comparison": "_compare",
    "Fleet": "_fleet.fleet",
    "FleetComparison": "_fleet.compare",
    "Table": "_table",
    "Trace": "_trace",
    "TraceAnalyzer": "_experiments",
    "TraceError": "_native",
    "Tracer": "_experiments",
    "Viewer": "_view",
    "analyze_traces": "_experiments",
    "assert_no_regression": "_compare",
    "classify": "_experiments",
    "compare": "_compare",
    "correlate_traces_with_metrics": "_experiments",
    "detect_architecture": "_experiments",
    "fleet": "_fleet.fleet",
    "fusion": "_compare",
    "load_trace": "_experiments",
    "open": "_trace",
    "save_baseline": "_compare",
    "trigger_snapshot": "_experiments",
}

__all__ = ["__version__", "span", *_HOME]


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


def span(name: str, component: str = "general"):
    """A reusable object for `with`: make it once, enter it as often as you like.

    >>> loading = span("load batch")
    >>> with loading:
    ...     pass
    """
    from .profiling._core.sites import reusable_span

    return reusable_span(name, component)
