"""The manager: profilers together, sessions, sums over all, the report."""

from __future__ import annotations

import itertools
import os
import sys
import time
import warnings
import weakref
from typing import Any, Optional

from .. import _native
from .._files import make_folder
from ._system import logs as _logs
from ._core import runtime as _runtime
from ._core import sites as _sites
from .adaptive import adapt
from .adaptive import deep
from .reports import live_view
from .reports import outputs
from .reports import report
from .config import ProfilerConfig, ProfilerLevel
from .profilers import numbers as profiler_numbers

_numbers = itertools.count(1)


class MultiProfilerContext:
    """One operation in all enabled profilers of a manager, for `with`."""

    __slots__ = ("_manager", "_site", "_token", "_deep", "custom_metrics", "duration")

    def __init__(self, manager: ProfilerManager, site: int) -> None:
        self._manager = manager
        self._site = site
        self._token: Any = None
        self._deep: Any = None
        self.custom_metrics: dict = {}
        self.duration: Optional[float] = None

    def __enter__(self) -> MultiProfilerContext:
        if self._manager._is_recording():
            if self._manager.deep_traces:
                self._deep = deep.before(self._manager, _sites.site(self._site).name)
            self._token = _native.begin(self._site, self._manager._probes())
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        token, self._token = self._token, None
        if token is not None:
            self.duration = _sites.end(token, kind, value, self.custom_metrics)[2]
            if self._deep:
                deep.after(self._deep)

    def add_metric(self, name: str, value: Any) -> None:
        """Adds a metric of the operation."""
        self.custom_metrics[name] = value


class ProfilerManager:
    """Holds profilers and runs sessions."""

    def __init__(self, global_config: Optional[ProfilerConfig] = None) -> None:
        self.global_config = global_config or ProfilerConfig()
        self.profilers: dict = {}
        self.is_profiling = False
        self.session_start_time: Optional[float] = None
        self.session_id: Optional[str] = None
        self.session_file: Optional[str] = None
        self.session_process_id: Optional[int] = None
        self.wandb_logger: Any = None
        self.standard_logger: Any = None
        self._number = next(_numbers)
        # Sums up what any of the profilers gets, once.
        self._whole = next(profiler_numbers)
        _native.subscribe(self._whole, self._number, "", True, 1)
        weakref.finalize(self, _native.unsubscribe, self._whole).atexit = False
        self._session_end_time: Optional[float] = None
        self._memory_at_start: Optional[float] = None
        self._memory_at_end: Optional[float] = None
        self._file: Optional[int] = None
        self._dropped = 0
        self._open: dict = {}
        self._ids = itertools.count(1)
        # The level whose probes run at most, for the sake of what they cost.
        self._cap = ProfilerLevel.COMPREHENSIVE
        self._adjustments: list = []
        self._controller: Any = None
        # What recording has cost in the session, of how much processor time, in seconds.
        self._spent = (0.0, 0.0)
        # When `live` was asked, and what it counted.
        self._live_before: Any = None
        self.deep_traces: list = []
        self._wanted_at = -1
        self._wanted_last = -1

    # Profilers.

    def register_profiler(self, profiler: Any) -> None:
        """Adds a profiler; one of the same name makes way."""
        self.profilers[profiler.name] = profiler
        profiler._manager = weakref.ref(self)
        profiler._subscribe()
        _runtime.refresh()

    def unregister_profiler(self, name: str) -> None:
        """Takes a profiler out."""
        profiler = self.profilers.pop(name, None)
        if profiler is not None:
            profiler._manager = None
            profiler._subscribe()
            _runtime.refresh()

    def get_profiler(self, name: str) -> Any:
        """The profiler of a name, or none."""
        return self.profilers.get(name)

    def configure_profiler(self, name: str, config: ProfilerConfig) -> None:
        """Gives a profiler another configuration."""
        if name in self.profilers:
            self.profilers[name].config = config

    def set_global_level(self, level: ProfilerLevel) -> None:
        """Sets the level of the manager and of all its profilers."""
        self.global_config.level = level
        for profiler in self.profilers.values():
            profiler.config.level = level
        self._refresh()

    def enable_all(self) -> None:
        """Enables every profiler."""
        self._set_enabled(True)

    def disable_all(self) -> None:
        """Disables every profiler."""
        self._set_enabled(False)

    def _set_enabled(self, is_enabled: bool) -> None:
        for profiler in self.profilers.values():
            profiler.config.enabled = is_enabled
        self._refresh()

    def _refresh(self) -> None:
        for profiler in self.profilers.values():
            profiler._subscribe()
        _runtime.refresh()

    @property
    def current_level(self) -> ProfilerLevel:
        """How much is measured now: less than is asked for while that costs too much."""
        level = min(self.global_config.level.value, self._cap.value)
        return ProfilerLevel(level)

    @property
    def level_adjustments(self) -> list:
        """Changes of the level that were made to keep within `max_overhead_percent`."""
        return [change for change in self._adjustments if change.operation is None]

    @property
    def adjustments(self) -> list:
        """All changes that were made to keep within the budget: of call sites, and of the level."""
        return list(self._adjustments)

    def _is_recording(self) -> bool:
        return self._wanted() >= 0

    def _probes(self) -> int:
        return max(0, self._wanted())

    def _wanted(self) -> int:
        """The probes of all enabled profilers; below zero where none is enabled."""
        if self._wanted_at != _runtime.changes:
            enabled = [one for one in self.profilers.values() if one.is_enabled]
            self._wanted_last = 0 if enabled else -1
            for profiler in enabled:
                self._wanted_last |= _runtime.probes_for(profiler.config, self._cap)
            self._wanted_at = _runtime.changes
        return self._wanted_last

    def _probes_at(self, level: ProfilerLevel) -> int:
        """What would be measured at a level."""
        wanted = 0
        for profiler in self.profilers.values():
            if profiler.is_enabled:
                wanted |= _runtime.probes_for(profiler.config, level)
        return wanted

    # Sessions.

    def start_session(self, session_name: Optional[str] = None) -> None:
        """Forgets what was recorded, and records from now on, decorated functions too."""
        self._stop_controller()
        self._close_session_file()
        self.session_id = session_name or f"session_{int(time.time())}"
        self.clear_all_results()
        self._live_before = None
        self.session_start_time = time.time()
        self._session_end_time = None
        self._memory_at_start, self._memory_at_end = _native.memory(), None
        self.is_profiling = True
        self.session_process_id = os.getpid()
        self._dropped = 0
        self._refresh()
        self._cap, self._adjustments = ProfilerLevel.COMPREHENSIVE, []
        _runtime.install(self)
        self._open_session_file()
        self._start_controller()
        self._debug(f"session {self.session_id} begins: {self.session_file or 'without a file'}")

    def end_session(self, save_results: bool = True) -> dict:
        """Ends the session; gives what it has to show, nothing where there is none."""
        if not self.is_profiling:
            return {}
        self._stop_controller()
        report.mark_sums(self)
        for trace in self.deep_traces:
            trace.stop()
        self._close_session_file()
        self._session_end_time = time.time()
        self._memory_at_end = _native.memory()
        self.is_profiling = False
        _runtime.remove(self)
        results = {
            "session_id": self.session_id,
            "session_duration": self._duration(),
            "start_time": self.session_start_time,
            "end_time": self._session_end_time,
            "profilers": {
                name: {
                    "summary_stats": profiler.get_summary_stats(),
                    "specialized_metrics": profiler.get_specialized_metrics(),
                    "operations_count": profiler.operation_count,
                }
                for name, profiler in self.profilers.items()
            },
        }
        self._log(results)
        if save_results and self.global_config.auto_save:
            self._save_session(results)
        return results

    def _duration(self) -> float:
        if self.session_start_time is None:
            return 0.0
        return (self._session_end_time or time.time()) - self.session_start_time

    def _open_session_file(self) -> None:
        """Begins the session's file, if there is to be one."""
        if not self.global_config.auto_save or not self.is_profiling or not self._is_recording():
            return
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in str(self.session_id))
        if os.getpid() != self.session_process_id:
            name = f"{name}.{os.getpid()}"
        folder = str(self.global_config.output_dir)
        path = os.path.join(folder, f"{name}.spanwise-session")
        try:
            make_folder(folder)
            self._file = _native.open_file(path)
            self.session_file = path
        except OSError as reason:
            warnings.warn(f"the session has no file: {path}: {reason}", stacklevel=3)

    def _close_session_file(self) -> None:
        number, self._file = self._file, None
        if number is not None:
            try:
                _, self._dropped = _native.close_file(number)
            except OSError as reason:
                warnings.warn(f"the session's file is not whole: {reason}", stacklevel=3)

    def _start_controller(self) -> None:
        self._controller = adapt.controller_for(self)
        if self._controller is not None:
            self._controller.start()

    def _stop_controller(self) -> None:
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.stop()
            self._spent = (controller.spent_s, controller.seen_s)

    def _after_fork(self) -> None:
        """In a forked child: the parent's file is the parent's, and so is what it counted."""
        self._file = None
        # Its thread does not exist here, nor do those of deep traces.
        self._controller = None
        self.deep_traces = []
        self._live_before = None
        self._open.clear()
        for profiler in self.profilers.values():
            profiler._fetched, profiler._fetched_count = [], 0
            profiler._tokens.clear()
            profiler.active_operations.clear()

    def _save_session(self, results: dict) -> None:
        folder = str(self.global_config.output_dir)
        try:
            make_folder(folder)
            name = f"session_{self.session_id}.json".replace(os.sep, "_")
            outputs.write_json(os.path.join(folder, name), results)
            for profiler in self.profilers.values():
                profiler._save_latest()
        except OSError as reason:
            warnings.warn(f"results are not saved: {reason}", stacklevel=3)

    def _log(self, results: dict) -> None:
        """Reports to W&B and the logger; that they fail is no reason to lose results."""
        run = self.wandb_logger
        if run is None and self.global_config.integrate_with_wandb:
            # As `wandb.init` has left it.
            run = getattr(sys.modules.get("wandb"), "run", None)
        if run is not None:
            try:
                run.log(outputs.flat_metrics(self.get_aggregated_metrics()))
            except Exception as reason:
                warnings.warn(f"W&B has not taken the results: {reason!r}", stacklevel=3)
        logger = self.standard_logger
        if logger is not None and hasattr(logger, "log_profiling_session"):
            logger.log_profiling_session(results)
        elif logger is not None and hasattr(logger, "info"):
            logger.info("profiling session %s: %s", self.session_id, outputs.plain(results))
        self._debug(
            f"session {self.session_id} has ended: {results['session_duration']:.3f}s, "
            f"{self._dropped} records dropped"
        )

    def _debug(self, message: str) -> None:
        """To the package's logger, where the program logs at all."""
        if self.global_config.integrate_with_logging and "logging" in sys.modules:
            _logs.say(_logs.default_logger(), "debug", message)

    # Operations.

    def profile_operation(
        self, operation_name: str, component: str = "general", profiler_names: Any = None,
        tags: Any = None,
    ) -> MultiProfilerContext:
        """An operation in all enabled profilers, or in those of these names, for `with`."""
        names = None if profiler_names is None else tuple(profiler_names)
        site = _sites.shared(operation_name, component, tags, self._number, 0, names)
        return MultiProfilerContext(self, site)

    def start_operation(self, name: str, component: str = "general", tags: Any = None) -> str:
        """Begins an operation in all enabled profilers; gives its id."""
        if not self._is_recording():
            return ""
        site = _sites.shared(name, component, tags, self._number, 0, None)
        operation_id = f"{name}_{time.time_ns() // 1000}_{next(self._ids)}"
        self._open[operation_id] = _native.begin(site, self._probes())
        return operation_id

    def end_operation(self, operation_id: str, **custom_metrics: Any) -> None:
        """Ends an operation, with metrics of it. Unknown ids do nothing."""
        token = self._open.pop(operation_id, None)
        if token is not None:
            _sites.keep_metrics(token.end(custom_metrics.get("exception")), custom_metrics)

    # Sums.

    def get_aggregated_metrics(self, component: Any = None, operation_name: Any = None) -> dict:
        """Sums over all profilers; the filters apply to the breakdown by operation."""
        return report.aggregated(self, component, operation_name)

    def get_performance_report(self) -> str:
        """The report, as text."""
        return report.text(self)

    def live(self) -> dict:
        """What goes on now: sums so far, and rates since this was asked before."""
        return live_view.of_manager(self)

    def deep_trace(
        self,
        when_longer_than_ms: float,
        capture: str = "snapshot",
        limit: int = 3,
        operation: Optional[str] = None,
        output_dir: Any = None,
    ) -> deep.DeepTrace:
        """Records in depth what was slow: an operation that takes longer than this has its
        next occurrence recorded (`snapshot`), or profiled by Torch (`torch`), so many times at
        most. `operation` is the name of the one to watch; all, if not given.
        """
        trace = deep.DeepTrace(
            when_longer_than_ms, capture, limit, operation,
            output_dir or self.global_config.output_dir,
        )
        trace._watch(self)
        self.deep_traces.append(trace)
        return trace

    def get_status(self) -> dict:
        """What is going on."""
        return {
            "is_profiling": self.is_profiling,
            "session_id": self.session_id,
            "session_duration": self._duration(),
            "profilers_count": len(self.profilers),
            "profilers": {
                name: {
                    "enabled": profiler.is_enabled,
                    "level": profiler.config.level.name,
                    "operations_count": profiler.operation_count,
                    "overhead": profiler.average_overhead,
                }
                for name, profiler in self.profilers.items()
            },
            "global_config": {
                "level": self.global_config.level.name,
                "profile_memory": self.global_config.profile_memory,
                "profile_compute": self.global_config.profile_compute,
                "auto_save": self.global_config.auto_save,
            },
        }

    # Files and services.

    def save_all_results(self) -> None:
        """Saves every profiler's results into its folder."""
        for profiler in self.profilers.values():
            profiler.save_results()

    def save_results(self, filename: Any = None) -> str:
        """Saves all profilers' results into one file; gives its path."""
        filename = filename or f"results_{self.session_id or int(time.time())}.json"
        path = os.path.join(str(self.global_config.output_dir), str(filename))
        make_folder(os.path.dirname(path))
        if path.endswith(".csv"):
            operations = [row for one in self.profilers.values() for row in one.operations]
            outputs.write_csv(path, operations)
        else:
            results = {
                name: outputs.profiler_results(profiler)
                for name, profiler in self.profilers.items()
            }
            outputs.write_json(path, {"session_id": self.session_id, "profilers": results})
        return path

    def prometheus_text(self) -> str:
        """Sums in Prometheus' text format."""
        return outputs.prometheus_text(self.get_aggregated_metrics())

    def clear_all_results(self) -> None:
        """Forgets all operations and sums."""
        _native.clear(self._whole)
        for profiler in self.profilers.values():
            profiler.clear_results()

    def integrate_with_wandb(self, wandb_run: Any) -> None:
        """Logs sums at the end of each session to any object with `.log(dict)`."""
        self.wandb_logger = wandb_run
        self.global_config.integrate_with_wandb = True

    def integrate_with_logging(self, logger: Any = None) -> None:
        """Logs sessions to a logger, by `log_profiling_session` where it has that."""
        if logger is None:
            import logging

            logger = logging.getLogger("spanwise.profiling")
        self.standard_logger = logger
        self.global_config.integrate_with_logging = True


def get_global_profiler_manager() -> ProfilerManager:
    """The manager that decorators record for; made, without profilers, where none is."""
    manager = _runtime.current()
    if manager is None:
        manager = ProfilerManager()
        _runtime.set_default(manager)
    return manager


def set_global_profiler_manager(manager: Optional[ProfilerManager]) -> None:
    """Has decorators record for a manager while no session runs."""
    _runtime.set_default(manager)


def profile_operation(
    operation_name: str, component: str, profiler_names: Any = None, tags: Any = None
) -> MultiProfilerContext:
    """An operation of the global manager, for `with`."""
    manager = get_global_profiler_manager()
    return manager.profile_operation(operation_name, component, profiler_names, tags)
