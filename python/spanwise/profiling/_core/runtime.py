"""Which manager records now, and what the native half is to do for it.

Managers whose sessions run form a stack; decorators record for the one on top. A forked
child begins with nothing counted and, where a session runs, with a file of its own.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any, Optional

from ... import _native
from .. import config
from .._system import gpu as _gpu
from . import sites as _sites
from ..config import ProfilerLevel

_lock = threading.RLock()
_stack: list = []
_default: list = [None]
# How often a configuration, or a manager's list of profilers, has changed.
changes = 0
# What the native half was told last: nothing is told twice.
_last: list = [None]


def current() -> Optional[Any]:
    """The manager that decorators record for; none where no one was installed."""
    return _stack[-1] if _stack else _default[0]


def install(manager: Any) -> None:
    """Puts a manager on top."""
    with _lock:
        if manager in _stack:
            _stack.remove(manager)
        _stack.append(manager)
        refresh()


def remove(manager: Any) -> None:
    """Takes a manager out."""
    with _lock:
        if manager in _stack:
            _stack.remove(manager)
        refresh()


def set_default(manager: Optional[Any]) -> None:
    """The manager for when no session runs."""
    with _lock:
        _default[0] = manager
        refresh()


def probes_for(settings: Any, cap: ProfilerLevel = ProfilerLevel.COMPREHENSIVE) -> int:
    """What a configuration wants measured at each operation, with no more than a level."""
    level, wanted = min(settings.level.value, cap.value), 0
    if level >= ProfilerLevel.DETAILED.value:
        if settings.profile_time:
            wanted |= _native.CPU_TIME
        if settings.profile_memory:
            wanted |= _native.MEMORY
    if level >= ProfilerLevel.COMPREHENSIVE.value:
        if settings.profile_compute:
            wanted |= _native.GPU
        if settings.profile_io:
            wanted |= _native.IO
    return wanted


def refresh() -> None:
    """Tells the native half what to record, for whom."""
    global changes
    with _lock:
        changes += 1
        manager = current()
        level = probes = 0
        profilers = [] if manager is None else list(manager.profilers.values())
        enabled = [profiler for profiler in profilers if profiler.is_enabled]
        for profiler in profilers:
            profiler._subscribe()
        if manager is not None and enabled and manager.global_config.enabled:
            level = manager.global_config.level.value
            for profiler in enabled:
                probes |= probes_for(profiler.config, manager._cap)
                if profiler.config.profile_memory:
                    probes |= _native.SAMPLES
        if level == 0:
            probes = 0
        number = 0 if manager is None else manager._number
        wanted = (number, level, probes, bool(_stack))
        if wanted != _last[0]:
            _gpu.arrange(bool(probes & _native.GPU), enabled)
            _native.set_current_manager(number)
            _native.set_level(level, probes, bool(_stack))
            _last[0] = wanted


def _after_fork_in_child() -> None:
    _native.after_fork_in_child()
    _sites.forget_told()
    _gpu.forget()
    _last[0] = None
    for manager in list(_stack):
        manager._after_fork()
    refresh()
    for manager in list(_stack):
        manager._open_session_file()
        manager._start_controller()


class _Workers:
    """Children of multiprocessing leave without `atexit`, by its own list of things to do,
    which is emptied when they begin: so they are told what to do after that.
    """

    is_known = False

    def before_fork(self) -> None:
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not self.is_known:
            self.is_known = True
            util.register_after_fork(self, _Workers.in_child)

    def in_child(self) -> None:
        sys.modules["multiprocessing.util"].Finalize(None, end_files, exitpriority=0)


_workers = _Workers()


def _before_fork() -> None:
    _workers.before_fork()
    _native.before_fork()


def end_files() -> None:
    """Ends the files of all sessions that still run, when the program ends."""
    for manager in list(_stack):
        manager._close_session_file()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_native.after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
atexit.register(end_files)
config.when_changed(refresh)
