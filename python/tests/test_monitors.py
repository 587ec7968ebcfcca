"""Kernel and component profilers, and the monitors that watch them."""

import inspect
import json
import logging
import threading
import time

import pytest

import spanwise.profiling as profiling
from spanwise.profiling import (
    AlertChannel, AlertRule, AlertSeverity, AlertSystem, ComponentProfiler, HealthMonitor,
    HealthStatus, KernelProfiler, PerformanceMonitor, ResourceMonitor,
)

LOW, MEDIUM, HIGH, CRITICAL = AlertSeverity


def kernel(**options):
    config = profiling.ProfilerConfig(output_dir="out", auto_save=False)
    return KernelProfiler(config=config, **options)


@pytest.mark.parametrize("function, expected", [
    (KernelProfiler, "logger enable_cpu enable_memory enable_gpu config"),
    (KernelProfiler.start_profile, "name"),
    (KernelProfiler.end_profile, "profile_id success"),
    (KernelProfiler.profile, "name"),
    (KernelProfiler.profile_component_operation, "component_name operation_name tags"),
    (KernelProfiler.get_component_metrics, "component_name"),
    (KernelProfiler.save_kernel_report, "filepath"),
    (KernelProfiler.log_performance_warning, "threshold_seconds"),
    (ComponentProfiler, "kernel_profiler component_name"),
    (ComponentProfiler.profile_method, "method_name metrics"),
    (ComponentProfiler.profile_operation, "operation_name tags"),
    (ComponentProfiler.profile_function_call, "func function_name args kwargs"),
    (profiling.inject_profiler_into_component, "component kernel_profiler"),
    (profiling.create_component_profiler, "kernel_profiler component_name"),
    (PerformanceMonitor, "kernel_profiler monitoring_interval history_size"),
    (HealthMonitor, "kernel_profiler check_interval"),
    (ResourceMonitor, "monitoring_interval history_size"),
    (AlertSystem, "logger"),
    (AlertRule, "rule_name alert_types min_severity channels cooldown_seconds "
                "escalation_threshold escalation_window enabled"),
    (AlertSystem.send_alert,
     "alert_type severity title message source component metrics recommendations"),
])
def test_it_takes_what_it_took(function, expected):
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    assert names == expected.split()


def test_defaults():
    one = kernel()
    assert (PerformanceMonitor(one).monitoring_interval, PerformanceMonitor(one).history_size) == (
        1.0, 300,
    )
    assert HealthMonitor(one).check_interval == 30.0
    assert (ResourceMonitor().monitoring_interval, ResourceMonitor().history_size) == (5.0, 720)
    rule = AlertRule("name", [], HIGH, [])
    assert (rule.cooldown_seconds, rule.escalation_threshold, rule.escalation_window) == (
        300, 3, 1800,
    )
    assert [status.name for status in HealthStatus] == [
        "HEALTHY", "DEGRADED", "UNHEALTHY", "CRITICAL", "UNKNOWN",
    ]


def test_a_kernel_profiler_times_operations():
    one = kernel()
    result = one.end_profile(one.start_profile("work"))
    assert (result.name, result.success) == ("work", True) and result.duration >= 0
    assert set(result.custom_metrics) == {"cpu_percent", "memory_delta", "success"}
    with one.profile("hold") as operation:
        held = bytearray(64 << 20)
    assert operation.result.memory_delta > 32 and len(held) > 0
    assert one.end_profile(one.start_profile("bad"), success=False).success is False
    with pytest.raises(ValueError):
        one.end_profile("nothing")
    with pytest.raises(KeyError):
        with one.profile("raises"):
            raise KeyError("x")
    last = one.operations[-1]
    assert last.custom_metrics["exception"] == "KeyError"
    assert last.custom_metrics["success"] is False
    health = one.get_kernel_health_metrics()
    assert (health["total_profiles"], health["error_count"], health["active_profiles"]) == (4, 2, 0)
    assert one.get_specialized_metrics()["service_profiles"] == 4
    assert one.kernel_uptime > 0


def test_a_busy_operation_has_a_busy_processor():
    one = kernel()
    waiting, working = one.start_profile("wait"), None
    time.sleep(0.05)
    waited = one.end_profile(waiting)
    working = one.start_profile("work")
    until = time.thread_time() + 0.05
    while time.thread_time() < until:
        pass
    worked = one.end_profile(working)
    assert waited.cpu_percent < worked.cpu_percent <= 101


def test_components_have_their_own_sums():
    one = kernel()
    component = ComponentProfiler(one, "loader")
    with component.profile_method("load", batch=3) as operation:
        operation.add_metric("rows", 7)
    with component.profile_operation("parse", tags=["t"]):
        pass
    assert component.profile_function_call(sorted, None, [3, 1]) == [1, 3]
    with pytest.raises(ZeroDivisionError):
        component.profile_function_call(lambda: 1 / 0, "divide")
    found = component.get_component_metrics()
    assert (found.total_operations, found.error_count, found.success_rate) == (4, 1, 0.75)
    assert component.get_method_stats()["divide"]["success_rate"] == 0.0
    assert set(component.get_method_stats()) == {"load", "sorted", "divide"}
    assert set(component.get_method_stats()["load"]) == {
        "call_count", "total_time", "average_time", "success_rate", "min_time", "max_time",
        "last_call",
    }
    assert "Low success rate: 75.0%" in component.get_performance_summary()
    rows = one.get_component_metrics("loader")
    assert set(rows) == {
        "component_name", "total_operations", "total_time", "average_time", "total_memory_delta",
        "profile_count", "operations", "error_count",
    }
    assert [row["name"] for row in rows["operations"]] == [
        "loader.load", "loader.parse", "loader.sorted", "loader.divide",
    ]
    assert rows["operations"][0]["custom_metrics"]["rows"] == 7
    assert rows["operations"][0]["custom_metrics"]["batch"] == 3
    assert rows["operations"][2]["custom_metrics"]["result_size"] == 2
    assert one.get_component_metrics("other") == {}
    component.reset_stats()
    assert component.get_component_metrics().total_operations == 0
    assert one.get_component_metrics("loader")["total_operations"] == 4


def test_a_component_is_given_a_profiler():
    class Loader:
        pass

    loader, named = Loader(), Loader()
    named.name = "first"
    one = kernel()
    profiling.inject_profiler_into_component(loader, one)
    profiling.inject_profiler_into_component(named, one)
    assert (loader._profiler.component_name, named._profiler.component_name) == ("Loader", "first")


def test_a_disabled_kernel_profiler_does_nothing():
    one = kernel()
    one.config.enabled = False
    assert one.start_profile("x") == "" and one.end_profile("") is None
    with one.profile("x") as operation:
        pass
    assert operation.duration is None and one.operation_count == 0


def test_the_kernel_report_and_warnings(caplog):
    one = kernel(logger=logging.getLogger("test"))
    with one.profile_component_operation("part", "step"):
        pass
    report = json.loads(open(one.save_kernel_report("report.json")).read())
    assert list(report) == [
        "kernel_info", "health_metrics", "specialized_metrics", "summary_stats",
        "component_details",
    ]
    assert report["component_details"]["part"]["total_operations"] == 1
    with caplog.at_level("WARNING"):
        one.log_performance_warning(3600)
        assert caplog.records == []
        one.log_performance_warning(0)
    assert "slow operation: part.step" in caplog.text


def test_kernel_operations_are_in_the_file_of_a_session(tmp_path):
    manager = profiling.create_standard_profiler(output_dir=str(tmp_path))
    one = kernel()
    manager.register_profiler(one)
    manager.start_session("kernel")
    with one.profile_component_operation("part", "step"):
        pass
    manager.end_session()
    assert b"part.step" in (tmp_path / "kernel.spanwise-session").read_bytes()


class Clock:
    """The time, as a test sets it."""

    def __init__(self, monkeypatch):
        self.now = 1_000_000.0
        for module in ("_watching", "performance", "health", "resources", "alerts"):
            monkeypatch.setattr(f"spanwise.profiling.monitors.{module}.time.time", lambda: self.now)


def test_the_performance_of_a_program(monkeypatch):
    clock, one = Clock(monkeypatch), kernel()
    monitor, alerts = PerformanceMonitor(one), []
    monitor.add_alert_callback(alerts.append)
    monitor.add_alert_callback(lambda alert: 1 / 0)
    monitor.thresholds.update(cpu_warning=1e9, cpu_critical=1e9, memory_growth=1e9)
    assert monitor.get_performance_report() == "No performance data available."
    for _ in range(10):
        clock.now += 2
        for _ in range(10):
            one.end_profile(one.start_profile("fine"))
        monitor.look()
    assert alerts == []
    assert monitor.get_current_performance().operation_rate == 5.0
    assert monitor.baseline_metrics["operation_rate"] == 4.5
    clock.now += 2
    for success in (True, True, True, False):
        one.end_profile(one.start_profile("half"), success)
    monitor.look()
    assert {(row.alert_type, row.severity) for row in alerts} == {
        ("error_rate", "critical"), ("performance_drop", "medium"),
    }
    assert monitor.get_current_performance().error_rate == 0.25
    assert [row.alert_type for row in monitor.get_recent_alerts(severity="critical")] == [
        "error_rate",
    ]
    assert len(monitor.get_performance_trend("operation_rate", 5)) == 3
    assert "25.00% of them failed" in monitor.get_performance_report()
    clock.now += 7200
    assert monitor.get_recent_alerts() == []


def test_slow_components_are_reported():
    one = kernel()
    monitor = PerformanceMonitor(one)
    monitor.thresholds.update(response_time_warning=0.0, response_time_critical=3600.0)
    with one.profile_component_operation("slow", "step"):
        pass
    monitor.look()
    (alert,) = monitor.get_recent_alerts(component="slow")
    assert (alert.alert_type, alert.severity) == ("slow_component", "medium")


@pytest.mark.parametrize("errors, expected", [
    (0, HealthStatus.HEALTHY),
    (2, HealthStatus.DEGRADED),
    (6, HealthStatus.UNHEALTHY),
    (21, HealthStatus.CRITICAL),
])
def test_health_follows_errors(errors, expected):
    one = kernel()
    monitor, alerts = HealthMonitor(one), []
    # Not what this machine does beside the test.
    monitor.thresholds.update(cpu_degraded=1e9, cpu_unhealthy=1e9, response_time_degraded=60.0,
                              profiler_overhead_warning=1e9, profiler_overhead_critical=1e9)
    monitor.add_alert_callback(alerts.append)
    assert monitor.get_system_health() is HealthStatus.UNKNOWN
    for number in range(100):
        one.end_operation(one.start_operation("step", "part"), success=number >= errors)
    monitor.look()
    monitor.look()
    assert monitor.get_system_health() is expected
    part = monitor.get_component_health("part")
    assert (part.status, part.error_count) == (expected, errors)
    assert part.success_rate == pytest.approx(1 - errors / 100)
    # Reported when it becomes worse, not each time.
    assert [row.after for row in alerts] == [expected] * (expected is not HealthStatus.HEALTHY)
    summary = monitor.get_health_summary()
    assert list(summary) == [
        "system_health", "component_count", "components_healthy", "components_degraded",
        "components_unhealthy", "components_critical", "recent_check_counts", "last_check_time",
    ]
    assert summary[f"components_{expected.value}"] == 1
    assert f"Health: {expected.value}" in monitor.get_health_report()
    assert set(monitor.get_all_component_health()) == {"part"}


def test_health_follows_the_profiler_and_memory(monkeypatch):
    clock, one = Clock(monkeypatch), kernel()
    monitor = HealthMonitor(one)
    monitor.thresholds.update(cpu_degraded=1e9, cpu_unhealthy=1e9,
                              profiler_overhead_warning=1e9, profiler_overhead_critical=1e9)
    monitor.look()
    assert monitor.get_system_health() is HealthStatus.HEALTHY
    monitor.baseline_memory -= 100
    clock.now += 120
    monitor.look()
    (check,) = monitor.get_recent_checks(status=HealthStatus.DEGRADED)
    assert check.check_name == "memory_growth" and 45 < check.metrics["memory_growth"] < 60
    one.config.enabled = False
    monitor.look()
    assert monitor.get_system_health() is HealthStatus.UNHEALTHY


def test_the_resources_of_the_machine():
    monitor, alerts = ResourceMonitor(), []
    monitor.add_alert_callback(alerts.append)
    assert monitor.get_current_usage() is None and monitor.get_usage_trends() == {}
    monitor.thresholds.update(memory_warning=0.0, memory_critical=1e9, disk_critical=0.0,
                              cpu_warning=1e9, cpu_critical=1e9)
    monitor.look()
    monitor.look()
    usage = monitor.get_current_usage()
    assert 0 < usage.memory_percent <= 100 and 0 <= usage.disk_usage_percent <= 100
    assert usage.thread_count >= threading.active_count() and usage.process_count >= 1
    assert [(row.resource_type, row.severity) for row in alerts[:2]] == [
        ("memory", "warning"), ("disk", "critical"),
    ]
    assert len(monitor.get_recent_alerts(resource_type="disk")) == 2
    stats = monitor.get_usage_statistics()
    assert list(stats["memory_percent"]) == ["current", "average", "min", "max", "std_dev"]
    assert stats["memory_percent"]["current"] == usage.memory_percent
    assert list(monitor.get_usage_trends()) == [
        "cpu_percent", "memory_percent", "disk_percent", "gpu_memory_percent", "gpu_utilization",
    ]
    assert "Disk: " in monitor.get_resource_report()


@pytest.mark.parametrize("make", [
    lambda one: PerformanceMonitor(one, monitoring_interval=0.01),
    lambda one: HealthMonitor(one, check_interval=0.01),
    lambda one: ResourceMonitor(monitoring_interval=0.01),
])
def test_a_monitor_checks_again_and_again_until_it_is_stopped(make):
    checks = threading.Semaphore(0)
    monitor = make(kernel())
    check = monitor.look
    monitor.look = lambda: (check(), checks.release())
    monitor.start_monitoring()
    monitor.start_monitoring()
    for _ in range(3):
        assert checks.acquire(timeout=60)
    assert monitor.is_monitoring
    monitor.stop_monitoring()
    assert not monitor.is_monitoring and not monitor.monitor_thread.is_alive()


def test_a_monitor_that_nobody_keeps_ends():
    monitor = ResourceMonitor(monitoring_interval=600)
    monitor.start_monitoring()
    thread = monitor.monitor_thread
    while monitor.get_current_usage() is None:
        time.sleep(0.001)
    del monitor
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_a_check_that_fails_is_not_the_last(caplog):
    monitor = ResourceMonitor(monitoring_interval=0.001)
    checks = threading.Semaphore(0)

    def check():
        checks.release()
        raise OSError("no")

    monitor.look = check
    with caplog.at_level("ERROR"):
        monitor.start_monitoring()
        assert checks.acquire(timeout=60) and checks.acquire(timeout=60)
        monitor.stop_monitoring()
    assert "could not look: OSError('no')" in caplog.text


@pytest.mark.parametrize("severity, at_least, is_reported", [
    (severity, at_least, number >= limit)
    for limit, at_least in enumerate(AlertSeverity)
    for number, severity in enumerate(AlertSeverity)
])
def test_a_rule_is_for_alerts_that_are_as_bad_or_worse(severity, at_least, is_reported):
    system, seen = AlertSystem(), []
    system.alert_rules.clear()
    system.add_alert_rule(AlertRule("rule", ["kind"], at_least, [AlertChannel.CALLBACK]))
    system.add_callback(AlertChannel.CALLBACK, seen.append)
    system.send_alert("kind", severity, "title", "message", "test")
    system.send_alert("other", severity, "title", "message", "test")
    assert [row.alert_type for row in seen] == ["kind"] * is_reported


def test_alerts_cool_down_and_escalate(monkeypatch):
    clock, system, seen = Clock(monkeypatch), AlertSystem(), []
    system.alert_rules.clear()
    system.add_alert_rule(AlertRule(
        "rule", [], LOW, [AlertChannel.CALLBACK], cooldown_seconds=10, escalation_threshold=3,
        escalation_window=100,
    ))
    system.add_callback(AlertChannel.CALLBACK, seen.append)
    for seconds, component in ((0, "a"), (5, "a"), (1, "b"), (5, "a"), (200, "a")):
        clock.now += seconds
        system.send_alert("kind", MEDIUM, "title", "message", "test", component)
    rows = [(row.component, row.severity, row.escalated) for row in seen]
    assert rows == [
        ("a", MEDIUM, False), ("b", MEDIUM, False), ("a", CRITICAL, True), ("a", MEDIUM, False),
    ]
    assert system.get_alert_statistics() == {
        "total_alerts": 5, "active_alerts": 5,
        "severity_breakdown": {"low": 0, "medium": 4, "high": 0, "critical": 1},
        "type_breakdown": {"kind": 5}, "source_breakdown": {"test": 5}, "escalated_count": 1,
    }


def test_alerts_are_acknowledged_and_resolved():
    system = AlertSystem()
    first = system.send_alert("one", LOW, "First", "message", "test", "part", {"x": 1})
    second = system.send_alert("two", HIGH, "Second", "message", "test")
    assert first != second
    system.acknowledge_alert(second)
    system.resolve_alert(first)
    system.resolve_alert("nothing")
    (left,) = system.get_active_alerts()
    assert left.alert_id == second and left.acknowledged and not left.resolved
    assert [row.alert_type for row in system.get_alert_history()] == ["two", "one"]
    assert system.get_alert_history()[1].resolved
    assert "Second: message (acknowledged)" in system.get_alert_report()
    system.clear_resolved_alerts()
    assert [row.alert_type for row in system.get_alert_history()] == ["two"]


def test_nothing_is_printed_and_logs_are_written(capsys, caplog):
    system, monitor = AlertSystem(), ResourceMonitor()
    system.watch(monitor)
    monitor.thresholds.update(disk_critical=-1.0)
    with caplog.at_level("WARNING", logger="spanwise.profiling"):
        monitor.look()
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "")
    alerts = [row for row in system.get_active_alerts() if row.alert_type == "disk"]
    assert [(row.source, row.severity) for row in alerts] == [("ResourceMonitor", CRITICAL)]
    assert any("disk: Disk usage" in row.getMessage() for row in caplog.records)


def test_loggers_that_take_fields_get_them():
    class Logger:
        def __init__(self):
            self.rows = []

        def critical(self, message, **fields):
            self.rows.append((message, fields["severity"], fields["component"]))

    class Plain:
        def __init__(self):
            self.rows = []

        def critical(self, message):
            self.rows.append(message)

    for logger, expected in (
        (Logger(), ("title: message", "critical", "part")), (Plain(), "title: message"),
    ):
        AlertSystem(logger).send_alert("kind", CRITICAL, "title", "message", "test", "part")
        assert logger.rows == [expected]
