"""Goes through every path of the native half once or a few times, for `python/memcheck`.

Small, since each instruction is followed by a tool: calls that return and that raise, methods,
generators, coroutines, blocks, operations by hand, threads that come and go, rings that wrap, all
levels, all ways to record a site, functions that are freed, a fork.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import threading

import spanwise
from spanwise import _native
from spanwise.profiling import OperationProfiler, ProfilerConfig, ProfilerLevel, ProfilerManager
from spanwise.profiling import profile_function, profile_method, profile_operation
from spanwise.profiling._core import plan as _plan

CALLS = 200


@profile_function(component="checked")
def adds(first, second=1, *, third=0):
    if first < 0:
        raise ValueError(first)
    return first + second + third


class Shape:
    @profile_method()
    def area(self):
        return 1


@profile_function
def counts(upto):
    yield from range(upto)


@profile_function
async def waits():
    await asyncio.sleep(0)


@profile_function
def down(depth):
    return depth and down(depth - 1)


def once(block):
    """A little of everything."""
    for number in range(-2, CALLS):
        try:
            adds(number, third=number)
        except ValueError:
            pass
    for class_ in [Shape] + [type(f"Shape{at}", (Shape,), {}) for at in range(12)]:
        class_().area()
    list(counts(5))
    left = counts(5)
    next(left)
    del left
    asyncio.run(waits())
    down(30)
    for _ in range(CALLS):
        with block:
            pass
    try:
        with block, block:
            raise KeyError("raised")
    except KeyError:
        pass
    with profile_operation("by hand", "checked") as operation:
        operation.add_metric("number", 1)
    freed = profile_function(lambda: 1)
    freed()
    del freed
    gc.collect()


def session(level, folder):
    config = ProfilerConfig(
        level=level, profile_compute=True, profile_io=True, output_dir=folder,
        adaptive_sampling=False,
    )
    manager = ProfilerManager(config)
    manager.register_profiler(OperationProfiler("all", config))
    manager.start_session(f"checked_{level.name}")
    block = spanwise.span("block", component="checked")
    for step in _plan.STEPS:
        for number, *_ in _native.tallies():
            _native.set_mode(number, step.mode, step.shift)
        threads = [threading.Thread(target=once, args=(block,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    _native.reset_modes()
    child = os.fork()
    if child == 0:
        once(block)
        manager.end_session()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    manager.end_session()
    made = manager.get_aggregated_metrics()["operation_breakdown"]["adds"]["count"]
    return made, len(manager.get_profiler("all").operations), status


def main():
    once(spanwise.span("outside"))
    for level in (ProfilerLevel.BASIC, ProfilerLevel.COMPREHENSIVE):
        with tempfile.TemporaryDirectory() as folder:
            made, rows, status = session(level, folder)
        print(f"{level.name}: {made} calls, {rows} rows kept, the child ended with {status}")
        if status != 0 or made == 0:
            sys.exit(1)


if __name__ == "__main__":
    main()
