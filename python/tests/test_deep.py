"""What was slow is recorded in depth when it comes again, on the session's timeline."""

import json
import os
import subprocess
import sys
import time
import types

import pytest

import spanwise
import spanwise.profiling as profiling
from spanwise.profiling import deep_trace, profile_function
from spanwise.profiling._system import attach as _attach
from spanwise.profiling.adaptive import deep
from spanwise.__main__ import command_line


def started(**options):
    manager = profiling.create_standard_profiler(output_dir="out", **options)
    manager.start_session("test")
    return manager


def wait_for(condition, what):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.005)


class FakeRecorder:
    """In place of `spanwise attach`: ready when the test says so."""

    made = []

    def __init__(self, folder):
        self.folder, self.ready_ns, self.has_ended, self.fate = folder, None, False, "waiting"
        FakeRecorder.made.append(self)

    is_ready = property(lambda self: self.ready_ns is not None)

    def finish(self):
        self.fate = "finished"

    def discard(self):
        self.fate = "discarded"


@pytest.fixture
def recorders(monkeypatch):
    FakeRecorder.made = []
    monkeypatch.setattr(deep, "Attach", FakeRecorder)
    monkeypatch.setattr(deep, "is_someone_listening", lambda: False)
    return FakeRecorder.made


def test_the_next_occurrence_is_recorded_and_the_limit_holds(recorders):
    trace = deep.DeepTrace(10, limit=2, output_dir="out")
    ms = 1_000_000
    trace._ended("step", 0, 9 * ms)
    assert not recorders
    trace._ended("step", 10 * ms, 30 * ms)
    (first,) = recorders
    assert not trace.is_armed and trace.recordings == []
    # Not ready when this one began; and the other is not the one that was slow.
    trace._ended("step", 40 * ms, 45 * ms)
    first.ready_ns = 50 * ms
    assert trace.is_armed
    trace._ended("step", 49 * ms, 55 * ms)
    trace._ended("other", 60 * ms, 90 * ms)
    assert first.fate == "waiting"
    trace._ended("step", 100 * ms, 101 * ms)
    wait_for(lambda: trace.recordings, "the recording is there")
    (row,) = trace.recordings
    assert (row.operation, row.slow_ms, row.start_ns, row.error) == ("step", 20.0, 100 * ms, None)
    assert row.path == first.folder and first.fate == "finished"
    trace._ended("other", 200 * ms, 220 * ms)
    recorders[1].ready_ns = 230 * ms
    trace._ended("other", 240 * ms, 260 * ms)
    wait_for(lambda: len(trace.recordings) == 2, "the second is there")
    trace._ended("other", 300 * ms, 400 * ms)
    assert len(recorders) == 2
    trace.stop()


def test_a_recorder_for_which_nothing_came_is_given_up(recorders):
    trace = deep.DeepTrace(10, limit=1, operation="step", output_dir="out")
    trace._ended("other", 0, 10**9)
    assert not recorders
    trace._ended("step", 0, 10**9)
    recorders[0].has_ended = True
    trace._give_up_if_over()
    (row,) = trace.recordings
    assert row.path is None and "did not come again" in row.error
    assert recorders[0].fate == "discarded"


def test_ending_the_session_ends_recorders(recorders):
    manager = started()
    trace = manager.deep_trace(when_longer_than_ms=0, capture="snapshot")
    # Also what only some profilers get.
    with manager.profile_operation("step", "work", profiler_names=["evolution_profiler"]):
        pass
    wait_for(lambda: recorders, "it is armed")
    manager.end_session()
    assert recorders[0].fate == "discarded" and trace.recordings == []


def test_who_listens_is_asked_at_once(monkeypatch, recorders):
    asked = []
    monkeypatch.setattr(deep, "is_someone_listening", lambda: True)
    monkeypatch.setattr(deep, "ask_for_snapshot", asked.append)

    @deep_trace(when_longer_than_ms=0, limit=2, output_dir="out")
    def slow():
        return 5

    assert [slow() for _ in range(4)] == [5] * 4
    assert asked == [1, 2] and not recorders
    assert [row.capture for row in slow.deep_trace.recordings] == ["snapshot"] * 2


def test_nobody_listens_to_a_test():
    assert _attach.is_someone_listening() is False
    _attach.ask_for_snapshot(1)


class FakeProfile:
    """What `torch.profiler.profile` is, as far as it is used."""

    running = None

    def __init__(self, activities, with_stack):
        self.activities, self.with_stack, self.began_ns = activities, with_stack, None

    def start(self):
        assert FakeProfile.running is None
        FakeProfile.running, self.began_ns = self, time.time_ns()

    def stop(self):
        FakeProfile.running, self.ended_ns = None, time.time_ns()

    def export_chrome_trace(self, path):
        event = {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 0.0,
                 "dur": (self.ended_ns - self.began_ns) / 1000}
        trace = {"schemaVersion": 1, "baseTimeNanoseconds": self.began_ns, "traceEvents": [event]}
        with open(path, "w") as file:
            json.dump(trace, file)


@pytest.fixture
def torch(monkeypatch):
    fake = types.ModuleType("torch")
    fake.profiler = types.SimpleNamespace(
        ProfilerActivity=types.SimpleNamespace(CPU="cpu", CUDA="cuda"), profile=FakeProfile
    )
    fake.cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    FakeProfile.running = None
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def command(*arguments):
    done = subprocess.run([command_line(), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def spans_of(path):
    """Start and end of each span of a Chrome trace, in microseconds, by name."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    spans = {}
    for event in events:
        if event.get("ph") == "X":
            row = (event["ts"], event["ts"] + event["dur"])
            spans.setdefault(event["name"], []).append(row)
    return spans


def check_torch(step):
    """Calls a step that is slow the third time; gives which calls Torch has profiled."""
    profiled = []
    for number in range(1, 7):
        step(number, profiled)
        assert FakeProfile.running is None
    return profiled


def work(number, profiled):
    if FakeProfile.running is not None:
        profiled.append(number)
    if number == 3:
        time.sleep(0.05)


def test_torch_profiles_the_fourth_after_a_slow_third(torch):
    manager = started()
    trace = manager.deep_trace(when_longer_than_ms=40, capture="torch", limit=1)

    def step(number, profiled):
        with manager.profile_operation("step", "work"):
            work(number, profiled)

    assert check_torch(step) == [4]
    manager.end_session()
    (row,) = trace.recordings
    assert (row.capture, row.operation, row.error) == ("torch", "step", None) and row.slow_ms > 40
    # One timeline: the profile lies within the fourth step.
    command("convert", "--no-index", "out/test.spanwise-session", row.path, "-o", "merged.json")
    spans = spans_of("merged.json")
    (start, end), (low, high) = spans["aten::mm"][0], spans["step"][3]
    # Calendars are read a little apart from the clocks of the session.
    assert low - 1000 <= start <= end <= high + 1000


def test_a_block_and_a_function_are_profiled_as_well(torch):
    manager = started()
    trace = manager.deep_trace(when_longer_than_ms=40, capture="torch", operation="block")

    def step(number, profiled):
        with profiling.profile_operation("other", "work"):
            with profiling.profile_operation("block", "work"):
                work(number, profiled)

    assert check_torch(step) == [4]
    assert [row.operation for row in trace.recordings] == ["block"]
    manager.end_session()

    @deep_trace(when_longer_than_ms=40, capture="torch", output_dir="out")
    def function(number, profiled):
        work(number, profiled)

    assert check_torch(function) == [4]
    assert os.path.isfile(function.deep_trace.recordings[0].path)


def test_a_decorated_function_and_a_span_are_profiled_when_they_come_again(torch):
    manager = started()
    decorated = manager.deep_trace(when_longer_than_ms=40, capture="torch", limit=1,
                                   operation="function")
    spanned = manager.deep_trace(when_longer_than_ms=40, capture="torch", limit=1,
                                 operation="spanned")

    @profiling.profile_function("function", component="work")
    def function(number, profiled):
        work(number, profiled)

    def block(number, profiled):
        with spanwise.span("spanned"):
            work(number, profiled)

    for step, trace in ((function, decorated), (block, spanned)):
        profiled = []
        for number in range(1, 7):
            step(number, profiled)
            if number == 3:
                wait_for(lambda: trace.is_armed, "it was slow")
        assert profiled == [4]
        (row,) = trace.recordings
        assert (row.capture, row.error) == ("torch", None) and os.path.isfile(row.path)
    manager.end_session()
    counts = manager.get_aggregated_metrics()["operation_breakdown"]
    assert [counts[name]["count"] for name in ("function", "spanned")] == [6, 6]


def test_without_torch_the_program_goes_on(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)

    @deep_trace(when_longer_than_ms=0, capture="torch", limit=1)
    def function():
        return 1

    assert [function() for _ in range(3)] == [1, 1, 1]
    assert [row.error for row in function.deep_trace.recordings] == ["Torch is not loaded"]


def test_coroutines_are_timed_to_their_end_and_generators_refused(recorders):
    import asyncio

    @deep_trace(when_longer_than_ms=20, output_dir="out")
    async def waits():
        await asyncio.sleep(0.03)
        return 3

    assert asyncio.run(waits()) == 3
    assert len(recorders) == 1
    with pytest.raises(TypeError):
        deep_trace(when_longer_than_ms=1)(lambda: (yield))
    with pytest.raises(ValueError):
        deep_trace(when_longer_than_ms=1, capture="other")(len)


SLOW_THIRD = '''
import sys, time
from spanwise.profiling import create_standard_profiler, profile_function

profiler = create_standard_profiler(output_dir="out")
profiler.start_session("slow_third")
trace = profiler.deep_trace(when_longer_than_ms=2000, capture="snapshot", limit=1)

@profile_function(component="work")
def step(number):
    until = time.monotonic() + (2.5 if number == 3 else 0.5)
    while time.monotonic() < until:
        sum(range(1000))

for number in range(1, 4):
    step(number)
began = time.monotonic()
while not trace.is_armed and not trace.recordings and time.monotonic() < began + 60:
    time.sleep(0.01)
for number in range(4, 7):
    step(number)
began = time.monotonic()
while not trace.recordings and time.monotonic() < began + 60:
    time.sleep(0.01)
profiler.end_session()
for row in trace.recordings:
    print(row.operation, row.path, row.start_ns, row.end_ns, row.error, sep="|")
'''


def can_record(what):
    # Names are not to be shortened.
    wide = {**os.environ, "COLUMNS": "300"}
    done = subprocess.run([command_line(), "doctor"], capture_output=True, text=True, env=wide)
    return any(f"yes  {what}" in row for row in done.stdout.splitlines())


LISTENED_TO = '''
import time
from spanwise.profiling import create_standard_profiler, profile_function

profiler = create_standard_profiler(output_dir="out")
profiler.start_session("listened")
trace = profiler.deep_trace(when_longer_than_ms=2000, limit=1)

@profile_function(component="work")
def step(seconds):
    time.sleep(seconds)

step(0.1)
step(2.5)
began = time.monotonic()
while not trace.recordings and time.monotonic() < began + 60:
    time.sleep(0.01)
profiler.end_session()
(row,) = trace.recordings
print(row.capture, row.path, row.start_ns, row.end_ns, row.error, sep="|")
'''


@pytest.mark.skipif(not can_record("snapshots when a function"), reason="no triggers here")
def test_a_recorder_that_keeps_last_events_saves_the_slow_call_itself():
    run = [command_line(), "run", "--trigger", ".", "--multi-snapshot", "--no-decode"]
    run += ["--recording", "last.spanwise-recording", "--", sys.executable, "-c", LISTENED_TO]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    capture, path, start_ns, end_ns, error = done.stdout.strip().split("|")
    assert (capture, path, error) == ("snapshot", "None", "None"), done.stderr
    with open("last.spanwise-recording/recording.json") as file:
        about = json.load(file)
    assert about["trigger_argument"] == 1
    # Asked for soon after the slow call has ended, and it is in what was saved.
    assert about["trigger_ns"] >= int(end_ns)
    assert about["start_ns"] < int(start_ns)


@pytest.mark.skipif(not can_record("stack samples"), reason="nothing may be recorded")
def test_the_recording_of_the_fourth_lies_on_the_timeline_of_the_session():
    done = subprocess.run([sys.executable, "-c", SLOW_THIRD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    operation, path, start_ns, end_ns, error = done.stdout.strip().split("|")
    assert (operation, error) == ("step", "None"), done.stdout + done.stderr
    # A recording like any other.
    assert "perf.data" in command("info", "--no-index", path).stdout
    command("convert", "--no-index", path, "-o", "recording.json", "--to", "chrome")
    command("convert", "--no-index", "out/slow_third.spanwise-session", path, "-o", "merged.json")
    alone, merged = spans_of("recording.json"), spans_of("merged.json")
    steps = merged["step"]
    assert len(steps) == 6
    low, high = steps[3]
    assert low * 1000 == pytest.approx(int(start_ns), abs=1000)
    assert high * 1000 == pytest.approx(int(end_ns), abs=1000)
    # The session stays where it was and so does the recording: one clock, to the nanosecond.
    name, rows = next((name, rows) for name, rows in alone.items() if name.startswith("step ("))
    assert merged[name] == rows
    # The recorded function of Python lies where the fourth step was.
    inside = [row for row in rows if row[0] < high and row[1] > low]
    assert inside and min(row[0] for row in rows) > steps[2][1]
