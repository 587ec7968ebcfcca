"""Where results go: JSON, CSV, the session's file, W&B, loggers, Prometheus, saving as it goes."""

import csv
import json
import logging
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from spanwise.__main__ import command_line
from spanwise.profiling import (
    OperationProfiler, ProfilerConfig, ProfilerManager, create_comprehensive_profiler,
)
from spanwise.profiling.reports import outputs


def session(config=None, **settings):
    """A session with two operations of one name and one of another, within each other."""
    config = config or ProfilerConfig(output_dir="out", **settings)
    manager = ProfilerManager(config)
    manager.register_profiler(OperationProfiler("one", config))
    manager.start_session("run")
    for number in range(2):
        with manager.profile_operation("outer \"q\"\\n", "a", tags=["t"]) as operation:
            operation.add_metric("number", number)
    with manager.profile_operation("inner", "b"):
        pass
    return manager


def test_json_has_the_shape_of_the_document():
    manager = session()
    data = manager.end_session(save_results=True)
    saved = json.loads(Path("out/session_run.json").read_text())
    assert saved == json.loads(json.dumps(data))
    assert {"session_id", "session_duration", "profilers"} <= set(saved)
    assert {"summary_stats", "specialized_metrics"} <= set(saved["profilers"]["one"])
    assert saved["profilers"]["one"]["summary_stats"]["total_operations"] == 3
    path = manager.save_results("custom_filename.json")
    rows = json.loads(Path(path).read_text())["profilers"]["one"]["operations"]
    assert [row["custom_metrics"].get("number") for row in rows] == [0, 1, None]


def test_csv_is_written_where_it_is_the_format():
    session(output_format="csv").end_session()
    (path,) = Path("out").glob("one_profile_*.csv")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["component"] for row in rows] == ["a", "a", "b"]
    assert json.loads(rows[1]["custom_metrics"])["number"] == 1
    assert json.loads(rows[0]["tags"]) == ["t"]
    assert float(rows[0]["duration"]) >= 0


def test_the_binary_file_holds_every_operation():
    manager = session()
    manager.end_session()
    done = subprocess.run(
        [command_line(), "report", "--no-index", "--quiet", "--section", "functions", "--format",
         "csv", manager.session_file], capture_output=True, text=True, check=True,
    )
    rows = {row["name"]: row for row in csv.DictReader(done.stdout.splitlines())}
    counts = {name: int(row["count"]) for name, row in rows.items()}
    assert sorted(counts.values()) == [1, 2] and counts["inner"] == 1


class Run:
    def __init__(self, fails=False):
        self.logged, self.fails = [], fails

    def log(self, metrics):
        if self.fails:
            raise ConnectionError("no network")
        self.logged.append(metrics)


def test_any_object_with_log_takes_flat_figures():
    manager, run = session(auto_save=False), Run()
    manager.integrate_with_wandb(run)
    manager.end_session()
    (metrics,) = run.logged
    assert metrics["profiling/total_operations"] == 3 and metrics["profiling/inner/count"] == 1
    assert all(isinstance(value, (int, float)) for value in metrics.values())


def test_the_run_of_wandb_is_found(monkeypatch):
    run = Run()
    wandb = types.ModuleType("wandb")
    wandb.run = run
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    manager = create_comprehensive_profiler(output_dir="out", enable_wandb=True)
    manager.start_session("run")
    with manager.profile_operation("step", "a"):
        pass
    manager.end_session()
    assert run.logged[0]["profiling/step/count"] == 1
    other = create_comprehensive_profiler(output_dir="out", enable_wandb=False)
    other.start_session("run")
    other.end_session()
    assert len(run.logged) == 1


def test_results_survive_a_service_that_fails():
    manager = session()
    manager.integrate_with_wandb(Run(fails=True))
    with pytest.warns(UserWarning, match="no network"):
        assert manager.end_session()["session_id"] == "run"
    assert Path("out/session_run.json").is_file()


def test_no_more_keys_than_services_take():
    rows = {
        f"op {number}": {"count": 1, "total_time": float(number), "avg_time": 1.0}
        for number in range(outputs.LOGGED_MAX + 5)
    }
    flat = outputs.flat_metrics({
        "total_operations": 1, "total_time": 1.0, "total_memory_delta": 0.0,
        "operation_breakdown": rows,
    })
    assert len(flat) == 3 * outputs.LOGGED_MAX + 4 and "profiling/op 4/count" not in flat
    assert flat["profiling/operations_left_out"] == 5


def test_loggers_get_the_results(caplog):
    manager = session(auto_save=False)
    manager.integrate_with_logging(logging.getLogger("mine"))
    with caplog.at_level("DEBUG"):
        manager.end_session()
        session(auto_save=False, integrate_with_logging=False).end_session()
    names = [record.name for record in caplog.records]
    assert names == ["mine", "spanwise.profiling"]
    assert "'total_operations': 3" in caplog.records[0].getMessage()

    class Experiment:
        def log_profiling_session(self, results):
            self.results = results

    manager, experiment = session(auto_save=False), Experiment()
    manager.integrate_with_logging(experiment)
    manager.end_session()
    assert experiment.results["profilers"]["one"]["operations_count"] == 3


def test_prometheus_text_is_what_it_reads():
    manager = session(auto_save=False)
    manager.end_session()
    text = manager.prometheus_text()
    assert text.endswith("\n")
    types_of, values = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            types_of[name] = kind
        elif not line.startswith("#"):
            found = re.fullmatch(r'(\w+)\{operation="((?:[^"\\\n]|\\[\\"n])*)"\} ([0-9.]+)', line)
            assert found, line
            label = re.sub(
                r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), found[2]
            )
            values[found[1], label] = float(found[3])
    assert types_of == {
        "spanwise_operations_total": "counter", "spanwise_operation_seconds_total": "counter",
    }
    assert values["spanwise_operations_total", "outer \"q\"\\n"] == 2
    assert values["spanwise_operations_total", "inner"] == 1
    assert values["spanwise_operation_seconds_total", "inner"] >= 0


def test_saving_as_it_goes_writes_each_operation_once(monkeypatch):
    handed = []
    monkeypatch.setattr(
        outputs, "append_operations", lambda _, stamp, new: handed.append(len(new))
    )
    one = OperationProfiler("alone", ProfilerConfig(output_dir="out", save_interval=10))
    for _ in range(1000):
        one.end_operation(one.start_operation("step", "work"))
    # Ten at a time however many there were before.
    assert handed == [10] * 100


def check_cell(value, expected):
    assert outputs.csv_cell(value) == expected


def test_csv_begins_no_formula_and_carries_no_escapes():
    check_cell("=1+1", "'=1+1")
    check_cell("+cmd|x", "'+cmd|x")
    check_cell("-2+3", "'-2+3")
    check_cell("@SUM(1)", "'@SUM(1)")
    check_cell("'=1", "''=1")
    check_cell("\r=1", "\\r=1")
    check_cell("-5.5e-3", "-5.5e-3")
    check_cell(-5, -5)
    check_cell("a\x1b[31m\x9b\u202eb\n", "a\\u{1b}[31m\\u{9b}\\u{202e}b\n")
    check_cell("forward", "forward")
