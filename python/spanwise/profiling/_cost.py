"""What recording costs here: measured once, on empty operations and calls."""

from __future__ import annotations

import time
from typing import Any, Callable

from .. import _native

_known: dict = {}
ROUNDS = 7
PER_ROUND = 50
# Above every level: such a function is never recorded, only called through.
NEVER = 254


def of_operations(count: int, by_hand: int, probes: int) -> float:
    """Seconds that so many operations cost, some of them begun and ended by hand."""
    return by_hand * of_operation(probes) + (count - by_hand) * of_call(probes)


def of_operation(probes: int) -> float:
    """Seconds that beginning and ending an empty operation takes."""
    if ("operation", probes) not in _known:
        _known["operation", probes] = _best(lambda: _native.begin_trial(probes).end())
    return _known["operation", probes]


def of_call(probes: int) -> float:
    """Seconds that a recorded call takes more than a plain one."""
    if ("call", probes) not in _known:

        def plain() -> None:
            pass

        through = _native.wrap(_native.ProfiledFunction, plain, 0, NEVER)
        called = max(0.0, _best(through) - _best(plain))
        measured = of_operation(probes) - of_operation(0) if probes else 0.0
        _known["call", probes] = called + _native.cost_of_record() + max(0.0, measured)
    return _known["call", probes]


def _best(function: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(PER_ROUND):
            function()
        best = min(best, (time.perf_counter() - began) / PER_ROUND)
    return best
