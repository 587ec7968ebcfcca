"""`profile`, `span`, `session` and `run`: their page, their files, their processes."""

import asyncio
import doctest
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import spanwise
from spanwise import __main__ as main
from spanwise._recording import spans
from spanwise.profiling import OperationProfiler, ProfilerConfig, ProfilerManager

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "python" / "README.md"
SMALL = ROOT / "testdata" / "kineto" / "llama_small.json.gz"


def calls_in(path):
    """Number of calls by function."""
    functions = spanwise.open(path, index=False).hot_functions(top=100)
    return {row["name"]: row["count"] for row in functions}


@spanwise.profile
def work(value=0):
    return value


def test_the_page_runs(tmp_path, capsys):
    shutil.copy(SMALL, "trace.json.gz")
    shutil.copy(SMALL, "before.json.gz")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    names = {}
    for block in blocks:
        if "spanwise.run(" not in block:
            exec(block, names)
    printed = capsys.readouterr().out
    assert "300 0\n" in printed
    assert calls_in("run.spanwise-session") == {"load": 100, "sum of squares": 100, "total": 100}


def test_examples_in_docstrings_run():
    results = doctest.testmod(spans)
    assert results.attempted and not results.failed


def test_names_are_those_of_the_functions():
    class Model:
        @spanwise.profile
        def step(self):
            return self

        @spanwise.profile
        @staticmethod
        def helper():
            return 1

    def squares():
        yield from (1, 4)

    async def wait():
        return 2

    with spanwise.session("names.spanwise-session") as session:
        model = Model()
        assert model.step() is model and Model.helper() == 1
        assert list(spanwise.profile(squares)()) == [1, 4]
        assert asyncio.run(spanwise.profile(wait)()) == 2
        assert spanwise.profile("given")(len)([1]) == 1
    assert {"Model.step", "Model.helper", "squares", "wait", "given"} <= set(calls_in(session.path))


def test_only_what_a_session_sees_is_in_its_file():
    work()
    with spanwise.session("outer.spanwise-session") as outer:
        work()
        with spanwise.session("inner.spanwise-session") as inner:
            work(1)
        work()
    work()
    assert (calls_in(outer.path), calls_in(inner.path)) == ({"work": 3}, {"work": 1})
    assert (outer.records, outer.dropped, inner.records) == (3, 0, 1)


def test_all_threads_are_recorded():
    with spanwise.session("threads.spanwise-session") as session:
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert calls_in(session.path) == {"work": 8}


def test_a_manager_counts_as_before(tmp_path):
    config = ProfilerConfig(output_dir=str(tmp_path), max_overhead_percent=100.0)
    manager = ProfilerManager(config)
    profiler = OperationProfiler("all", config)
    manager.register_profiler(profiler)
    with spanwise.session("whole.spanwise-session") as session:
        work()
        manager.start_session("part")
        work()
        manager.end_session(save_results=False)
        work()
    assert profiler.operation_count == 1
    assert calls_in(session.path) == {"work": 3}
    manager.start_session("around")
    with spanwise.session("within.spanwise-session") as within:
        work()
    work()
    manager.end_session(save_results=False)
    assert profiler.operation_count == 2 and calls_in(within.path) == {"work": 1}


def test_a_disabled_manager_counts_nothing(tmp_path):
    config = ProfilerConfig(enabled=False, output_dir=str(tmp_path))
    manager = ProfilerManager(config)
    profiler = OperationProfiler("all", ProfilerConfig(output_dir=str(tmp_path)))
    manager.register_profiler(profiler)
    manager.start_session("disabled")
    with spanwise.session("file.spanwise-session") as session:
        work()
    manager.end_session(save_results=False)
    assert profiler.operation_count == 0 and calls_in(session.path) == {"work": 1}


def test_what_cannot_be_written_is_an_error():
    session = spanwise.session("no/such/folder/run.spanwise-session")
    with pytest.raises(FileNotFoundError):
        session.start()
    session.stop()
    assert session.records == 0
    with spanwise.session("twice.spanwise-session") as session:
        with pytest.raises(RuntimeError, match="has already started"):
            session.start()


def test_a_session_can_be_started_again():
    session = spanwise.session("again.spanwise-session")
    for count in (1, 2):
        session.start()
        [work() for _ in range(count)]
        session.stop()
        session.stop()
        assert calls_in(session.path) == {"work": count}


FORKS = """
import os, spanwise

@spanwise.profile
def work(): pass

spanwise.session("run.spanwise-session").start()
work()
child = os.fork()
work()
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(child)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of Unix")
def test_forked_children_have_files_and_the_end_of_the_program_completes_them():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    child = f"run.{int(done.stdout)}.spanwise-session"
    assert calls_in("run.spanwise-session") == {"work": 2} and calls_in(child) == {"work": 1}


def test_recording_spans_loads_no_large_package():
    code = (
        "import sys, spanwise\n"
        "with spanwise.session('run.spanwise-session'), spanwise.span('block'): pass\n"
        "heavy = {'torch', 'numpy', 'asyncio', 'subprocess', 'ctypes', 'logging', 'json', 'pathlib',\n"
        " 'spanwise.profiling.manager', 'spanwise._traces.trace'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "" and done.returncode == 0, done.stderr


@pytest.fixture
def recorder(tmp_path):
    """Where a machine lets nothing be recorded, there is nothing to test."""
    command = [main.command_line(), "run", "--quiet", "--no-decode"]
    command += ["--recording", str(tmp_path / "try.spanwise-recording"), "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nothing can be recorded here: {done.stderr}")


def test_a_command_is_recorded_and_opened(tmp_path, recorder):
    script = tmp_path / "busy.py"
    script.write_text("import time\nend = time.time() + 0.3\nwhile time.time() < end: pass\n")
    trace = spanwise.run(str(script), "busy.spanwise-recording", duration_s=20)
    assert len(trace.samples) > 0
    with pytest.raises(FileExistsError):
        spanwise.run("true", "busy.spanwise-recording")


def test_a_command_that_cannot_be_recorded_is_an_error():
    with pytest.raises(ValueError, match="no command"):
        spanwise.run("", "empty.spanwise-recording")
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        spanwise.run("/no/such/program", "none.spanwise-recording")
