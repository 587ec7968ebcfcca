"""Programs that each do one thing: what is found first, and the metrics beside their own clocks."""

import importlib.util
import json
import pathlib
import sys

import pytest

import spanwise as sw

SCRIPT = (
    pathlib.Path(__file__).resolve().parents[2]
    / "crates/cli/tests/record/programs/purposes.py"
)
SECONDS = "1.5"

#: How far a metric may be from the clocks of the program, in percentage points, beside the error
#: that samples give it by chance, which the metric states itself.
TOLERANCE = 5.0

METRICS = ("data_loading_overhead", "python_overhead", "memory_allocation_cost")

#: By purpose: words of the first finding, and the least and the most of each metric in seconds,
#: by the clocks of the program. The least and the most differ by what no clock of a program
#: separates from the rest: how much of its start-up was interpreting, how much of freeing is the
#: interpreter's and how much the allocator's.
PURPOSES = {
    "asyncio": (
        ["overhead of the event loop", "do_asyncio"],
        # A part of this event loop is native code: see the next one.
        lambda of: [(0, 0), (0, of["cpu"] - of["polling"] + of["startup"]), collecting(of)],
    ),
    "plain_asyncio": (
        ["overhead of the event loop", "do_asyncio"],
        lambda of: [(0, 0), started(of, of["cpu"] - of["polling"]), collecting(of)],
    ),
    "pickle": (
        ["pickling", "do_pickle"],
        lambda of: [
            (0, 0),
            (0, of["freeing"] + of["startup"]),
            (of["collecting"], of["collecting"] + of["freeing"]),
        ],
    ),
    "numpy": (
        ["numerical work in NumPy", "do_numpy"],
        lambda of: [
            (0, 0),
            (0, of["cpu"] - of["native"] + of["startup"]),
            (of["collecting"], of["collecting"]),
        ],
    ),
    "allocate": (
        ["allocating and freeing memory", "do_allocate"],
        lambda of: [(0, 0), started(of, 0), (of["cpu"], of["cpu"])],
    ),
    "python": (
        ["Python function", "purposes.py"],
        lambda of: [(0, 0), started(of, of["cpu"]), collecting(of)],
    ),
    "pool": (
        ["pickling"],
        lambda of: [
            (0, 0),
            (0, of["cpu"] - of["pickling"] + of["startup"]),
            # What pickling has memory for.
            (0, of["pickling"] + of["children"]),
        ],
    ),
}


def started(of, seconds):
    """So long, and however much of start-up was interpreting."""
    return seconds, seconds + of["startup"]


def collecting(of):
    """Nothing but the garbage collector frees memory to speak of."""
    return of["collecting"], of["collecting"]


@pytest.fixture(scope="module", autouse=True)
def can_record(tmp_path_factory):
    """Where the kernel records Python functions."""
    try:
        folder = tmp_path_factory.mktemp("can_record") / "r"
        trace = sw.run([sys.executable, str(SCRIPT), "python", "0.1"], folder)
    except RuntimeError as reason:
        pytest.skip(f"nothing can be recorded here: {reason}")
    if len(trace.python()) == 0:
        pytest.skip("Python functions cannot be recorded here")


@pytest.fixture(scope="module", params=PURPOSES)
def recorded(request, tmp_path_factory):
    """A purpose, the recording of its program, and the clocks of that."""
    if request.param == "numpy" and importlib.util.find_spec("numpy") is None:
        pytest.skip("NumPy is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    shown = folder / "clocks.json"
    program = [sys.executable, str(SCRIPT), request.param, SECONDS, str(shown)]
    trace = sw.run(program, folder / "r")
    return request.param, trace, json.loads(shown.read_text())


def test_what_a_program_is_for_is_found_first(recorded):
    purpose, trace, _ = recorded
    words, _ = PURPOSES[purpose]
    first = trace.findings(top=1).to_dicts()[0]
    shown = " ".join(str(cell) for cell in first.values())
    for word in words:
        assert word in shown, first


def test_metrics_are_what_the_clocks_of_the_program_say(recorded):
    purpose, trace, clocks = recorded
    found = sw.TraceAnalyzer().analyze_stress_test_trace(trace)
    # No program has a GPU.
    assert found["gpu_utilization"] is None
    rows = {row["metric"]: row for row in trace.metrics()}
    _, ranges = PURPOSES[purpose]
    for metric, least_most in zip(METRICS, ranges(clocks)):
        window_s = rows[metric]["whole_ns"] / 1e9
        low, high = (100 * seconds / window_s for seconds in least_most)
        share, tolerance = 100 * found[metric], TOLERANCE + (rows[metric]["error_percent"] or 0)
        what = f"{metric}: {share:.1f} of {low:.1f} to {high:.1f} +- {tolerance:.1f}: {clocks}"
        print(what)
        assert low - tolerance <= share <= high + tolerance, what
