"""What the system says of this process and of the machine, from `/proc`.

What a system does not report is `None`, never a zero that resembles a measurement.
"""

from __future__ import annotations

import os
import time
from typing import Any, Optional

MEBIBYTE = 1024.0 * 1024.0


def processors() -> int:
    """How many processors this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        return max(1, os.cpu_count() or 1)


class CpuMeter:
    """How busy processors were since it was asked before: 100 is all of them, all the while.

    Asked again within `least_s`, it says the same again: the clocks are coarse.
    """

    least_s = 0.05

    def __init__(self, of_machine: bool = False) -> None:
        self._read = _machine_busy_s if of_machine else _process_busy_s
        self._last = self._read_both()
        self._percent: Optional[float] = None

    def _read_both(self) -> tuple:
        return time.monotonic(), self._read()

    def percent(self) -> Optional[float]:
        """Since the last time, in percent; `None` if the system does not report it."""
        now, busy = self._read_both()
        before, busy_before = self._last
        if busy is None or busy_before is None:
            return None
        if now - before >= self.least_s:
            self._percent = 100.0 * max(0.0, busy - busy_before) / (now - before)
            self._last = (now, busy)
        return self._percent or 0.0


def _process_busy_s() -> float:
    return time.process_time() / processors()


def _machine_busy_s() -> Optional[float]:
    """Seconds that an average processor has worked."""
    line = _first_line("/proc/stat")
    if line is None or not line.startswith("cpu "):
        return None
    user, nice, system, _idle, _wait, *more = [int(word) for word in line.split()[1:9]]
    ticks = user + nice + system + sum(more)
    return ticks / os.sysconf("SC_CLK_TCK") / max(1, os.cpu_count() or 1)


def _first_line(path: str) -> Optional[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline()
    except OSError:
        return None


def memory_of_machine() -> Optional[tuple]:
    """MiB that the machine has, and that programs could still get."""
    wanted: dict = {"MemTotal": None, "MemAvailable": None}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in wanted:
                    wanted[name] = int(rest.split()[0]) / 1024.0
    except OSError:
        return None
    total, available = wanted["MemTotal"], wanted["MemAvailable"]
    return None if total is None or available is None else (total, available)


def disk_percent(path: str = "/") -> Optional[float]:
    """How full the disk is, for those who are not root."""
    try:
        found: Any = os.statvfs(path)
    except (AttributeError, OSError):
        return None
    used = found.f_blocks - found.f_bfree
    usable = used + found.f_bavail
    return 100.0 * used / usable if usable else None


def process_count() -> Optional[int]:
    """How many processes there are."""
    try:
        return sum(name.isdigit() for name in os.listdir("/proc"))
    except OSError:
        return None


def thread_count() -> Optional[int]:
    """How many threads this process has, those of libraries included."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return None
