"""Levels, configuration and operations: the plain types."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable, Optional


class ProfilerLevel(Enum):
    """How much is measured."""

    DISABLED = 0
    BASIC = 1
    DETAILED = 2
    COMPREHENSIVE = 3


class MetricType(Enum):
    """Sorts of metrics."""

    TIME = "time"
    MEMORY = "memory"
    COMPUTE = "compute"
    IO = "io"
    CUSTOM = "custom"


# Called whenever a configuration changes, so that a change counts at once.
_when_changed: list = []


def when_changed(function: Callable) -> None:
    """Has a function called whenever a configuration changes."""
    _when_changed.append(function)


@dataclass
class ProfilerConfig:
    """What a profiler measures and where results go.

    `max_samples` is how many operations a profiler keeps in memory at least (never less than
    200 000); sums cover all. `sampling_interval` is how often NVML is asked, in seconds.
    """

    enabled: bool = True
    level: ProfilerLevel = ProfilerLevel.BASIC
    profile_time: bool = True
    profile_memory: bool = True
    profile_compute: bool = False
    profile_io: bool = False
    sampling_interval: float = 0.1
    max_samples: int = 1000
    auto_save: bool = True
    save_interval: int = 100
    output_dir: str = "profiling_results"
    output_format: str = "json"
    max_overhead_percent: float = 5.0
    adaptive_sampling: bool = True
    integrate_with_wandb: bool = False
    integrate_with_logging: bool = True
    custom_metrics: dict = field(default_factory=dict)

    def __setattr__(self, name: str, value: Any) -> None:
        known = self.__dict__
        is_change = name in known and known[name] != value
        object.__setattr__(self, name, value)
        if is_change:
            for function in _when_changed:
                function()


@dataclass
class ProfiledOperation:
    """One operation. Times are seconds of `time.perf_counter`, memory is in MiB."""

    name: str
    start_time: float
    end_time: Optional[float] = None
    duration: Optional[float] = None
    memory_before: Optional[float] = None
    memory_after: Optional[float] = None
    memory_peak: Optional[float] = None
    gpu_memory_before: Optional[float] = None
    gpu_memory_after: Optional[float] = None
    gpu_utilization: Optional[float] = None
    custom_metrics: dict = field(default_factory=dict)
    thread_id: Optional[int] = None
    process_id: Optional[int] = None
    component: Optional[str] = None
    tags: list = field(default_factory=list)

    def finalize(self) -> None:
        """Works out the duration and what memory was gained."""
        if self.end_time is not None and self.duration is None:
            self.duration = self.end_time - self.start_time
        if self.memory_before is not None and self.memory_after is not None:
            self.custom_metrics["memory_delta"] = self.memory_after - self.memory_before
        if self.gpu_memory_before is not None and self.gpu_memory_after is not None:
            delta = self.gpu_memory_after - self.gpu_memory_before
            self.custom_metrics["gpu_memory_delta"] = delta

    def to_dict(self) -> dict:
        """All fields."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def operation_of(row: dict, site: Any, own_metrics: dict) -> ProfiledOperation:
    """An operation, from what was recorded and its metrics."""
    metrics = site.metrics(row) if site.metrics is not None else {}
    if row["active"] is not None:
        metrics["active_time"] = row["active"]
        metrics["suspended_time"] = max(0.0, row["end_time"] - row["start_time"] - row["active"])
    for key in ("cpu_time", "bytes_read", "bytes_written"):
        if row.get(key) is not None:
            metrics[key] = row[key]
    if row["exception"] is not None and "exception_type" not in metrics:
        metrics["exception"] = row["exception"]
    metrics.update(own_metrics)
    operation = ProfiledOperation(
        name=site.name,
        start_time=row["start_time"],
        end_time=row["end_time"],
        duration=row["duration"],
        memory_before=row.get("memory_before"),
        memory_after=row.get("memory_after"),
        memory_peak=row.get("memory_peak"),
        gpu_memory_before=row.get("gpu_memory_before"),
        gpu_memory_after=row.get("gpu_memory_after"),
        gpu_utilization=row.get("gpu_utilization"),
        custom_metrics=metrics,
        thread_id=row["thread_id"],
        process_id=os.getpid(),
        component=site.component,
        tags=list(site.tags),
    )
    operation.finalize()
    return operation
