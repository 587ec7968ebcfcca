"""What goes on now: in this process, and in others through the files of their sessions."""

import subprocess
import sys
import time

import pytest

import spanwise.profiling as profiling
from spanwise.profiling import live, profile_function


def started(name="test"):
    manager = profiling.create_lightweight_profiler(output_dir="out")
    manager.start_session(name)
    return manager


@profile_function(component="work")
def step(fails=False):
    if fails:
        raise KeyError("x")


def test_this_process():
    manager = started()
    for _ in range(3):
        step()
    first = manager.live()
    assert list(first) == ["session", "operations", "components"]
    assert (first["session"]["state"], first["session"]["operations"]) == ("running", 3)
    (row,) = first["operations"]
    assert set(row) == {
        "name", "component", "count", "total_time", "avg_time", "min_time", "max_time", "failed",
        "new_count", "new_time", "per_second",
    }
    assert (row["name"], row["component"], row["count"], row["new_count"]) == ("step", "work", 3, 3)
    for _ in range(5):
        step()
    with pytest.raises(KeyError):
        step(fails=True)
    with manager.profile_operation("block", "other"):
        time.sleep(0.02)
    second = manager.live()
    # What took most since the call before stands first.
    assert [row["name"] for row in second["operations"]] == ["block", "step"]
    row = second["operations"][1]
    assert (row["count"], row["new_count"], row["failed"]) == (9, 6, 1)
    assert row["per_second"] == pytest.approx(6 / second["session"]["window"])
    third = manager.live()
    assert [row["new_count"] for row in third["operations"]] == [0, 0]
    manager.end_session()
    assert manager.live()["session"]["state"] == "ended"
    manager.start_session("again")
    assert manager.live()["operations"] == []


def test_a_session_that_goes_on_and_one_that_has_ended():
    manager = started()
    for _ in range(20):
        step()
    session = live(manager.session_file)
    until = time.monotonic() + 60
    while True:
        seen = session.look()
        if seen["spans"] or time.monotonic() > until:
            break
    assert seen["session"]["state"] == "running"
    assert seen["session"]["dropped"] == 0
    (row,) = seen["spans"]
    assert (row["name"], row["count"]) == ("step", 20)
    assert 0 < row["self_ns"] == row["total_ns"] and row["max_ns"] <= row["total_ns"]
    (thread,) = seen["threads"]
    assert thread["spans"] == 20
    manager.end_session()
    seen = session.look()
    assert (seen["session"]["state"], seen["spans"][0]["count"]) == ("ended", 20)


PROGRAM = '''
import sys, time
from spanwise.profiling import create_lightweight_profiler, profile_function

profiler = create_lightweight_profiler(output_dir="out")
profiler.start_session("other")
print("begun", flush=True)

@profile_function(component="work")
def step():
    pass

for line in sys.stdin:
    for _ in range(int(line)):
        step()
    print("done", flush=True)
profiler.end_session()
'''


@pytest.fixture
def program():
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.stdin.close()
    process.stdout.close()
    process.wait()


def say(program, count):
    program.stdin.write(f"{count}\n")
    program.stdin.flush()
    assert program.stdout.readline() == "done\n"


def test_another_process_is_followed_to_its_end(program):
    counted, reads, last = 0, 0, None
    for seen in live("out/other.spanwise-session").follow(interval_s=0.01):
        last, reads = seen, reads + 1
        counted += sum(row["new_count"] for row in seen["spans"])
        if seen["session"]["state"] == "running":
            assert seen["session"]["process"] == program.pid
        if reads <= 5:
            say(program, 100)
        elif reads == 6:
            program.stdin.close()
    assert program.wait(timeout=60) == 0
    assert (last["session"]["state"], last["spans"][0]["count"], counted) == ("ended", 500, 500)


def test_a_process_that_was_killed_is_gone(program):
    say(program, 10)
    # Written every ten milliseconds.
    session = live("out/other.spanwise-session")
    until = time.monotonic() + 60
    while not session.look()["spans"] and time.monotonic() < until:
        time.sleep(0.01)
    program.kill()
    program.wait()
    seen = session.look()
    assert (seen["session"]["state"], seen["spans"][0]["count"]) == ("gone", 10)


def test_what_is_no_session_is_an_error(tmp_path):
    (tmp_path / "other").write_text("hello")
    with pytest.raises(OSError, match="no session of spanwise"):
        live(tmp_path / "other").look()
    with pytest.raises(OSError):
        next(iter(live(tmp_path / "missing")))
