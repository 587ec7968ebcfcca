"""Experiments and tests that are recorded; numbers beside metrics."""

import doctest
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spanwise as sw
from spanwise import __main__ as main

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
SMALL = TESTDATA / "kineto" / "llama_small.json.gz"

BUSY = "import time\nend = time.time() + 0.3\nwhile time.time() < end: sum(range(1000))\n"


@pytest.fixture
def small(tmp_path):
    return Path(shutil.copy(SMALL, tmp_path))


@pytest.fixture
def recorder(tmp_path):
    """Where a machine lets nothing be recorded, there is nothing to test."""
    command = [main.command_line(), "run", "--quiet", "--no-decode"]
    command += ["--recording", str(tmp_path / "try.spanwise-recording"), "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nothing can be recorded here: {done.stderr}")


def test_examples_of_the_documentation_run(small):
    for name in ("spanwise._traces.experiments", "spanwise._traces.compare"):
        results = doctest.testmod(importlib.import_module(name))
        assert results.attempted and not results.failed, name


def test_a_script_is_recorded(tmp_path, recorder):
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    trace = sw.Tracer(tmp_path / "traces").trace_experiment(str(script), duration=20)
    assert trace.parent == tmp_path / "traces" and trace.suffix == ".fxt"
    assert len(sw.open(trace).spans) > 0
    assert trace.with_suffix(".html").read_text().startswith("<!DOCTYPE html>")


def test_what_was_slow_is_recorded_again(tmp_path, recorder):
    results = [{"id": 1, "avg_time": 0.1}, {"id": 2, "avg_time": 3.0}]
    command = [sys.executable, "-c", BUSY]
    slow = sw.Tracer(tmp_path).trace_slow(results, lambda _: command, threshold_s=1.0)
    assert [result["id"] for result, _ in slow] == [2]
    assert slow[0][1].is_file()


HOT = """
import time
def hot():
    return sum(number * number % 7 for number in range(2000))
end = time.thread_time() + 0.5
while time.thread_time() < end:
    hot()
"""


def test_recordings_of_python_name_its_functions(tmp_path, recorder):
    script, recording = tmp_path / "hot.py", tmp_path / "hot.spanwise-recording"
    script.write_text(HOT)
    command = [main.command_line(), "run", "--quiet", "--no-decode", "--rate", "999"]
    command += ["--recording", str(recording), "--", sys.executable, str(script)]
    subprocess.run(command, check=True)
    trace = sw.open(recording)
    if not any(frame.endswith("(hot.py:3)") for frame in trace.hot_functions()["name"]):
        pytest.skip("functions of Python cannot be read here")
    first = trace.hot_functions(top=1).to_dicts()[0]
    assert "(hot.py:" in first["name"] and first["samples"] > 100 and first["error_percent"] < 10
    both = sw.correlate_traces_with_metrics(trace, {"accuracy": 0.9})
    assert "(hot.py:" in both["hot_functions"][0]["name"]
    metrics = {row["metric"]: row for row in trace.metrics().to_dicts()}
    assert metrics["python_overhead"]["samples"] > 100
    assert metrics["python_overhead"]["error_percent"] < 10
    assert metrics["gpu_utilization"]["error_percent"] is None
    found = sw.TraceAnalyzer().analyze_stress_test_trace(recording)
    assert found["gpu_utilization"] is None and found["data_loading_overhead"] == 0.0
    assert 0.0 < found["python_overhead"] <= 1.0


def test_a_command_that_cannot_start_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="nothing was recorded: .*no-such-program"):
        sw.Tracer(tmp_path).trace_experiment("no-such-program-at-all")
    with pytest.raises(ValueError, match="no command"):
        sw.Tracer(tmp_path).trace_experiment("")


def test_what_a_trace_lacks_is_none(tmp_path):
    path = tmp_path / "host.json"
    path.write_text('[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"name":"f"}]')
    found = sw.TraceAnalyzer().analyze_stress_test_trace(path)
    assert found["gpu_utilization"] is None and found["data_loading_overhead"] == 0.0
    assert found["recommendations"] == []


def test_snapshots_may_be_asked_for():
    sw.trigger_snapshot()
    sw.trigger_snapshot(7)
    with pytest.raises(OverflowError):
        sw.trigger_snapshot(-1)


def test_names_of_other_tools(small):
    assert sw.load_trace(small).spans.to_dicts() == sw.open(small).spans.to_dicts()
    assert sw.analyze_traces(small, small, by="kernel").verdict == "same"
    assert sw.detect_architecture(small).to_dicts() == sw.open(small).architecture().to_dicts()
    assert sw.classify("void cutlass::Kernel2<sgemm>", "aten::_grouped_mm") == "moe gemm"


PYTEST = "-c /dev/null --rootdir . -p no:cacheprovider -q"


def run_pytest(folder, *arguments):
    command = [sys.executable, "-m", "pytest", *PYTEST.split(), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_pytest_records_marked_tests(tmp_path, recorder):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.spanwise\n"
        f"def test_slow():\n    exec({BUSY!r})\n"
        "def test_other():\n    pass\n"
    )
    shown = run_pytest(tmp_path, "--spanwise", "test_it.py")
    (recording,) = (tmp_path / "spanwise-recordings").iterdir()
    assert recording.name == "test_it.py_test_slow.spanwise-recording"
    assert f"spanwise report {recording}" in shown and "not everything" not in shown
    assert len(sw.open(recording, index=False).spans) > 0
    assert "spanwise" not in run_pytest(tmp_path, "test_it.py", "-k", "other")


def test_pytest_records_all_tests_where_none_is_marked(tmp_path, recorder):
    (tmp_path / "test_it.py").write_text("def test_a():\n    pass\ndef test_b():\n    pass\n")
    run_pytest(tmp_path, "--spanwise", "--spanwise-folder", "kept", "test_it.py")
    run_pytest(tmp_path, "--spanwise", "--spanwise-folder", "kept", "test_it.py", "-k", "test_a")
    assert len(list((tmp_path / "kept").iterdir())) == 3
