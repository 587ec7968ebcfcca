"""Other programs, recorded by `spanwise run`, the command of this installation."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Optional, Union

from ..__main__ import command_line
from .._traces.trace import Path, Trace, open

Command = Union[str, Sequence[str]]


def run(
    command: Command,
    path: Path,
    *,
    duration_s: Optional[float] = None,
    calls: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> Trace:
    """Record a command, and open the recording: `run("train.py", "train.spanwise-recording")`.

    The stacks of all threads are sampled, Python functions included. Every call of native
    functions that match a pattern of `calls` and none of `exclude` is recorded as well (`*` stands
    for any text). Recording ends with the command, or after `duration_s`. A command that starts
    with a .py file is run by this Python. `path` is the folder of the recording, a new one.
    Raises `RuntimeError` with the recorder's message if nothing was recorded; the exit status of
    the command does not matter. Needs Linux, and the permissions that `spanwise doctor` checks.
    """
    folder = pathlib.Path(path)
    if folder.exists():
        raise FileExistsError(f"{folder}: exists already")
    options = ["--no-decode", "--recording", str(folder)]
    record(command, folder, options, duration_s, calls, exclude)
    return open(folder)


def record(
    command: Command,
    result: pathlib.Path,
    options: Sequence[str],
    duration_s: Optional[float],
    calls: Iterable[str],
    exclude: Iterable[str],
) -> None:
    """Runs the recorder, which is expected to create `result`."""
    recorder = command_line()
    if recorder is None:
        raise RuntimeError("this installation has no command line; install the wheel again")
    arguments = [recorder, "run", "--quiet", *options]
    if duration_s is not None:
        arguments += ["--duration", f"{round(duration_s * 1000)}ms"]
    for pattern in calls:
        arguments += ["--calls", pattern]
    for pattern in exclude:
        arguments += ["--exclude", pattern]
    done = subprocess.run([*arguments, "--", *_words(command)], stderr=subprocess.PIPE)
    if not result.exists():
        message = done.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"nothing was recorded: {message or f'status {done.returncode}'}")


def _words(command: Command) -> list[str]:
    words = shlex.split(command) if isinstance(command, str) else [os.fspath(c) for c in command]
    if not words:
        raise ValueError("no command was given")
    return [sys.executable, *words] if words[0].endswith(".py") else words
