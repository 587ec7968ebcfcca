"""`pytest --spanwise`: a recording of each test, to see where its time goes.

pytest finds this by itself where spanwise is installed; without the option it does nothing. A
recorder of its own process watches the test, as `spanwise attach` does: the stacks of all
threads, Python included, are sampled, and when threads wait is recorded. Where nothing may be
recorded, tests run as ever, and the end of the run says why.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

#: How long to wait for a recorder to begin, and to end.
_BEGIN_MAX_S = 10
_END_MAX_S = 60


def pytest_addoption(parser):
    group = parser.getgroup("spanwise")
    group.addoption(
        "--spanwise",
        action="store_true",
        help="record each test; where some have the mark `spanwise`, only those",
    )
    group.addoption(
        "--spanwise-folder",
        metavar="FOLDER",
        default="spanwise-recordings",
        help="where recordings go (default: %(default)s)",
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "spanwise: with --spanwise, record this test")
    if config.getoption("--spanwise"):
        config.pluginmanager.register(_Recorder(config), "spanwise-recorder")


class _Recorder:
    def __init__(self, config) -> None:
        # One that is absolute stays what it is.
        self._folder = Path(config.invocation_params.dir, config.getoption("--spanwise-folder"))
        self._chosen: set[str] | None = None
        self._recordings: list[Path] = []
        self._failure = ""

    def pytest_collection_finish(self, session):
        marked = {item.nodeid for item in session.items if item.get_closest_marker("spanwise")}
        self._chosen = marked or None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        is_chosen = self._chosen is None or item.nodeid in self._chosen
        recorder = self._begin(item.nodeid) if is_chosen else None
        yield
        if recorder is not None:
            self._end(*recorder)

    def _begin(self, nodeid: str):
        from .__main__ import command_line

        command = command_line()
        if command is None:
            self._failure = "this installation of spanwise has no command line"
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        recording = _free_name(self._folder, nodeid)
        arguments = ["attach", "-p", str(os.getpid()), "--no-decode", "--recording", recording]
        recorder = subprocess.Popen(
            [command, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        until = time.monotonic() + _BEGIN_MAX_S
        while not (recording / "perf.data").exists():
            if recorder.poll() is not None or time.monotonic() > until:
                self._end(recorder, recording)
                return None
            time.sleep(0.005)
        return recorder, recording

    def _end(self, recorder, recording: Path) -> None:
        if recorder.poll() is None:
            recorder.send_signal(signal.SIGINT)
        try:
            said = recorder.communicate(timeout=_END_MAX_S)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            recorder.kill()
            said = recorder.communicate()[1].decode(errors="replace")
        if (recording / "recording.json").exists():
            self._recordings.append(recording)
        else:
            self._failure = said.strip() or f"the recorder ended with {recorder.returncode}"

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("spanwise")
        for recording in self._recordings:
            terminalreporter.line(f"spanwise report {recording}")
        if self._failure:
            terminalreporter.line(f"not everything was recorded: {self._failure}")
        elif not self._recordings:
            terminalreporter.line("no test was recorded")


def _free_name(folder: Path, nodeid: str) -> Path:
    """A folder for the recording of a test; a second run keeps the first one's."""
    name = re.sub(r"[^\w.-]+", "_", nodeid).strip("_")[-150:]
    for number in range(1_000_000):
        path = folder / f"{name}{f'.{number}' if number else ''}.spanwise-recording"
        if not path.exists():
            return path
    raise FileExistsError(str(folder))
