"""What is measured follows the budget, and every change is reported."""

import multiprocessing
import os
import random
import time

import pytest

import spanwise
from spanwise import _native
from spanwise.profiling import OperationProfiler, ProfilerConfig, ProfilerLevel, ProfilerManager
from spanwise.profiling import profile_function
from spanwise.profiling._core import plan as _plan
from spanwise.profiling._core import sites as _sites
from spanwise.profiling._core import wrap as _wrap
from spanwise.profiling._core.plan import Costs, Load
from spanwise.profiling.adaptive.adapt import Window, next_level

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


# Seconds for one call; round numbers, so that shares are easy to see.
COSTS = Costs(time=40e-9, through=10e-9, row=50e-9, probes=900e-9, off=0.0, by_hand=500e-9)
FULL, TIMES, SUMS, IN_8, IN_64, OFF = range(6)


@pytest.mark.parametrize("step, is_by_hand, expected_ns", [
    (FULL, False, 1000), (TIMES, False, 100), (SUMS, False, 50), (IN_8, False, 15),
    (IN_64, False, 10.625), (OFF, False, 0), (FULL, True, 1450), (TIMES, True, 550),
])
def test_what_a_call_costs(step, is_by_hand, expected_ns):
    assert COSTS.of(step, is_by_hand) == pytest.approx(expected_ns * 1e-9)


def steps_down(loads, budget, costs=COSTS):
    """The moves of one window of a second: site, before, after."""
    return [move[:3] for move in _plan.down(loads, costs, 1.0, budget)]


@pytest.mark.parametrize("loads, budget, expected", [
    # Within the budget, nothing moves: 50 000 calls of a microsecond are 5 %.
    ([Load(1, FULL, 50_000)], 5.1, []),
    # The dearest first, and no more than is needed.
    ([Load(1, FULL, 10_000), Load(2, FULL, 50_000)], 5.0, [(2, FULL, TIMES)]),
    ([Load(1, FULL, 40_000), Load(2, FULL, 50_000)], 0.5, [(2, FULL, TIMES), (1, FULL, TIMES)]),
    # One step each, down to the last.
    ([Load(1, TIMES, 1_000_000)], 5.0, [(1, TIMES, SUMS)]),
    ([Load(1, SUMS, 2_000_000)], 5.0, [(1, SUMS, IN_8)]),
    ([Load(1, IN_64, 9_000_000)], 5.0, [(1, IN_64, OFF)]),
    ([Load(1, OFF, 9_000_000)], 5.0, []),
    # What is reported one by one keeps its rows.
    ([Load(1, FULL, 100_000, True)], 5.0, [(1, FULL, TIMES)]),
    ([Load(1, TIMES, 1_000_000, True)], 5.0, []),
])
def test_the_dearest_sites_go_down_first(loads, budget, expected):
    assert steps_down(loads, budget) == expected


def test_without_probes_times_only_saves_nothing():
    costs = COSTS._replace(probes=0.0)
    assert steps_down([Load(1, FULL, 1_000_000)], 5.0, costs) == [(1, FULL, SUMS)]


@pytest.mark.parametrize("loads, expected", [
    ([Load(1, FULL, 10)], None),
    ([Load(1, SUMS, 100_000)], (1, SUMS, TIMES)),
    # That would be 4 % again, more than half of the budget.
    ([Load(1, TIMES, 40_000)], None),
    # The one that costs least to restore.
    ([Load(1, TIMES, 20_000), Load(2, TIMES, 10_000)], (2, TIMES, FULL)),
    # What is off has to be measured first.
    ([Load(1, OFF, 0)], None),
])
def test_what_is_affordable_again_goes_up(loads, expected):
    move = _plan.up(loads, COSTS, 1.0, 5.0)
    assert (move and move[:3]) == expected


def test_what_is_off_is_measured_again():
    loads = [Load(1, OFF, 0, False, windows) for windows in (24, 25)]
    assert [move[:3] for move in _plan.try_again(loads)] == [(1, OFF, IN_64)]


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_saves_enough_or_moves_all(seed):
    chance = random.Random(seed)
    loads = [
        Load(site, chance.randrange(6), chance.randrange(1_000_000), chance.random() < 0.2)
        for site in range(chance.randrange(1, 30))
    ]
    loads = [load._replace(step=min(load.step, load.last_step)) for load in loads]
    budget = chance.choice([0.5, 2.0, 5.0])
    moves = {move.site: move.after for move in _plan.down(loads, COSTS, 1.0, budget)}
    after = [load._replace(step=moves.get(load.site, load.step)) for load in loads]
    percent = _plan.percent_of(after, COSTS, 1.0)
    can_move = {load.site for load in loads if load.step < load.last_step and load.calls}
    assert percent <= budget or set(moves) == can_move
    assert percent <= _plan.percent_of(loads, COSTS, 1.0)


def test_a_site_over_the_budget_is_recorded_more_cheaply_and_back():
    manager = started(level=DETAILED, max_overhead_percent=5.0)
    controller = manager._controller
    # Decided by hand, so that no time matters.
    controller._stop.set()
    controller._thread.join()

    @profile_function
    def work():
        sum(range(10))

    def window(calls, busy_s=1.0):
        work()
        (load,) = controller._loads()
        controller.decide(manager, [load._replace(calls=calls)], COSTS, busy_s)
        return _plan.STEPS[controller._sites[load.site].step].words

    assert [window(2_000_000) for _ in range(5)] == [
        "times only", "sums only", "one call in 8", "one call in 8", "one call in 8"]
    assert [window(6_000_000) for _ in range(2)] == ["one call in 64", "not recorded"]
    assert manager.current_level is DETAILED, "the level comes last"
    for _ in range(90):
        words = window(10)
    assert words == "in full"
    manager.end_session()
    assert counts(manager)["work"] == 97 or _wrap.can_patch()
    changes = [(change.before, change.after) for change in manager.adjustments]
    assert changes[:2] == [("in full", "times only"), ("times only", "sums only")]
    assert changes[-1] == ("times only", "in full")
    report = manager.get_performance_report()
    assert "work: times only → in full: affordable again within 5 %" in report
    with open("out/test.spanwise-session", "rb") as file:
        assert "spanwise: work: in full → times only: over the budget".encode() in file.read()


def in_mode(step, body, level=BASIC):
    """Runs a body while a decorated function is recorded by a step."""
    manager = started(level=level, adaptive_sampling=False)
    body(0)
    for number, *_ in _native.tallies():
        if _sites.site(number).name == body.__name__:
            _native.set_mode(number, step.mode, step.shift)
    return manager


def counts(manager):
    rows = manager.get_aggregated_metrics()["operation_breakdown"]
    return {name: row["count"] for name, row in rows.items()}


@profile_function(component="recursion")
def down_to(depth):
    return 0 if depth == 0 else 1 + down_to(depth - 1)


def test_sums_count_every_call_and_nested_time_once():
    manager = in_mode(_plan.STEPS[SUMS], down_to)
    for _ in range(50):
        assert down_to(20) == 20
    _native.reset_modes()
    manager.end_session()
    row = manager.get_aggregated_metrics()["operation_breakdown"]["down_to"]
    assert (row["count"], row["without_rows"], row["estimated"]) == (50 * 21 + 1, 50 * 21, 0)
    summary = manager.get_profiler("all").get_summary_stats()
    # All time is within the outermost of them, of which each sum has the same.
    assert summary["total_time"] == pytest.approx(row["total_time"])
    assert summary["component_breakdown"]["recursion"]["total_time"] == pytest.approx(
        row["total_time"])
    assert row["total_time"] < row["avg_time"] * row["count"]
    assert len(manager.get_profiler("all").operations) == 1


@profile_function
def holds(calls):
    for _ in range(calls):
        row_within()


@profile_function
def row_within():
    sum(range(1000))


def test_rows_within_sums_count_once():
    manager = in_mode(_plan.STEPS[SUMS], holds)
    began = time.perf_counter()
    for _ in range(20):
        holds(5)
    took = time.perf_counter() - began
    _native.reset_modes()
    manager.end_session()
    assert counts(manager) == {"holds": 21, "row_within": 100}
    rows = manager.get_aggregated_metrics()["operation_breakdown"]
    total = manager.get_profiler("all").get_summary_stats()["total_time"]
    assert total <= took and total == pytest.approx(rows["holds"]["total_time"], rel=0.05)


@profile_function
def sampled(number):
    if number % 100 == 99:
        raise KeyError
    return sum(range(50))


def test_sampled_calls_are_counted_and_their_time_is_estimated():
    manager = in_mode(_plan.STEPS[IN_8], sampled)
    calls = 20_000
    for number in range(calls):
        try:
            sampled(number)
        except KeyError:
            pass
    _native.reset_modes()
    manager.end_session()
    sums = _native.sums(manager._whole)[0]
    assert (sums[0], sums[5]) == (calls + 1, calls // 100)
    timed = sums[7] - sums[8]
    assert calls / 10 < timed < calls / 6
    # Those that are not timed are taken to be like those that are.
    assert sums[3] < sums[1] / sums[0] < sums[4]
    assert "estimated" in manager.get_performance_report()


def test_blocks_are_summed_up_too():
    manager = started(adaptive_sampling=False)
    block = spanwise.span("summed block")
    for step in (FULL, SUMS, IN_8, OFF, FULL):
        for _ in range(100):
            with block:
                pass
        for number, *_ in _native.tallies():
            if _sites.site(number).name == "summed block":
                _native.set_mode(number, *_plan.STEPS[step][:2])
    _native.reset_modes()
    manager.end_session()
    assert counts(manager) == {"summed block": 500}
    assert len(manager.get_profiler("all").operations) == 200


def test_a_hot_function_is_recorded_more_cheaply_and_counted_all_the_same():
    manager = started(level=BASIC, max_overhead_percent=5.0)

    @profile_function
    def hot():
        pass

    # However fast the machine is, the controller checks several times.
    for _ in range(10):
        for _ in range(100_000):
            hot()
        manager._controller.check(manager)
    is_known = not _wrap.can_patch()
    manager.end_session()
    row = manager.get_aggregated_metrics()["operation_breakdown"]["hot"]
    # From Python 3.12 on, calls of what is not recorded cost nothing and are not counted.
    was_off = any(change.after == "not recorded" for change in manager.adjustments)
    if is_known or not was_off:
        assert row["count"] + manager._dropped == 1_000_000
    assert 0 < row["without_rows"] <= row["count"] <= 1_000_000
    assert any(change.operation == "hot" for change in manager.adjustments)


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


def spawned_worker(numbers, results):
    # A spawned worker knows nothing of its parent's session: it has one of its own.
    manager = started(level=BASIC)
    for number in numbers:
        item(number)
    manager.end_session()
    results.put((os.getpid(), counts(manager)))


def test_spawned_workers_have_sessions_of_their_own():
    manager = started(level=BASIC)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=spawned_worker, args=(range(7), results)) for _ in range(2)]
    for process in workers:
        process.start()
    found = dict(results.get(timeout=120) for _ in workers)
    for process in workers:
        process.join(timeout=120)
    assert found == {process.pid: {"item": 7} for process in workers}
    manager.end_session()
    assert counts(manager) == {}


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
