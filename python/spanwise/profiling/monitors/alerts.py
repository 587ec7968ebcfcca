"""Alerts of all monitors in one place: who is notified, how often, and what is still open."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable, Optional

from .._system import logs as _logs
from ._watching import since


class AlertSeverity(Enum):
    """How bad it is; they compare by that: `LOW < HIGH`."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Zero is the least."""
        return list(AlertSeverity).index(self)

    def __lt__(self, other: Any) -> bool:
        return self.rank < other.rank if isinstance(other, AlertSeverity) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return self.rank <= other.rank if isinstance(other, AlertSeverity) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self.rank > other.rank if isinstance(other, AlertSeverity) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return self.rank >= other.rank if isinstance(other, AlertSeverity) else NotImplemented


class AlertChannel(Enum):
    """Ways to notify. Each hands the alert to its callbacks (`add_callback`); `LOGGING` logs it
    as well, and so does `CONSOLE` while it has no callback. Nothing is printed.
    """

    CONSOLE = "console"
    LOGGING = "logging"
    CALLBACK = "callback"
    EMAIL = "email"
    SLACK = "slack"


@dataclass
class Alert:
    """Something is wrong."""

    alert_id: str
    alert_type: str
    severity: AlertSeverity
    title: str
    message: str
    timestamp: float
    source: str
    component: Optional[str] = None
    metrics: dict = field(default_factory=dict)
    recommendations: list = field(default_factory=list)
    acknowledged: bool = False
    resolved: bool = False
    escalated: bool = False


@dataclass
class AlertRule:
    """Which alerts go to which channels: those of the types (all, where there are none) that
    are at least so bad, once per type, component and cooldown. So many of them within the
    window make the alert critical.
    """

    rule_name: str
    alert_types: list
    min_severity: AlertSeverity
    channels: list
    cooldown_seconds: float = 300.0
    escalation_threshold: int = 3
    escalation_window: float = 1800.0
    enabled: bool = True

    def fits(self, alert: Alert) -> bool:
        """Whether the rule is for such an alert."""
        is_of_type = not self.alert_types or alert.alert_type in self.alert_types
        return self.enabled and is_of_type and alert.severity >= self.min_severity

    def watches(self, alert: Alert) -> bool:
        """Whether the rule counts such an alert, however harmless each one is."""
        return self.enabled and (not self.alert_types or alert.alert_type in self.alert_types)


HISTORY_MAX = 1000
LEVELS = {
    AlertSeverity.LOW: "info",
    AlertSeverity.MEDIUM: "warning",
    AlertSeverity.HIGH: "error",
    AlertSeverity.CRITICAL: "critical",
}
# What monitors call it, and what it is here.
SEVERITIES = {
    "low": AlertSeverity.LOW,
    "medium": AlertSeverity.MEDIUM,
    "warning": AlertSeverity.MEDIUM,
    "high": AlertSeverity.HIGH,
    "critical": AlertSeverity.CRITICAL,
}


def _default_rules() -> list:
    console, logging = AlertChannel.CONSOLE, AlertChannel.LOGGING
    both = [console, logging, AlertChannel.CALLBACK]
    return [
        AlertRule("critical_immediate", [], AlertSeverity.CRITICAL, both, 60.0),
        AlertRule("high_severity", [], AlertSeverity.HIGH, both, 300.0),
        AlertRule(
            "medium_severity", [], AlertSeverity.MEDIUM, [logging, AlertChannel.CALLBACK], 600.0
        ),
    ]


class AlertSystem:
    """Takes alerts in, notifies by rules, and keeps those that are open."""

    def __init__(self, logger: Any = None) -> None:
        self.logger = logger
        self.lock = threading.RLock()
        self.active_alerts: dict = {}
        self.alert_history: deque = deque(maxlen=HISTORY_MAX)
        self.alert_rules: dict = {rule.rule_name: rule for rule in _default_rules()}
        self.alert_callbacks: dict = {channel: [] for channel in AlertChannel}
        self._ids = itertools.count(1)
        # When a rule last notified of a type and component.
        self._notified_at: dict = {}

    # Rules and channels.

    def add_alert_rule(self, rule: AlertRule) -> None:
        """Adds a rule; one of the same name makes way."""
        with self.lock:
            self.alert_rules[rule.rule_name] = rule

    def remove_alert_rule(self, rule_name: str) -> None:
        """Takes a rule out."""
        with self.lock:
            self.alert_rules.pop(rule_name, None)

    def add_callback(self, channel: AlertChannel, callback: Callable) -> None:
        """Has a function called with each alert that goes to a channel."""
        self.alert_callbacks[channel].append(callback)

    def remove_callback(self, channel: AlertChannel, callback: Callable) -> None:
        """Has it called no more."""
        if callback in self.alert_callbacks[channel]:
            self.alert_callbacks[channel].remove(callback)

    def watch(self, monitor: Any) -> None:
        """Takes in the alerts of a monitor from now on."""
        source = type(monitor).__name__

        def take(alert: Any) -> None:
            kind: str = getattr(alert, "alert_type", "")
            kind = kind or getattr(alert, "resource_type", "health")
            self.send_alert(
                kind, SEVERITIES[alert.severity], kind.replace("_", " "), alert.message, source,
                getattr(alert, "component", None), getattr(alert, "metrics", None),
                getattr(alert, "recommendations", None),
            )

        monitor.add_alert_callback(take)

    # Alerts.

    def send_alert(
        self,
        alert_type: str,
        severity: AlertSeverity,
        title: str,
        message: str,
        source: str,
        component: Optional[str] = None,
        metrics: Optional[dict] = None,
        recommendations: Optional[list] = None,
    ) -> str:
        """Takes an alert in and notifies by the rules; gives its id."""
        now = time.time()
        alert = Alert(
            f"{alert_type}_{int(now * 1000)}_{next(self._ids)}", alert_type,
            AlertSeverity(severity), title, message, now, source, component,
            dict(metrics or {}), list(recommendations or ()),
        )
        with self.lock:
            self._escalate(alert)
            self.active_alerts[alert.alert_id] = alert
            self.alert_history.append(alert)
            # Who never resolves an alert keeps the latest ones only.
            while len(self.active_alerts) > HISTORY_MAX:
                del self.active_alerts[next(iter(self.active_alerts))]
            channels = self._channels(alert)
        for channel in channels:
            self._notify(alert, channel)
        return alert.alert_id

    def _escalate(self, alert: Alert) -> None:
        """Makes an alert critical where a rule has seen enough of its kind."""
        for rule in self.alert_rules.values():
            if rule.watches(alert):
                alike = [
                    row for row in since(self.alert_history, rule.escalation_window)
                    if (row.alert_type, row.component) == (alert.alert_type, alert.component)
                ]
                if len(alike) + 1 >= rule.escalation_threshold:
                    alert.escalated, alert.severity = True, AlertSeverity.CRITICAL

    def _channels(self, alert: Alert) -> list:
        """The channels of all rules that fit and are not cooling down, each once."""
        channels: list = []
        for rule in self.alert_rules.values():
            if not rule.fits(alert):
                continue
            key = (rule.rule_name, alert.alert_type, alert.component)
            notified_at = self._notified_at.get(key)
            if notified_at is not None and alert.timestamp - notified_at < rule.cooldown_seconds:
                continue
            self._notified_at[key] = alert.timestamp
            channels += [channel for channel in rule.channels if channel not in channels]
        is_logged = AlertChannel.LOGGING in channels
        if is_logged and not self.alert_callbacks[AlertChannel.CONSOLE]:
            channels = [channel for channel in channels if channel is not AlertChannel.CONSOLE]
        return channels

    def _notify(self, alert: Alert, channel: AlertChannel) -> None:
        callbacks = list(self.alert_callbacks[channel])
        is_console = channel is AlertChannel.CONSOLE and not callbacks
        if channel is AlertChannel.LOGGING or is_console:
            _logs.say(
                self.logger or _logs.default_logger(), LEVELS[alert.severity],
                f"{alert.title}: {alert.message}", alert_id=alert.alert_id,
                severity=alert.severity.value, source=alert.source, component=alert.component,
                escalated=alert.escalated,
            )
        for callback in callbacks:
            try:
                callback(alert)
            except Exception as reason:
                logger = self.logger or _logs.default_logger()
                _logs.say(logger, "error", f"a callback for alerts failed: {reason!r}")

    def acknowledge_alert(self, alert_id: str, acknowledged_by: str = "system") -> None:
        """Says that someone knows. Unknown ids do nothing."""
        self._settle(alert_id, "acknowledged", acknowledged_by)

    def resolve_alert(self, alert_id: str, resolved_by: str = "system") -> None:
        """Says that it is over: the alert is no longer active. Unknown ids do nothing."""
        self._settle(alert_id, "resolved", resolved_by)
        with self.lock:
            self.active_alerts.pop(alert_id, None)

    def _settle(self, alert_id: str, what: str, by: str) -> None:
        with self.lock:
            alert = self.active_alerts.get(alert_id)
            if alert is None:
                return
            setattr(alert, what, True)
        _logs.say(self.logger, "info", f"alert {what}: {alert_id}", by=by)

    # What there was.

    def get_active_alerts(
        self, severity: Any = None, alert_type: Any = None, component: Any = None
    ) -> list:
        """Alerts that are not resolved, the latest first."""
        with self.lock:
            rows = list(self.active_alerts.values())
        return [
            row for row in reversed(rows)
            if severity in (None, row.severity) and alert_type in (None, row.alert_type)
            and component in (None, row.component)
        ]

    def get_alert_history(self, duration_hours: float = 24, severity: Any = None) -> list:
        """All alerts of the last so many hours, the latest first."""
        with self.lock:
            rows = since(self.alert_history, duration_hours * 3600.0)
        return [row for row in reversed(rows) if severity in (None, row.severity)]

    def get_alert_statistics(self, duration_hours: float = 24) -> dict:
        """Counts over the last so many hours."""
        rows = self.get_alert_history(duration_hours)
        return {
            "total_alerts": len(rows),
            "active_alerts": len(self.active_alerts),
            "severity_breakdown": {
                severity.value: sum(row.severity is severity for row in rows)
                for severity in AlertSeverity
            },
            "type_breakdown": _counted(row.alert_type for row in rows),
            "source_breakdown": _counted(row.source for row in rows),
            "escalated_count": sum(row.escalated for row in rows),
        }

    def get_alert_report(self) -> str:
        """Counts of the last day and what is open, as text."""
        counts = self.get_alert_statistics()
        by_severity = counts["severity_breakdown"].items()
        lines = [
            f"{counts['total_alerts']} alerts in the last day, {counts['active_alerts']} open, "
            f"{counts['escalated_count']} escalated",
            ", ".join(f"{count} {name}" for name, count in by_severity),
        ]
        for row in self.get_active_alerts()[:10]:
            whose = f", {row.component}" if row.component else ""
            known = " (acknowledged)" if row.acknowledged else ""
            lines.append(f"  {row.severity.value}{whose}: {row.title}: {row.message}{known}")
        return "\n".join(lines)

    def clear_resolved_alerts(self) -> None:
        """Forgets alerts that are over."""
        with self.lock:
            rows = [row for row in self.alert_history if not row.resolved]
            self.alert_history = deque(rows, maxlen=HISTORY_MAX)


def _counted(values: Any) -> dict:
    counts: dict = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts
