"""Profile your own program: decorators, blocks, sessions, reports.

    from spanwise.profiling import create_standard_profiler, profile_function

docs/profiling.md says what each level measures and costs.
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
from .deep import DeepRecording, DeepTrace, deep_trace
from .evolution import EvolutionProfiler
from .factories import (
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
from .live_view import LiveSession, live
from .manager import (
    MultiProfilerContext,
    ProfilerManager,
    get_global_profiler_manager,
    set_global_profiler_manager,
)
from .profilers import BaseProfiler, OperationProfiler, ProfiledOperationContext

if TYPE_CHECKING:
    from .component import ComponentMetrics as ComponentMetrics
    from .component import ComponentProfiler as ComponentProfiler
    from .component import create_component_profiler as create_component_profiler
    from .component import inject_profiler_into_component as inject_profiler_into_component
    from .kernel import ComponentOperationContext as ComponentOperationContext
    from .kernel import KernelProfiler as KernelProfiler
    from .kernel import ProfileResult as ProfileResult
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
    "component": (
        "ComponentMetrics",
        "ComponentProfiler",
        "create_component_profiler",
        "inject_profiler_into_component",
    ),
    "kernel": (
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

__version__ = "1.0.0"
__all__ = sorted(_HOME) + [name for name in dir() if not name.startswith("_") and name not in (
    "adapt", "component", "config", "contexts", "decorators", "deep", "evolution", "factories",
    "kernel", "live_view", "manager", "monitors", "outputs", "profilers", "report", "Any",
    "TYPE_CHECKING",
)]


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return value


def __dir__() -> list:
    return sorted({*globals(), *_HOME})
