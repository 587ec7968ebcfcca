"""Work on many files, one at a time each: on threads here, or as tasks of Ray where they lie.

Both ways make the same tree: the results of `fan_in` neighbours are put together, then of as many
such groups, until one is left. What comes out is the same to the byte. Scheduling, retries and the
moving of results are Ray's business.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .. import _native
from .._traces.table import Table

#: What is made of one file, or of many: tables by name.
Tables = dict[str, Table]
#: Called with files done and files in all.
ReportProgress = Callable[[int, int], None]

#: How often Ray tries a file again whose worker was lost.
_RETRIES = 3
#: Progress is reported after this many files, or this many seconds.
_POLLED_MAX = 64
_POLL_S = 0.2


class Status(NamedTuple):
    """How the work on one file went."""

    error: str | None
    #: The process that did it.
    worker: int
    seconds: float
    #: The most memory that this process has had, so far.
    peak_bytes: int


#: What is done with one file: how it went, and what is kept of it. Never raises.
Step = Callable[[Any], "tuple[Status, Tables]"]


def timed(step: Callable[[Any], tuple[str | None, Tables]], job: Any) -> tuple[Status, Tables]:
    """Does a step, and says what it took."""
    import resource

    start = time.monotonic()
    error, tables = step(job)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Status(error, os.getpid(), time.monotonic() - start, peak), tables


def merge(*parts: Tables) -> Tables:
    """Tables of neighbours, one under the other."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    return {
        name: Table(_native.concat_tables([part[name]._table for part in parts if name in part]))
        for name in names
    }


def _groups(count: int, fan_in: int) -> Iterator[range]:
    for start in range(0, count, fan_in):
        yield range(start, min(start + fan_in, count))


class Threads:
    """Files read here, several at once."""

    def __init__(self, threads: int) -> None:
        self.threads = threads or os.cpu_count() or 1

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function where the files lie."""
        return function(*arguments)

    def run(
        self,
        step: Step,
        jobs: Sequence[Any],
        lost: Callable[[Any, str], Tables],
        fan_in: int,
        report: ReportProgress | None,
    ) -> tuple[list[Status], Tables]:
        """Does a step with each job, and puts the results together, in the order of jobs."""
        from concurrent.futures import ThreadPoolExecutor

        statuses: list[Status] = []
        parts: list[Tables] = []
        pool = ThreadPoolExecutor(min(self.threads, len(jobs)))
        try:
            for status, tables in pool.map(step, jobs):
                statuses.append(status)
                parts.append(tables)
                if report is not None:
                    report(len(statuses), len(jobs))
        finally:
            # After Ctrl-C, files that nobody has begun are left alone.
            pool.shutdown(wait=False, cancel_futures=True)
        merged = [merge(*(parts[at] for at in group)) for group in _groups(len(parts), fan_in)]
        while len(merged) > 1:
            groups = _groups(len(merged), fan_in)
            merged = [merge(*(merged[at] for at in group)) for group in groups]
        return statuses, merged[0]

    def close(self) -> None:
        """Nothing was started."""


class OnRay:
    """Files read by the workers of a Ray cluster; results stay there until they are one.

    A worker that is lost costs the files it was at, which Ray gives to others.
    """

    def __init__(self, cluster: str, workers: int) -> None:
        try:
            import ray
        except ImportError as reason:
            raise ImportError("this needs Ray: pip install 'spanwise[ray]'") from reason
        self._ray = ray
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            ray.init(**_start(cluster, workers))
        self._merge = self._task(merge)

    def _task(self, function: Callable[..., Any], **options: Any) -> Any:
        return self._ray.remote(max_retries=_RETRIES, num_cpus=1, **options)(function)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function where the files lie."""
        return self._ray.get(self._task(function).remote(*arguments))

    def run(
        self,
        step: Step,
        jobs: Sequence[Any],
        lost: Callable[[Any, str], Tables],
        fan_in: int,
        report: ReportProgress | None,
    ) -> tuple[list[Status], Tables]:
        """Does a step with each job, and puts the results together, in the order of jobs."""
        ray = self._ray
        task = self._task(step, num_returns=2)
        numbers: dict[Any, int] = {}
        parts: list[Any] = []
        for number, job in enumerate(jobs):
            status, tables = task.remote(job)
            numbers[status] = number
            parts.append(tables)
        statuses: list[Status] = [Status("not done", 0, 0.0, 0)] * len(jobs)
        # A group is put together as soon as its files are done, and theirs are let go.
        groups = list(_groups(len(jobs), fan_in))
        left = [len(group) for group in groups]
        merged: list[Any] = [None] * len(groups)
        for done, ref in enumerate(self._as_done(list(numbers)), start=1):
            number = numbers[ref]
            try:
                statuses[number] = ray.get(ref)
            except ray.exceptions.RayError as reason:
                why = f"lost {1 + _RETRIES} times: {type(reason).__name__}"
                statuses[number] = Status(why, 0, 0.0, 0)
                parts[number] = ray.put(lost(jobs[number], why))
            if report is not None:
                report(done, len(jobs))
            group = number // fan_in
            left[group] -= 1
            if left[group] == 0:
                merged[group] = self._merge.remote(*(parts[at] for at in groups[group]))
                for at in groups[group]:
                    parts[at] = None
        while len(merged) > 1:
            above = _groups(len(merged), fan_in)
            merged = [self._merge.remote(*(merged[at] for at in group)) for group in above]
        return statuses, ray.get(merged[0])

    def _as_done(self, waiting: list[Any]) -> Iterator[Any]:
        """What is waited for, as it comes."""
        while waiting:
            many = min(len(waiting), _POLLED_MAX)
            ready, waiting = self._ray.wait(waiting, num_returns=many, timeout=_POLL_S)
            yield from ready

    def close(self) -> None:
        """Leaves the cluster, or ends it where it was started for this."""
        if self._is_ours:
            self._is_ours = False
            self._ray.shutdown()


def _start(cluster: str, workers: int) -> dict[str, Any]:
    """How `ray.init` is called for a cluster that is named so."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if cluster != "local":
        return {"address": cluster, **quiet}
    # "local" keeps Ray from joining a cluster that it finds by itself.
    own: dict[str, Any] = {"address": "local", "include_dashboard": False}
    return {**own, **quiet, **({"num_cpus": workers} if workers else {})}


def runner(cluster: str | None, workers: int) -> Threads | OnRay:
    """Where work is done: here, where no cluster is named."""
    return Threads(workers) if cluster is None else OnRay(cluster, workers)
