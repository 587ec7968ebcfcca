"""How much of the machine is used: processors, memory, disk, GPU."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Optional

from .._system import gpu as _gpu
from .._system import machine as _machine
from ._watching import Watcher, judged, since


@dataclass
class ResourceSnapshot:
    """One check of the machine; what the system does not report is `None`. Memory in MiB."""

    timestamp: float
    cpu_percent: Optional[float]
    memory_percent: Optional[float]
    memory_used_mb: Optional[float]
    memory_available_mb: Optional[float]
    disk_usage_percent: Optional[float]
    gpu_memory_used_mb: float = 0.0
    gpu_memory_total_mb: float = 0.0
    gpu_utilization_percent: float = 0.0
    process_count: Optional[int] = None
    thread_count: Optional[int] = None

    @property
    def gpu_memory_percent(self) -> Optional[float]:
        """How full the GPU's memory is; `None` without a GPU."""
        if self.gpu_memory_total_mb <= 0:
            return None
        return 100.0 * self.gpu_memory_used_mb / self.gpu_memory_total_mb


@dataclass
class ResourceAlert:
    """A resource runs short. Severities: warning, critical."""

    resource_type: str
    severity: str
    message: str
    timestamp: float
    current_value: float
    threshold: float
    recommendations: list = field(default_factory=list)


# What is judged: its name among the thresholds, in words, its field, and what helps.
RESOURCES = (
    ("cpu", "CPU", "cpu_percent",
     ["Profile at a lower level", "Look for processes that should not run"]),
    ("memory", "Memory", "memory_percent",
     ["Keep less history", "Look for what is kept and never let go"]),
    ("disk", "Disk", "disk_usage_percent",
     ["Remove old results", "Write fewer of them"]),
    ("gpu_memory", "GPU memory", "gpu_memory_percent",
     ["Use smaller batches", "Let go of tensors that are not needed"]),
    ("gpu_utilization", "GPU", "gpu_utilization_percent",
     ["The GPU is the bottleneck: look at its kernels"]),
)
TRENDS = {
    "cpu_percent": "cpu_percent",
    "memory_percent": "memory_percent",
    "disk_percent": "disk_usage_percent",
    "gpu_memory_percent": "gpu_memory_percent",
    "gpu_utilization": "gpu_utilization_percent",
}
RECOMMENDED_ABOVE = 70.0
PROCESSES_MANY, THREADS_MANY = 500, 100


class ResourceMonitor(Watcher):
    """Checks the machine every so often; alerts when a threshold is passed."""

    alerts_kept_s = 4 * 3600.0

    def __init__(self, monitoring_interval: float = 5.0, history_size: int = 720) -> None:
        super().__init__(monitoring_interval)
        self.monitoring_interval = monitoring_interval
        self.history_size = history_size
        self.resource_history: deque = deque(maxlen=history_size)
        self.thresholds = {
            "cpu_warning": 80.0,
            "cpu_critical": 95.0,
            "memory_warning": 80.0,
            "memory_critical": 95.0,
            "disk_warning": 85.0,
            "disk_critical": 95.0,
            "gpu_memory_warning": 80.0,
            "gpu_memory_critical": 95.0,
            "gpu_utilization_warning": 90.0,
            "gpu_utilization_critical": 98.0,
        }
        self._cpu = _machine.CpuMeter(of_machine=True)
        try:
            self._nvml: Any = _gpu.Nvml()
        except (OSError, AttributeError):
            self._nvml = None

    @property
    def gpu_monitoring(self) -> bool:
        """Whether there is a GPU that NVML knows."""
        return self._nvml is not None

    def look(self) -> None:
        """Takes a snapshot and judges it."""
        snapshot = self._snapshot()
        with self.lock:
            self.resource_history.append(snapshot)
        for alert in self._alerts(snapshot):
            self._raise_alert(alert)

    def _snapshot(self) -> ResourceSnapshot:
        memory = _machine.memory_of_machine()
        percent = used = available = None
        if memory is not None:
            total, available = memory
            used = total - available
            percent = 100.0 * used / total
        snapshot = ResourceSnapshot(
            timestamp=time.time(),
            cpu_percent=self._cpu.percent(),
            memory_percent=percent,
            memory_used_mb=used,
            memory_available_mb=available,
            disk_usage_percent=_machine.disk_percent(),
            process_count=_machine.process_count(),
            thread_count=_machine.thread_count(),
        )
        if self._nvml is not None:
            of_gpu = self._nvml.memory()
            if of_gpu is not None:
                snapshot.gpu_memory_used_mb, snapshot.gpu_memory_total_mb = of_gpu
            snapshot.gpu_utilization_percent = self._nvml.utilization() or 0.0
        return snapshot

    def _alerts(self, snapshot: ResourceSnapshot) -> list:
        alerts = []
        for name, words, attribute, advice in RESOURCES:
            value = getattr(snapshot, attribute)
            critical = self.thresholds[f"{name}_critical"]
            warning = self.thresholds[f"{name}_warning"]
            severity = judged(value, (critical, "critical"), (warning, "warning"))
            if severity is not None:
                limit = critical if severity == "critical" else warning
                text = f"{words} usage: {value:.1f}%, above {limit:g}%"
                alerts.append(ResourceAlert(
                    name, severity, text, snapshot.timestamp, value, limit, list(advice)
                ))
        return alerts

    def get_current_usage(self) -> Optional[ResourceSnapshot]:
        """The latest snapshot."""
        with self.lock:
            return self.resource_history[-1] if self.resource_history else None

    def get_usage_trends(self, duration_minutes: float = 60) -> dict:
        """Figures of the snapshots of the last so many minutes, by resource."""
        with self.lock:
            rows = since(self.resource_history, duration_minutes * 60.0)
        if not rows:
            return {}
        trends = {}
        for name, attribute in TRENDS.items():
            is_measured = not name.startswith("gpu") or self.gpu_monitoring
            values = [getattr(row, attribute) for row in rows] if is_measured else []
            trends[name] = [value for value in values if value is not None]
        return trends

    def get_usage_statistics(self, duration_minutes: float = 60) -> dict:
        """Current, average, least, most and deviation by resource."""
        found = {}
        for name, values in self.get_usage_trends(duration_minutes).items():
            if values:
                mean = sum(values) / len(values)
                squares = sum((value - mean) ** 2 for value in values)
                found[name] = {
                    "current": values[-1],
                    "average": mean,
                    "min": min(values),
                    "max": max(values),
                    "std_dev": (squares / (len(values) - 1)) ** 0.5 if len(values) > 1 else 0.0,
                }
        return found

    def get_resource_recommendations(self) -> list:
        """What would help with what is used most now."""
        current = self.get_current_usage()
        if current is None:
            return []
        advice = [
            text
            for name, _, attribute, texts in RESOURCES
            if (getattr(current, attribute) or 0.0) > RECOMMENDED_ABOVE
            for text in texts
        ]
        if (current.process_count or 0) > PROCESSES_MANY:
            advice.append(f"{current.process_count} processes: look for ones left over")
        if (current.thread_count or 0) > THREADS_MANY:
            advice.append(f"{current.thread_count} threads in this process: fewer may be faster")
        return advice

    def get_recent_alerts(
        self, severity: Any = None, resource_type: Any = None, duration_hours: float = 1
    ) -> list:
        """Alerts of the last so many hours: of a severity, of a resource."""
        with self.lock:
            rows = since(self.alerts, duration_hours * 3600.0)
        return [
            row for row in rows
            if severity in (None, row.severity) and resource_type in (None, row.resource_type)
        ]

    def get_resource_report(self) -> str:
        """The latest snapshot, the last hour and what would help, as text."""
        current = self.get_current_usage()
        if current is None:
            return "No resource data available."
        lines = [
            f"Resources of the machine at {time.ctime(current.timestamp)}",
            f"  CPU: {_percent(current.cpu_percent)}",
            f"  Memory: {_percent(current.memory_percent)}, {_mb(current.memory_used_mb)}",
            f"  Disk: {_percent(current.disk_usage_percent)}",
            f"  Processes: {_text_of(current.process_count)}, "
            f"threads of this one: {_text_of(current.thread_count)}",
        ]
        if current.gpu_memory_percent is not None:
            lines.append(
                f"  GPU: {_percent(current.gpu_utilization_percent)}, memory "
                f"{_percent(current.gpu_memory_percent)}, {_mb(current.gpu_memory_used_mb)}"
            )
        lines.append("In the last hour, on average and at most:")
        lines += [
            f"  {name}: {row['average']:.1f}%, {row['max']:.1f}%"
            for name, row in self.get_usage_statistics(60).items()
        ]
        alerts = self.get_recent_alerts(duration_hours=4)
        if alerts:
            lines.append(f"{len(alerts)} alerts in the last four hours, the latest:")
        lines += [f"  {row.severity}: {row.message}" for row in alerts[-10:]]
        lines += [f"Advice: {text}" for text in self.get_resource_recommendations()]
        return "\n".join(lines)


def _text_of(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _percent(value: Optional[float]) -> str:
    return "unknown" if value is None else f"{value:.1f}%"


def _mb(value: Optional[float]) -> str:
    return "unknown" if value is None else f"{value:.0f}MB"
