"""One profiler that the components of a program share, and each one's view of it."""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass, field
from typing import Any, Optional

from ... import _native
from ..._files import make_folder
from .._system import gpu as _gpu
from .._system import logs as _logs
from .._system import machine as _machine
from .._core import sites as _sites
from ..reports import outputs
from ..config import ProfilerConfig, ProfilerLevel
from ..profilers import BaseProfiler

# Slow operations that are said at a time, and operations that are shown of a component.
SLOW_MAX = 5
SHOWN_MAX = 10


@dataclass
class ProfileResult:
    """What an operation took. `cpu_percent` is of one processor, by the thread that ended it."""

    name: str
    duration: float
    memory_delta: float
    cpu_percent: float
    success: bool = True
    custom_metrics: dict = field(default_factory=dict)


class _Open:
    """An operation that goes on, and what was measured when it began."""

    __slots__ = ("name", "token", "component", "memory", "cpu_s", "gpu_memory")

    def __init__(self, kernel: KernelProfiler, name: str, component: Optional[str], tags: Any):
        self.name, self.component = name, component
        self.memory = _native.memory() if kernel.enable_memory else None
        self.gpu_memory = _gpu.torch_memory() if kernel.enable_gpu else None
        site = _sites.shared(name, component or "kernel", tags, 0, kernel._number, None)
        self.cpu_s = time.thread_time() if kernel.enable_cpu else None
        self.token = _native.begin(site, 0)


class KernelProfiler(BaseProfiler):
    """Times operations of components, with the memory and processor time that each took.

    `enable_gpu` left out means: where Torch uses CUDA. `cpu_usage_percent` of its health is
    this process's share of all processors that it may use.
    """

    def __init__(
        self,
        logger: Any = None,
        enable_cpu: bool = True,
        enable_memory: bool = True,
        enable_gpu: Optional[bool] = None,
        config: Optional[ProfilerConfig] = None,
    ) -> None:
        if enable_gpu is None:
            enable_gpu = _gpu.torch_memory() is not None
        super().__init__("KernelProfiler", config or ProfilerConfig(
            profile_memory=enable_memory, profile_compute=enable_gpu, level=ProfilerLevel.BASIC
        ))
        self.logger = logger
        self.enable_cpu = enable_cpu
        self.enable_memory = enable_memory
        self.enable_gpu = enable_gpu
        self.kernel_startup_time = time.time()
        # By component: how many operations have begun, and MiB that all together gained.
        self.profile_counts_by_component: dict = {}
        self._memory_by_component: dict = {}
        self._cpu = _machine.CpuMeter()

    @property
    def kernel_uptime(self) -> float:
        """Seconds since it was made."""
        return time.time() - self.kernel_startup_time

    # Operations.

    def _begin(self, name: str, component: Optional[str], tags: Any) -> str:
        if not self.is_enabled:
            return ""
        operation_id = f"{name}_{time.time_ns() // 1000}_{next(self._ids)}"
        if component is not None:
            with self.lock:
                counts = self.profile_counts_by_component
                counts[component] = counts.get(component, 0) + 1
        operation = _Open(self, name, component, tags)
        self.active_operations[operation_id] = operation
        return operation_id

    def _end(
        self, operation_id: str, success: bool, exception: Any, metrics: dict
    ) -> Optional[ProfileResult]:
        operation = self.active_operations.pop(operation_id, None)
        if operation is None:
            return None
        ended = operation.token.end(exception or (None if success else "unsuccessful"))
        duration, all_metrics = ended[2], dict(metrics)
        cpu_percent = memory_delta = 0.0
        if operation.cpu_s is not None:
            cpu_s = max(0.0, time.thread_time() - operation.cpu_s)
            cpu_percent = 100.0 * cpu_s / duration if duration > 0 else 0.0
            all_metrics["cpu_percent"] = cpu_percent
        if operation.memory is not None:
            memory_delta = (_native.memory() or operation.memory) - operation.memory
            all_metrics["memory_delta"] = memory_delta
            with self.lock:
                gained = self._memory_by_component
                gained[operation.component] = gained.get(operation.component, 0.0) + memory_delta
        if operation.gpu_memory is not None:
            gpu_memory = _gpu.torch_memory()
            if gpu_memory is not None:
                all_metrics["gpu_memory_delta"] = gpu_memory - operation.gpu_memory
            all_metrics["gpu_utilization"] = _gpu.utilization()
        all_metrics["success"] = success
        _sites.keep_metrics(ended, all_metrics)
        self._save_if_alone()
        return ProfileResult(operation.name, duration, memory_delta, cpu_percent, success, all_metrics)

    def start_operation(self, name: str, component: Any = None, tags: Any = None) -> str:
        """Begins an operation; gives its id, empty where the profiler is disabled."""
        return self._begin(name, component, tags)

    def end_operation(self, operation_id: str, **custom_metrics: Any) -> None:
        """Ends an operation, with metrics of it. Unknown ids do nothing."""
        exception = custom_metrics.get("exception")
        success = bool(custom_metrics.get("success", exception is None))
        self._end(operation_id, success, exception, custom_metrics)

    def start_profile(self, name: str) -> str:
        """Begins an operation; gives its id, empty where the profiler is disabled."""
        return self._begin(name, None, None)

    def end_profile(self, profile_id: str, success: bool = True) -> Optional[ProfileResult]:
        """Ends an operation and says what it took; nothing where it never began.

        An id that is not known is an error of the program: `ValueError`.
        """
        if profile_id == "":
            return None
        result = self._end(profile_id, success, None, {})
        if result is None:
            raise ValueError(f"no such operation goes on: {profile_id}")
        return result

    def profile(self, name: str) -> ComponentOperationContext:
        """An operation for `with`."""
        return ComponentOperationContext(self, None, name)

    def profile_component_operation(
        self, component_name: str, operation_name: str, tags: Any = None
    ) -> ComponentOperationContext:
        """An operation of a component, for `with`; it is called `component.operation`."""
        return ComponentOperationContext(
            self, component_name, f"{component_name}.{operation_name}", tags
        )

    # Sums.

    def _component_sums(self, component_name: str) -> dict:
        """What is known of a component without reading single operations."""
        for number, sums in _native.sums(self._number)[2]:
            if _sites.component_of(number) == component_name:
                count, seconds, covered, _, _, failed = sums[:6]
                return {
                    "component_name": component_name,
                    "total_operations": count,
                    "total_time": covered,
                    "average_time": seconds / max(1, count),
                    "total_memory_delta": self._memory_by_component.get(component_name, 0.0),
                    "profile_count": self.profile_counts_by_component.get(component_name, 0),
                    "error_count": failed,
                }
        return {}

    def component_sums(self) -> dict:
        """`get_component_metrics` of each component, without single operations: cheap."""
        found = {name: self._component_sums(name) for name in self._components()}
        return {name: sums for name, sums in found.items() if sums}

    def _components(self) -> list:
        with self.lock:
            return sorted(self.profile_counts_by_component)

    def get_component_metrics(self, component_name: str) -> dict:
        """Sums of a component and its latest operations; empty where it has none."""
        sums = self._component_sums(component_name)
        if sums:
            of_component = (
                operation.to_dict()
                for operation in reversed(self.operations)
                if operation.component == component_name
            )
            sums["operations"] = list(itertools.islice(of_component, SHOWN_MAX))[::-1]
        return sums

    def get_kernel_health_metrics(self) -> dict:
        """How the profiler and its process are."""
        sums = _native.sums(self._number)[0]
        count, failed = sums[0], sums[5]
        uptime = self.kernel_uptime
        overhead = self.total_overhead
        return {
            "kernel_uptime": uptime,
            "total_profiles": count,
            "active_profiles": len(self.active_operations),
            "total_overhead": overhead,
            "average_overhead": overhead / count if count else 0.0,
            "components_profiled": len(self.profile_counts_by_component),
            "memory_usage_mb": self._get_memory_usage(),
            "cpu_usage_percent": (self._cpu.percent() or 0.0) if self.enable_cpu else 0.0,
            "gpu_memory_mb": (_gpu.torch_memory() or 0.0) if self.enable_gpu else 0.0,
            "profiler_enabled": self.is_enabled,
            "profiler_level": self.config.level.name,
            "profiler_overhead_percent": 100.0 * overhead / uptime if uptime > 0 else 0.0,
            "error_count": failed,
        }

    def get_specialized_metrics(self) -> dict:
        """Health, sums by component, and how many operations belong to no component."""
        health = self.get_kernel_health_metrics()
        components = self.component_sums()
        of_components = sum(sums["total_operations"] for sums in components.values())
        return {
            "kernel_health": health,
            "component_breakdown": components,
            "service_profiles": health["total_profiles"] - of_components,
            "profiler_overhead_percent": health["profiler_overhead_percent"],
        }

    def clear_results(self) -> None:
        """Forgets all operations and sums."""
        super().clear_results()
        with self.lock:
            self.profile_counts_by_component.clear()
            self._memory_by_component.clear()

    # Its metrics.

    def save_kernel_report(self, filepath: Any = None) -> str:
        """Saves all it knows as JSON, in its folder; gives the path."""
        name = filepath or f"kernel_profile_report_{int(time.time())}.json"
        path = os.path.join(str(self.config.output_dir), str(name))
        make_folder(os.path.dirname(path))
        outputs.write_json(path, {
            "kernel_info": {
                "uptime": self.kernel_uptime,
                "profiler_version": "1.0.0",
                "generated_at": time.time(),
            },
            "health_metrics": self.get_kernel_health_metrics(),
            "specialized_metrics": self.get_specialized_metrics(),
            "summary_stats": self.get_summary_stats(),
            "component_details": {
                name: self.get_component_metrics(name) for name in self._components()
            },
        })
        _logs.say(self.logger, "info", f"kernel report saved to {path}")
        return path

    def log_performance_warning(self, threshold_seconds: float = 1.0) -> None:
        """Warns of the latest operations that took longer."""
        slow = [row for row in self.operations if (row.duration or 0.0) > threshold_seconds]
        logger = self.logger or _logs.default_logger()
        for row in slow[-SLOW_MAX:]:
            _logs.say(
                logger, "warning", f"slow operation: {row.name}", duration=row.duration,
                component=row.component, memory_delta=row.custom_metrics.get("memory_delta", 0.0),
            )

    def _get_cpu_usage(self) -> float:
        return self._cpu.percent() or 0.0


class ComponentOperationContext:
    """An operation of a kernel profiler, for `with`. `result` is there once it has ended."""

    def __init__(
        self, profiler: KernelProfiler, component_name: Optional[str], name: str, tags: Any = None
    ) -> None:
        self.profiler = profiler
        self.component_name = component_name
        self.name = name
        self.tags = tags
        self.operation_id = ""
        self.custom_metrics: dict = {}
        self.result: Optional[ProfileResult] = None

    @property
    def duration(self) -> Optional[float]:
        """Seconds that it took, once it has ended."""
        return None if self.result is None else self.result.duration

    def __enter__(self) -> ComponentOperationContext:
        self.operation_id = self.profiler._begin(self.name, self.component_name, self.tags)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        exception = None if kind is None else kind.__name__
        if kind is not None:
            self.custom_metrics["exception"] = exception
            self.custom_metrics["error"] = str(value)
        self.result = self.profiler._end(
            self.operation_id, kind is None, exception, self.custom_metrics
        )

    def add_metric(self, name: str, value: Any) -> None:
        """Adds a metric of the operation."""
        self.custom_metrics[name] = value
