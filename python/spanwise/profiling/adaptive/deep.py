"""Cheap spans call for deep ones: what was slow is recorded in depth when it comes again.

Two kinds of captures. `snapshot`: where a `spanwise run` or `attach` keeps the last events of this
program, it is asked to save them, which holds the slow call itself; where nobody does, a
`spanwise attach` of this process is started and ended when the operation has come once more.
`torch`: a profile by Torch of the next occurrence, on the thread that it runs on.

All times are of the monotonic clock, as those of sessions and recordings: `spanwise convert` sets
them side by side.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import re
import sys
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ... import _native
from ..._files import make_folder, place_of
from .._system import logs as _logs
from .._core import sites as _sites
from .._system.attach import Attach, ask_for_snapshot, is_someone_listening
from ..profilers import numbers as profiler_numbers

CAPTURES = ("snapshot", "torch")
# How often operations that have ended are checked.
POLL_INTERVAL_S = 0.02
# Operations between two checks that are not missed.
KEPT_MAX = 10_000


@dataclass
class DeepRecording:
    """One capture: of which operation, what it was armed by, where it lies.

    `start_ns` and `end_ns` are those of the occurrence that it holds. A snapshot that another
    recorder saves has no path here: that recorder says where. `error` says why there is none.
    """

    operation: str
    capture: str
    slow_ms: float
    path: Optional[str] = None
    start_ns: Optional[int] = None
    end_ns: Optional[int] = None
    error: Optional[str] = None


class _Armed:
    """An operation that was slow and is to be captured when it comes again."""

    def __init__(self, operation: str, slow_ms: float, recorder: Optional[Attach]) -> None:
        self.operation = operation
        self.slow_ms = slow_ms
        self.recorder = recorder
        self.profile: Any = None


class DeepTrace:
    """Watches operations, and captures those that were too slow when they come again."""

    _files = itertools.count(1)

    def __init__(
        self, when_longer_than_ms: float, capture: str = "snapshot", limit: int = 3,
        operation: Optional[str] = None, output_dir: Any = "profiling_results",
    ) -> None:
        if capture not in CAPTURES:
            raise ValueError(f"capture is one of {', '.join(CAPTURES)}, not {capture!r}")
        self.when_longer_than_ms = float(when_longer_than_ms)
        self.capture = capture
        self.limit = int(limit)
        self.operation = operation
        self.output_dir = str(output_dir)
        self._lock = threading.RLock()
        self._recordings: list = []
        self._armed: Optional[_Armed] = None
        self._finishing: list = []
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None

    @property
    def recordings(self) -> list:
        """What was captured, in order."""
        with self._lock:
            return list(self._recordings)

    @property
    def is_armed(self) -> bool:
        """Whether something was slow, and all is ready for its next occurrence."""
        with self._lock:
            armed = self._armed
            return armed is not None and (armed.recorder is None or armed.recorder.is_ready)

    def stop(self) -> None:
        """Ends watching; captures that go on are finished, ones that wait are given up."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._lock:
            armed, self._armed = self._armed, None
            finishing, self._finishing = self._finishing, []
            _watch_no_longer(self)
        if armed is not None and armed.recorder is not None:
            armed.recorder.discard()
        for thread in finishing:
            thread.join()

    # Watching.

    def _watch(self, manager: Any) -> None:
        """Checks all operations of a manager from now on, on a thread."""
        number = next(profiler_numbers)
        # One without a name gets what any of the manager's profilers gets.
        _native.subscribe(number, manager._number, "", True, KEPT_MAX)
        self._thread = threading.Thread(
            target=_poll, args=(weakref.ref(self), number, self._stop),
            name="spanwise-deep", daemon=True,
        )
        self._thread.start()

    def _check_ended(self, number: int, seen: int) -> int:
        """Checks operations that have ended since; gives the number of the next."""
        rows, seen = _native.operations(number, seen)
        for row in rows:
            if self.capture == "torch" and _is_timed_by_python(row["site"]):
                # `after` has checked it.
                continue
            name = _sites.site(row["site"]).name
            self._ended(name, round(row["start_time"] * 1e9), round(row["end_time"] * 1e9))
        self._give_up_if_over()
        return seen

    def _wants(self, name: str) -> bool:
        return self.operation is None or self.operation == name

    def _ended(self, name: str, start_ns: int, end_ns: int) -> None:
        """An operation has ended: it may be too slow, or the one that was waited for."""
        if not self._wants(name):
            return
        slow_ms = (end_ns - start_ns) / 1e6
        with self._lock:
            armed = self._armed
            if armed is not None and armed.recorder is not None:
                ready_ns = armed.recorder.ready_ns
                if armed.operation == name and ready_ns is not None and start_ns >= ready_ns:
                    self._armed = None
                    self._finish(armed, armed.recorder, start_ns, end_ns)
            elif armed is None and slow_ms > self.when_longer_than_ms and self._has_room():
                self._arm(name, slow_ms, start_ns, end_ns)

    def _has_room(self) -> bool:
        going_on = sum(thread.is_alive() for thread in self._finishing)
        return len(self._recordings) + going_on < self.limit and not self._stop.is_set()

    def _arm(self, name: str, slow_ms: float, start_ns: int, end_ns: int) -> None:
        _logs.say(
            _logs.default_logger(), "info", f"{name} was slow: deep tracing is armed",
            milliseconds=slow_ms, capture=self.capture,
        )
        if self.capture == "torch":
            self._armed = _Armed(name, slow_ms, None)
            _watch_calls(self, name)
        elif is_someone_listening():
            ask_for_snapshot(len(self._recordings) + 1)
            self._recordings.append(
                DeepRecording(name, "snapshot", slow_ms, None, start_ns, end_ns)
            )
        else:
            try:
                make_folder(self.output_dir)
                recorder = Attach(self._path(name, ".spanwise-recording"))
                self._armed = _Armed(name, slow_ms, recorder)
            except OSError as reason:
                self._failed(name, slow_ms, str(reason))

    def _failed(self, name: str, slow_ms: float, reason: str) -> None:
        self._recordings.append(DeepRecording(name, self.capture, slow_ms, error=reason))
        _logs.say(_logs.default_logger(), "warning", f"no deep trace of {name}: {reason}")

    def _path(self, name: str, ending: str) -> str:
        """A name that nothing has yet."""
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:80] or "operation"
        while True:
            file = f"deep_{plain}_{os.getpid()}_{next(self._files)}{ending}"
            path = os.path.join(self.output_dir, file)
            if not os.path.exists(path):
                return path

    def _give_up_if_over(self) -> None:
        """A recorder that has ended by itself found nothing, or could not record."""
        with self._lock:
            armed = self._armed
            if armed is None or armed.recorder is None or not armed.recorder.has_ended:
                return
            self._armed = None
            reason = armed.recorder.discard() or "it did not come again while it was recorded"
            self._failed(armed.operation, armed.slow_ms, reason)

    def _finish(self, armed: _Armed, recorder: Attach, start_ns: int, end_ns: int) -> None:
        """Ends a recording, which takes some time, beside the program."""

        def finish() -> None:
            reason = recorder.finish()
            with self._lock:
                if reason is not None:
                    self._failed(armed.operation, armed.slow_ms, reason)
                    return
                self._recordings.append(DeepRecording(
                    armed.operation, "snapshot", armed.slow_ms, recorder.folder, start_ns, end_ns
                ))

        thread = threading.Thread(target=finish, name="spanwise-deep-end")
        self._finishing = [one for one in self._finishing if one.is_alive()] + [thread]
        thread.start()

    # Profiles by Torch, on the operation's own thread.

    def _before(self, name: str) -> Optional[_Around]:
        if self.capture != "torch" or not self._wants(name):
            return None
        with self._lock:
            armed = self._armed
            if armed is None or armed.operation != name or armed.profile is not None:
                return _Around(self, name, None)
            armed.profile = self._start_profile(armed)
            return _Around(self, name, armed if armed.profile is not None else None)

    def _start_profile(self, armed: _Armed) -> Any:
        torch = sys.modules.get("torch")
        try:
            if torch is None:
                raise RuntimeError("Torch is not loaded")
            activities = [torch.profiler.ProfilerActivity.CPU]
            if torch.cuda.is_available():
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            profile = torch.profiler.profile(activities=activities, with_stack=True)
            profile.start()
            return profile
        except Exception as reason:
            # Whatever Torch says: the program goes on.
            self._armed = None
            _watch_no_longer(self)
            self._failed(armed.operation, armed.slow_ms, str(reason))
            return None

    def _end_profile(self, armed: _Armed, start_ns: int, end_ns: int) -> None:
        name, path = armed.operation, self._path(armed.operation, ".json")
        reason = None
        try:
            armed.profile.stop()
            # Torch would follow a link of anybody: under a name that nobody can foresee there is
            # none, and the folder is the one that was looked up, whatever has its name by then.
            with place_of(path, behind_links=False, makes_folders=True) as place:
                making = place.beside(".json")
                try:
                    armed.profile.export_chrome_trace(place.path_of(making))
                    place.replace(making)
                except BaseException:
                    with suppress(OSError):
                        place.remove(making)
                    raise
        except Exception as raised:
            reason = str(raised)
        with self._lock:
            self._armed = None
            _watch_no_longer(self)
            if reason is not None:
                self._failed(name, armed.slow_ms, reason)
                return
            self._recordings.append(
                DeepRecording(name, "torch", armed.slow_ms, path, start_ns, end_ns)
            )


class _Around:
    """An operation of which Torch makes a profile (`armed`), or that may be too slow."""

    __slots__ = ("_trace", "_name", "_armed", "_start_ns")

    def __init__(self, trace: DeepTrace, name: str, armed: Optional[_Armed]) -> None:
        self._trace = trace
        self._name = name
        self._armed = armed
        self._start_ns = time.monotonic_ns()

    @property
    def is_captured(self) -> bool:
        return self._armed is not None

    def after(self) -> None:
        end_ns = time.monotonic_ns()
        if self._armed is not None:
            self._trace._end_profile(self._armed, self._start_ns, end_ns)
        else:
            self._trace._ended(self._name, self._start_ns, end_ns)


def before(manager: Any, name: str) -> list:
    """An operation begins that Python code times itself."""
    found = (trace._before(name) for trace in manager.deep_traces)
    return [around for around in found if around is not None]


def after(all_around: list) -> None:
    """It has ended."""
    for around in reversed(all_around):
        around.after()


# Calls that the native half times: which sites wait for their next one, and for whom.
_watched: dict = {}
_watching = threading.Lock()


def _is_timed_by_python(number: int) -> bool:
    return _sites.site(number).keeps_rows


def _watch_calls(trace: DeepTrace, name: str) -> None:
    """Notifies a trace of the next call of a name: of a decorated function, or a span."""
    _native.set_watch_callbacks(_before_call, after)
    with _watching:
        for number in _sites.numbers_of(name):
            if not _is_timed_by_python(number):
                _watched.setdefault(number, []).append(trace)
                _native.watch(number, True)


def _watch_no_longer(trace: DeepTrace) -> None:
    with _watching:
        for number in [number for number, traces in _watched.items() if trace in traces]:
            _watched[number].remove(trace)
            if not _watched[number]:
                del _watched[number]
                _native.watch(number, False)


def _before_call(number: int) -> list:
    """A watched call begins."""
    with _watching:
        traces = list(_watched.get(number, ()))
    name = _sites.site(number).name
    found = (trace._before(name) for trace in traces)
    return [around for around in found if around is not None and around.is_captured]


def _poll(trace: Any, number: int, stop: threading.Event) -> None:
    seen = 0
    try:
        while not stop.wait(POLL_INTERVAL_S):
            found = trace()
            if found is None:
                return
            try:
                seen = found._check_ended(number, seen)
            except Exception as reason:
                _logs.say(_logs.default_logger(), "error", f"deep tracing ended: {reason!r}")
                return
            del found
    finally:
        _native.unsubscribe(number)


def deep_trace(
    when_longer_than_ms: float, capture: str = "snapshot", limit: int = 3,
    output_dir: Any = "profiling_results",
) -> Callable:
    """Captures a function in depth once a call of it took longer than this: the next one,
    so many times at most. `function.deep_trace.recordings` lists them.
    """

    def decorate(function: Any) -> Any:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator is not one call: put deep_trace on what it calls")
        name = getattr(function, "__qualname__", type(function).__name__)
        trace = DeepTrace(when_longer_than_ms, capture, limit, None, output_dir)

        def ended(around: Any, start_ns: int) -> None:
            if around is not None:
                around.after()
            else:
                trace._give_up_if_over()
                trace._ended(name, start_ns, time.monotonic_ns())

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def traced(*args: Any, **kwargs: Any) -> Any:
                around, start_ns = trace._before(name), time.monotonic_ns()
                try:
                    return await function(*args, **kwargs)
                finally:
                    ended(around, start_ns)
        else:

            @functools.wraps(function)
            def traced(*args: Any, **kwargs: Any) -> Any:
                around, start_ns = trace._before(name), time.monotonic_ns()
                try:
                    return function(*args, **kwargs)
                finally:
                    ended(around, start_ns)

        traced.deep_trace = trace  # type: ignore[attr-defined]
        return traced

    return decorate
