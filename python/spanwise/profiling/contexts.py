"""Blocks of code as operations, and operations that were timed elsewhere."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable, Optional

from .. import _native
from ._system import gpu as _gpu
from ._core import runtime as _runtime
from ._core import sites as _sites
from .adaptive import deep
from .config import ProfilerLevel
from .decorators import _finish, profile_function
from .manager import get_global_profiler_manager


class ProfilerContext:
    """A block as an operation of the global manager, with metrics of it."""

    __slots__ = (
        "operation_name", "component", "profiler_names", "tags", "level", "enabled",
        "custom_metrics", "duration", "memory_peak", "gpu_memory_peak", "_token", "_probes",
        "_deep",
    )

    def __init__(
        self,
        operation_name: str,
        component: str = "general",
        profiler_names: Any = None,
        tags: Any = None,
        level: ProfilerLevel = ProfilerLevel.BASIC,
        lazy_init: bool = True,
        enabled: bool = True,
    ) -> None:
        self.operation_name = operation_name
        self.component = component
        self.profiler_names = profiler_names
        self.tags = tags
        self.level = level
        self.enabled = enabled
        self.custom_metrics: dict = {}
        self.duration: Optional[float] = None
        self.memory_peak: Optional[float] = None
        self.gpu_memory_peak: Optional[float] = None
        self._token: Any = None
        self._probes = 0
        self._deep: Any = None
        if not lazy_init:
            get_global_profiler_manager()

    def __enter__(self) -> ProfilerContext:
        manager = _runtime.current()
        if not self.enabled or manager is None or not manager._is_recording():
            return self
        settings = manager.global_config
        if not settings.enabled or settings.level.value < max(1, self.level.value):
            return self
        names = self.profiler_names
        site = _sites.shared(
            self.operation_name, self.component, self.tags, manager._number, 0,
            None if names is None else tuple(names),
        )
        self._probes = manager._probes()
        if manager.deep_traces:
            self._deep = deep.before(manager, self.operation_name)
        self._token = _native.begin(site, self._probes)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        token, self._token = self._token, None
        if token is None:
            return
        metrics = self.custom_metrics
        metrics["success"] = kind is None
        ended = _sites.end(token, kind, value, metrics)
        self.duration = metrics["execution_time"] = ended[2]
        if self._probes & _native.MEMORY:
            self.memory_peak = _native.peak_since(ended[1])
        if self._probes & _native.GPU:
            self.gpu_memory_peak = _gpu.memory()
        if self._deep:
            deep.after(self._deep)

    def add_metric(self, name: str, value: Any) -> None:
        """Adds a metric of the operation."""
        self.custom_metrics[name] = value

    def add_metrics(self, metrics: dict) -> None:
        """Adds several metrics of the operation."""
        self.custom_metrics.update(metrics)


class BatchProfilerContext:
    """Collects operations that were timed elsewhere, and hands them over in groups."""

    def __init__(self, batch_size: int = 100, flush_interval: float = 5.0) -> None:
        self.batch_size = batch_size
        self.flush_interval = flush_interval
        self.operations: list = []
        self._lock = threading.Lock()
        self._flushed_at = time.monotonic()

    def __enter__(self) -> BatchProfilerContext:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.flush()

    def add_operation(
        self,
        operation_name: str,
        component: str,
        duration: float,
        custom_metrics: Optional[dict] = None,
    ) -> None:
        """An operation that ended just now."""
        operation = (operation_name, component, duration, dict(custom_metrics or {}))
        with self._lock:
            self.operations.append((*operation, _native.ticks()))
            is_due = time.monotonic() - self._flushed_at >= self.flush_interval
            is_full = len(self.operations) >= self.batch_size
        if is_due or is_full:
            self.flush()

    def flush(self) -> None:
        """Hands over what there is."""
        with self._lock:
            waiting, self.operations = self.operations, []
            self._flushed_at = time.monotonic()
        manager = _runtime.current()
        if manager is None or not manager._is_recording():
            return
        for name, component, duration, metrics, ended_at in waiting:
            site = _sites.shared(name, component, None, manager._number, 0, None)
            _sites.keep_metrics(_native.add_past(site, ended_at, float(duration)), metrics)


_batch = BatchProfilerContext()


def get_global_batch_profiler() -> BatchProfilerContext:
    """The batch that `profile_batch_operation` adds to."""
    return _batch


def profile_operation(
    operation_name: str,
    component: str = "general",
    profiler_names: Any = None,
    tags: Any = None,
    level: ProfilerLevel = ProfilerLevel.BASIC,
    enabled: bool = True,
) -> ProfilerContext:
    """A block as an operation: `with profile_operation("load", "data") as operation:`."""
    return ProfilerContext(
        operation_name, component, profiler_names, tags, level, enabled=enabled
    )


class profile_batch_operation:
    """A block as an operation of the global batch."""

    def __init__(
        self, operation_name: str, component: str = "general", custom_metrics: Any = None
    ) -> None:
        self._operation = (operation_name, component)
        self.custom_metrics = dict(custom_metrics or {})
        self._began = 0.0

    def __enter__(self) -> profile_batch_operation:
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        duration = time.perf_counter() - self._began
        if kind is not None:
            self.custom_metrics["exception"] = kind.__name__
        _batch.add_operation(*self._operation, duration, self.custom_metrics)


def profile_function_call(
    func: Callable, operation_name: Any = None, component: str = "general", *args: Any, **kwargs: Any
) -> Any:
    """Calls a function as an operation, with the number of items of the result as a metric."""
    name = operation_name or getattr(func, "__name__", type(func).__name__)
    with ProfilerContext(name, component) as operation:
        result = func(*args, **kwargs)
        try:
            operation.add_metric("result_size", len(result))
        except TypeError:
            pass
        return result


def profile_if_slow(threshold_seconds: float = 0.1) -> Callable:
    """Records calls that take longer than the threshold, and no others."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                duration = time.perf_counter() - began
                if duration >= threshold_seconds:
                    with BatchProfilerContext(1) as batch:
                        metrics = {"threshold_seconds": threshold_seconds, "slow": True}
                        batch.add_operation(function.__name__, "slow", duration, metrics)

        return _finish(timed, function, {"threshold_seconds": threshold_seconds})

    return decorate


def profile_memory_intensive(func: Any = None, *, threshold_mb: Optional[float] = None) -> Any:
    """Profiles a function that needs much memory, from DETAILED on.

    With `threshold_mb`, calls that gain at least so much are marked `memory_intensive`.
    """

    def decorate(function: Callable) -> Callable:
        options: dict = {"component": "memory_intensive", "level": ProfilerLevel.DETAILED}
        if threshold_mb is None:
            return profile_function(**options)(function)

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with ProfilerContext(function.__name__, **options) as operation:
                before = _native.memory() or 0.0
                try:
                    return function(*args, **kwargs)
                finally:
                    gained = (_native.memory() or 0.0) - before
                    operation.add_metric("memory_intensive", gained >= threshold_mb)

        return _finish(measured, function, {**options, "threshold_mb": threshold_mb})

    return decorate if func is None else decorate(func)
