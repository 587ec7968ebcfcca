"""Results as files and for other services: JSON, CSV, JSON lines, W&B, Prometheus."""

from __future__ import annotations

import os
import time
from typing import Any, Optional

from ..._files import append_only, make_folder, replaced


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON does not have becomes text, never an error."""
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(inner) for inner in value]
    if callable(getattr(value, "item", None)):
        try:
            return plain(value.item())
        except Exception:
            pass
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def write_json(path: str, value: Any) -> None:
    """Writes a file that appears whole or not at all."""
    with replaced(path) as file:
        file.write(json_text(value, indent=2).encode())


def json_text(value: Any, indent: Optional[int] = None) -> str:
    """A value as JSON."""
    # Loaded when something is saved: programs start faster without.
    import json

    return json.dumps(plain(value), indent=indent)


def profiler_results(profiler: Any, latest: Optional[int] = None) -> dict:
    """What is saved of a profiler: with all operations that it keeps, or the latest ones."""
    config = profiler.config
    operations = profiler.operations
    if latest is not None:
        operations = operations[-latest:]
    return {
        "profiler_name": profiler.name,
        "config": {
            "level": config.level.name,
            "profile_time": config.profile_time,
            "profile_memory": config.profile_memory,
            "profile_compute": config.profile_compute,
            "profile_io": config.profile_io,
        },
        "summary_stats": profiler.get_summary_stats(),
        "operations_omitted": profiler.operation_count - len(operations),
        "operations": [operation.to_dict() for operation in operations],
    }


def save_profiler(profiler: Any, filename: Any = None, latest: Optional[int] = None) -> str:
    """Saves a profiler's results as JSON or CSV."""
    if filename is None:
        filename = f"{profiler.name}_profile_{int(time.time())}.{profiler.config.output_format}"
    path = os.path.join(str(profiler.config.output_dir), str(filename))
    make_folder(os.path.dirname(path))
    if path.endswith(".csv"):
        write_csv(path, profiler.operations[-(latest or 0) :])
    else:
        write_json(path, profiler_results(profiler, latest))
    return path


# Control characters and marks of direction, which a terminal would obey; line feeds and tabs stay.
_CONTROLS = {*range(32), *range(127, 160)} - {ord("\n"), ord("\t")}
_MARKS = {0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF}
_SPELLED = {code: f"\\u{{{code:x}}}" for code in _CONTROLS | _MARKS} | {ord("\r"): "\\r"}
_FORMULAS = ("=", "+", "-", "@", "\t", "\n", "'", "＝", "＋", "－", "＠")


def csv_cell(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula, with control characters spelled out.

    The same as what the command's CSV has: an apostrophe stands before what begins like a formula.
    """
    if not isinstance(value, str):
        return value
    text = value.translate(_SPELLED)
    return f"'{text}" if text.startswith(_FORMULAS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return all(c in "0123456789+-.eE" for c in text)


def write_csv(path: str, operations: list) -> None:
    """One line an operation; tags and custom metrics as JSON."""
    import csv
    import io

    with replaced(path) as out, io.TextIOWrapper(out, "utf-8", newline="") as file:
        writer: Optional[Any] = None
        for operation in operations:
            row = operation.to_dict()
            row["custom_metrics"] = json_text(row["custom_metrics"])
            row["tags"] = json_text(row["tags"])
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow({key: csv_cell(value) for key, value in row.items()})


def append_operations(profiler: Any, stamp: str, operations: list) -> None:
    """Adds operations to the profiler's file of JSON lines."""
    folder = str(profiler.config.output_dir)
    make_folder(folder)
    path = os.path.join(folder, f"{profiler.name}_operations_{stamp}.jsonl")
    with open(path, "a", encoding="utf-8", opener=append_only) as file:
        file.writelines(json_text(operation.to_dict()) + "\n" for operation in operations)


# W&B slows down beyond ten thousand keys; three of each operation.
LOGGED_MAX = 3000


def flat_metrics(aggregated: dict) -> dict:
    """Sums as flat keys, as W&B wants them: of the operations that took most."""
    flat = {
        "profiling/total_operations": aggregated["total_operations"],
        "profiling/total_time": aggregated["total_time"],
        "profiling/total_memory_delta": aggregated["total_memory_delta"],
    }
    rows = sorted(aggregated["operation_breakdown"].items(), key=lambda row: -row[1]["total_time"])
    if len(rows) > LOGGED_MAX:
        flat["profiling/operations_left_out"] = len(rows) - LOGGED_MAX
    for name, row in rows[:LOGGED_MAX]:
        for key in ("count", "total_time", "avg_time"):
            flat[f"profiling/{name}/{key}"] = row[key]
    return flat


def prometheus_text(aggregated: dict) -> str:
    """Sums in Prometheus' text format."""
    lines = [
        "# HELP spanwise_operations_total Operations that were profiled.",
        "# TYPE spanwise_operations_total counter",
    ]
    rows = sorted(aggregated["operation_breakdown"].items())
    lines += [
        f'spanwise_operations_total{{operation="{_label(name)}"}} {row["count"]}'
        for name, row in rows
    ]
    lines += [
        "# HELP spanwise_operation_seconds_total Time in operations, nested time once.",
        "# TYPE spanwise_operation_seconds_total counter",
    ]
    lines += [
        f'spanwise_operation_seconds_total{{operation="{_label(name)}"}} {row["total_time"]:.9f}'
        for name, row in rows
    ]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
