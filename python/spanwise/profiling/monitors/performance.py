"""Whether a program does as much, as fast and as well as it did a while ago."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Optional

from .._system import machine as _machine
from ._watching import Watcher, judged, since

# Snapshots that make a baseline, and the least that do.
BASELINE_SNAPSHOTS = 60
BASELINE_MIN = 10


@dataclass
class PerformanceAlert:
    """Something became worse. Severities: low, medium, high, critical."""

    alert_type: str
    component: str
    message: str
    severity: str
    timestamp: float
    metrics: dict = field(default_factory=dict)


@dataclass
class PerformanceSnapshot:
    """One check. CPU in percent of all processors, memory and GPU memory in MiB."""

    timestamp: float
    cpu_usage: float
    memory_usage: float
    gpu_usage: float
    operation_rate: float
    error_rate: float
    component_metrics: dict = field(default_factory=dict)
    # Since the profiler began: rates are of what was added since the previous check.
    total_operations: int = 0
    total_errors: int = 0


class PerformanceMonitor(Watcher):
    """Checks a kernel profiler every so often; alerts when a threshold is passed.

    Memory is judged in percent of the machine's, and against the baseline: the mean of the
    last 60 checks, computed anew every 60 (from the tenth on).
    """

    def __init__(
        self, kernel_profiler: Any, monitoring_interval: float = 1.0, history_size: int = 300
    ) -> None:
        super().__init__(monitoring_interval, kernel_profiler.logger)
        self.kernel_profiler = kernel_profiler
        self.monitoring_interval = monitoring_interval
        self.history_size = history_size
        self.performance_history: deque = deque(maxlen=history_size)
        self.baseline_metrics: dict = {}
        self.thresholds = {
            "cpu_warning": 80.0,
            "cpu_critical": 95.0,
            "memory_warning": 80.0,
            "memory_critical": 95.0,
            "memory_growth": 2.0,
            "error_rate_warning": 0.05,
            "error_rate_critical": 0.20,
            "operation_rate_drop": 0.5,
            "response_time_warning": 1.0,
            "response_time_critical": 5.0,
        }
        self._checks = 0
        self._cpu = _machine.CpuMeter()

    def look(self) -> None:
        """Takes a snapshot and judges it."""
        snapshot = self._snapshot()
        with self.lock:
            self.performance_history.append(snapshot)
            self._checks += 1
            is_due = self._checks % BASELINE_SNAPSHOTS == 0 or self._checks == BASELINE_MIN
        for alert in self._alerts(snapshot):
            self._raise_alert(alert)
        if is_due:
            self._update_baseline()

    def _snapshot(self) -> PerformanceSnapshot:
        health = self.kernel_profiler.get_kernel_health_metrics()
        now = time.time()
        before = self.get_current_performance()
        operations, errors = health["total_profiles"], health["error_count"]
        rate = error_rate = 0.0
        if before is not None and operations >= before.total_operations:
            added = operations - before.total_operations
            rate = added / max(1e-9, now - before.timestamp)
            error_rate = (errors - before.total_errors) / added if added else 0.0
        return PerformanceSnapshot(
            timestamp=now,
            cpu_usage=self._cpu.percent() or 0.0,
            memory_usage=health["memory_usage_mb"],
            gpu_usage=health["gpu_memory_mb"],
            operation_rate=rate,
            error_rate=error_rate,
            component_metrics=self.kernel_profiler.component_sums(),
            total_operations=operations,
            total_errors=errors,
        )

    def _alerts(self, snapshot: PerformanceSnapshot) -> list:
        limits, alerts = self.thresholds, []

        def judge(kind: str, value: Any, name: str, text: str, component: str = "system") -> None:
            critical, warning = limits[f"{name}_critical"], limits[f"{name}_warning"]
            severity = judged(value, (critical, "critical"), (warning, "medium"))
            if severity is not None:
                metrics = {kind: value}
                alerts.append(
                    PerformanceAlert(kind, component, text, severity, snapshot.timestamp, metrics)
                )

        cpu, errors = snapshot.cpu_usage, snapshot.error_rate
        judge("cpu_usage", cpu, "cpu", f"CPU usage: {cpu:.1f}%")
        machine = _machine.memory_of_machine()
        if machine is not None:
            percent = 100.0 * snapshot.memory_usage / machine[0]
            text = f"Memory usage: {percent:.1f}% of the machine's"
            judge("memory_usage", percent, "memory", text)
        judge("error_rate", errors, "error_rate", f"Error rate: {errors:.1%}")
        for name, sums in snapshot.component_metrics.items():
            average = sums["average_time"]
            text = f"Response time: {average:.3f}s"
            judge("slow_component", average, "response_time", text, name)
        return alerts + self._against_baseline(snapshot)

    def _against_baseline(self, snapshot: PerformanceSnapshot) -> list:
        baseline, limits, alerts = self.baseline_metrics, self.thresholds, []
        memory, rate = baseline.get("memory_usage", 0.0), baseline.get("operation_rate", 0.0)
        if memory > 0 and snapshot.memory_usage > memory * limits["memory_growth"]:
            gained = snapshot.memory_usage - memory
            metrics = {"current_memory": snapshot.memory_usage, "baseline_memory": memory,
                       "increase": gained}
            alerts.append(PerformanceAlert(
                "memory_growth", "system", f"Memory grew by {gained:.1f}MB", "high",
                snapshot.timestamp, metrics,
            ))
        if rate > 0 and snapshot.operation_rate < rate * limits["operation_rate_drop"]:
            ratio = snapshot.operation_rate / rate
            metrics = {"current_rate": snapshot.operation_rate, "baseline_rate": rate,
                       "ratio": ratio}
            alerts.append(PerformanceAlert(
                "performance_drop", "system", f"Operations come at {ratio:.1%} of the usual rate",
                "medium", snapshot.timestamp, metrics,
            ))
        return alerts

    def _update_baseline(self) -> None:
        with self.lock:
            rows = list(self.performance_history)[-BASELINE_SNAPSHOTS:]
            self.baseline_metrics = {
                name: sum(getattr(row, name) for row in rows) / len(rows)
                for name in ("cpu_usage", "memory_usage", "operation_rate", "error_rate")
            }

    def get_current_performance(self) -> Optional[PerformanceSnapshot]:
        """The latest snapshot."""
        with self.lock:
            return self.performance_history[-1] if self.performance_history else None

    def get_performance_trend(self, metric: str, duration_seconds: float = 300) -> list:
        """A figure of the snapshots (`cpu_usage`, …) of the last so many seconds."""
        with self.lock:
            rows = since(self.performance_history, duration_seconds)
        return [getattr(row, metric) for row in rows]

    def get_recent_alerts(
        self, severity: Any = None, component: Any = None, duration_seconds: float = 3600
    ) -> list:
        """Alerts of the last so many seconds: of a severity, of a component."""
        with self.lock:
            rows = since(self.alerts, duration_seconds)
        return [
            row for row in rows
            if severity in (None, row.severity) and component in (None, row.component)
        ]

    def get_performance_report(self) -> str:
        """The latest snapshot, the baseline and the alerts of the last hour, as text."""
        current = self.get_current_performance()
        if current is None:
            return "No performance data available."
        with self.lock:
            watched_s = current.timestamp - self.performance_history[0].timestamp
        lines = [
            f"Performance at {time.ctime(current.timestamp)}, watched for {watched_s:.0f}s",
            f"  CPU: {current.cpu_usage:.1f}% of all processors",
            f"  Memory: {current.memory_usage:.1f}MB, GPU memory: {current.gpu_usage:.1f}MB",
            f"  Operations: {current.operation_rate:.1f} a second, "
            f"{current.error_rate:.2%} of them failed",
        ]
        usual = self.baseline_metrics
        if usual:
            lines.append(
                f"  Usually: {usual['cpu_usage']:.1f}% CPU, {usual['memory_usage']:.1f}MB, "
                f"{usual['operation_rate']:.1f} operations a second"
            )
        alerts = self.get_recent_alerts()
        if alerts:
            lines.append(f"{len(alerts)} alerts in the last hour, the latest:")
        lines += [f"  {row.severity}, {row.component}: {row.message}" for row in alerts[-10:]]
        return "\n".join(lines)
