"""What recording a call costs in a Python program: ours and others, in one process.

Prints a line for each row: its name, the best round and the middle one, in nanoseconds of
the thread for one call of an empty function, the loop included.
"""

from __future__ import annotations

import cProfile
import functools
import os
import sys
import tempfile
import time
from typing import Any, Callable

import spanwise
from spanwise.profiling import OperationProfiler, ProfilerConfig, ProfilerLevel
from spanwise.profiling import ProfilerManager, profile_function

ROUNDS = 25
CALLS = 5_000
# Rows that cost microseconds need fewer calls.
FEW = 300


def measured(name: str, loop: Callable[[int], None], calls: int = CALLS) -> None:
    """Runs a loop again and again and prints what one turn takes."""
    loop(calls)
    rounds = []
    for _ in range(ROUNDS):
        began = time.thread_time_ns()
        loop(calls)
        rounds.append((time.thread_time_ns() - began) / calls)
        # Time for the thread that writes.
        time.sleep(0.012)
    rounds.sort()
    print(f"{name}\t{rounds[0]:.1f}\t{rounds[len(rounds) // 2]:.1f}", flush=True)


def calling(function: Callable[[], Any]) -> Callable[[int], None]:
    """A loop of its own for each function, as a program has."""
    names: dict = {"function": function}
    exec("def loop(calls):\n    for _ in range(calls):\n        function()\n", names)
    return names["loop"]


def entering(block: Any) -> Callable[[int], None]:
    names: dict = {"block": block}
    exec(
        "def loop(calls):\n    for _ in range(calls):\n        with block:\n            pass\n",
        names,
    )
    return names["loop"]


def empty() -> None:
    pass


def plain_decorator(function: Callable) -> Callable:
    """What one writes oneself: two times and a dictionary in a list."""
    kept: list = []

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            ended = time.perf_counter()
            kept.append({"name": "empty", "start": began, "duration": ended - began})
            if len(kept) > 100_000:
                kept.clear()

    return timed


def with_psutil(function: Callable) -> Callable | None:
    """The way of profilers in plain Python that ask for memory before and after."""
    try:
        import psutil
    except ImportError:
        return None
    kept: list = []

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        row = {"start": time.perf_counter(), "before": psutil.Process().memory_info().rss}
        try:
            return function(*args, **kwargs)
        finally:
            row["after"] = psutil.Process().memory_info().rss
            row["duration"] = time.perf_counter() - row["start"]
            kept.append(row)

    return timed


def ours(folder: str) -> None:
    measured("ours: decorator, no session", calling(profile_function()(empty)))
    measured("ours: with, no session", entering(spanwise.span("block")))
    for level in (ProfilerLevel.BASIC, ProfilerLevel.DETAILED, ProfilerLevel.COMPREHENSIVE):
        # Without the budget, which would soon turn the more expensive levels into the cheapest.
        config = ProfilerConfig(
            level=level,
            profile_compute=True,
            profile_io=True,
            output_dir=folder,
            adaptive_sampling=False,
        )
        manager = ProfilerManager(config)
        manager.register_profiler(OperationProfiler("all", config))
        manager.start_session(f"spans_{level.name}")
        calls = CALLS if level is ProfilerLevel.BASIC else FEW
        measured(f"ours: decorator, {level.name}", calling(profile_function()(empty)), calls)
        measured(f"ours: with, {level.name}", entering(spanwise.span("block")), calls)
        if level is ProfilerLevel.BASIC:
            block = functools.partial(operation_block, manager)
            measured("ours: profile_operation, BASIC", block, FEW)
        made = manager.get_profiler("all").operation_count
        manager.end_session(save_results=False)
        rounds = (ROUNDS + 1) * (2 * calls + (FEW if level is ProfilerLevel.BASIC else 0))
        if made + manager._dropped != rounds:
            sys.exit(f"{level.name}: {made} operations of {rounds}, {manager._dropped} dropped")


def operation_block(manager: ProfilerManager, calls: int) -> None:
    for _ in range(calls):
        with manager.profile_operation("block", "bench"):
            pass


def others() -> None:
    measured("decorator in Python", calling(plain_decorator(empty)))
    asking = with_psutil(empty)
    if asking is not None:
        measured("decorator in Python, with psutil", calling(asking), FEW)
    profile = cProfile.Profile()
    loop = calling(empty)
    profile.enable()
    try:
        measured("cProfile", loop)
    finally:
        profile.disable()
    try:
        from viztracer import VizTracer
    except ImportError:
        return
    tracer = VizTracer(verbose=0, output_file=os.devnull)
    loop = calling(empty)
    tracer.start()
    try:
        measured("VizTracer", loop)
    finally:
        tracer.stop()


def main() -> None:
    measured("direct call", calling(empty))
    with tempfile.TemporaryDirectory() as folder:
        ours(folder)
    others()


if __name__ == "__main__":
    main()
