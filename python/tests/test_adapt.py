"""What is measured follows the budget, and every change is told."""

import multiprocessing

import pytest

from spanwise import _native
from spanwise.profiling import OperationProfiler, ProfilerConfig, ProfilerLevel, ProfilerManager
from spanwise.profiling import adapt, profile_function
from spanwise.profiling.adapt import Window, next_level

BASIC, DETAILED, ALL = ProfilerLevel.BASIC, ProfilerLevel.DETAILED, ProfilerLevel.COMPREHENSIVE


@pytest.mark.parametrize("level, highest, percent, above, calm, expected", [
    (ALL, ALL, 5.1, 5.1, 0, (DETAILED, 0)),
    (DETAILED, ALL, 9.0, 20.0, 2, (BASIC, 0)),
    (BASIC, ALL, 9.0, 20.0, 0, (BASIC, 0)),
    (ALL, ALL, 5.0, 5.0, 0, (ALL, 0)),
    (BASIC, ALL, 0.1, 2.4, 0, (BASIC, 1)),
    (BASIC, ALL, 0.1, 2.4, 1, (BASIC, 2)),
    (BASIC, ALL, 0.1, 2.4, 2, (DETAILED, 0)),
    (BASIC, ALL, 0.1, 2.6, 2, (BASIC, 0)),
    (DETAILED, DETAILED, 0.1, 0.1, 2, (DETAILED, 0)),
])
def test_the_next_level(level, highest, percent, above, calm, expected):
    assert next_level(level, highest, Window(percent, above), 5.0, calm) == expected


def started(**config):
    settings = ProfilerConfig(output_dir="out", **config)
    manager = ProfilerManager(settings)
    manager.register_profiler(OperationProfiler("all", settings))
    manager.start_session("test")
    return manager


def test_a_session_over_its_budget_measures_less(monkeypatch):
    monkeypatch.setattr(adapt, "BUSY_MIN_S", 0.0)
    manager = started(level=DETAILED, max_overhead_percent=1.0)
    # Looked at by hand, so that no time matters.
    manager._controller.stop()

    @profile_function
    def work():
        pass

    for _ in range(1000):
        work()
    manager._controller.look(manager)
    assert manager.current_level is BASIC
    assert manager.get_profiler("all").current_level is BASIC
    (change,) = manager.level_adjustments
    assert (change.before, change.after) == (DETAILED, BASIC) and change.percent > 1.0
    assert "DETAILED → BASIC: over the budget of 1 %" in manager.get_performance_report()
    work()
    assert manager.get_profiler("all").operations[-1].memory_before is None
    assert manager.get_profiler("all").operations[0].memory_before is not None
    for _ in range(adapt.CALM_WINDOWS):
        sum(range(100_000))
        manager._controller.look(manager)
    assert manager.current_level is DETAILED
    manager.end_session()


def test_research_is_never_adapted():
    manager = started(level=ALL, adaptive_sampling=False)
    assert manager._controller is None
    manager.end_session()
    assert manager.level_adjustments == []


@profile_function(component="worker")
def item(number):
    return number * 2


def worker(numbers, results):
    results.put([item(number) for number in numbers])


def test_workers_of_multiprocessing_have_their_own_files():
    manager = started(level=BASIC)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=worker, args=(range(10), results)) for _ in range(3)]
    for process in workers:
        process.start()
    assert [results.get(timeout=60) for _ in workers] == [[2 * n for n in range(10)]] * 3
    for process in workers:
        process.join(timeout=60)
        assert process.exitcode == 0
    item(1)
    manager.end_session()
    assert manager.get_aggregated_metrics()["total_operations"] == 1
    for process in workers:
        with open(f"out/test.{process.pid}.spanwise-session", "rb") as file:
            data = file.read()
        # The last chunk says how many records there are, and that the file is whole.
        assert data[-32:-28] == (6).to_bytes(4, "little")
        assert int.from_bytes(data[-16:-8], "little") >= 10
    assert _native.is_on(1) is False
