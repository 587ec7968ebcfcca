"""Keeps within `max_overhead_percent`: what costs most is recorded more cheaply.

Every 200 ms what the calls of each site cost is set against the processor time of the process
in that while. Above the budget, the most expensive sites go down a step (`_plan.STEPS`); when all of it
takes less than half of the budget three times in a row, the one that costs least to restore goes
up a step. Only where no site is left to save at, the level is lowered. Each change is kept, with
its reason, is in the report, and an instant event in the session's file; nothing is printed.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, NamedTuple, Optional

from ... import _native
from .._core import cost as _cost
from .._core import plan as _plan
from .._core import runtime as _runtime
from .._core import sites as _sites
from .._core import wrap as _wrap
from ..config import ProfilerLevel

WINDOW_S = 0.2
# A period in which the process did next to nothing shows nothing.
BUSY_MIN_S = 0.01
# What writing a record takes until that was seen here, and how many records show it.
RECORD_S = 2e-7
RECORDS_MIN = 1000
# Instants in the file, for changes of one session.
MARKS_MAX = 2000


class Adjustment(NamedTuple):
    """A change of the level, or of how a call site is recorded."""

    time: float
    session_id: Optional[str]
    # Levels; for a call site, how it is recorded, in words.
    before: Any
    after: Any
    percent: float
    reason: str
    # The operation's name; none for a change of the level.
    operation: Optional[str] = None

    def __str__(self) -> str:
        before, after = (getattr(one, "name", one) for one in (self.before, self.after))
        whose = "" if self.operation is None else f"{self.operation}: "
        return f"{whose}{before} → {after}: {self.reason} ({self.percent:.1f} %)"


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
        if calm + 1 >= _plan.CALM_WINDOWS:
            return ProfilerLevel(level.value + 1), 0
        return level, calm + 1
    return level, 0


class _Seen:
    """What a controller knows of a site."""

    __slots__ = ("step", "calls", "off_windows")

    def __init__(self) -> None:
        self.step = 0
        self.calls = 0
        self.off_windows = 0


class Controller:
    """Watches the session of a manager."""

    def __init__(self, manager: Any) -> None:
        self._manager = weakref.ref(manager)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spanwise-adapt", daemon=True)
        self._calm = self._level_calm = 0
        self._sites: dict = {}
        self._busy_at = time.process_time()
        self._written_at = _native.writer_cost()
        self._record_s = RECORD_S
        self._is_reported = False
        self._marks = 0
        # What recording has cost so far, of how much processor time: both in seconds.
        self.spent_s = self.seen_s = 0.0

    def start(self) -> None:
        """Begins to watch."""
        # Costs are measured before, not while the program is being watched.
        for level in ProfilerLevel:
            manager = self._manager()
            if manager is not None:
                _cost.of_call(manager._probes_at(level))
        _native.reset_modes()
        self._busy_at = time.process_time()
        self._loads()
        self._thread.start()

    def stop(self) -> None:
        """Ends watching."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        _native.reset_modes()

    def _run(self) -> None:
        while not self._stop.wait(WINDOW_S):
            manager = self._manager()
            if manager is None or not manager.is_profiling:
                return
            if _runtime.current() is manager:
                self.check(manager)
            del manager

    def _loads(self) -> list:
        """What was called since the last check."""
        loads = []
        for number, _mode, _shift, calls in _native.tallies():
            seen = self._sites.setdefault(number, _Seen())
            # A forked child counts from nothing.
            more, seen.calls = max(0, calls - seen.calls), calls
            is_off = _plan.STEPS[seen.step].mode == _plan.OFF
            seen.off_windows = seen.off_windows + 1 if is_off else 0
            if more or seen.step:
                keeps_rows = _sites.site(number).keeps_rows
                loads.append(_plan.Load(number, seen.step, more, keeps_rows, seen.off_windows))
        return loads

    def _costs(self, probes: int) -> _plan.Costs:
        """What a call costs at each step, as measured here."""
        written, self._written_at = self._written_at, _native.writer_cost()
        seconds, records = (now - before for now, before in zip(self._written_at, written))
        if records >= RECORDS_MIN:
            self._record_s = seconds / records
        values = 2 * bin(probes).count("1")
        way = _cost.of_way()
        return _plan.Costs(
            time=_cost.of_call(0) - way,
            through=way,
            row=self._record_s,
            probes=_cost.of_call(probes) - _cost.of_call(0) + values * self._record_s,
            off=0.0 if _wrap.can_patch() else way,
            by_hand=_cost.of_operation(0),
        )

    def check(self, manager: Any) -> None:
        """One window: measures, decides, and changes what is to be changed."""
        busy_s = time.process_time() - self._busy_at
        if busy_s < BUSY_MIN_S:
            return
        self._busy_at += busy_s
        loads, level = self._loads(), manager.current_level
        costs = self._costs(manager._probes_at(level))
        self.decide(manager, loads, costs, busy_s)

    def decide(self, manager: Any, loads: list, costs: _plan.Costs, busy_s: float) -> None:
        """Changes what is to be changed, by what was seen in a window."""
        budget = manager.global_config.max_overhead_percent
        percent = _plan.percent_of(loads, costs, busy_s)
        self.spent_s += percent / 100.0 * busy_s
        self.seen_s += busy_s
        moves = _plan.down(loads, costs, busy_s, budget)
        for move in moves:
            self._move(manager, move, f"over the budget of {budget:g} %")
        for move in _plan.try_again(loads):
            self._move(manager, move, "a check of its current cost")
        self._calm = self._calm + 1 if percent < budget / 2 else 0
        if self._calm >= _plan.CALM_WINDOWS:
            move = _plan.up(loads, costs, busy_s, budget)
            if move is not None:
                self._calm = 0
                self._move(manager, move, f"affordable again within {budget:g} %")
        if not moves:
            self._decide_level(manager, loads, percent, busy_s, budget)

    def _decide_level(
        self, manager: Any, loads: list, percent: float, busy_s: float, budget: float
    ) -> None:
        """The level is for when no site is left to save at."""
        level, highest = manager.current_level, manager.global_config.level
        above = ProfilerLevel(min(level.value + 1, highest.value))
        at_above = _plan.percent_of(loads, self._costs(manager._probes_at(above)), busy_s)
        window = Window(percent, at_above)
        chosen, self._level_calm = next_level(level, highest, window, budget, self._level_calm)
        if chosen is not level:
            is_more = chosen.value > level.value
            reason = f"over the budget of {budget:g} %"
            if is_more:
                reason = f"affordable again within {budget:g} %"
            share = at_above if is_more else percent
            self._report(manager, Adjustment(*_now(manager), level, chosen, share, reason))
            manager._cap = chosen
            _runtime.refresh()
        elif percent > budget and not self._is_reported:
            # Nothing is left to save; said once.
            self._is_reported = True
            reason = f"over the budget of {budget:g} % with nothing left to save"
            self._report(manager, Adjustment(*_now(manager), level, level, percent, reason))

    def _move(self, manager: Any, move: _plan.Move, reason: str) -> None:
        """Has a site recorded in another way."""
        step = _plan.STEPS[move.after]
        seen = self._sites.setdefault(move.site, _Seen())
        seen.step, seen.off_windows = move.after, 0
        _native.set_mode(move.site, step.mode, step.shift)
        before, name = _plan.STEPS[move.before].words, _sites.site(move.site).name
        self._report(
            manager,
            Adjustment(*_now(manager), before, step.words, move.percent, reason, name),
        )

    def _report(self, manager: Any, change: Adjustment) -> None:
        manager._adjustments.append(change)
        self._marks += 1
        if self._marks <= MARKS_MAX:
            _native.mark(f"spanwise: {change}")


def _now(manager: Any) -> tuple[float, Optional[str]]:
    return time.time(), manager.session_id


def controller_for(manager: Any) -> Optional[Controller]:
    """A controller, if that is wanted."""
    return Controller(manager) if manager.global_config.adaptive_sampling else None
