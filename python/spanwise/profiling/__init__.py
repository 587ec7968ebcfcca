"""Profile your own program: decorators, blocks, sessions, reports.

    from spanwise.profiling import create_standard_profiler, profile_function

docs/reference/python/profiling.md says what each level measures and costs.
"""

from typing import TYPE_CHECKING, Any

from .config import MetricType, ProfiledOperation, ProfilerConfig, ProfilerLevel
from .contexts import (
    BatchProfilerContext,
    ProfilerContext,
    get_global_batch_profiler,
    profile_batch_operation,
    profile_function_call,
    profile_if_slow,
    profile_memory_intensive,
    profile_operation,
)
from .decorators import (
    get_profile_config,
    is_profiled,
    profile_async,
    profile_component,
    profile_evolution,
    profile_function,
    profile_if_enabled,
    profile_method,
    profile_metrics,
    profile_network,
    profile_training,
    remove_profiling,
)
from .adaptive.deep import DeepRecording, DeepTrace, deep_trace
from .components.evolution import EvolutionProfiler
from .components.factories import (
    create_comprehensive_profiler,
    create_custom_profiler,
    create_evolution_focused_profiler,
    create_lightweight_profiler,
    create_production_profiler,
    create_research_profiler,
    create_standard_profiler,
    quick_evolution_profiler,
    quick_lightweight_profiler,
    quick_research_profiler,
)
from .reports.live_view import LiveSession, live
from .manager import (
    MultiProfilerContext,
    ProfilerManager,
    get_global_profiler_manager,
    set_global_profiler_manager,
)
from .profilers import BaseProfiler, OperationProfiler, ProfiledOperationContext

if TYPE_CHECKING:
    from .components.component import ComponentMetrics as ComponentMetrics
    from .components.component import ComponentProfiler as ComponentProfiler
    from .components.component import create_component_profiler as create_component_profiler
    from .components.component import inject_profiler_into_component as inject_profiler_into_component
    from .components.kernel import ComponentOperationContext as ComponentOperationContext
    from .components.kernel import KernelProfiler as KernelProfiler
    from .components.kernel import ProfileResult as ProfileResult
    from .monitors import Alert as Alert
    from .monitors import AlertChannel as AlertChannel
    from .monitors import AlertRule as AlertRule
    from .monitors import AlertSeverity as AlertSeverity
    from .monitors import AlertSystem as AlertSystem
    from .monitors import ComponentHealth as ComponentHealth
    from .monitors import HealthCheck as HealthCheck
    from .monitors import HealthMonitor as HealthMonitor
    from .monitors import HealthStatus as HealthStatus
    from .monitors import PerformanceAlert as PerformanceAlert
    from .monitors import PerformanceMonitor as PerformanceMonitor
    from .monitors import PerformanceSnapshot as PerformanceSnapshot
    from .monitors import ResourceAlert as ResourceAlert
    from .monitors import ResourceMonitor as ResourceMonitor
    from .monitors import ResourceSnapshot as ResourceSnapshot

# Where names are that few programs need: what is not used is not imported.
_LATER = {
    "components.component": (
        "ComponentMetrics",
        "ComponentProfiler",
        "create_component_profiler",
        "inject_profiler_into_component",
    ),
    "components.kernel": (
        "ComponentOperationContext",
        "KernelProfiler",
        "ProfileResult",
    ),
    "monitors": (
        "Alert",
        "AlertChannel",
        "AlertRule",
        "AlertSeverity",
        "AlertSystem",
        "ComponentHealth",
        "HealthCheck",
        "HealthMonitor",
        "HealthStatus",
        "PerformanceAlert",
        "PerformanceMonitor",
        "PerformanceSnapshot",
        "ResourceAlert",
        "ResourceMonitor",
        "ResourceSnapshot",
    ),
}
_HOME = {name: module for module, names in _LATER.items() for name in names}

__all__ = [
    "Alert",
    "AlertChannel",
    "AlertRule",
    "AlertSeverity",
    "AlertSystem",
    "BaseProfiler",
    "BatchProfilerContext",
    "ComponentHealth",
    "ComponentMetrics",
    "ComponentOperationContext",
    "ComponentProfiler",
    "DeepRecording",
    "DeepTrace",
    "EvolutionProfiler",
    "HealthCheck",
    "HealthMonitor",
    "HealthStatus",
    "KernelProfiler",
    "LiveSession",
    "MetricType",
    "MultiProfilerContext",
    "OperationProfiler",
    "PerformanceAlert",
    "PerformanceMonitor",
    "PerformanceSnapshot",
    "ProfileResult",
    "ProfiledOperation",
    "ProfiledOperationContext",
    "ProfilerConfig",
    "ProfilerContext",
    "ProfilerLevel",
    "ProfilerManager",
    "ResourceAlert",
    "ResourceMonitor",
    "ResourceSnapshot",
    "create_component_profiler",
    "create_comprehensive_profiler",
    "create_custom_profiler",
    "create_evolution_focused_profiler",
    "create_lightweight_profiler",
    "create_production_profiler",
    "create_research_profiler",
    "create_standard_profiler",
    "deep_trace",
    "get_global_batch_profiler",
    "get_global_profiler_manager",
    "get_profile_config",
    "inject_profiler_into_component",
    "is_profiled",
    "live",
    "profile_async",
    "profile_batch_operation",
    "profile_component",
    "profile_evolution",
    "profile_function",
    "profile_function_call",
    "profile_if_enabled",
    "profile_if_slow",
    "profile_memory_intensive",
    "profile_method",
    "profile_metrics",
    "profile_network",
    "profile_operation",
    "profile_training",
    "quick_evolution_profiler",
    "quick_lightweight_profiler",
    "quick_research_profiler",
    "remove_profiling",
    "set_global_profiler_manager",
]


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return value


def __dir__() -> list:
    return sorted({*globals(), *_HOME})
