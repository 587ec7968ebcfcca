"""What recording costs here: measured once, on empty operations and calls."""

from __future__ import annotations

import time
from typing import Any, Callable

from ... import _native

_known: dict = {}
ROUNDS = 7
PER_ROUND = 50
# Above every level: such a function is never recorded, only called through.
NEVER = 254


def of_sums(sums: tuple, probes: int) -> float:
    """Seconds that operations have cost, by their sums: some begun and ended by hand, some
    without a row, some not even timed.
    """
    count, by_hand, without_row, estimated = sums[0], sums[6], sums[7], sums[8]
    seconds = by_hand * of_operation(probes) + estimated * of_way()
    seconds += (without_row - estimated) * of_call(0)
    return seconds + (count - by_hand - without_row) * of_call(probes)


def of_way() -> float:
    """Seconds that a call takes more than a plain one where nothing is recorded of it."""
    if "way" not in _known:

        def plain() -> None:
            pass

        through = _native.wrap(_native.ProfiledFunction, plain, 0, NEVER)
        _known["way"] = max(0.0, _best(through) - _best(plain))
    return _known["way"]


def of_operation(probes: int) -> float:
    """Seconds that beginning and ending an empty operation takes."""
    if ("operation", probes) not in _known:
        _known["operation", probes] = _best(lambda: _native.begin_trial(probes).end())
    return _known["operation", probes]


def of_call(probes: int) -> float:
    """Seconds that a recorded call takes more than a plain one."""
    if ("call", probes) not in _known:
        measured = of_operation(probes) - of_operation(0) if probes else 0.0
        _known["call", probes] = of_way() + _native.cost_of_record() + max(0.0, measured)
    return _known["call", probes]


def _best(function: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(PER_ROUND):
            function()
        best = min(best, (time.perf_counter() - began) / PER_ROUND)
    return best
