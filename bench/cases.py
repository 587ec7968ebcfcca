"""The rows of a benchmark: what to run for each, and how often."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from install import DEFAULT_BINARY, say, spanwise, version_of
from process import Failed, run_once, touch_memory
from report import Row
from traces import Trace, warm

#: Short enough that nobody takes a slow peer for one that hangs.
SAY_EVERY_S = 20


@dataclass(frozen=True)
class Case:
    """One row to measure: what to run, on which form of the trace.

    `{trace}` in a command stands for the file, `{folder}` for one to write into.
    Times and memory are shown as multiples of those of the row `base`. `memory_x` is how
    much memory it may take, in sizes of the trace: much where objects are made of all
    that is read.
    """

    name: str
    title: str
    base: str
    form: str = "plain"
    spanwise: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    peer: Callable[[], list[str]] | None = None
    version: tuple[str, ...] = ()
    repeat: int = 1
    memory_x: int | None = None
    left_out: str = ""


def options_parser(description: str, every: list[Case]) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""

    def name_list(text: str) -> list[str]:
        # A typing error should not measure nothing.
        names = [name for name in text.split(",") if name]
        for name in names:
            if not any(matches(case, name) for case in every):
                raise argparse.ArgumentTypeError(f"no row is called {name}")
        return names

    parser = argparse.ArgumentParser(
        description=description,
        epilog=f"Rows: {', '.join(case.name for case in every)}. A name also stands "
        "for those that begin with it and a dash, as `spanwise` does.",
    )
    parser.add_argument(
        "--binary",
        type=Path,
        default=DEFAULT_BINARY,
        help="the spanwise to measure; the default one is built if missing",
    )
    parser.add_argument("--only", type=name_list, default=[], metavar="NAME,...")
    parser.add_argument("--skip", type=name_list, default=[], metavar="NAME,...")
    parser.add_argument(
        "--repeat",
        type=positive,
        metavar="N",
        help="runs per row, best time shown (default: 3, slow peers 1)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="limit for one run of one row (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures too")
    return parser


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def matches(case: Case, name: str) -> bool:
    return case.name == name or case.name.startswith(name + "-")


def chosen(every: list[Case], only: list[str], skip: list[str]) -> list[Case]:
    return [
        case
        for case in every
        if (not only or any(matches(case, name) for name in only))
        and not any(matches(case, name) for name in skip)
    ]


def measure_case(case: Case, trace: Trace, options: argparse.Namespace) -> Row:
    row = Row(case.name, case.title, case.base)
    try:
        if case.left_out:
            raise Failed(case.left_out)
        ours = [] if case.peer else [spanwise(options.binary)]
        command = case.peer() if case.peer else [*ours, *case.spanwise]
        with trace.form(case.form) as (path, env), tempfile.TemporaryDirectory() as folder:
            row.version = version_of([*ours, "--version"] if ours else case.version)
            if case.before:
                before = filled([*ours, *case.before], path, folder)
                run_once(before, env, timeout_s=options.timeout)
            size = trace.bytes if path.is_dir() else path.stat().st_size
            # Peers make objects of all they read; more than is used would only drive
            # the traces out of memory, and takes a second a gigabyte.
            touch_memory(size * (case.memory_x or (10 if case.peer else 2)))
            for _ in range(options.repeat or case.repeat):
                warm(path)
                with progress_said(case.title, options.timeout):
                    run, said = run_once(
                        filled(command, path, folder), env, timeout_s=options.timeout
                    )
                row.runs.append(run)
                row.version = said.get("version", row.version)
                # The words are those of the run whose time is shown.
                if run.compared_s == row.compared_s:
                    row.read = said.get("read", row.read)
    except (Failed, OSError) as error:
        row.failure = str(error)
        row.runs.clear()
    return row


@contextlib.contextmanager
def progress_said(title: str, timeout_s: float) -> Iterator[None]:
    """Say now and then that a run goes on: slow peers say nothing for minutes."""
    over, start = threading.Event(), time.monotonic()

    def say_progress() -> None:
        while not over.wait(SAY_EVERY_S):
            so_far_s = time.monotonic() - start
            say(f"  {title} has run {so_far_s:.0f} s, at most {timeout_s:g} s")

    speaker = threading.Thread(target=say_progress, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


def filled(command: Sequence[str], trace: Path, folder: str) -> list[str]:
    return [
        part.replace("{trace}", str(trace)).replace("{folder}", folder)
        for part in command
    ]
