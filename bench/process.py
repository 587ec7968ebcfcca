"""Run one process to its end and report what it cost in time and memory.

Sampled from outside, so that the same figures exist for a program in any
language and nothing has to be built into it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """What one process cost."""

    load_s: float | None
    process_s: float
    cpu_s: float
    rss_bytes: int
    own_bytes: int
    own_is_bound: bool
    others_cores: float

    @property
    def compared_s(self) -> float:
        """The time to compare: without start-up, if the process reports it separately."""
        return self.process_s if self.load_s is None else self.load_s


class Failed(Exception):
    """A row that could not be measured; the message is shown in its place."""


def run_once(
    command: Sequence[str], env: Mapping[str, str], *, timeout_s: float
) -> tuple[Run, dict[str, str]]:
    """Run the command to its end; return its cost and what it said of itself.

    A process may end its output with a JSON object: `load_s`, `version`, `read`.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        # Inflated text would fill the disk; nothing else is printed by gzip.
        stdout = Path(os.devnull) if command[0] == "gzip" else out
        busy_before_s, driver_before_s = machine_busy_s(), own_cpu_s()
        start = time.perf_counter()
        pid = spawn(command, env, stdout, err)
        watch = Watch(pid)
        try:
            status, usage = watch.wait(timeout_s)
        except BaseException:
            watch.kill()
            raise
        process_s = time.perf_counter() - start
        busy_s = machine_busy_s() - busy_before_s
        driver_s = own_cpu_s() - driver_before_s

        if watch.timed_out:
            raise Failed(f"no result within {timeout_s:g} s")
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            raise Failed(f"killed by {signal.Signals(-code).name}")
        if code > 0:
            reason = last_line(err.read_text(errors="replace"))
            raise Failed(f"exit code {code}: {reason}")
        said = last_object(out) if stdout == out else {}

    cpu_s = usage.ru_utime + usage.ru_stime
    rss_bytes = watch.rss_bytes(usage)
    run = Run(
        load_s=float(said["load_s"]) if "load_s" in said else None,
        process_s=process_s,
        cpu_s=cpu_s,
        rss_bytes=rss_bytes,
        own_bytes=watch.own_bytes if watch.is_enough else rss_bytes,
        own_is_bound=not watch.is_enough,
        others_cores=max(0.0, busy_s - cpu_s - driver_s) / process_s,
    )
    return run, said


def touch_memory(wanted_bytes: int) -> None:
    """Have every page of that much memory used once, in a process of its own.

    A virtual machine gets memory from its host when a page is first used, which
    is several times slower than using it again: `orjson.loads` of 800 MB took 24 s
    and then 13 s. Without this the row that happens to come first would pay.
    """
    available_kib = int(
        next(
            line.split()[1]
            for line in Path("/proc/meminfo").read_text().splitlines()
            if line.startswith("MemAvailable")
        )
    )
    touched_bytes = min(wanted_bytes, available_kib * 1024 * 3 // 4)
    fill = f"b'x' * {touched_bytes}"
    subprocess.run([sys.executable, "-c", fill], check=False)


def spawn(command: Sequence[str], env: Mapping[str, str], out: Path, err: Path) -> int:
    """Start a process in a session of its own, so that all of it can be ended."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.posix_spawnp(
        command[0],
        list(command),
        env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(out), flags, 0o600),
            (os.POSIX_SPAWN_OPEN, 2, str(err), flags, 0o600),
        ],
        setsid=True,
    )


class Watch:
    """Follows the memory of one process from beside it.

    The kernel keeps the peak of a process's resident memory, but that counts the
    pages of files it has mapped, which the machine can take back at any time. It
    keeps no peak of the memory that is the process's own, so that is sampled. No
    peer starts processes of its own to load one file.
    """

    # Closely at first, for a process that is done within a few milliseconds.
    CLOSE_S = 0.001
    CLOSE_FOR_S = 0.1
    SAMPLE_S = 0.005

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.own_bytes = 0
        self.timed_out = False
        self._peak_bytes = 0
        self._samples = 0
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def wait(self, timeout_s: float) -> tuple[int, resource.struct_rusage]:
        timer = threading.Timer(timeout_s, self._time_out)
        timer.start()
        try:
            _, status, usage = os.wait4(self.pid, 0)
        finally:
            timer.cancel()
            self._over.set()
            self._sampler.join()
        return status, usage

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    @property
    def is_enough(self) -> bool:
        """Whether there were samples enough to speak of a peak."""
        return self._samples >= 5

    def rss_bytes(self, usage: resource.struct_rusage) -> int:
        """The peak of resident memory.

        The figure at exit is exact, but a child's starts from what this process
        has ever held, so it says something only once it is above that.
        """
        own_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        exit_kib = usage.ru_maxrss if usage.ru_maxrss > own_kib else 0
        return max(self._peak_bytes, exit_kib * 1024) or usage.ru_maxrss * 1024

    def _time_out(self) -> None:
        self.timed_out = True
        self.kill()

    def _sample(self) -> None:
        status = Path(f"/proc/{self.pid}/status")
        close_until = time.perf_counter() + self.CLOSE_FOR_S
        while not self._over.is_set():
            try:
                text = status.read_text()
            except (FileNotFoundError, ProcessLookupError):
                return
            sizes = {
                line.partition(":")[0]: int(line.split()[1]) * 1024
                for line in text.splitlines()
                if line.startswith(("VmHWM", "RssAnon", "RssShmem"))
            }
            if sizes:
                own_bytes = sizes["RssAnon"] + sizes["RssShmem"]
                self.own_bytes = max(self.own_bytes, own_bytes)
                self._peak_bytes = max(self._peak_bytes, sizes["VmHWM"])
                self._samples += 1
            is_close = time.perf_counter() < close_until
            self._over.wait(self.CLOSE_S if is_close else self.SAMPLE_S)


def machine_busy_s() -> float:
    """Seconds of processor time spent or stolen, by anyone, since boot."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    ticks = user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def own_cpu_s() -> float:
    times = os.times()
    return times.user + times.system


def last_object(path: Path) -> dict[str, str]:
    """The JSON object on the last line of the output, if there is one."""
    lines = path.read_text(errors="replace").splitlines()
    with contextlib.suppress(ValueError, IndexError):
        value = json.loads(lines[-1])
        if isinstance(value, dict):
            return value
    return {}


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "it said nothing"
