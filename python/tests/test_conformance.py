"""Every public name is there, takes what it took, and gives what it gave."""

import csv
import inspect
import json
import time
from dataclasses import fields
from pathlib import Path

import pytest

import spanwise.profiling as profiling
from spanwise.profiling import *  # noqa: F403
from spanwise.profiling import BaseProfiler, ProfilerConfig, ProfilerLevel, ProfilerManager
from spanwise.profiling import EvolutionProfiler, OperationProfiler

NAMES = """
ProfilerManager BaseProfiler ProfilerConfig ProfilerLevel ProfilerContext BatchProfilerContext
profile_function profile_method profile_component profile_if_enabled profile_async
profile_evolution profile_metrics profile_training profile_network
profile_operation profile_batch_operation profile_function_call profile_if_slow
profile_memory_intensive EvolutionProfiler
create_standard_profiler create_lightweight_profiler create_comprehensive_profiler
create_custom_profiler create_evolution_focused_profiler create_research_profiler
create_production_profiler quick_evolution_profiler quick_research_profiler
quick_lightweight_profiler
MetricType ProfiledOperation ProfiledOperationContext MultiProfilerContext
get_global_profiler_manager set_global_profiler_manager get_global_batch_profiler is_profiled
get_profile_config remove_profiling
KernelProfiler ProfileResult ComponentOperationContext ComponentProfiler ComponentMetrics
create_component_profiler inject_profiler_into_component
PerformanceMonitor PerformanceSnapshot PerformanceAlert
HealthMonitor HealthStatus HealthCheck ComponentHealth
ResourceMonitor ResourceSnapshot ResourceAlert
AlertSystem AlertRule AlertSeverity AlertChannel Alert
live LiveSession deep_trace DeepTrace DeepRecording
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_there(name):
    assert name in profiling.__all__ and getattr(profiling, name) is not None


def check_signature(function, expected):
    found = inspect.signature(function)
    names = [name for name in found.parameters if name != "self"]
    assert names[: len(expected)] == expected


@pytest.mark.parametrize("function, expected", [
    (profiling.profile_function, "operation_name component profiler_names tags level"),
    (profiling.profile_method,
     "operation_name component profiler_names tags level include_self_info"),
    (profiling.profile_component,
     "component_name profiler_names tags level methods_to_profile exclude_methods"),
    (profiling.profile_if_enabled, "operation_name component condition"),
    (profiling.profile_async, "operation_name component profiler_names tags level"),
    (profiling.ProfilerContext, "operation_name component profiler_names tags level lazy_init"),
    (profiling.BatchProfilerContext, "batch_size flush_interval"),
    (profiling.profile_operation, "operation_name component profiler_names tags level"),
    (profiling.profile_batch_operation, "operation_name component custom_metrics"),
    (profiling.profile_function_call, "func operation_name component"),
    (profiling.profile_if_slow, "threshold_seconds"),
    (profiling.create_standard_profiler, "level output_dir enable_memory enable_compute"),
    (profiling.create_comprehensive_profiler, "output_dir enable_wandb"),
    (profiling.create_custom_profiler, "profiler_configs global_config"),
    (profiling.create_evolution_focused_profiler, "level output_dir"),
    (profiling.create_research_profiler, "experiment_name level enable_all_integrations"),
    (profiling.create_production_profiler, "max_overhead_percent output_dir"),
    (EvolutionProfiler.track_growth_event,
     "strategy_name growth_type network_before network_after performance_improvement metadata"),
    (EvolutionProfiler.track_analyzer_execution,
     "analyzer_name execution_time analysis_results network_size"),
    (EvolutionProfiler.track_architecture_change,
     "old_architecture new_architecture change_type change_reason"),
    (ProfilerManager.profile_operation, "operation_name component profiler_names tags"),
    (BaseProfiler.get_metrics, "component operation_name tags"),
])
def test_it_takes_what_it_took(function, expected):
    check_signature(function, expected.split())


def test_levels_and_configuration():
    assert {level.name: level.value for level in ProfilerLevel} == {
        "DISABLED": 0, "BASIC": 1, "DETAILED": 2, "COMPREHENSIVE": 3,
    }
    assert [kind.value for kind in profiling.MetricType] == [
        "time", "memory", "compute", "io", "custom",
    ]
    config = ProfilerConfig()
    assert {field.name: getattr(config, field.name) for field in fields(config)} == {
        "enabled": True, "level": ProfilerLevel.BASIC, "profile_time": True,
        "profile_memory": True, "profile_compute": False, "profile_io": False,
        "sampling_interval": 0.1, "max_samples": 1000, "auto_save": True, "save_interval": 100,
        "output_dir": "profiling_results", "output_format": "json",
        "max_overhead_percent": 5.0, "adaptive_sampling": True, "integrate_with_wandb": False,
        "integrate_with_logging": True, "custom_metrics": {},
    }


OPERATION_KEYS = """
name start_time end_time duration memory_before memory_after memory_peak gpu_memory_before
gpu_memory_after gpu_utilization custom_metrics thread_id process_id component tags
""".split()
SUMMARY_KEYS = """
total_operations total_time average_duration min_duration max_duration total_memory_delta
average_overhead overhead_percentage component_breakdown
""".split()


def recorded(**config):
    manager = ProfilerManager(ProfilerConfig(output_dir="out", **config))
    manager.register_profiler(OperationProfiler("one", manager.global_config))
    manager.start_session("session")
    with manager.profile_operation("outer", "a", tags=["t"]) as outer:
        outer.add_metric("odd", object())
        with profiling.profile_operation("inner", "b") as inner:
            inner.add_metrics({"x": 1})
    assert inner.duration is not None and inner.duration <= outer.duration
    return manager


def test_shapes_of_a_profiler():
    manager = recorded()
    one = manager.get_profiler("one")
    rows = one.get_metrics()
    assert [list(row) for row in rows] == [OPERATION_KEYS] * 2
    assert rows[0]["custom_metrics"]["x"] == 1 and rows[0]["custom_metrics"]["success"] is True
    assert [row["name"] for row in one.get_metrics(component="a")] == ["outer"]
    assert [row["name"] for row in one.get_metrics(operation_name="inner")] == ["inner"]
    assert [row["name"] for row in one.get_metrics(tags=["t"])] == ["outer"]
    summary = one.get_summary_stats()
    assert list(summary) == SUMMARY_KEYS
    assert summary["component_breakdown"]["a"]["count"] == 1
    one.clear_results()
    assert one.get_summary_stats() == {} and one.operations == []


def test_shapes_of_a_manager():
    manager = recorded()
    status = manager.get_status()
    assert list(status) == [
        "is_profiling", "session_id", "session_duration", "profilers_count", "profilers",
        "global_config",
    ]
    assert list(status["profilers"]["one"]) == [
        "enabled", "level", "operations_count", "overhead",
    ]
    sums = manager.get_aggregated_metrics()
    assert list(sums) == [
        "total_operations", "total_time", "total_memory_delta", "profiler_breakdown",
        "component_breakdown", "operation_breakdown",
    ]
    assert set(sums["operation_breakdown"]["outer"]) == {
        "count", "total_time", "avg_time", "profilers",
    }
    assert list(manager.get_aggregated_metrics(component="b")["operation_breakdown"]) == ["inner"]
    filtered = manager.get_aggregated_metrics(operation_name="outer")
    assert list(filtered["operation_breakdown"]) == ["outer"]
    assert sums["total_operations"] == 2
    data = manager.end_session()
    assert list(data) == ["session_id", "session_duration", "start_time", "end_time", "profilers"]
    assert set(data["profilers"]["one"]) == {
        "summary_stats", "specialized_metrics", "operations_count",
    }
    assert manager.end_session() == {}
    before = manager.get_status()["session_duration"]
    time.sleep(0.01)
    assert manager.get_status()["session_duration"] == before


def test_files():
    manager = recorded()
    manager.end_session()
    session = json.loads(Path("out/session_session.json").read_text())
    assert session["session_id"] == "session"
    (path,) = Path("out").glob("one_profile_*.json")
    saved = json.loads(path.read_text())
    assert {"profiler_name", "config", "summary_stats", "operations"} <= set(saved)
    assert [list(row) for row in saved["operations"]] == [OPERATION_KEYS] * 2
    one = manager.get_profiler("one")
    one.save_results("table.csv")
    with open("out/table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["inner", "outer"] and list(rows[0]) == OPERATION_KEYS
    assert 'spanwise_operations_total{operation="outer"} 1' in manager.prometheus_text()


def test_saving_goes_on_while_operations_come():
    one = OperationProfiler("alone", ProfilerConfig(output_dir="out", save_interval=10))
    for number in range(25):
        one.end_operation(one.start_operation("step", "work"), number=number)
    (path,) = Path("out").glob("alone_operations_*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["custom_metrics"]["number"] for row in rows] == list(range(20))


def test_batches_are_recorded():
    manager = recorded(auto_save=False)
    for _ in range(250):
        with profiling.profile_batch_operation("batched", "batch", {"k": 1}):
            pass
    profiling.get_global_batch_profiler().flush()
    with profiling.BatchProfilerContext(batch_size=2) as batch:
        batch.add_operation("timed", "batch", 0.25)

    @profiling.profile_if_slow(threshold_seconds=3600)
    def quick():
        return 1

    @profiling.profile_if_slow(threshold_seconds=0.01)
    def slow():
        time.sleep(0.01)
        return 2

    assert (quick(), slow()) == (1, 2)
    assert slow.__name__ == "slow"
    sums = manager.get_aggregated_metrics()["operation_breakdown"]
    assert sums["batched"]["count"] == 250 and sums["slow"]["count"] == 1
    assert "quick" not in sums
    assert abs(sums["timed"]["avg_time"] - 0.25) < 1e-6


def test_calls_and_conditions():
    manager = recorded(auto_save=False)
    assert profiling.profile_function_call(sorted, "sorting", "calls", [3, 1]) == [1, 3]

    @profiling.profile_if_enabled(condition=lambda: 1 / 0)
    def never():
        return 1

    @profiling.profile_memory_intensive(threshold_mb=1)
    def much():
        return 2

    assert never() == 1 and much() == 2
    manager.set_global_level(ProfilerLevel.DETAILED)
    assert much() == 2
    sums = manager.get_aggregated_metrics()["operation_breakdown"]
    assert sums["much"]["count"] == 1 and "never" not in sums
    row = manager.get_profiler("one").get_metrics(operation_name="sorting")[0]
    assert row["custom_metrics"]["result_size"] == 2


def test_what_was_decorated_can_be_asked_and_undone():
    @profiling.profile_component()
    class Thing:
        def method(self):
            return 1

        @staticmethod
        def static(value):
            return value

        @classmethod
        def of_class(cls):
            return cls.__name__

        def _private(self):
            return 2

    manager = recorded(auto_save=False)
    assert (Thing().method(), Thing().static(3), Thing.of_class()) == (1, 3, "Thing")
    sums = manager.get_aggregated_metrics(component="thing")["operation_breakdown"]
    assert sorted(sums) == ["Thing.method", "Thing.of_class", "Thing.static"]
    assert profiling.is_profiled(Thing) and profiling.is_profiled(Thing.method)
    config = profiling.get_profile_config(Thing)
    assert config["profiled_methods"] == ["method", "static", "of_class"]
    assert not profiling.is_profiled(Thing._private)
    profiling.remove_profiling(Thing)
    assert not profiling.is_profiled(Thing) and Thing().static(4) == 4

    def plain():
        return 5

    decorated = profiling.profile_function()(plain)
    assert profiling.remove_profiling(decorated) is plain
    assert profiling.get_profile_config(decorated)["operation_name"] == "plain"


def test_only_the_named_profilers_get_it():
    manager = recorded(auto_save=False)
    manager.register_profiler(OperationProfiler("two", ProfilerConfig(auto_save=False)))

    @profiling.profile_function(profiler_names=["two"])
    def for_two():
        pass

    for_two()
    assert manager.get_profiler("two").operation_count == 1
    assert manager.get_profiler("one").operation_count == 2
    manager.disable_all()
    for_two()
    manager.enable_all()
    for_two()
    assert manager.get_profiler("two").operation_count == 2
    assert manager.get_aggregated_metrics()["operation_breakdown"]["for_two"]["count"] == 2


def test_the_report_without_anything():
    assert ProfilerManager().get_performance_report() == "No profiling data available."


def test_rankings_of_strategies_that_do_harm():
    evolution = EvolutionProfiler()
    for improvement in (-0.5, -0.1):
        evolution.track_growth_event("bad", "x", None, None, improvement)
    (row,) = evolution.get_strategy_ranking()
    assert row["best_improvement"] == -0.1 and 0 <= row["consistency"] <= 1
    evolution.track_architecture_change([10, 5], [10, 7, 5], "add_layer", "reason")
    changes = evolution.get_specialized_metrics()["architecture_changes"]
    assert changes["total_depth_increase"] == 1 and changes["total_neuron_increase"] == 7
    for seconds in (1.0, 2.0, 3.0):
        evolution.track_analyzer_execution("slow", seconds, {}, 10)
    report = evolution.get_analyzer_efficiency_report()
    assert report["scalability_analysis"]["slow"]["trend"] == "degrading"
    performance = evolution.get_specialized_metrics()["analyzer_performance"]["slow"]
    assert performance["average_time_per_parameter"] == pytest.approx(0.2)


@pytest.mark.parametrize("make, expected", [
    (profiling.create_standard_profiler, "BASIC mem 50 5.0 data/profiling_results"),
    (profiling.create_lightweight_profiler, "BASIC 100 1.0 data/profiling_results"),
    (profiling.create_comprehensive_profiler,
     "COMPREHENSIVE mem gpu io 25 10.0 data/profiling_results"),
    (profiling.create_evolution_focused_profiler,
     "DETAILED mem gpu 10 5.0 evolution_profiling"),
    (lambda: profiling.create_research_profiler("x"),
     "COMPREHENSIVE mem gpu io 20 15.0 research_profiling/x fixed"),
    (profiling.create_production_profiler, "BASIC mem 200 2.0 production_profiling"),
    (profiling.quick_lightweight_profiler, "BASIC 100 1.0 data/profiling_results"),
    (profiling.quick_evolution_profiler, "DETAILED mem gpu 10 5.0 evolution_profiling"),
    (lambda: profiling.quick_research_profiler("x"),
     "COMPREHENSIVE mem gpu io 20 15.0 research_profiling/x fixed"),
])
def test_factories_set_what_they_set(make, expected):
    manager = make()
    config = manager.global_config
    words = [config.level.name]
    for word, is_on in (("mem", config.profile_memory), ("gpu", config.profile_compute),
                        ("io", config.profile_io)):
        words += [word] if is_on else []
    words += [str(config.save_interval), str(config.max_overhead_percent), config.output_dir]
    words += [] if config.adaptive_sampling else ["fixed"]
    assert " ".join(words) == expected
    assert list(manager.profilers) == ["evolution_profiler"]


def test_shapes_of_evolution():
    evolution = EvolutionProfiler()
    evolution.track_growth_event("s", "wide", None, None, 0.5, {"note": 1})
    evolution.track_analyzer_execution("a", 0.5, [1, 2], 10)
    evolution.track_architecture_change([1], [1, 2], "grow", "why")
    found = evolution.get_specialized_metrics()
    assert {name: list(row) for name, row in found.items() if name != "strategy_performance"
            and name != "analyzer_performance"} == {
        "growth_events": ["total_events", "events_by_type", "events_by_strategy",
                          "total_performance_improvement", "average_performance_improvement"],
        "architecture_changes": ["total_changes", "changes_by_type", "total_depth_increase",
                                 "total_neuron_increase"],
    }
    assert list(found["strategy_performance"]["s"]) == [
        "total_applications", "average_improvement", "best_improvement", "worst_improvement",
        "growth_types_used",
    ]
    assert list(found["analyzer_performance"]["a"]) == [
        "total_executions", "average_time", "min_time", "max_time", "average_time_per_parameter",
        "time_per_parameter_std",
    ]
    assert list(evolution.get_strategy_ranking()[0]) == [
        "strategy_name", "average_improvement", "total_applications", "best_improvement",
        "consistency",
    ]
    assert list(evolution.get_analyzer_efficiency_report()) == [
        "most_efficient", "least_efficient", "scalability_analysis",
    ]
