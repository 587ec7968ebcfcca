"""What profiling costs on this machine, and whether it is what docs/profiling.md says.

    python -m spanwise overhead [--self-check]

Functions that take 5 µs, 50 µs and 1 ms run plain and decorated in turns, at each level.
With `--self-check` the program ends with 1 where a claim does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from typing import Any, Callable, NamedTuple

from .config import ProfilerConfig, ProfilerLevel
from .decorators import profile_function
from .manager import ProfilerManager
from .profilers import OperationProfiler

SPANS_US = (5, 50, 1000)
# A round is about so long, and rounds of both sorts take turns.
ROUND_S = 0.002
ROUNDS = 300


class Claim(NamedTuple):
    """At this level, functions that take this long take at most so much longer."""

    level: ProfilerLevel
    span_us: int
    percent_max: float


CLAIMS = (
    Claim(ProfilerLevel.BASIC, 5, 2.0),
    Claim(ProfilerLevel.BASIC, 50, 1.0),
    Claim(ProfilerLevel.BASIC, 1000, 1.0),
    Claim(ProfilerLevel.DETAILED, 50, 15.0),
    Claim(ProfilerLevel.DETAILED, 1000, 1.0),
    Claim(ProfilerLevel.COMPREHENSIVE, 1000, 10.0),
)


class Measured(NamedTuple):
    """What a function took plain and decorated, in seconds for one call."""

    level: ProfilerLevel
    span_us: int
    plain_s: float
    profiled_s: float

    @property
    def percent(self) -> float:
        """What the decorated one took more, of the span that was aimed at."""
        return 100.0 * (self.profiled_s - self.plain_s) / (self.span_us / 1e6)

    def claim(self) -> Claim | None:
        """What is claimed of it, if anything."""
        wanted = (self.level, self.span_us)
        return next((claim for claim in CLAIMS if claim[:2] == wanted), None)

    def holds(self) -> bool:
        claim = self.claim()
        return claim is None or self.percent <= claim.percent_max


def work_of(span_us: int) -> Callable[[], int]:
    """A function that takes about so long."""
    count = 16 * span_us
    for _ in range(3):
        took_us = min(_round(lambda: sum(range(count)), 1) for _ in range(20)) * 1e6
        count = max(1, int(count * span_us / took_us))

    def work() -> int:
        return sum(range(count))

    return work


def measure(level: ProfilerLevel, span_us: int, folder: str) -> Measured:
    """Runs a function plain and decorated, in turns; takes the best round of each."""
    # Without the budget, which would soon turn the dearer levels into the cheapest.
    config = ProfilerConfig(
        level=level,
        profile_compute=True,
        profile_io=True,
        output_dir=folder,
        adaptive_sampling=False,
    )
    manager = ProfilerManager(config)
    manager.register_profiler(OperationProfiler("overhead", config))
    plain = work_of(span_us)
    profiled = profile_function("work", "overhead")(plain)
    calls = max(1, int(ROUND_S * 1e6 / span_us))
    best = [float("inf"), float("inf")]
    manager.start_session(f"overhead_{level.name}_{span_us}")
    try:
        for at in range(2 * ROUNDS):
            took = _round(profiled if at % 2 else plain, calls)
            best[at % 2] = min(best[at % 2], took)
    finally:
        manager.end_session(save_results=False)
    return Measured(level, span_us, best[0], best[1])


def _round(function: Callable[[], Any], calls: int) -> float:
    began = time.thread_time_ns()
    for _ in range(calls):
        function()
    return (time.thread_time_ns() - began) / calls / 1e9


def main(arguments: list | None = None) -> int:
    """Measures, prints, and says whether the claims hold."""
    parser = argparse.ArgumentParser(
        prog="python -m spanwise overhead", description="What profiling costs here."
    )
    parser.add_argument("--self-check", action="store_true", help="end with 1 if a claim is broken")
    options = parser.parse_args(arguments)
    levels = [level for level in ProfilerLevel if level is not ProfilerLevel.DISABLED]
    print(f"{'level':14} {'span':>8} {'costs':>9} {'more':>8}  claim")
    all_hold = True
    with tempfile.TemporaryDirectory() as folder:
        for level in levels:
            for span_us in SPANS_US:
                row = measure(level, span_us, folder)
                claim = row.claim()
                told = "" if claim is None else f"at most {claim.percent_max:g} %"
                told += "" if row.holds() else ": BROKEN"
                cost_ns = 1e9 * (row.profiled_s - row.plain_s)
                span = f"{1e6 * row.plain_s:.1f} µs"
                print(f"{level.name:14} {span:>8} {cost_ns:6.0f} ns {row.percent:6.2f} %  {told}")
                all_hold &= row.holds()
    return 1 if options.self_check and not all_hold else 0


if __name__ == "__main__":
    sys.exit(main())
