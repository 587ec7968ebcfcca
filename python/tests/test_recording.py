"""What is recorded is what happened: counts, exceptions, recursion, threads, forks."""

import asyncio
import contextlib
import gc
import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import spanwise
from spanwise.profiling import ProfilerConfig, ProfilerManager, OperationProfiler
from spanwise.profiling import ProfilerLevel, profile_function, profile_method
from spanwise.profiling import profile_operation


def started(**config):
    config.setdefault("output_dir", "out")
    settings = ProfilerConfig(**config)
    manager = ProfilerManager(settings)
    manager.register_profiler(OperationProfiler("all", settings))
    manager.start_session("test")
    return manager


def counts(manager):
    rows = manager.get_aggregated_metrics()["operation_breakdown"]
    return {name: row["count"] for name, row in rows.items()}


def rows_of_file(path):
    """Count by name, as the command says."""
    command = [sys.executable, "-m", "spanwise", "report", "--no-index", "--quiet"]
    command += ["--section", "functions", "--format", "csv", "--top", "100", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@profile_function(component="work")
def work(*args, **kwargs):
    return args, kwargs


def test_every_call_counts_and_does_what_it_did():
    manager = started()
    assert work(1, 2, key=3) == ((1, 2), {"key": 3})
    for _ in range(99):
        work()
    manager.end_session()
    work()
    assert counts(manager) == {"work": 100}
    (first, *_) = manager.get_profiler("all").operations
    assert first.custom_metrics["args_count"] == 2
    assert first.custom_metrics["kwargs_count"] == 1
    assert first.custom_metrics["success"] is True
    assert first.component == "work"


def test_exceptions_are_recorded_and_go_on():
    manager = started()

    @profile_function
    def fails():
        raise KeyError("what")

    with pytest.raises(KeyError, match="what"):
        fails()
    with pytest.raises(ZeroDivisionError):
        with profile_operation("block", "test"):
            1 / 0
    manager.end_session()
    failed, block = manager.get_profiler("all").operations
    assert failed.custom_metrics["exception_type"] == "KeyError"
    assert failed.custom_metrics["success"] is False
    assert block.custom_metrics["exception"] == "ZeroDivisionError"
    assert block.custom_metrics["error"] == "division by zero"


def test_time_within_counts_once():
    manager = started()

    @profile_function
    def inner():
        time.sleep(0.01)

    @profile_function
    def outer():
        inner()
        inner()

    with manager.profile_operation("all of it", "test"):
        outer()
    outer()
    manager.end_session()
    summary = manager.get_profiler("all").get_summary_stats()
    operations = manager.get_profiler("all").operations
    outermost = sum(row.duration for row in operations if row.name == "all of it")
    outermost += [row.duration for row in operations if row.name == "outer"][1]
    assert summary["total_operations"] == 7
    assert abs(summary["total_time"] - outermost) < 1e-6


def test_recursion_counts_each_call_and_time_once():
    manager = started()

    @profile_function
    def down(depth):
        return 0 if depth == 0 else 1 + down(depth - 1)

    assert down(100) == 100
    manager.end_session()
    assert counts(manager) == {"down": 101}
    longest = max(row.duration for row in manager.get_profiler("all").operations)
    total = manager.get_aggregated_metrics()["operation_breakdown"]["down"]["total_time"]
    assert abs(total - longest) < 1e-6


def test_a_generator_works_only_while_it_works():
    manager = started()

    @profile_function
    def three():
        for number in range(3):
            time.sleep(0.005)
            sent = yield number
            assert sent is None
        return "end"

    for _ in three():
        time.sleep(0.02)
    manager.end_session()
    (row,) = manager.get_profiler("all").operations
    assert inspect.isgeneratorfunction(three)
    assert 0.015 <= row.duration < 0.06
    assert row.custom_metrics["suspended_time"] >= 0.06


def test_a_generator_hands_on_what_is_sent_thrown_and_returned():
    manager = started()

    @profile_function
    def echo():
        got = []
        while len(got) < 2:
            try:
                got.append((yield len(got)))
            except ValueError as reason:
                got.append(str(reason))
        return got

    generator = echo()
    assert next(generator) == 0
    assert generator.send("a") == 1
    with pytest.raises(StopIteration) as stop:
        generator.throw(ValueError("b"))
    assert stop.value.value == ["a", "b"]
    left = echo()
    next(left)
    left.close()
    del left
    gc.collect()
    manager.end_session()
    assert counts(manager) == {"echo": 2}


def test_coroutines_are_as_long_as_they_take_and_report_how_long_they_worked():
    manager = started()

    @profile_function
    async def waits():
        await asyncio.sleep(0.02)
        return 7

    async def all_of_them():
        return await asyncio.gather(*(waits() for _ in range(5)))

    assert asyncio.run(all_of_them()) == [7] * 5
    manager.end_session()
    assert inspect.iscoroutinefunction(waits)
    rows = manager.get_profiler("all").operations
    assert len(rows) == 5
    assert all(row.duration >= 0.019 for row in rows)
    assert all(row.custom_metrics["active_time"] < row.duration / 2 for row in rows)
    summary = manager.get_profiler("all").get_summary_stats()
    assert summary["total_time"] < sum(row.duration for row in rows) / 2


def test_a_cancelled_task_is_recorded_as_such():
    manager = started()

    @profile_function
    async def waits():
        await asyncio.sleep(60)

    async def cancel():
        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    manager.end_session()
    (row,) = manager.get_profiler("all").operations
    assert row.custom_metrics["exception_type"] == "CancelledError"


def test_an_asynchronous_generator_gives_what_it_gave():
    manager = started()

    @profile_function
    async def numbers():
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async def collect():
        return [number async for number in numbers()]

    assert asyncio.run(collect()) == [0, 1, 2]
    manager.end_session()
    assert inspect.isasyncgenfunction(numbers)
    assert counts(manager) == {"numbers": 1}


class Shape:
    name = "shape"

    @profile_method()
    def area(self, factor=1):
        return 2 * factor

    @staticmethod
    @profile_function
    def helper(value):
        return value


class Square(Shape):
    pass


def test_methods_are_named_after_the_class_of_the_object():
    manager = started()
    assert Shape().area() == 2
    assert Square().area(factor=3) == 6
    assert Shape.area(Square()) == 2
    assert Square.helper(4) == Square().helper(4) == 4
    manager.end_session()
    assert counts(manager) == {"Shape.area": 1, "Square.area": 2, "helper": 2}


class Named:
    def __init__(self):
        self.name, self.config, self.other = "one", {}, 1

    @profile_method()
    def fails(self):
        raise LookupError("as before")

    @profile_method(include_self_info=False)
    def quiet(self):
        return 1


def test_methods_describe_their_object_from_detailed_on():
    for level, is_described in ((ProfilerLevel.BASIC, False), (ProfilerLevel.DETAILED, True)):
        manager = started(level=level)
        with pytest.raises(LookupError, match="as before"):
            Named().fails()
        Named().quiet()
        manager.end_session()
        fails, quiet = (row.custom_metrics for row in manager.get_profiler("all").operations)
        assert fails["exception_type"] == "LookupError" and fails["method_name"] == "fails"
        assert ("self_attributes_count" in fails) == is_described
        if is_described:
            assert (fails["self_attributes_count"], fails["object_name"]) == (3, "one")
            assert fails["has_config"] is True
        assert "self_attributes_count" not in quiet


def test_what_is_decorated_keeps_its_name_and_signature():
    assert work.__name__ == "work" and work.__module__ == __name__
    assert pickle.loads(pickle.dumps(work)) is work
    assert str(inspect.signature(Shape.area)) == "(self, factor=1)"
    assert callable(work) and work.__wrapped__ is not work


def test_threads_that_come_and_go_keep_their_calls_apart():
    manager, ids = started(), []

    def some():
        ids.extend([threading.get_native_id()] * 3)
        for _ in range(3):
            work()

    # Each takes the memory of one before it; some take turns with the main thread.
    for at in range(300):
        thread = threading.Thread(target=some)
        thread.start()
        if at % 3 == 0:
            ids.append(threading.get_native_id())
            work()
        thread.join()
    manager.end_session()
    recorded = [row.thread_id for row in manager.get_profiler("all").operations]
    assert sorted(recorded) == sorted(ids)


def test_threads_lose_nothing():
    # Without the budget, which would keep most of them in sums.
    manager = started(adaptive_sampling=False)
    per_thread, threads = 100_000, 8

    def many():
        for _ in range(per_thread):
            work()

    running = [threading.Thread(target=many, name=f"many {at}") for at in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    manager.end_session(save_results=False)
    assert (counts(manager)["work"], manager._dropped) == (per_thread * threads, 0)


def test_a_span_may_be_open_many_times_at_once():
    manager = started()
    block = spanwise.span("block", component="test")
    assert spanwise.span("block", component="test") is block
    with block:
        with block:
            pass
    with pytest.raises(RuntimeError):
        with block:
            raise RuntimeError
    manager.end_session()
    assert counts(manager) == {"block": 3}
    assert manager.get_profiler("all").operations[-1].custom_metrics["exception"] == "RuntimeError"


def test_a_forked_child_records_into_its_own_file():
    manager = started()
    work()
    child = os.fork()
    if child == 0:
        for _ in range(5):
            work()
        is_right = counts(manager) == {"work": 5}
        manager.end_session()
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    work()
    manager.end_session()
    assert counts(manager) == {"work": 2}
    assert ",5," in rows_of_file(f"out/test.{child}.spanwise-session")
    assert ",2," in rows_of_file("out/test.spanwise-session")


def test_what_a_killed_program_recorded_is_readable():
    code = (
        "import time\n"
        "from spanwise.profiling import *\n"
        "manager = create_standard_profiler(output_dir='.')\n"
        "manager.start_session('killed')\n"
        "@profile_function\n"
        "def step(): pass\n"
        "for _ in range(1000): step()\n"
        "time.sleep(0.2)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert program.stdout.readline() == b"ready\n"
    program.send_signal(signal.SIGKILL)
    program.wait()
    program.stdout.close()
    assert ",1000," in rows_of_file("killed.spanwise-session")


def test_a_program_that_ends_without_ending_its_session_leaves_a_whole_file():
    code = (
        "from spanwise.profiling import *\n"
        "manager = create_standard_profiler(output_dir='.')\n"
        "manager.start_session('left')\n"
        "@profile_function\n"
        "def step(): pass\n"
        "for _ in range(1000): step()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert ",1000," in rows_of_file("left.spanwise-session")


def test_levels_measure_what_they_say():
    # What one level took is not given back, or the next would take the same again.
    kept = []
    for level, has_memory in ((ProfilerLevel.BASIC, False), (ProfilerLevel.DETAILED, True)):
        manager = started(level=level)

        @profile_function
        def grow():
            # Not zeros: a kernel that is short of memory takes pages of zeros back.
            kept.append(b"x" * (32 << 20))

        grow()
        manager.end_session()
        (row,) = manager.get_profiler("all").operations
        assert (row.memory_before is not None) == has_memory
        if has_memory:
            assert row.custom_metrics["memory_delta"] > 30
            assert row.memory_peak >= row.memory_after
            assert row.custom_metrics["cpu_time"] > 0


def test_bytes_are_those_of_the_operation_alone():
    settings = {"profile_io": True, "profile_memory": True}
    manager = started(level=ProfilerLevel.COMPREHENSIVE, **settings)

    @profile_function
    def nothing():
        pass

    @profile_function
    def writes(path):
        with open(path, "wb", buffering=0) as file:
            file.write(b"x" * 10_000)

    @profile_function
    def reads(path):
        with open(path, "rb", buffering=0) as file:
            return file.read(4_000)

    nothing()
    # So long after the last one, memory is read anew.
    time.sleep(0.001)
    nothing()
    writes("some")
    reads("some")
    manager.end_session()
    rows = [row.custom_metrics for row in manager.get_profiler("all").operations]
    moved = [(row["bytes_read"], row["bytes_written"]) for row in rows]
    assert moved == [(0, 0), (0, 0), (0, 10_000), (4_000, 0)]


def test_a_span_is_for_with_alone():
    block = spanwise.span("not called", component="test")
    with pytest.raises(TypeError):
        block("what")
    # Entered and left by hand, as ExitStack does.
    manager = started()
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(block) is block
    manager.end_session()
    assert counts(manager) == {"not called": 1}


def test_below_its_level_nothing_is_recorded():
    manager = started(level=ProfilerLevel.BASIC)

    @profile_function(level=ProfilerLevel.DETAILED)
    def detail():
        return 1

    assert detail() == 1
    manager.set_global_level(ProfilerLevel.DETAILED)
    assert detail() == 1
    manager.set_global_level(ProfilerLevel.DISABLED)
    assert detail() == 1
    manager.end_session()
    assert counts(manager) == {"detail": 1}
