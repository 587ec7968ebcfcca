"""Sums over the profilers of a manager, and the report."""

from __future__ import annotations

import collections
from typing import Any

from ... import _native
from .._core import sites as _sites

TOP_OPERATIONS = 10
# Changes that the report lists: the latest ones.
CHANGES_MAX = 20


def aggregated(manager: Any, component: Any = None, operation_name: Any = None) -> dict:
    """Sums over all profilers. What several profilers saw is one operation, counted once."""
    all_sums, by_name, by_component, memory = _native.sums(manager._whole)
    seen_by = _seen_by(manager)
    operations: dict = {}
    for (name_number, component_number), sums in by_name:
        name = _sites.name_of(name_number)
        if component not in (None, _sites.component_of(component_number)):
            continue
        if operation_name not in (None, name):
            continue
        row = operations.setdefault(
            name, {"count": 0, "total_time": 0.0, "avg_time": 0.0, "profilers": seen_by[name]}
        )
        if sums[7]:
            row["without_rows"] = row.get("without_rows", 0) + sums[7]
            row["estimated"] = row.get("estimated", 0) + sums[8]
        seconds = row["avg_time"] * row["count"] + sums[1]
        row["count"] += sums[0]
        row["total_time"] += sums[2]
        row["avg_time"] = seconds / max(1, row["count"])
    return {
        "total_operations": all_sums[0],
        "total_time": all_sums[2],
        "total_memory_delta": memory[0] or _session_memory(manager),
        "profiler_breakdown": {
            name: profiler.get_summary_stats() for name, profiler in manager.profilers.items()
        },
        "component_breakdown": {
            _sites.component_of(number): {"count": sums[0], "total_time": sums[2]}
            for number, sums in by_component
        },
        "operation_breakdown": operations,
    }


def _seen_by(manager: Any) -> Any:
    """The names of the profilers that have seen operations of a name."""
    seen: Any = collections.defaultdict(list)
    for name, profiler in manager.profilers.items():
        for (number, _), _ in _native.sums(profiler._number)[1]:
            if name not in seen[_sites.name_of(number)]:
                seen[_sites.name_of(number)].append(name)
    return seen


def _overhead_lines(manager: Any) -> list:
    """What recording cost in all, what was done about it, and what is not exact for that."""
    controller, lines = manager._controller, []
    spent = manager._spent if controller is None else (controller.spent_s, controller.seen_s)
    if spent[1] > 0:
        lines.append(
            f"  in all {100 * spent[0] / spent[1]:.1f}% of the processor time of the process, by what "
            "calls cost here; the times above are not reduced by it"
        )
    sums = _native.sums(manager._whole)[0]
    if sums[7]:
        lines.append(
            f"  of {sums[0]:,} operations, {sums[7]:,} are in sums only, and the times of "
            f"{sums[8]:,} are estimated from others"
        )
    changes = manager.adjustments
    lines += [f"  {change}" for change in changes[-CHANGES_MAX:]]
    if len(changes) > CHANGES_MAX:
        lines.append(f"  and {len(changes) - CHANGES_MAX} changes before")
    return lines


def mark_sums(manager: Any) -> None:
    """Puts into the session's file what its rows do not show: operations in sums only."""
    for (number, _), sums in _native.sums(manager._whole)[1]:
        if sums[7]:
            estimated = ", estimated" if sums[8] else ""
            _native.mark(
                f"spanwise: {_sites.name_of(number)}: {sums[0]:,} calls, {sums[1]:.6f} s"
                f"{estimated}, {sums[7]:,} of them without rows"
            )


def _session_memory(manager: Any) -> float:
    """What the process gained during the session, if operations do not show it."""
    start = manager._memory_at_start
    end = manager._memory_at_end
    if start is None or not manager.global_config.profile_memory:
        return 0.0
    if end is None:
        end = _native.memory()
    return 0.0 if end is None else end - start


def text(manager: Any) -> str:
    """The report of a manager's session."""
    if not manager.is_profiling and not manager.profilers:
        return "No profiling data available."
    sums = aggregated(manager)
    lines = [
        "🔬 PROFILING PERFORMANCE REPORT",
        "=" * 50,
        f"Session: {manager.session_id}",
        f"Duration: {manager._duration():.2f}s",
        f"Total Operations: {sums['total_operations']:,}",
        f"Total Time: {sums['total_time']:.3f}s",
        f"Memory Delta: {sums['total_memory_delta']:.1f}MB",
    ]
    if sums["component_breakdown"]:
        lines += ["", "📊 Component Breakdown:"]
        rows = sorted(sums["component_breakdown"].items(), key=lambda row: -row[1]["total_time"])
        for name, row in rows:
            average = row["total_time"] / max(1, row["count"])
            lines.append(
                f"  {name}: {row['count']:,} ops, {row['total_time']:.3f}s total, {average:.4f}s avg"
            )
    if sums["operation_breakdown"]:
        lines += ["", "⏱️  Top Operations by Total Time:"]
        rows = sorted(sums["operation_breakdown"].items(), key=lambda row: -row[1]["total_time"])
        for name, row in rows[:TOP_OPERATIONS]:
            calls = f"{row['count']:,} calls, {row['avg_time']:.4f}s avg"
            calls += ", estimated" if row.get("estimated") else ""
            lines.append(f"  {name}: {row['total_time']:.3f}s ({calls})")
        if len(rows) > TOP_OPERATIONS:
            lines.append(f"  and {len(rows) - TOP_OPERATIONS} more")
    lines += ["", "⚡ Profiler Overhead:"]
    for name, summary in sums["profiler_breakdown"].items():
        lines.append(f"  {name}: {summary.get('overhead_percentage', 0.0):.2f}%")
    lines += _overhead_lines(manager)
    if manager._dropped:
        lines += ["", f"Records dropped for want of room: {manager._dropped:,}"]
    return "\n".join(lines)
