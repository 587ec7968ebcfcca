"""Which manager records now, which session files are open, and the native half's settings.

Managers whose sessions run form a stack; decorators record for the one on top. Sessions of
`spanwise.session` write whatever is recorded, and have at least times recorded. A forked
child starts with empty counts and, if a session runs, with a file of its own.
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
_sessions: list = []
_default: list = [None]
# How often a configuration, or a manager's list of profilers, has changed.
changes = 0
# The settings that the native half has.
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


def add_session(session: Any) -> None:
    """Has times recorded, as long as the session is open."""
    with _lock:
        _sessions.append(session)
        refresh()


def remove_session(session: Any) -> None:
    """Undoes `add_session`; nothing if it was undone before."""
    with _lock:
        if session in _sessions:
            _sessions.remove(session)
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
    """Sets in the native half what is recorded, and for which manager."""
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
        # Without a level of its own, a manager counts nothing of what is recorded for sessions.
        number = manager._number if manager is not None and level > 0 else 0
        if level == 0:
            probes = 0
            level = ProfilerLevel.BASIC.value if _sessions else 0
        has_files = bool(_stack or _sessions)
        wanted = (number, level, probes, has_files)
        if wanted != _last[0]:
            _gpu.arrange(bool(probes & _native.GPU), enabled)
            _native.set_current_manager(number)
            _native.set_level(level, probes, has_files)
            _last[0] = wanted


def _after_fork_in_child() -> None:
    _native.after_fork_in_child()
    _sites.forget_metrics()
    _gpu.forget()
    _last[0] = None
    for manager in list(_stack):
        manager._after_fork()
    refresh()
    for manager in list(_stack):
        manager._open_session_file()
        manager._start_controller()
    for session in list(_sessions):
        session._after_fork()


class _Workers:
    """Children of multiprocessing exit without `atexit`, by a list of finalizers of their own
    that is emptied when they start: ours is added after that.
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
    """Completes the files of all sessions that are still open, when the program ends."""
    for manager in list(_stack):
        manager._close_session_file()
    for session in list(_sessions):
        session.stop()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_native.after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
atexit.register(end_files)
config.when_changed(refresh)
