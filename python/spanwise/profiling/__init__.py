"""Profile your own program: decorators, blocks, sessions, reports.

    from spanwise.profiling import create_standard_profiler, profile_function

docs/profiling.md says what each level measures and costs.
"""

from .component import (
    ComponentMetrics,
    ComponentProfiler,
    create_component_profiler,
    inject_profiler_into_component,
)
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
from .kernel import ComponentOperationContext, KernelProfiler, ProfileResult
from .live_view import LiveSession, live
from .manager import (
    MultiProfilerContext,
    ProfilerManager,
    get_global_profiler_manager,
    set_global_profiler_manager,
)
from .monitors import (
    Alert,
    AlertChannel,
    AlertRule,
    AlertSeverity,
    AlertSystem,
    ComponentHealth,
    HealthCheck,
    HealthMonitor,
    HealthStatus,
    PerformanceAlert,
    PerformanceMonitor,
    PerformanceSnapshot,
    ResourceAlert,
    ResourceMonitor,
    ResourceSnapshot,
)
from .profilers import BaseProfiler, OperationProfiler, ProfiledOperationContext

__version__ = "1.0.0"
__all__ = [name for name in dir() if not name.startswith("_") and name not in (
    "adapt", "component", "config", "contexts", "decorators", "deep", "evolution", "factories",
    "kernel", "live_view", "manager", "monitors", "outputs", "profilers", "report",
)]
