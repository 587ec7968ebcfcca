"""Profilers: who gets operations, and what they make of them."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from abc import ABC, abstractmethod
from typing import Any, Optional

from .. import _native
from ._core import cost as _cost
from ._system import gpu as _gpu
from ._core import runtime as _runtime
from ._core import sites as _sites
from .reports import outputs
from .config import ProfiledOperation, ProfilerConfig, ProfilerLevel, operation_of

# Operations that a profiler keeps at least, some 100 bytes each; sums cover all.
KEPT_MIN = 200_000

# Operations that are saved at the end of a session at least, some 600 bytes each.
LATEST_MIN = 10_000

numbers = itertools.count(1)


class ProfiledOperationContext:
    """One operation of one profiler, for `with`."""

    def __init__(self, profiler: BaseProfiler, name: str, component: Any, tags: Any) -> None:
        self.profiler = profiler
        self.name = name
        self.component = component
        self.tags = tags
        self.custom_metrics: dict = {}
        self.operation_id = ""

    def __enter__(self) -> ProfiledOperationContext:
        self.operation_id = self.profiler.start_operation(self.name, self.component, self.tags)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        _sites.note_raised(self.custom_metrics, kind, value)
        self.profiler.end_operation(self.operation_id, **self.custom_metrics)

    def add_metric(self, name: str, value: Any) -> None:
        """Adds a metric of the operation."""
        self.custom_metrics[name] = value


class BaseProfiler(ABC):
    """Gets operations, sums them up, saves them."""

    def __init__(self, name: str, config: ProfilerConfig) -> None:
        self.name = name
        self._config = config
        self.active_operations: dict = {}
        self.lock = threading.RLock()
        self._number = next(numbers)
        self._manager: Any = None
        self._tokens: dict = {}
        self._ids = itertools.count(1)
        self._fetched: list = []
        self._fetched_count = 0
        self._saved_count = 0
        self._save_stamp: Optional[str] = None
        self._subscribed: Any = None
        self._subscribe()
        weakref.finalize(self, _native.unsubscribe, self._number).atexit = False

    # What it is set to.

    @property
    def config(self) -> ProfilerConfig:
        """What is measured, and where results go."""
        return self._config

    @config.setter
    def config(self, config: ProfilerConfig) -> None:
        self._config = config
        self._subscribe()
        _runtime.refresh()

    @property
    def is_enabled(self) -> bool:
        """Whether it gets operations."""
        return self.config.enabled and self.config.level is not ProfilerLevel.DISABLED

    @property
    def current_level(self) -> ProfilerLevel:
        """How much is measured now: less than is asked for while that costs too much."""
        manager = self._manager() if self._manager is not None else None
        cap = self.config.level if manager is None else manager._cap
        return ProfilerLevel(min(self.config.level.value, cap.value))

    @property
    def level_adjustments(self) -> list:
        """Changes that were made to keep within `max_overhead_percent`."""
        manager = self._manager() if self._manager is not None else None
        return [] if manager is None else manager.level_adjustments

    def _subscribe(self) -> None:
        """Registers with the native half what this profiler gets."""
        manager = self._manager() if self._manager is not None else None
        number = 0 if manager is None else manager._number
        kept = max(KEPT_MIN, self.config.max_samples)
        wanted = (self._number, number, self.name, self.is_enabled, kept)
        if wanted != self._subscribed:
            _native.subscribe(*wanted)
            self._subscribed = wanted

    # Operations.

    def start_operation(self, name: str, component: Any = None, tags: Any = None) -> str:
        """Begins an operation; gives its id, empty where the profiler is disabled."""
        if not self.is_enabled:
            return ""
        if self._subscribed is None or not self._subscribed[3]:
            self._subscribe()
        site = _sites.shared(name, component or "general", tags, 0, self._number, None)
        operation_id = f"{name}_{time.time_ns() // 1000}_{next(self._ids)}"
        operation = ProfiledOperation(name, time.perf_counter(), component=component)
        operation.tags = list(tags or ())
        operation.thread_id = threading.get_native_id()
        self.active_operations[operation_id] = operation
        self._tokens[operation_id] = _native.begin(site, _runtime.probes_for(self.config))
        return operation_id

    def end_operation(self, operation_id: str, **custom_metrics: Any) -> None:
        """Ends an operation, with metrics of it. Unknown ids do nothing."""
        token = self._tokens.pop(operation_id, None)
        if token is None:
            return
        ended = token.end(custom_metrics.get("exception"))
        self.active_operations.pop(operation_id, None)
        _sites.keep_metrics(ended, custom_metrics)
        self._save_if_alone()

    def profile_operation(
        self, name: str, component: Any = None, tags: Any = None
    ) -> ProfiledOperationContext:
        """An operation for `with`."""
        return ProfiledOperationContext(self, name, component, tags)

    @property
    def operations(self) -> list:
        """The operations, oldest first: the latest 200 000 at least."""
        with self.lock:
            rows, self._fetched_count = _native.operations(self._number, self._fetched_count)
            for row in rows:
                site = _sites.site(row["site"])
                metrics = _sites.metrics_of(row["thread_id"], row["start_tick"])
                self._fetched.append(operation_of(row, site, metrics))
            excess = len(self._fetched) - max(KEPT_MIN, self.config.max_samples)
            if excess > 0:
                del self._fetched[:excess]
            return self._fetched

    @property
    def operation_count(self) -> int:
        """How many operations there were, those that are not kept included."""
        return _native.sums(self._number)[0][0]

    def get_metrics(
        self, component: Any = None, operation_name: Any = None, tags: Any = None
    ) -> list:
        """Operations as dictionaries: of a component, of a name, with all of these tags."""
        wanted = set(tags or ())
        return [
            operation.to_dict()
            for operation in self.operations
            if (component is None or operation.component == component)
            and (operation_name is None or operation.name == operation_name)
            and wanted <= set(operation.tags)
        ]

    # Sums.

    @property
    def total_overhead(self) -> float:
        """What recording has cost, in seconds: so many operations, at what one costs here."""
        sums = _native.sums(self._number)[0]
        return _cost.of_sums(sums, _runtime.probes_for(self.config))

    @property
    def average_overhead(self) -> float:
        """What recording one operation costs, in seconds."""
        count = self.operation_count
        return self.total_overhead / count if count else 0.0

    def get_summary_stats(self) -> dict:
        """Sums over all operations. Time of operations within operations counts once."""
        sums, _, components, memory = _native.sums(self._number)
        count, seconds, covered, least, most = sums[:5]
        if count == 0:
            return {}
        overhead = self.total_overhead
        return {
            "total_operations": count,
            "total_time": covered,
            "average_duration": seconds / count,
            "min_duration": least,
            "max_duration": most,
            "total_memory_delta": memory[0],
            "average_overhead": overhead / count,
            "overhead_percentage": 100.0 * overhead / covered if covered > 0 else 0.0,
            "component_breakdown": {
                _sites.component_of(number): {"count": sums[0], "total_time": sums[2]}
                for number, sums in components
            },
        }

    @abstractmethod
    def get_specialized_metrics(self) -> dict:
        """What this sort of profiler knows beside operations."""

    # Files.

    def save_results(self, filename: Any = None) -> str:
        """Saves all; gives the path. The format is that of the name's ending, if it has one."""
        return outputs.save_profiler(self, filename)

    def _save_latest(self) -> None:
        """Saves sums and the latest operations: the session's file has them all."""
        outputs.save_profiler(self, None, max(LATEST_MIN, self.config.max_samples))

    def _save_if_alone(self) -> None:
        """Saves what is new, unless a session's file has it already."""
        if self.config.auto_save and not _is_in_session(self):
            self._save_new()

    def _save_new(self) -> None:
        """Adds operations to the profiler's file, a group at a time: only those that are new."""
        if self.operation_count - self._saved_count >= max(1, self.config.save_interval):
            if self._save_stamp is None:
                self._save_stamp = f"{time.time_ns() // 1_000_000}"
            new = self.operations[self._saved_count - self._fetched_count :]
            self._saved_count = self._fetched_count
            outputs.append_operations(self, self._save_stamp, new)

    def clear_results(self) -> None:
        """Forgets all operations and sums."""
        with self.lock:
            _native.clear(self._number)
            self._fetched = []
            self._fetched_count = self._saved_count = 0

    # What it measures with.

    def _get_memory_usage(self) -> float:
        return _native.memory() or 0.0

    def _get_gpu_memory_usage(self) -> Optional[float]:
        return _gpu.memory()

    def _get_gpu_utilization(self) -> Optional[float]:
        return _gpu.utilization()


def _is_in_session(profiler: BaseProfiler) -> bool:
    """Whether its operations go to the file of a session already."""
    manager = profiler._manager() if profiler._manager is not None else None
    return manager is not None and manager.is_profiling


class OperationProfiler(BaseProfiler):
    """A profiler without anything special."""

    def get_specialized_metrics(self) -> dict:
        return {}
