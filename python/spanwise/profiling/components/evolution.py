"""Experiments that grow networks: what helped, and what it took to find out."""

from __future__ import annotations

import time
from typing import Any, Optional

from ..config import ProfilerConfig
from ..profilers import BaseProfiler


def parameter_count(network: Any) -> int:
    """How many parameters a network has; `None` if unknown."""
    parameters = getattr(network, "parameters", None)
    if not callable(parameters):
        return 0
    try:
        return sum(_size(parameter) for parameter in parameters())
    except TypeError:
        return 0


def _size(parameter: Any) -> int:
    numel = getattr(parameter, "numel", None)
    if callable(numel):
        return int(numel())
    size = getattr(parameter, "size", 1)
    return int(size() if callable(size) else size)


def _counted(values: Any) -> dict:
    counts: dict = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def _mean(values: list) -> float:
    return sum(values) / len(values) if values else 0.0


def _deviation(values: list) -> float:
    mean = _mean(values)
    return _mean([(value - mean) ** 2 for value in values]) ** 0.5


class EvolutionProfiler(BaseProfiler):
    """Tracks growth, analyzers and changes of the architecture."""

    def __init__(self, config: Optional[ProfilerConfig] = None) -> None:
        super().__init__("evolution_profiler", config or ProfilerConfig())
        self.growth_events: list = []
        self.analyzer_runs: list = []
        self.architecture_changes: list = []

    def track_growth_event(
        self,
        strategy_name: str,
        growth_type: str,
        network_before: Any,
        network_after: Any,
        performance_improvement: float,
        metadata: Optional[dict] = None,
    ) -> None:
        """A network was grown, and performed better or worse by so much."""
        if self.is_enabled:
            before, after = parameter_count(network_before), parameter_count(network_after)
            self.growth_events.append({
                "timestamp": time.time(),
                "strategy_name": strategy_name,
                "growth_type": growth_type,
                "parameters_before": before,
                "parameters_after": after,
                "parameter_increase": after - before,
                "performance_improvement": float(performance_improvement),
                "metadata": dict(metadata or {}),
            })

    def track_analyzer_execution(
        self, analyzer_name: str, execution_time: float, analysis_results: Any, network_size: int
    ) -> None:
        """An analyzer processed a network of this many parameters."""
        if self.is_enabled:
            sized = hasattr(analysis_results, "__len__")
            self.analyzer_runs.append({
                "timestamp": time.time(),
                "analyzer_name": analyzer_name,
                "execution_time": float(execution_time),
                "network_size": int(network_size),
                "results_count": len(analysis_results) if sized else None,
            })

    def track_architecture_change(
        self, old_architecture: Any, new_architecture: Any, change_type: str, change_reason: str
    ) -> None:
        """The widths of the layers changed."""
        if self.is_enabled:
            old, new = list(old_architecture), list(new_architecture)
            self.architecture_changes.append({
                "timestamp": time.time(),
                "old_architecture": old,
                "new_architecture": new,
                "change_type": change_type,
                "change_reason": change_reason,
                "depth_change": len(new) - len(old),
                "neuron_change": sum(new) - sum(old),
            })

    def clear_results(self) -> None:
        """Forgets operations; what was tracked stays until the next session's profiler."""
        super().clear_results()

    def get_specialized_metrics(self) -> dict:
        """Sums over growth events, strategies, analyzers and changes of the architecture."""
        improvements = [event["performance_improvement"] for event in self.growth_events]
        changes = self.architecture_changes
        return {
            "growth_events": {
                "total_events": len(self.growth_events),
                "events_by_type": _counted(event["growth_type"] for event in self.growth_events),
                "events_by_strategy": _counted(
                    event["strategy_name"] for event in self.growth_events
                ),
                "total_performance_improvement": sum(improvements),
                "average_performance_improvement": _mean(improvements),
            },
            "strategy_performance": {
                name: self._strategy(events) for name, events in self._by_strategy().items()
            },
            "analyzer_performance": {
                name: self._analyzer(runs) for name, runs in self._by_analyzer().items()
            },
            "architecture_changes": {
                "total_changes": len(changes),
                "changes_by_type": _counted(change["change_type"] for change in changes),
                "total_depth_increase": sum(change["depth_change"] for change in changes),
                "total_neuron_increase": sum(change["neuron_change"] for change in changes),
            },
        }

    def _by_strategy(self) -> dict:
        groups: dict = {}
        for event in self.growth_events:
            groups.setdefault(event["strategy_name"], []).append(event)
        return groups

    def _by_analyzer(self) -> dict:
        groups: dict = {}
        for run in self.analyzer_runs:
            groups.setdefault(run["analyzer_name"], []).append(run)
        return groups

    @staticmethod
    def _strategy(events: list) -> dict:
        improvements = [event["performance_improvement"] for event in events]
        return {
            "total_applications": len(events),
            "average_improvement": _mean(improvements),
            "best_improvement": max(improvements),
            "worst_improvement": min(improvements),
            "growth_types_used": sorted({event["growth_type"] for event in events}),
        }

    @staticmethod
    def _analyzer(runs: list) -> dict:
        times = [run["execution_time"] for run in runs]
        found = {
            "total_executions": len(runs),
            "average_time": _mean(times),
            "min_time": min(times),
            "max_time": max(times),
        }
        per_parameter = _per_parameter(runs)
        if per_parameter:
            found["average_time_per_parameter"] = _mean(per_parameter)
            found["time_per_parameter_std"] = _deviation(per_parameter)
        return found

    def get_strategy_ranking(self) -> list:
        """Strategies, the most helpful first. Consistency is 1 where all events were alike."""
        rows = []
        for name, events in self._by_strategy().items():
            improvements = [event["performance_improvement"] for event in events]
            average = _mean(improvements)
            spread = _deviation(improvements)
            scale = abs(average) + spread
            rows.append({
                "strategy_name": name,
                "average_improvement": average,
                "total_applications": len(events),
                "best_improvement": max(improvements),
                "consistency": 1.0 if scale == 0 else 1.0 - spread / scale,
            })
        return sorted(rows, key=lambda row: (-row["average_improvement"], row["strategy_name"]))

    def get_analyzer_efficiency_report(self) -> dict:
        """Which analyzer takes least and most time for a parameter, and how that develops."""
        costs, trends = {}, {}
        for name, runs in self._by_analyzer().items():
            per_parameter = _per_parameter(runs)
            costs[name] = _mean(per_parameter or [run["execution_time"] for run in runs])
            slope = _slope(per_parameter)
            small = abs(slope) <= 0.01 * _mean(per_parameter) if per_parameter else True
            word = "stable" if small else "degrading" if slope > 0 else "improving"
            trends[name] = {"trend": word, "trend_slope": slope}
        return {
            "most_efficient": min(costs, key=lambda name: (costs[name], name), default=None),
            "least_efficient": max(costs, key=lambda name: (costs[name], name), default=None),
            "scalability_analysis": trends,
        }


def _per_parameter(runs: list) -> list:
    return [run["execution_time"] / run["network_size"] for run in runs if run["network_size"] > 0]


def _slope(values: list) -> float:
    """The slope of the line that fits the values best, one step apart."""
    if len(values) < 2:
        return 0.0
    middle, mean = (len(values) - 1) / 2, _mean(values)
    above = sum((at - middle) * (value - mean) for at, value in enumerate(values))
    return above / sum((at - middle) ** 2 for at in range(len(values)))
