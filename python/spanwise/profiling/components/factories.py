"""Managers that are set up for a purpose."""

from __future__ import annotations

import warnings
from typing import Any, Optional

from ..config import ProfilerConfig, ProfilerLevel
from .evolution import EvolutionProfiler
from ..manager import ProfilerManager
from ..profilers import OperationProfiler

RESULTS = "data/profiling_results"


def _manager(config: ProfilerConfig) -> ProfilerManager:
    manager = ProfilerManager(config)
    manager.register_profiler(EvolutionProfiler(config))
    if config.integrate_with_logging and config.level is ProfilerLevel.COMPREHENSIVE:
        manager.integrate_with_logging()
    return manager


def create_standard_profiler(
    level: ProfilerLevel = ProfilerLevel.BASIC,
    output_dir: str = RESULTS,
    enable_memory: bool = True,
    enable_compute: bool = False,
    profile_memory: Optional[bool] = None,
    profile_compute: Optional[bool] = None,
) -> ProfilerManager:
    """For most purposes."""
    return _manager(ProfilerConfig(
        level=level,
        profile_memory=enable_memory if profile_memory is None else profile_memory,
        profile_compute=enable_compute if profile_compute is None else profile_compute,
        output_dir=output_dir,
        save_interval=50,
    ))


def create_lightweight_profiler(output_dir: str = RESULTS) -> ProfilerManager:
    """Times alone, for production."""
    return _manager(ProfilerConfig(
        profile_memory=False, output_dir=output_dir, save_interval=100, max_overhead_percent=1.0
    ))


def create_comprehensive_profiler(
    output_dir: str = RESULTS, enable_wandb: bool = False
) -> ProfilerManager:
    """All that can be measured."""
    return _manager(ProfilerConfig(
        level=ProfilerLevel.COMPREHENSIVE,
        profile_compute=True,
        profile_io=True,
        output_dir=output_dir,
        save_interval=25,
        max_overhead_percent=10.0,
        integrate_with_wandb=enable_wandb,
    ))


def create_custom_profiler(
    profiler_configs: dict, global_config: Optional[ProfilerConfig] = None
) -> ProfilerManager:
    """A profiler for each name: "evolution" has its own sort, others sum up operations."""
    if global_config is None:
        levels = [config.level for config in profiler_configs.values()]
        highest = max(levels, key=lambda level: level.value, default=ProfilerLevel.BASIC)
        global_config = ProfilerConfig(level=highest)
    manager = ProfilerManager(global_config)
    for name, config in profiler_configs.items():
        if name == "evolution":
            manager.register_profiler(EvolutionProfiler(config))
        else:
            manager.register_profiler(OperationProfiler(f"{name}_profiler", config))
    if not profiler_configs:
        warnings.warn("no profilers: nothing will be recorded", stacklevel=2)
    return manager


def create_evolution_focused_profiler(
    level: ProfilerLevel = ProfilerLevel.DETAILED, output_dir: str = "evolution_profiling"
) -> ProfilerManager:
    """For experiments that grow networks."""
    return _manager(ProfilerConfig(
        level=level, profile_compute=True, output_dir=output_dir, save_interval=10,
        max_overhead_percent=5.0,
    ))


def create_research_profiler(
    experiment_name: str,
    level: ProfilerLevel = ProfilerLevel.COMPREHENSIVE,
    enable_all_integrations: bool = True,
) -> ProfilerManager:
    """All that can be measured, never adapted to what it costs."""
    return _manager(ProfilerConfig(
        level=level,
        profile_compute=True,
        profile_io=True,
        output_dir=f"research_profiling/{experiment_name}",
        save_interval=20,
        max_overhead_percent=15.0,
        adaptive_sampling=False,
        integrate_with_wandb=enable_all_integrations,
        integrate_with_logging=enable_all_integrations,
    ))


def create_production_profiler(
    max_overhead_percent: float = 2.0, output_dir: str = "production_profiling"
) -> ProfilerManager:
    """Times, and memory now and then."""
    return _manager(ProfilerConfig(
        output_dir=output_dir, save_interval=200, max_overhead_percent=max_overhead_percent
    ))


def quick_evolution_profiler() -> ProfilerManager:
    """`create_evolution_focused_profiler` as it is."""
    return create_evolution_focused_profiler()


def quick_research_profiler(experiment_name: Any) -> ProfilerManager:
    """`create_research_profiler` as it is."""
    return create_research_profiler(experiment_name)


def quick_lightweight_profiler() -> ProfilerManager:
    """`create_lightweight_profiler` as it is."""
    return create_lightweight_profiler()
