"""The examples that users of this interface start from run as they are written."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import spanwise.profiling
from spanwise.profiling import *  # noqa: F403


class Network:
    def __init__(self, widths):
        self.widths = widths

    def parameters(self):
        class Parameter:
            def __init__(self, count):
                self.count = count

            def numel(self):
                return self.count

        return [Parameter(width) for width in self.widths]


class Run:
    """What `wandb.init` gives, as far as it is used."""

    def __init__(self):
        self.logged = []

    def log(self, metrics):
        self.logged.append(metrics)


@pytest.fixture
def names(monkeypatch):
    wandb = types.ModuleType("wandb")
    wandb.init = lambda project: Run()
    monkeypatch.setitem(__import__("sys").modules, "wandb", wandb)
    given = {name: getattr(spanwise.profiling, name) for name in spanwise.profiling.__all__}
    given.update(
        os=os, old_network=Network([2, 3]), new_network=Network([2, 3, 4]), results={"found": 1},
        old_net=Network([1]), new_net=Network([2]), expensive_function=lambda: [1, 2, 3],
        DEBUG_MODE=False, __name__=__name__,
    )
    return given


EXAMPLES = Path(__file__).parent / "profiling_examples.md"


def blocks_of(text):
    """The Python of a text in Markdown, by the heading above it; further ones are numbered."""
    found, heading, title = {}, "", None
    for line in text.splitlines():
        fence = line.lstrip()
        if title is not None and fence.startswith("```"):
            title = None
        elif title is not None:
            found[title].append(line[indent:])
        elif fence.startswith("```python"):
            indent = len(line) - len(fence)
            again = sum(known.split(", ")[0] == heading for known in found)
            title = f"{heading}, {again + 1}" if again else heading
            found[title] = []
        elif line.startswith("#"):
            heading = line.lstrip("# ").encode("ascii", "ignore").decode().strip()
            heading = re.sub(r"^\d+\. ", "", heading)
    return {title: "\n".join(lines) for title, lines in found.items()}


BLOCKS = blocks_of(EXAMPLES.read_text(encoding="utf-8"))


def run(names, *titles):
    """Runs blocks one after the other, each as it stands."""
    for title in titles:
        exec(compile(BLOCKS[title], title, "exec"), names)
    return names


def test_the_blocks_are_those_of_the_document():
    shared = Path(__file__).resolve().parents[2].parent / "shared" / "user-documents"
    documents = sorted(shared.glob("002*"))
    if not documents:
        pytest.skip("the document is not beside the project")
    text = documents[0].read_text(encoding="utf-8")
    theirs = {
        title: block.replace("structure_net.profiling", "spanwise.profiling")
        for title, block in blocks_of(text).items()
    }
    assert BLOCKS == theirs


def test_quick_start(names, capsys):
    run(names, "Basic Usage")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["🔬 PROFILING PERFORMANCE REPORT", "=" * 50, "Session: my_experiment"]
    assert "Total Operations: 1" in lines and any(line.startswith("  data: 1 ops") for line in lines)

    names["profiler"].start_session("called")
    for _ in range(5):
        names["my_evolution_function"]()
    names["profiler"].end_session()
    lines = names["profiler"].get_performance_report().splitlines()
    assert "Total Operations: 5" in lines
    assert any(line.startswith("  evolution: 5 ops, 0.000s total, 0.0000s avg") for line in lines)


def test_evolution(names):
    run(names, "Evolution-Focused Profiling")
    events = names["metrics"]["growth_events"]
    assert events["total_events"] == 1 and events["events_by_type"] == {"add_layer": 1}
    assert names["rankings"][0]["strategy_name"] == "ExtremaGrowthStrategy"
    assert names["evolution_profiler"].growth_events[0]["parameter_increase"] == 4


def test_types(names):
    made = {
        title.split()[0]: run(names, title)["profiler"].global_config
        for title in (
            "Standard Profiler", "Lightweight Profiler", "Comprehensive Profiler",
            "Evolution-Focused Profiler", "Research Profiler",
        )
    }
    assert {name: config.level.name for name, config in made.items()} == {
        "Standard": "BASIC", "Lightweight": "BASIC", "Comprehensive": "COMPREHENSIVE",
        "Evolution-Focused": "DETAILED", "Research": "COMPREHENSIVE",
    }
    assert not made["Lightweight"].profile_memory
    assert not made["Research"].adaptive_sampling


def test_configuration(names):
    run(names, "Configuration Example", "Best Practices")
    assert names["config"].level.name == "DETAILED" and names["config"].save_interval == 50
    assert names["config"].max_overhead_percent == 10.0


def test_decorators(names, monkeypatch):
    run(names, "Function Profiling", "Conditional Profiling", "Best Practices, 2")
    method = run(names, "Method Profiling")["MyEvolutionSystem"]
    component = run(names, "Component Profiling")["MyEvolutionSystem"]
    profiler = create_standard_profiler()  # noqa: F405
    profiler.start_session("decorated")
    names["grow_network"](1)
    method().analyze_network(1)
    component().method1()
    component().method2()
    names["conditional_function"]()
    names["debug_function"]()
    monkeypatch.setenv("PROFILE", "1")
    names["conditional_function"]()
    profiler.end_session()
    operations = profiler.get_profiler("evolution_profiler").operations
    assert [(row.name, row.component) for row in operations] == [
        ("grow_network", "evolution"),
        ("MyEvolutionSystem.analyze_network", "evolution"),
        ("MyEvolutionSystem.method1", "evolution"),
        ("MyEvolutionSystem.method2", "evolution"),
        ("conditional_function", "general"),
    ]
    assert operations[0].tags == ["growth"]


def test_a_session_with_everything(names, capsys):
    run(names, "Evolution Profiler", "Custom Profiler Setup")
    names["profiler"].register_profiler(names["evolution_profiler"])
    names["profiler"].start_session("experiment_123")
    run(names, "Integration with Weights & Biases", "Manual Profiling", "Performance Report")
    run(names, "Aggregated Metrics", "Evolution-Specific Analysis", "Debug Mode")
    run(names, "JSON Export", "Session Data")
    out = capsys.readouterr().out
    assert "Total operations: 1" in out and "AddLayerStrategy: 0.030" in out
    assert "Most efficient: ExtremaAnalyzer" in out and "Profiling enabled: True" in out
    data = names["session_data"]
    assert data["session_id"] == "experiment_123"
    assert data["profilers"]["evolution_profiler"]["summary_stats"]["total_operations"] == 1
    assert names["run"].logged[0]["profiling/my_operation/count"] == 1
    (row,) = names["profiler"].get_profiler("metrics_profiler").operations
    assert row.custom_metrics["custom_metric"] == 42 and row.custom_metrics["result_size"] == 3
    assert os.path.isfile("profiling_results/custom_filename.json")
    assert os.path.isfile("profiling_results/session_experiment_123.json")


def test_a_profiler_of_ones_own(names):
    run(names, "Contributing")
    profiler = names["MyCustomProfiler"](ProfilerConfig())  # noqa: F405
    with profiler.profile_operation("own", "component", tags=["a", "b"]) as operation:
        operation.add_metric("size", 3)
    assert [row["name"] for row in profiler.get_metrics(tags=["a"])] == ["own"]
    assert profiler.get_metrics(tags=["c"]) == []
    assert profiler.get_specialized_metrics() == {"custom_metric": "value"}


def test_the_example_that_shows_everything_runs():
    example = Path(__file__).parent.parent / "examples" / "profiling_system_example.py"
    done = subprocess.run(
        [sys.executable, str(example), "results"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    titles = [line.split(":")[0] for line in done.stdout.splitlines() if line.startswith("== ")]
    assert titles == [
        "== basic", "== evolution", "== training", "== comprehensive", "== comparison",
    ]
    assert "Total Operations: 82" in done.stdout and "deeper: +0.050 on average" in done.stdout
    assert "epoch 2: epoch 1 times" in done.stdout and "logged 9 figures" in done.stdout
    sessions = sorted(path.name for path in Path("results").glob("*.spanwise-session"))
    assert sessions == [
        "basic.spanwise-session", "comprehensive.spanwise-session", "evolution.spanwise-session",
        "level_basic.spanwise-session", "level_comprehensive.spanwise-session",
        "level_detailed.spanwise-session", "training.spanwise-session",
    ]


def test_no_block_is_left_out():
    tests = Path(__file__).read_text(encoding="utf-8")
    assert [title for title in BLOCKS if f'"{title}"' not in tests] == []
