"""A component's own view of a kernel profiler: its operations, by method."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ... import _native
from .._system import logs as _logs
from .kernel import ComponentOperationContext, KernelProfiler

METHODS_SHOWN = 10
SUCCESS_RATE_MIN = 0.95


@dataclass
class ComponentMetrics:
    """Sums over a component's operations; memory is that of the process, in MiB."""

    component_name: str
    total_operations: int
    total_time: float
    average_time: float
    success_rate: float
    memory_usage: float
    error_count: int
    last_operation_time: Optional[float] = None


class _Sums:
    """Sums over the calls of a method, or over all operations."""

    __slots__ = ("count", "failed", "seconds", "least", "most", "last")

    def __init__(self) -> None:
        self.count = self.failed = 0
        self.seconds = self.most = 0.0
        self.least = float("inf")
        self.last: Optional[float] = None

    def add(self, seconds: float, success: bool) -> None:
        self.count += 1
        self.failed += not success
        self.seconds += seconds
        self.least, self.most = min(self.least, seconds), max(self.most, seconds)
        self.last = time.time()

    @property
    def average(self) -> float:
        return self.seconds / max(1, self.count)

    @property
    def success_rate(self) -> float:
        return (self.count - self.failed) / self.count if self.count else 1.0


class _Counted(ComponentOperationContext):
    """An operation that the component sums up as well when it ends."""

    def __init__(
        self, component: ComponentProfiler, name: str, method: Optional[str], tags: Any
    ) -> None:
        kernel = component.kernel_profiler
        super().__init__(
            kernel, component.component_name, f"{component.component_name}.{name}", tags
        )
        self._component = component
        self._method = method

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        super().__exit__(kind, value, trace)
        if self.result is not None:
            self._component._count(self._method, self.result)


class ComponentProfiler:
    """Profiles one component through the kernel profiler that it shares with others."""

    def __init__(self, kernel_profiler: KernelProfiler, component_name: str) -> None:
        self.kernel_profiler = kernel_profiler
        self.component_name = component_name
        self.slow_operation_threshold = 1.0
        self.memory_warning_threshold = 100.0
        self.lock = threading.Lock()
        self._all = _Sums()
        self._methods: dict = {}
        # What the process held when this began: what it grew by is judged.
        self._memory_at_start = _native.memory() or 0.0

    # Operations.

    def profile_method(self, method_name: str, **metrics: Any) -> ComponentOperationContext:
        """A call of a method, for `with`, with metrics of it."""
        context = _Counted(self, method_name, method_name, None)
        context.custom_metrics.update(metrics)
        return context

    def profile_operation(self, operation_name: str, tags: Any = None) -> ComponentOperationContext:
        """An operation, for `with`."""
        return _Counted(self, operation_name, None, tags)

    def profile_function_call(
        self, func: Callable, function_name: Optional[str] = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Calls a function as a method of the component; gives what it gives."""
        own_name = getattr(func, "__name__", type(func).__name__)
        with self.profile_method(function_name or own_name) as operation:
            operation.add_metric("function_name", own_name)
            operation.add_metric("args_count", len(args))
            operation.add_metric("kwargs_count", len(kwargs))
            result = func(*args, **kwargs)
            if hasattr(result, "__len__"):
                try:
                    operation.add_metric("result_size", len(result))
                except Exception:
                    # Some say that they have a length and then have none.
                    pass
            return result

    def _count(self, method: Optional[str], result: Any) -> None:
        with self.lock:
            self._all.add(result.duration, result.success)
            if method is not None:
                self._methods.setdefault(method, _Sums()).add(result.duration, result.success)

    # Sums.

    @property
    def operation_count(self) -> int:
        """How many operations have ended."""
        return self._all.count

    @property
    def successful_operations(self) -> int:
        """How many of them ended well."""
        return self._all.count - self._all.failed

    @property
    def failed_operations(self) -> int:
        """How many of them did not."""
        return self._all.failed

    @property
    def total_execution_time(self) -> float:
        """Seconds of all operations."""
        return self._all.seconds

    @property
    def last_operation_time(self) -> Optional[float]:
        """When the last one ended, in seconds since 1970."""
        return self._all.last

    def get_component_metrics(self) -> ComponentMetrics:
        """Sums over all operations, those of methods included."""
        with self.lock:
            return ComponentMetrics(
                component_name=self.component_name,
                total_operations=self._all.count,
                total_time=self._all.seconds,
                average_time=self._all.average,
                success_rate=self._all.success_rate,
                memory_usage=_native.memory() or 0.0,
                error_count=self._all.failed,
                last_operation_time=self._all.last,
            )

    def get_method_stats(self) -> dict:
        """Sums by method."""
        with self.lock:
            return {
                name: {
                    "call_count": sums.count,
                    "total_time": sums.seconds,
                    "average_time": sums.average,
                    "success_rate": sums.success_rate,
                    "min_time": sums.least,
                    "max_time": sums.most,
                    "last_call": sums.last,
                }
                for name, sums in self._methods.items()
            }

    def get_performance_summary(self) -> str:
        """The sums as text, with what is odd about them."""
        metrics = self.get_component_metrics()
        lines = [
            f"Component {self.component_name}: {metrics.total_operations:,} operations, "
            f"{metrics.total_time:.3f}s, {metrics.average_time:.4f}s each",
            f"{metrics.success_rate:.1%} succeeded, {metrics.error_count} failed",
            f"Memory of the process: {metrics.memory_usage:.1f}MB",
        ]
        if metrics.last_operation_time is not None:
            ago_s = time.time() - metrics.last_operation_time
            lines.append(f"The last operation ended {ago_s:.1f}s ago")
        rows = self.get_method_stats().items()
        methods = sorted(rows, key=lambda row: (-row[1]["total_time"], row[0]))
        for name, row in methods[:METHODS_SHOWN]:
            calls = f"{row['call_count']:,} calls, {row['average_time']:.4f}s each"
            lines.append(f"  {name}: {row['total_time']:.3f}s ({calls})")
        if len(methods) > METHODS_SHOWN:
            lines.append(f"  and {len(methods) - METHODS_SHOWN} more")
        lines += [f"Warning: {text}" for text in self.performance_warnings()]
        return "\n".join(lines)

    def performance_warnings(self) -> list:
        """What is odd: slow operations and methods, memory gained, failures."""
        metrics, slow_s = self.get_component_metrics(), self.slow_operation_threshold
        warnings = []
        if metrics.average_time > slow_s:
            warnings.append(
                f"Slow operations: {metrics.average_time:.3f}s on average, more than {slow_s}s"
            )
        gained = metrics.memory_usage - self._memory_at_start
        if gained > self.memory_warning_threshold:
            warnings.append(
                f"The process grew by {gained:.1f}MB, more than {self.memory_warning_threshold}MB"
            )
        if metrics.success_rate < SUCCESS_RATE_MIN:
            warnings.append(
                f"Low success rate: {metrics.success_rate:.1%} ({metrics.error_count} errors)"
            )
        stats = self.get_method_stats()
        slow = [name for name, row in stats.items() if row["average_time"] > slow_s]
        if slow:
            more = ", …" if len(slow) > 3 else ""
            warnings.append(f"Slow methods: {', '.join(slow[:3])}{more}")
        return warnings

    def log_performance_summary(self) -> None:
        """Gives the summary to the kernel profiler's logger."""
        logger = self.kernel_profiler.logger or _logs.default_logger()
        _logs.say(logger, "info", self.get_performance_summary(), component=self.component_name)

    def reset_stats(self) -> None:
        """Forgets the component's sums; the kernel profiler's stay."""
        with self.lock:
            self._all, self._methods = _Sums(), {}


def create_component_profiler(
    kernel_profiler: KernelProfiler, component_name: str
) -> ComponentProfiler:
    """A component's profiler."""
    return ComponentProfiler(kernel_profiler, component_name)


def inject_profiler_into_component(component: Any, kernel_profiler: KernelProfiler) -> None:
    """Gives an object a profiler of its own as `_profiler`, called after its name or class."""
    name = getattr(component, "name", None)
    if not isinstance(name, str):
        name = type(component).__name__
    component._profiler = ComponentProfiler(kernel_profiler, name)
