"""What profiling costs on this machine, against docs/reference/python/profiling.md.

    python -m spanwise overhead [--self-check]

Functions that take 5 µs, 50 µs and 1 ms run plain and decorated, at each level, in short
blocks: plain, decorated, decorated, plain, so that a machine whose speed drifts slows both
alike. Two blocks give one figure of processor time of the thread, unless it lost the processor
meanwhile; the result is the median, and the interval in which the true median lies with a
confidence of 99 %, whatever the figures are distributed like. A claim does not hold where the
whole interval lies above it; where it lies on both sides, more blocks are run, until the claim
is decided or the time is up. A thread that keeps losing the processor finds its caches cold, and
pays for that: then nothing is decided. With `--self-check` the program ends with 1 where a claim
does not hold.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import tempfile
import time
from typing import Any, Callable, NamedTuple, Optional

from ..config import ProfilerConfig, ProfilerLevel
from ..decorators import profile_function
from ..manager import ProfilerManager
from ..profilers import OperationProfiler

SPANS_US = (5, 50, 1000)
# A block is about so long.
BLOCK_S = 0.001
# Pairs of blocks: at first, and how often there may be as many again.
PAIRS = 300
TIMES_MAX = 12
ROW_MAX_S = 10.0
# Fewer figures than this show nothing.
FIGURES_MIN = 30
# A thread that went on for so much longer than it worked was not alone on its processor.
AWAY_MAX = 1.02
# And where that is so of more pairs than this, the machine is not one to judge by.
LOST_MAX = 0.5
# Of the normal distribution: 99 % of it lie within so many standard deviations.
DEVIATIONS = 2.576


class Claim(NamedTuple):
    """At this level, functions that take this long take at most so much longer."""

    level: ProfilerLevel
    span_us: int
    percent_max: float


CLAIMS = (
    Claim(ProfilerLevel.BASIC, 5, 5.0),
    Claim(ProfilerLevel.BASIC, 50, 1.0),
    Claim(ProfilerLevel.BASIC, 1000, 1.0),
    Claim(ProfilerLevel.DETAILED, 50, 8.0),
    Claim(ProfilerLevel.DETAILED, 1000, 1.0),
    Claim(ProfilerLevel.COMPREHENSIVE, 50, 15.0),
    Claim(ProfilerLevel.COMPREHENSIVE, 1000, 2.0),
)

HOLDS, BROKEN, UNDECIDED = "holds", "DOES NOT HOLD", "not decided"


class Interval(NamedTuple):
    """The median of a sample, and where that of the whole lies."""

    low: float
    middle: float
    high: float

    def judge(self, at_most: float) -> str:
        """Whether the whole is at most so large, as far as can be said."""
        if self.low > at_most:
            return BROKEN
        return HOLDS if self.high <= at_most else UNDECIDED


def interval_of(sample: list) -> Interval:
    """By ranks: how many of a sample lie below the median of the whole is a matter of coins."""
    ordered, count = sorted(sample), len(sample)
    reach = DEVIATIONS * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach))
    return Interval(ordered[low], ordered[count // 2], ordered[high])


class Measured(NamedTuple):
    """What a function takes plain, in seconds, and how much more decorated, in percent."""

    level: ProfilerLevel
    span_us: int
    plain_s: float
    percent: Interval
    # Of all pairs, the share in which the processor was lost.
    lost: float

    @property
    def cost_ns(self) -> float:
        return 1e9 * self.plain_s * self.percent.middle / 100.0

    def judge(self, claim: Claim) -> str:
        """Whether a claim holds, as far as can be said on this machine."""
        word = self.percent.judge(claim.percent_max)
        return UNDECIDED if word == BROKEN and self.lost > LOST_MAX else word


def claim_of(level: ProfilerLevel, span_us: int) -> Optional[Claim]:
    """What is claimed, if anything."""
    return next((claim for claim in CLAIMS if claim[:2] == (level, span_us)), None)


def work_of(span_us: int) -> Callable[[], int]:
    """A function that takes about so long."""
    count = 16 * span_us
    for _ in range(3):
        took_us = min(_block(lambda: sum(range(count)), 1)[0] for _ in range(20)) * 1e6
        count = max(1, int(count * span_us / took_us))

    def work() -> int:
        return sum(range(count))

    return work


def measure(
    level: ProfilerLevel, span_us: int, folder: str, claim: Optional[Claim] = None
) -> Measured:
    """Runs a function plain and decorated until the claim is decided, or the time is up."""
    # Without the budget, which would soon turn the more expensive levels into the cheapest.
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
    calls = max(1, int(BLOCK_S * 1e6 / span_us))
    pairs: list = []
    was_collecting = gc.isenabled()
    gc.disable()
    until = time.monotonic() + ROW_MAX_S
    manager.start_session(f"overhead_{level.name}_{span_us}")
    try:
        for _ in range(TIMES_MAX):
            for _ in range(PAIRS // 2):
                blocks = [_block(one, calls) for one in (plain, profiled, profiled, plain)]
                pairs += [(blocks[0], blocks[1]), (blocks[3], blocks[2])]
            row = summed_up(level, span_us, pairs)
            if claim is None or row.judge(claim) != UNDECIDED or time.monotonic() > until:
                break
    finally:
        manager.end_session(save_results=False)
        if was_collecting:
            gc.enable()
    return row


def summed_up(level: ProfilerLevel, span_us: int, pairs: list) -> Measured:
    """What pairs of blocks show: each block with its time of the thread and of the clock."""
    calm = [pair for pair in pairs if all(wall_s <= AWAY_MAX * cpu_s for cpu_s, wall_s in pair)]
    figures = calm if len(calm) >= FIGURES_MIN else pairs
    percents = [100.0 * (profiled[0] - plain[0]) / plain[0] for plain, profiled in figures]
    plain_s = min(plain[0] for plain, _ in figures)
    return Measured(level, span_us, plain_s, interval_of(percents), 1 - len(calm) / len(pairs))


def _block(function: Callable[[], Any], calls: int) -> tuple:
    """Seconds for one call: of the thread, and of the clock."""
    began = time.perf_counter_ns()
    worked = time.thread_time_ns()
    for _ in range(calls):
        function()
    worked = time.thread_time_ns() - worked
    took = time.perf_counter_ns() - began
    return worked / calls / 1e9, took / calls / 1e9


def check(level: ProfilerLevel, span_us: int, folder: str, claim: Optional[Claim]) -> tuple:
    """Measures; gives the line to print, how it stands with the claim, and what was measured."""
    row = measure(level, span_us, folder, claim)
    low, middle, high = row.percent
    verdict, word = "", HOLDS
    if claim is not None:
        word = row.judge(claim)
        verdict = f"at most {claim.percent_max:g} %: {word}"
    span, cost = f"{1e6 * row.plain_s:.1f} µs", f"{row.cost_ns:.0f} ns"
    spread = f"{low:.2f} to {high:.2f} %"
    line = f"{level.name:14} {span:>10} {cost:>9} {middle:7.2f} % {spread:>19}  {verdict}"
    return line.rstrip(), word, row


def main(arguments: Optional[list] = None) -> int:
    """Measures, prints, and says whether the claims hold."""
    parser = argparse.ArgumentParser(
        prog="python -m spanwise overhead", description="What profiling costs here."
    )
    parser.add_argument(
        "--self-check", action="store_true", help="end with 1 if a claim does not hold"
    )
    options = parser.parse_args(arguments)
    levels = [level for level in ProfilerLevel if level is not ProfilerLevel.DISABLED]
    print(f"{'level':14} {'a call of':>10} {'costs':>9} {'more':>9} {'99 % sure':>19}  claim")
    words, lost = [], []
    with tempfile.TemporaryDirectory() as folder:
        for level in levels:
            for span_us in SPANS_US:
                line, word, row = check(level, span_us, folder, claim_of(level, span_us))
                print(line, flush=True)
                words.append(word)
                lost.append(row.lost)
    if UNDECIDED in words:
        print(f"{words.count(UNDECIDED)} not decided: this machine is too uneven just now.")
    if max(lost) > LOST_MAX:
        print(f"Up to {100 * max(lost):.0f} % of the pairs lost the processor to other programs.")
    return 1 if options.self_check and BROKEN in words else 0


if __name__ == "__main__":
    sys.exit(main())
