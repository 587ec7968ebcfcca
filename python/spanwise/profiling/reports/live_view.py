"""What goes on right now: in this process, or in another one through its session's file."""

from __future__ import annotations

import os
import time
from typing import Any, Iterator, Optional

from ... import _native
from .._core import sites as _sites


def of_manager(manager: Any) -> dict:
    """The state of a manager's session: sums so far, and since the previous call."""
    now = time.monotonic()
    before, counted = manager._live_before or (None, {})
    since = max(1e-9, now - before) if before is not None else max(1e-9, manager._duration())
    all_sums, by_name, by_component, _ = _native.sums(manager._whole)
    rows, counts = [], {}
    for key, sums in by_name:
        counts[key] = (sums[0], sums[1])
        rows.append(_row(key, sums, counted.get(key, (0, 0.0)), since))
    manager._live_before = (now, counts)
    rows.sort(key=lambda row: (-row["new_time"], -row["total_time"], row["name"]))
    return {
        "session": {
            "session_id": manager.session_id,
            "state": "running" if manager.is_profiling else "ended",
            "process": os.getpid(),
            "file": manager.session_file,
            "duration": manager._duration(),
            "level": manager.current_level.name,
            "operations": all_sums[0],
            "failed": all_sums[5],
            "total_time": all_sums[2],
            "memory_mb": _native.memory(),
            "window": since,
        },
        "operations": rows,
        "components": [
            {
                "component": _sites.component_of(number),
                "count": sums[0],
                "total_time": sums[2],
                "failed": sums[5],
            }
            for number, sums in sorted(by_component, key=lambda row: -row[1][2])
        ],
    }


def _row(key: tuple, sums: tuple, before: tuple, since: float) -> dict:
    count, seconds, covered, least, most, failed = sums[:6]
    # Forgotten and begun anew since the previous call.
    before = before if before[0] <= count else (0, 0.0)
    return {
        "name": _sites.name_of(key[0]),
        "component": _sites.component_of(key[1]),
        "count": count,
        "total_time": covered,
        "avg_time": seconds / max(1, count),
        "min_time": least,
        "max_time": most,
        "failed": failed,
        "new_count": count - before[0],
        "new_time": max(0.0, seconds - before[1]),
        "per_second": (count - before[0]) / since,
    }


class LiveSession:
    """A session's file, of any process: read, never written; its program is not asked."""

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)

    def look(self) -> dict:
        """What `spanwise top --session` says of it, once. Times are nanoseconds."""
        # Loaded when it is asked for: programs start faster without.
        import json
        import subprocess

        done = subprocess.run(
            self._command("--once"), capture_output=True, text=True, encoding="utf-8"
        )
        if done.returncode != 0:
            raise OSError(done.stderr.strip() or f"spanwise top ended with {done.returncode}")
        return json.loads(done.stdout)

    def follow(self, interval_s: float = 1.0, looks: int = 0) -> Iterator[dict]:
        """Reads again and again until the session ends, or `looks` times; each time only what is
        new is read. Rates are of the time since the previous call.
        """
        import json
        import subprocess

        more = ["--interval", f"{max(1, round(interval_s * 1000))}ms", "--looks", str(looks)]
        process: Any = subprocess.Popen(
            self._command(*more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            encoding="utf-8",
        )
        try:
            lines: list = []
            for line in process.stdout:
                lines.append(line)
                if line.rstrip("\n") == "}":
                    yield json.loads("".join(lines))
                    lines = []
            reason = process.stderr.read()
            if process.wait() != 0:
                raise OSError(reason.strip())
        finally:
            process.kill()
            process.stdout.close()
            process.stderr.close()
            process.wait()

    def __iter__(self) -> Iterator[dict]:
        return self.follow()

    def _command(self, *more: str) -> list:
        return [_command_line(), "top", "--session", self.path, "--format", "json", "--top", "0",
                *more]


def _command_line() -> str:
    from ...__main__ import command_line

    path: Optional[str] = command_line()
    if path is None:
        raise OSError("this installation has no command line; install the wheel again")
    return path


def live(path: Any) -> LiveSession:
    """Another process's session, while it goes on or after: `live(path).look()`, or
    `for look in live(path)`.
    """
    return LiveSession(path)
