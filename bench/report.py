"""The figures of a benchmark, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from process import Run


@dataclass
class Row:
    """A line of the table: the best time and the worst memory of all runs."""

    name: str
    title: str
    base: str
    version: str = ""
    read: str = ""
    failure: str = ""
    runs: list[Run] = field(default_factory=list)

    @property
    def load_s(self) -> float | None:
        """The load as the process itself timed it, where it does."""
        loads = [run.load_s for run in self.runs if run.load_s is not None]
        return min(loads, default=None)

    @property
    def process_s(self) -> float:
        return min(run.process_s for run in self.runs)

    @property
    def compared_s(self) -> float:
        return min(run.compared_s for run in self.runs)

    @property
    def cpu_s(self) -> float:
        return min(run.cpu_s for run in self.runs)

    @property
    def rss_bytes(self) -> int:
        return max(run.rss_bytes for run in self.runs)

    @property
    def own_bytes(self) -> int:
        return max(run.own_bytes for run in self.runs)


@dataclass
class Report:
    """All figures of one call of the benchmark."""

    date: str
    load_average: float
    trace_name: str
    trace_bytes: int
    trace_events: int
    rows: list[Row]
    # What the processes themselves time.
    timed: str = "load s"

    # Above this, in cores, other work shared the machine while a row ran.
    OTHERS_CORES_MAX = 0.2
    LOAD_AVERAGE_MAX = 0.5

    def base_of(self, row: Row) -> Row | None:
        return self.find(row.base)

    def notes(self) -> list[str]:
        notes = []
        if self.load_average > self.LOAD_AVERAGE_MAX:
            notes.append(
                f"The load average was {self.load_average:.2f} at the start: "
                "other work shared the machine and the figures are noisy."
            )
        if any(self.is_noisy(row) for row in self.rows):
            notes.append(
                "~ other work took more than "
                f"{self.OTHERS_CORES_MAX} cores while the row ran."
            )
        if any(run.own_is_bound for row in self.rows for run in row.runs):
            notes.append("< too short to sample: at most its peak RSS.")
        return notes

    def find(self, name: str) -> Row | None:
        """The row of that name, if it was measured."""
        return next((row for row in self.rows if row.name == name and row.runs), None)

    def is_noisy(self, row: Row) -> bool:
        return any(run.others_cores > self.OTHERS_CORES_MAX for run in row.runs)

    def write_table(self, out: TextIO) -> None:
        machine = f"{cpu_model()}, {os.cpu_count()} cores, {kernel()}"
        size = f"{self.trace_bytes / 1e6:,.0f} MB, {self.trace_events:,} events"
        print(f"{self.date}  {machine}", file=out)
        print(f"{self.trace_name}: {size}", file=out)
        for note in self.notes():
            print(note, file=out)
        print(file=out)

        head = (
            *("row", "version", self.timed, "process s", "CPU s"),
            *("peak RSS MB", "own MB", "time x", "CPU x", "own x", "read"),
        )
        lines = [head, *(self.cells(row) for row in self.rows)]
        # The last cell of a line, the reason of a failure among them, runs free.
        widths = [
            max(len(line[i]) for line in lines if i < len(line) - 1)
            for i in range(len(head) - 1)
        ]
        for line in lines:
            print(aligned(line, widths), file=out)

    def cells(self, row: Row) -> tuple[str, ...]:
        if row.failure:
            return row.title, row.version or "-", row.failure
        base = self.base_of(row)
        mark = "~" if self.is_noisy(row) else ""
        bound = "<" if any(run.own_is_bound for run in row.runs) else ""
        return (
            row.title,
            row.version or "-",
            "-" if row.load_s is None else seconds(row.load_s),
            mark + seconds(row.process_s),
            seconds(row.cpu_s),
            f"{row.rss_bytes / 1e6:,.0f}",
            bound + f"{row.own_bytes / 1e6:,.0f}",
            "-" if base is None else ratio(row.compared_s, base.compared_s),
            "-" if base is None else ratio(row.cpu_s, base.cpu_s),
            "-" if base is None else ratio(row.own_bytes, base.own_bytes),
            row.read,
        )

    def as_json(self) -> dict[str, object]:
        return {
            "date": self.date,
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "kernel": kernel(),
            "load_average": self.load_average,
            "trace": {
                "name": self.trace_name,
                "bytes": self.trace_bytes,
                "events": self.trace_events,
            },
            "rows": [self.row_as_json(row) for row in self.rows],
        }

    def row_as_json(self, row: Row) -> dict[str, object]:
        head: dict[str, object] = {
            "name": row.name,
            "title": row.title,
            "version": row.version,
        }
        if row.failure:
            return {**head, "failure": row.failure}
        base = self.base_of(row)
        return {
            **head,
            "read": row.read,
            "load_s": row.load_s,
            "process_s": row.process_s,
            "cpu_s": row.cpu_s,
            "rss_bytes": row.rss_bytes,
            "own_bytes": row.own_bytes,
            "base": row.base,
            "time_ratio": None if base is None else row.compared_s / base.compared_s,
            "own_ratio": None if base is None else row.own_bytes / base.own_bytes,
            "runs": [dataclasses.asdict(run) for run in row.runs],
        }


def aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, figures to the right; the last cell as it is."""
    cells = [
        cell.ljust(width) if i < 2 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(line[:-1], widths, strict=False))
    ]
    return "  ".join([*cells, line[-1]]).rstrip()


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def ratio(value: float, base: float) -> str:
    quotient = value / base
    return f"{quotient:.2f}" if quotient < 10 else f"{quotient:,.0f}"


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def kernel() -> str:
    return f"{platform.system()} {platform.release()}"
