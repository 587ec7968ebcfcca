"""Profile your own program: decorators, blocks, sessions, reports.

    from spanwise.profiling import create_standard_profiler, profile_function

docs/reference/python/profiling.md says what each level measures and costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adaptive.deep import DeepRecording as DeepRecording
    from .adaptive.deep import DeepTrace as DeepTrace
    from .adaptive.deep import deep_trace as deep_trace
    from .components.component import ComponentMetrics as ComponentMetrics
    from .components.component import ComponentProfiler as ComponentProfiler
    from .components.component import create_component_profiler as create_component_profiler
    from .components.component import inject_profiler_into_component as inject_profiler_into_component
    from .components.evolution import EvolutionProfiler as EvolutionProfiler
    from .components.factories import create_comprehensive_profiler as create_comprehensive_profiler
    from .components.factories import create_custom_profiler as create_custom_profiler
    from .components.factories import create_evolution_focused_profiler as create_evolution_focused_profiler
    from .components.factories import create_lightweight_profiler as create_lightweight_profiler
    from .components.factories import create_production_profiler as create_production_profiler
    from .components.factories import create_research_profiler as create_research_profiler
    from .components.factories import create_standard_profiler as create_standard_profiler
    from .components.factories import quick_evolution_profiler as quick_evolution_profiler
    from .components.factories import quick_lightweight_profiler as quick_lightweight_profiler
    from .components.factories import quick_research_profiler as quick_research_profiler
    from .components.kernel import ComponentOperationContext as ComponentOperationContext
    from .components.kernel import KernelProfiler as KernelProfiler
    from .components.kernel import ProfileResult as ProfileResult
    from .config import MetricType as MetricType
    from .config import ProfiledOperation as ProfiledOperation
    from .config import ProfilerConfig as ProfilerConfig
    from .config import ProfilerLevel as ProfilerLevel
    from .contexts import BatchProfilerContext as BatchProfilerContext
    from .contexts import ProfilerContext as ProfilerContext
    from .contexts import get_global_batch_profiler as get_global_batch_profiler
    from .contexts import profile_batch_operation as profile_batch_operation
    from .contexts import profile_function_call as profile_function_call
    from .contexts import profile_if_slow as profile_if_slow
    from .contexts import profile_memory_intensive as profile_memory_intensive
    from .contexts import profile_operation as profile_operation
    from .decorators import get_profile_config as get_profile_config
    from .decorators import is_profiled as is_profiled
    from .decorators import profile_async as profile_async
    from .decorators import profile_component as profile_component
    from .decorators import profile_evolution as profile_evolution
    from .decorators import profile_function as profile_function
    from .decorators import profile_if_enabled as profile_if_enabled
    from .decorators import profile_method as profile_method
    from .decorators import profile_metrics as profile_metrics
    from .decorators import profile_network as profile_network
    from .decorators import profile_training as profile_training
    from .decorators import remove_profiling as remove_profiling
    from .manager import MultiProfilerContext as MultiProfilerContext
    from .manager import ProfilerManager as ProfilerManager
    from .manager import get_global_profiler_manager as get_global_profiler_manager
    from .manager import set_global_profiler_manager as set_global_profiler_manager
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
    from .profilers import BaseProfiler as BaseProfiler
    from .profilers import OperationProfiler as OperationProfiler
    from .profilers import ProfiledOperationContext as ProfiledOperationContext
    from .reports.live_view import LiveSession as LiveSession
    from .reports.live_view import live as live

#: The module of each name; imported when the name is first used.
_HOME = {
    "Alert": "monitors",
    "AlertChannel": "monitors",
    "AlertRule": "monitors",
    "AlertSeverity": "monitors",
    "AlertSystem": "monitors",
    "BaseProfiler": "profilers",
    "BatchProfilerContext": "contexts",
    "ComponentHealth": "monitors",
    "ComponentMetrics": "components.component",
    "ComponentOperationContext": "components.kernel",
    "ComponentProfiler": "components.component",
    "DeepRecording": "adaptive.deep",
    "DeepTrace": "adaptive.deep",
    "EvolutionProfiler": "components.evolution",
    "HealthCheck": "monitors",
    "HealthMonitor": "monitors",
    "HealthStatus": "monitors",
    "KernelProfiler": "components.kernel",
    "LiveSession": "reports.live_view",
    "MetricType": "config",
    "MultiProfilerContext": "manager",
    "OperationProfiler": "profilers",
    "PerformanceAlert": "monitors",
    "PerformanceMonitor": "monitors",
    "PerformanceSnapshot": "monitors",
    "ProfileResult": "components.kernel",
    "ProfiledOperation": "config",
    "ProfiledOperationContext": "profilers",
    "ProfilerConfig": "config",
    "ProfilerContext": "contexts",
    "ProfilerLevel": "config",
    "ProfilerManager": "manager",
    "ResourceAlert": "monitors",
    "ResourceMonitor": "monitors",
    "ResourceSnapshot": "monitors",
    "create_component_profiler": "components.component",
    "create_comprehensive_profiler": "components.factories",
    "create_custom_profiler": "components.factories",
    "create_evolution_focused_profiler": "components.factories",
    "create_lightweight_profiler": "components.factories",
    "create_production_profiler": "components.factories",
    "create_research_profiler": "components.factories",
    "create_standard_profiler": "components.factories",
    "deep_trace": "adaptive.deep",
    "get_global_batch_profiler": "contexts",
    "get_global_profiler_manager": "manager",
    "get_profile_config": "decorators",
    "inject_profiler_into_component": "components.component",
    "is_profiled": "decorators",
    "live": "reports.live_view",
    "profile_async": "decorators",
    "profile_batch_operation": "contexts",
    "profile_component": "decorators",
    "profile_evolution": "decorators",
    "profile_function": "decorators",
    "profile_function_call": "contexts",
    "profile_if_enabled": "decorators",
    "profile_if_slow": "contexts",
    "profile_memory_intensive": "contexts",
    "profile_method": "decorators",
    "profile_metrics": "decorators",
    "profile_network": "decorators",
    "profile_operation": "contexts",
    "profile_training": "decorators",
    "quick_evolution_profiler": "components.factories",
    "quick_lightweight_profiler": "components.factories",
    "quick_research_profiler": "components.factories",
    "remove_profiling": "decorators",
    "set_global_profiler_manager": "manager",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
