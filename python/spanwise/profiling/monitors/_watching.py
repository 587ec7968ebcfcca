"""What monitors have in common: a thread, callbacks, alerts that grow old."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, Callable, Optional

from .._system import logs as _logs


class Watcher:
    """Checks once in a while, on a thread of its own, until it is stopped or forgotten.

    In a forked child the thread does not exist: it is started again by who wants it there.
    """

    # How long alerts are kept, in seconds.
    alerts_kept_s = 3600.0

    def __init__(self, interval_s: float, logger: Any = None) -> None:
        self._interval_s = interval_s
        self._logger = logger
        self.lock = threading.RLock()
        self.alerts: list = []
        self.alert_callbacks: list = []
        self.monitor_thread: Optional[threading.Thread] = None
        self._stop = threading.Event()

    @property
    def is_monitoring(self) -> bool:
        """Whether its thread runs."""
        thread = self.monitor_thread
        return thread is not None and thread.is_alive() and not self._stop.is_set()

    def look(self) -> None:
        """Checks now, whether or not the thread runs."""
        raise NotImplementedError

    def start_monitoring(self) -> None:
        """Checks now and from now on, on a thread."""
        with self.lock:
            if self.is_monitoring:
                return
            self._stop = threading.Event()
            self.monitor_thread = threading.Thread(
                target=_run,
                args=(weakref.ref(self, _setting(self._stop)), self._stop, self._interval_s),
                name=type(self).__name__,
                daemon=True,
            )
            self.monitor_thread.start()

    def stop_monitoring(self) -> None:
        """Ends the thread."""
        self._stop.set()
        thread = self.monitor_thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5.0)

    def add_alert_callback(self, callback: Callable) -> None:
        """Has a function called with each alert."""
        self.alert_callbacks.append(callback)

    def remove_alert_callback(self, callback: Callable) -> None:
        """Has it called no more."""
        if callback in self.alert_callbacks:
            self.alert_callbacks.remove(callback)

    def _log(self, level: str, message: str, **fields: Any) -> None:
        _logs.say(self._logger or _logs.default_logger(), level, message, **fields)

    def _raise_alert(self, alert: Any) -> None:
        """Keeps an alert, logs it and hands it to the callbacks."""
        with self.lock:
            self.alerts = since(self.alerts, self.alerts_kept_s) + [alert]
        level = "error" if alert.severity in ("critical", "high") else "warning"
        self._log(level, alert.message, severity=alert.severity)
        for callback in list(self.alert_callbacks):
            try:
                callback(alert)
            except Exception as reason:
                self._log("error", f"a callback for alerts failed: {reason!r}")


def since(rows: Any, seconds: float) -> list:
    """The rows of the last so many seconds."""
    earliest = time.time() - seconds
    return [row for row in rows if row.timestamp > earliest]


def _setting(stop: threading.Event) -> Callable:
    return lambda _: stop.set()


def _run(watcher: Any, stop: threading.Event, interval_s: float) -> None:
    """The thread holds its watcher only during a check, so that one may be dropped."""
    while True:
        found = watcher()
        if found is None:
            return
        try:
            found.look()
        except Exception as reason:
            # One failed check is no reason to stop checking.
            found._log("error", f"{type(found).__name__} could not look: {reason!r}")
        del found
        if stop.wait(interval_s):
            return


def judged(value: Any, *steps: Any) -> Any:
    """The word of the first limit that a value is above, of `(limit, word)`; else `None`."""
    if value is None:
        return None
    return next((word for limit, word in steps if value > limit), None)
