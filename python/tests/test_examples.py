"""The examples that users of this interface start from run as they are written."""

import os
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


def run(names, *blocks):
    for block in blocks:
        exec(block, names)
    return names


QUICK_START = '''
from spanwise.profiling import create_standard_profiler, profile_function

# Create a profiler
profiler = create_standard_profiler()
profiler.start_session("my_experiment")

# Profile a function with decorator
@profile_function(component="evolution")
def my_evolution_function():
    # Your code here
    pass

# Profile with context manager
with profiler.profile_operation("data_loading", "data"):
    # Load and process data
    pass
'''
QUICK_START_END = '''
# Get results
profiler.end_session()
print(profiler.get_performance_report())
'''


def test_quick_start(names, capsys):
    run(names, QUICK_START)
    for _ in range(5):
        names["my_evolution_function"]()
    run(names, QUICK_START_END)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["🔬 PROFILING PERFORMANCE REPORT", "=" * 50, "Session: my_experiment"]
    assert "Total Operations: 6" in lines
    assert any(line.startswith("  evolution: 5 ops, 0.000s total, 0.0000s avg") for line in lines)
    assert any(line.startswith("  data: 1 ops") for line in lines)


EVOLUTION = '''
from spanwise.profiling import create_evolution_focused_profiler

# Create specialized evolution profiler
profiler = create_evolution_focused_profiler()
evolution_profiler = profiler.get_profiler("evolution_profiler")

# Track growth events
evolution_profiler.track_growth_event(
    strategy_name="ExtremaGrowthStrategy",
    growth_type="add_layer",
    network_before=old_network,
    network_after=new_network,
    performance_improvement=0.05
)

# Get evolution-specific metrics
metrics = evolution_profiler.get_specialized_metrics()
rankings = evolution_profiler.get_strategy_ranking()
'''


def test_evolution(names):
    run(names, EVOLUTION)
    events = names["metrics"]["growth_events"]
    assert events["total_events"] == 1 and events["events_by_type"] == {"add_layer": 1}
    assert names["rankings"][0]["strategy_name"] == "ExtremaGrowthStrategy"
    assert names["evolution_profiler"].growth_events[0]["parameter_increase"] == 4


TYPES = '''
profiler = create_standard_profiler(
    level=ProfilerLevel.BASIC,
    enable_memory=True,
    enable_compute=False
)
standard = profiler
profiler = create_lightweight_profiler()
lightweight = profiler
profiler = create_comprehensive_profiler(
    enable_wandb=True  # Integrate with Weights & Biases
)
comprehensive = profiler
profiler = create_evolution_focused_profiler(
    level=ProfilerLevel.DETAILED
)
evolution = profiler
profiler = create_research_profiler("my_experiment")
research = profiler
'''
CONFIGURATION = '''
from spanwise.profiling import ProfilerConfig, ProfilerLevel

config = ProfilerConfig(
    level=ProfilerLevel.DETAILED,
    profile_memory=True,
    profile_compute=True,
    profile_io=False,
    output_dir="my_profiling_results",
    auto_save=True,
    save_interval=50,
    max_overhead_percent=5.0,
    adaptive_sampling=True
)
config.max_overhead_percent = 2.0  # Production
config.max_overhead_percent = 10.0  # Research
'''


def test_types_and_configuration(names):
    run(names, TYPES, CONFIGURATION)
    levels = {name: names[name].global_config.level.name for name in
              ("standard", "lightweight", "comprehensive", "evolution", "research")}
    assert levels == {
        "standard": "BASIC", "lightweight": "BASIC", "comprehensive": "COMPREHENSIVE",
        "evolution": "DETAILED", "research": "COMPREHENSIVE",
    }
    assert not names["lightweight"].global_config.profile_memory
    assert not names["research"].global_config.adaptive_sampling
    assert names["config"].max_overhead_percent == 10.0


DECORATORS = '''
@profile_function(component="evolution", tags=["growth"])
def grow_network(network):
    # Function automatically profiled
    pass

class MyEvolutionSystem:
    @profile_method(component="evolution")
    def analyze_network(self, network):
        # Method automatically profiled
        pass

@profile_component(component_name="evolution")
class MyOtherSystem:
    # All public methods automatically profiled
    def method1(self): pass
    def method2(self): pass

@profile_if_enabled(condition=lambda: os.getenv('PROFILE') == '1')
def conditional_function():
    # Only profiled if condition is met
    pass

@profile_if_enabled(condition=lambda: DEBUG_MODE)
def debug_function():
    pass
'''


def test_decorators(names, monkeypatch):
    run(names, DECORATORS)
    profiler = create_standard_profiler()  # noqa: F405
    profiler.start_session("decorated")
    names["grow_network"](1)
    names["MyEvolutionSystem"]().analyze_network(1)
    names["MyOtherSystem"]().method1()
    names["MyOtherSystem"]().method2()
    names["conditional_function"]()
    names["debug_function"]()
    monkeypatch.setenv("PROFILE", "1")
    names["conditional_function"]()
    profiler.end_session()
    operations = profiler.get_profiler("evolution_profiler").operations
    assert [(row.name, row.component) for row in operations] == [
        ("grow_network", "evolution"),
        ("MyEvolutionSystem.analyze_network", "evolution"),
        ("MyOtherSystem.method1", "evolution"),
        ("MyOtherSystem.method2", "evolution"),
        ("conditional_function", "general"),
    ]
    assert operations[0].tags == ["growth"]


SPECIALIZED = '''
evolution_profiler = EvolutionProfiler()

# Track growth events
evolution_profiler.track_growth_event(
    strategy_name="AddLayerStrategy",
    growth_type="layer_addition",
    network_before=old_net,
    network_after=new_net,
    performance_improvement=0.03
)

# Track analyzer performance
evolution_profiler.track_analyzer_execution(
    analyzer_name="ExtremaAnalyzer",
    execution_time=0.15,
    analysis_results=results,
    network_size=1000
)

# Get strategy rankings
rankings = evolution_profiler.get_strategy_ranking()
'''
ADVANCED = '''
from spanwise.profiling import create_custom_profiler

profiler_configs = {
    "evolution": ProfilerConfig(level=ProfilerLevel.COMPREHENSIVE),
    "metrics": ProfilerConfig(level=ProfilerLevel.BASIC),
    "training": ProfilerConfig(level=ProfilerLevel.DETAILED)
}

profiler = create_custom_profiler(profiler_configs)
'''
WANDB = '''
import wandb

# Initialize wandb
run = wandb.init(project="structure_net")

# Integrate with profiler
profiler.integrate_with_wandb(run)

# Profiling data automatically logged to wandb
'''
MANUAL = '''
# Start operation
op_id = profiler.start_operation("my_operation", "component")

# Your code here
result = expensive_function()

# End operation with custom metrics
profiler.end_operation(op_id, 
                      custom_metric=42,
                      result_size=len(result))
'''
REPORTS = '''
# Get human-readable report
report = profiler.get_performance_report()
print(report)
# Get detailed metrics
aggregated = profiler.get_aggregated_metrics()

print(f"Total operations: {aggregated['total_operations']}")
print(f"Component breakdown: {aggregated['component_breakdown']}")
print(f"Operation breakdown: {aggregated['operation_breakdown']}")
evolution_profiler = profiler.get_profiler("evolution_profiler")

# Strategy performance
rankings = evolution_profiler.get_strategy_ranking()
for rank in rankings:
    print(f"{rank['strategy_name']}: {rank['average_improvement']:.3f}")

# Analyzer efficiency
efficiency = evolution_profiler.get_analyzer_efficiency_report()
print(f"Most efficient: {efficiency['most_efficient']}")
print(f"Least efficient: {efficiency['least_efficient']}")
'''
EXPORT = '''
# Auto-save enabled by default
profiler.save_all_results()

# Manual save
profiler.save_results("custom_filename.json")
# End session with data export
session_data = profiler.end_session(save_results=True)
'''
STATUS = '''
# Enable debug logging
import logging
logging.basicConfig(level=logging.DEBUG)

# Check profiler status
status = profiler.get_status()
print(f"Profiling enabled: {status['is_profiling']}")
print(f"Active profilers: {status['profilers_count']}")
'''
CUSTOM = '''
class MyCustomProfiler(BaseProfiler):
    def __init__(self, config):
        super().__init__("my_profiler", config)
    
    def get_specialized_metrics(self):
        return {"custom_metric": "value"}
'''


def test_a_session_with_everything(names, capsys):
    run(names, SPECIALIZED, ADVANCED)
    names["profiler"].register_profiler(names["evolution_profiler"])
    run(names, "profiler.start_session('experiment_123')", WANDB, MANUAL, REPORTS, STATUS, EXPORT)
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
    run(names, CUSTOM)
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
