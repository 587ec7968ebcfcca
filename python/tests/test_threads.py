"""Threads behind the package: few, used again, and none that a forked process waits for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = Path(__file__).resolve().parents[2] / "testdata" / "kineto" / "llama_small.json.gz"

COUNTED = """
import sys
from pathlib import Path
import spanwise as sw

def named():
    tasks = Path("/proc/self/task").glob("*/comm")
    return [text for text in (task.read_text().strip() for task in tasks) if "spanwise" in text]

assert named() == []
for _ in range(10):
    trace = sw.open(sys.argv[1], index=False, threads=1)
    trace.findings(), trace.breakdown(), trace.kernels
    assert named() == ["spanwise"], named()
"""

FORKED = """
import os, sys
import spanwise as sw

rows = sw.open(sys.argv[1], index=False).gpu_lines().to_dicts()
child = os.fork()
if child == 0:
    again = sw.open(sys.argv[1], index=False).gpu_lines().to_dicts()
    os._exit(0 if again == rows else 1)
_, status = os.waitpid(child, 0)
assert status == 0
assert sw.open(sys.argv[1], index=False).gpu_lines().to_dicts() == rows
"""


def check(program):
    command = [sys.executable, "-c", program, str(SMALL)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no /proc here")
def test_one_thread_works_for_all_that_is_asked_in_turn():
    check(COUNTED)


def test_a_forked_process_has_threads_of_its_own():
    check(FORKED)
