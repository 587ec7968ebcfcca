"""Keeps within `max_overhead_percent`: measures less at each operation while it costs too much.

Every 200 ms what the latest operations cost is set against the processor time of the process
in that while. Above the budget, the next lower level's probes run; when the higher ones would
take less than half of the budget three times in a row, they run again. Times are always
recorded. Each change is kept, with its reason, and stands in the report.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, NamedTuple, Optional

from .. import _native
from . import _cost, _runtime
from .config import ProfilerLevel

WINDOW_S = 0.2
CALM_WINDOWS = 3
# A while in which the process did next to nothing tells nothing.
BUSY_MIN_S = 0.01


class Adjustment(NamedTuple):
    """A change of what is measured."""

    time: float
    session_id: Optional[str]
    before: ProfilerLevel
    after: ProfilerLevel
    percent: float
    reason: str

    def __str__(self) -> str:
        return f"{self.before.name} → {self.after.name}: {self.reason} ({self.percent:.1f} %)"


class Window(NamedTuple):
    """What was seen in a while, as shares of its processor time in percent."""

    percent: float
    # With the probes of the next higher level.
    percent_above: float


def next_level(
    level: ProfilerLevel, highest: ProfilerLevel, window: Window, budget: float, calm: int
) -> tuple:
    """The level to go on with, and for how many windows in a row more would be affordable."""
    if window.percent > budget and level.value > ProfilerLevel.BASIC.value:
        return ProfilerLevel(level.value - 1), 0
    if level.value < highest.value and window.percent_above < budget / 2:
        if calm + 1 >= CALM_WINDOWS:
            return ProfilerLevel(level.value + 1), 0
        return level, calm + 1
    return level, 0


class Controller:
    """Watches the session of a manager."""

    def __init__(self, manager: Any) -> None:
        self._manager = weakref.ref(manager)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spanwise-adapt", daemon=True)
        self._calm = 0
        self._last = (0, 0, time.process_time())
        self._is_told = False

    def start(self) -> None:
        """Begins to watch."""
        # Costs are measured before, not while the program is being watched.
        for level in ProfilerLevel:
            manager = self._manager()
            if manager is not None:
                _cost.of_operations(1, 0, manager._probes_at(level))
        self._last = (0, 0, time.process_time())
        self._thread.start()

    def stop(self) -> None:
        """Ends watching."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(WINDOW_S):
            manager = self._manager()
            if manager is None or not manager.is_profiling:
                return
            self.look(manager)
            del manager

    def look(self, manager: Any) -> None:
        """One window: measures, decides, and changes what is to be changed."""
        sums = _native.sums(manager._whole)[0]
        now = (sums[0], sums[6], time.process_time())
        count, by_hand, busy_s = (new - old for new, old in zip(now, self._last))
        if busy_s < BUSY_MIN_S:
            return
        self._last = now
        level, highest = manager.current_level, manager.global_config.level
        above = ProfilerLevel(min(level.value + 1, highest.value))

        def percent(at: ProfilerLevel) -> float:
            return 100.0 * _cost.of_operations(count, by_hand, manager._probes_at(at)) / busy_s

        window = Window(percent(level), percent(above))
        budget = manager.global_config.max_overhead_percent
        chosen, self._calm = next_level(level, highest, window, budget, self._calm)
        if chosen is not level:
            reason = f"over the budget of {budget:g} %"
            share = window.percent
            if chosen.value > level.value:
                reason, share = f"affordable again within {budget:g} %", window.percent_above
            self._change(manager, level, chosen, share, reason)
        elif window.percent > budget and not self._is_told:
            # Nothing is left to save; said once.
            self._is_told = True
            reason = f"over the budget of {budget:g} % with times alone"
            self._change(manager, level, level, window.percent, reason)

    @staticmethod
    def _change(
        manager: Any, before: ProfilerLevel, after: ProfilerLevel, percent: float, reason: str
    ) -> None:
        change = Adjustment(time.time(), manager.session_id, before, after, percent, reason)
        manager._adjustments.append(change)
        manager._cap = after
        _runtime.refresh()


def controller_for(manager: Any) -> Optional[Controller]:
    """A controller, if there is anything to adapt and that is wanted."""
    settings = manager.global_config
    if not settings.adaptive_sampling or manager._probes() == 0:
        return None
    return Controller(manager)
