"""Threads that check a program regularly, and report when something is wrong.

Nothing here prints: alerts go to callbacks and to loggers.
"""

from .alerts import Alert, AlertChannel, AlertRule, AlertSeverity, AlertSystem
from .health import ComponentHealth, HealthCheck, HealthMonitor, HealthStatus
from .performance import PerformanceAlert, PerformanceMonitor, PerformanceSnapshot
from .resources import ResourceAlert, ResourceMonitor, ResourceSnapshot

__all__ = [
    "Alert", "AlertChannel", "AlertRule", "AlertSeverity", "AlertSystem",
    "ComponentHealth", "HealthCheck", "HealthMonitor", "HealthStatus",
    "PerformanceAlert", "PerformanceMonitor", "PerformanceSnapshot",
    "ResourceAlert", "ResourceMonitor", "ResourceSnapshot",
]
