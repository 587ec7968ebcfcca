"""Time that overlaps counts once: against a count of every tick that is covered."""

import random

import pytest

from spanwise import _native
from spanwise.profiling import OperationProfiler, ProfilerConfig
from spanwise.profiling._core import sites as _sites


def brute(intervals):
    covered = set()
    for start, end in intervals:
        covered.update(range(start, end))
    return len(covered)


@pytest.mark.parametrize("seed", range(20))
def test_covered_time_is_that_of_the_union(seed):
    chance = random.Random(seed)
    profiler = OperationProfiler("random", ProfilerConfig(auto_save=False))
    base = _native.ticks()
    unit = 1_000_000
    intervals = []
    for _ in range(chance.randrange(1, 40)):
        start = chance.randrange(0, 60)
        intervals.append((start, start + chance.randrange(0, 20)))
    names = [chance.choice("ab") for _ in intervals]
    for (start, end), name in zip(intervals, names):
        site = _sites.shared(name, "c", None, 0, profiler._number, None)
        _native.add_past_ticks(site, base + start * unit, base + end * unit)
    sums, by_name, by_component, _ = _native.sums(profiler._number)
    one = _native.seconds(unit)
    assert sums[0] == len(intervals)
    assert sums[2] == pytest.approx(brute(intervals) * one, rel=1e-3)
    for (number, _), row in by_name:
        name = _sites.name_of(number)
        of_name = [pair for pair, other in zip(intervals, names) if other == name]
        assert row[0] == len(of_name)
        assert row[2] == pytest.approx(brute(of_name) * one, rel=1e-3)
    assert by_component[0][1][2] == sums[2]
