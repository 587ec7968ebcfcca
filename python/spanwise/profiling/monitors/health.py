"""Whether a program, its profiler and its components are well."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from ._watching import Watcher, judged, since


class HealthStatus(Enum):
    """How well something is."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


# From bad to good: the worst of several decides.
WORST_FIRST = (
    HealthStatus.CRITICAL, HealthStatus.UNHEALTHY, HealthStatus.DEGRADED, HealthStatus.HEALTHY,
)


@dataclass
class HealthCheck:
    """One check, and what came of it."""

    check_name: str
    status: HealthStatus
    message: str
    timestamp: float
    component: Optional[str] = None
    metrics: dict = field(default_factory=dict)
    recommendations: list = field(default_factory=list)


@dataclass
class ComponentHealth:
    """How a component is; `uptime` is since it was first seen."""

    component_name: str
    status: HealthStatus
    last_check: float
    checks: list = field(default_factory=list)
    uptime: float = 0.0
    error_count: int = 0
    success_rate: float = 1.0


@dataclass
class HealthAlert:
    """The health of the whole became another."""

    message: str
    severity: str
    timestamp: float
    before: HealthStatus
    after: HealthStatus


SEVERITIES = {
    HealthStatus.CRITICAL: "critical",
    HealthStatus.UNHEALTHY: "high",
    HealthStatus.DEGRADED: "medium",
}

ADVICE = {
    "memory_growth": ["Look for what is kept and never let go", "Keep less history"],
    "cpu_usage": ["Profile at a lower level", "Look for work that need not be done"],
    "profiler_overhead": ["Profile at a lower level", "Turn adaptive_sampling on"],
    "active_profiles": ["Look for operations that are begun and never ended"],
    "profiler_enabled": ["Enable the profiler again, if it is to watch"],
    "error_rate": ["Look at what the failed operations raised"],
    "response_time": ["Look where the component's time goes"],
}

# Less than a minute of growth says little.
GROWTH_MIN_S = 60.0
KEPT_S = 3600.0
HISTORY_S = 86_400.0


class HealthMonitor(Watcher):
    """Checks a kernel profiler every so often. The worst check is the health of the whole;
    callbacks are called when that becomes worse.
    """

    def __init__(self, kernel_profiler: Any, check_interval: float = 30.0) -> None:
        super().__init__(check_interval, kernel_profiler.logger)
        self.kernel_profiler = kernel_profiler
        self.check_interval = check_interval
        self.system_health = HealthStatus.UNKNOWN
        self.component_health: dict = {}
        self.recent_checks: list = []
        self.health_history: list = []
        self.thresholds = {
            "memory_growth_rate": 10.0,
            "cpu_degraded": 70.0,
            "cpu_unhealthy": 90.0,
            "error_rate_degraded": 0.01,
            "error_rate_unhealthy": 0.05,
            "error_rate_critical": 0.20,
            "response_time_degraded": 0.5,
            "response_time_unhealthy": 2.0,
            "response_time_critical": 10.0,
            "profiler_overhead_warning": 5.0,
            "profiler_overhead_critical": 15.0,
            "active_profiles": 100,
        }
        health = kernel_profiler.get_kernel_health_metrics()
        self.baseline_memory = health["memory_usage_mb"]
        self.baseline_timestamp = time.time()
        self._seen_at: dict = {}

    def look(self) -> None:
        """Checks everything now."""
        now = time.time()
        metrics = self.kernel_profiler.get_kernel_health_metrics()
        checks = self._system_checks(metrics, now) + self._profiler_checks(metrics, now)
        for name, sums in self.kernel_profiler.component_sums().items():
            checks += self._component_checks(name, sums, now)
        found = {check.status for check in checks}
        status = next(status for status in WORST_FIRST if status in found)
        with self.lock:
            before, self.system_health = self.system_health, status
            self.recent_checks = since(self.recent_checks, KEPT_S) + checks
            self.health_history = [
                row for row in self.health_history if row[0] > now - HISTORY_S
            ] + [(now, status)]
        if status in SEVERITIES and _is_worse(status, before):
            worst = next(check for check in checks if check.status is status)
            text = f"Health is {status.value}: {worst.message}"
            self._raise_alert(HealthAlert(text, SEVERITIES[status], now, before, status))

    def _check(
        self, name: str, value: float, unit: str, now: float, *steps: Any,
        component: Optional[str] = None,
    ) -> HealthCheck:
        status = judged(value, *steps) or HealthStatus.HEALTHY
        advice = [] if status is HealthStatus.HEALTHY else list(ADVICE[name])
        words = name.replace("_", " ").capitalize()
        text = f"{words}: {value:.3g}{unit}"
        return HealthCheck(name, status, text, now, component, {name: value}, advice)

    def _system_checks(self, metrics: dict, now: float) -> list:
        limits, checks = self.thresholds, []
        minutes = (now - self.baseline_timestamp) / 60.0
        if minutes * 60.0 >= GROWTH_MIN_S:
            rate = (metrics["memory_usage_mb"] - self.baseline_memory) / minutes
            steps = ((limits["memory_growth_rate"], HealthStatus.DEGRADED),)
            checks.append(self._check("memory_growth", rate, " MB/min", now, *steps))
        checks.append(self._check(
            "cpu_usage", metrics["cpu_usage_percent"], " %", now,
            (limits["cpu_unhealthy"], HealthStatus.UNHEALTHY),
            (limits["cpu_degraded"], HealthStatus.DEGRADED),
        ))
        return checks

    def _profiler_checks(self, metrics: dict, now: float) -> list:
        limits = self.thresholds
        checks = [
            self._check(
                "profiler_overhead", metrics["profiler_overhead_percent"], " %", now,
                (limits["profiler_overhead_critical"], HealthStatus.CRITICAL),
                (limits["profiler_overhead_warning"], HealthStatus.DEGRADED),
            ),
            self._check(
                "active_profiles", metrics["active_profiles"], "", now,
                (limits["active_profiles"], HealthStatus.DEGRADED),
            ),
        ]
        if not metrics["profiler_enabled"]:
            checks.append(HealthCheck(
                "profiler_enabled", HealthStatus.UNHEALTHY, "The profiler is disabled", now,
                recommendations=list(ADVICE["profiler_enabled"]),
            ))
        return checks

    def _component_checks(self, name: str, sums: dict, now: float) -> list:
        limits = self.thresholds
        errors = sums["error_count"] / max(1, sums["total_operations"])

        def steps(kind: str) -> list:
            return [
                (limits[f"{kind}_critical"], HealthStatus.CRITICAL),
                (limits[f"{kind}_unhealthy"], HealthStatus.UNHEALTHY),
                (limits[f"{kind}_degraded"], HealthStatus.DEGRADED),
            ]

        checks = [
            self._check("response_time", sums["average_time"], " s", now,
                        *steps("response_time"), component=name),
            self._check("error_rate", errors, "", now, *steps("error_rate"), component=name),
        ]
        found = {check.status for check in checks}
        with self.lock:
            first = self._seen_at.setdefault(name, now)
            known = self.component_health.get(name)
            self.component_health[name] = ComponentHealth(
                component_name=name,
                status=next(status for status in WORST_FIRST if status in found),
                last_check=now,
                checks=(since(known.checks, KEPT_S) if known else []) + checks,
                uptime=now - first,
                error_count=sums["error_count"],
                success_rate=1.0 - errors,
            )
        return checks

    def get_system_health(self) -> HealthStatus:
        """How the whole is; `UNKNOWN` before the first check."""
        return self.system_health

    def get_component_health(self, component_name: str) -> Optional[ComponentHealth]:
        """How a component is, if it is known."""
        with self.lock:
            return self.component_health.get(component_name)

    def get_all_component_health(self) -> dict:
        """How each component is."""
        with self.lock:
            return dict(self.component_health)

    def get_recent_checks(
        self, status: Any = None, component: Any = None, duration_seconds: float = 3600
    ) -> list:
        """Checks of the last so many seconds: with a status, of a component."""
        with self.lock:
            rows = since(self.recent_checks, duration_seconds)
        return [
            row for row in rows
            if status in (None, row.status) and component in (None, row.component)
        ]

    def get_health_summary(self) -> dict:
        """Counts of components and of the last hour's checks by status."""
        components = self.get_all_component_health().values()
        checks = self.get_recent_checks()

        def count(status: HealthStatus) -> int:
            return sum(row.status is status for row in components)

        return {
            "system_health": self.system_health.value,
            "component_count": len(components),
            "components_healthy": count(HealthStatus.HEALTHY),
            "components_degraded": count(HealthStatus.DEGRADED),
            "components_unhealthy": count(HealthStatus.UNHEALTHY),
            "components_critical": count(HealthStatus.CRITICAL),
            "recent_check_counts": {
                status.value: sum(row.status is status for row in checks)
                for status in HealthStatus
            },
            "last_check_time": checks[-1].timestamp if checks else None,
        }

    def get_health_report(self) -> str:
        """The summary and the last hour's findings, as text."""
        summary = self.get_health_summary()
        components = [
            f"{summary[f'components_{status.value}']} {status.value}" for status in WORST_FIRST
        ]
        lines = [f"Health: {summary['system_health']}", f"Components: {', '.join(components)}"]
        if summary["last_check_time"] is not None:
            lines[0] += f", checked at {time.ctime(summary['last_check_time'])}"
        issues = [row for row in self.get_recent_checks() if row.status in SEVERITIES]
        if issues:
            lines.append(f"{len(issues)} checks of the last hour were not well, the latest:")
        for row in issues[-10:]:
            whose = f"{row.component}: " if row.component else ""
            lines.append(f"  {row.status.value}, {whose}{row.message}")
            lines += [f"    {text}" for text in row.recommendations]
        return "\n".join(lines)


def _is_worse(after: HealthStatus, before: HealthStatus) -> bool:
    if before not in WORST_FIRST:
        return True
    return WORST_FIRST.index(after) < WORST_FIRST.index(before)
