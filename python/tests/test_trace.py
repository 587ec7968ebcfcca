"""Traces: what the command line says, Python says too, and hands it over without a copy."""

import doctest
import importlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import spanwise as sw
from spanwise import _native

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
SMALL = TESTDATA / "kineto" / "llama_small.json.gz"
#: Samples, page faults and thread states.
RECORDED = TESTDATA / "perf" / "recorded.perf"


@pytest.fixture
def small(tmp_path):
    """A copy, so that no index appears beside the original."""
    return Path(shutil.copy(SMALL, tmp_path))


def command_line(*arguments):
    command = [sys.executable, "-m", "spanwise", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_section_is_a_method_with_the_rows_of_the_command_line(small):
    trace = sw.open(small)
    for key, name, _ in _native.section_names():
        method = getattr(trace, name)
        expected = command_line("report", "--section", key, "--top", 0, "--format", "json", small)
        expected = json.loads(expected)
        if isinstance(expected, dict):
            expected = [expected] if expected else []
        check_rows(method().to_dicts(), expected, key)


def test_top_limits_rows(small):
    trace = sw.open(small)
    assert len(trace.hot_functions(top=3)) == 3
    assert len(trace.hot_functions()) > 3


def test_the_report_is_the_one_of_the_command_line(small, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    trace = sw.open(small)
    assert trace.report("kernels", "threads", top=4) == command_line(
        "report", "--section", "kernels,threads", "--top", 4, "--quiet", small
    )
    assert trace.report() == command_line("report", small)
    page = trace.report(format="html")
    assert page.startswith("<!DOCTYPE html>") and "Findings" in page
    with pytest.raises(sw.TraceError, match="no format pdf"):
        trace.report(format="pdf")


def test_tables_fit_together(small):
    trace = sw.open(small)
    spans, tracks = trace.spans, trace.tracks.to_dicts()
    assert len(spans) == trace.tracks["spans_to"][-1]
    for number, track in enumerate(tracks):
        rows = spans.slice(track["spans_from"], track["spans_to"] - track["spans_from"])
        assert set(rows["track"]) <= {number}
    work = trace.kernels.to_dicts()
    assert work
    names, starts = spans["name"], spans["start_ns"]
    for row in work:
        assert names[row["span"]] == row["name"] and starts[row["span"]] == row["start_ns"]
    by_line = {}
    for row in work:
        by_line[row["python_line"]] = by_line.get(row["python_line"], 0) + row["dur_ns"]
    for row in trace.gpu_lines().to_dicts():
        assert by_line[row["line"]] == row["total_ns"]


def test_several_traces_become_one(tmp_path):
    one = sw.open(shutil.copy(SMALL, tmp_path / "rank0.json.gz"))
    both = [shutil.copy(SMALL, tmp_path / f"rank{rank}.json.gz") for rank in (0, 1)]
    merged = sw.open(both)
    assert len(merged.spans) == 2 * len(one.spans)
    with pytest.raises(ValueError, match="no path"):
        sw.open([])


def test_an_index_is_written_unless_refused(small):
    folder = small.with_name(small.name + ".spanwise")
    whole = sw.open(small, index=False, threads=1)
    assert not folder.exists()
    sw.open(small)
    assert (folder / "manifest.json").is_file()
    assert sw.open(small).spans.to_dicts() == whole.spans.to_dicts()


def test_errors_say_where(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing.json"):
        sw.open(tmp_path / "missing.json")
    page = tmp_path / "page.json"
    page.write_text("<html>")
    with pytest.raises(sw.TraceError, match=r"page.json: byte 0: not a trace.*<html>") as caught:
        sw.open(page)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(IsADirectoryError):
        sw.open(tmp_path)


def test_progress_is_reported_and_may_stop_the_opening(tmp_path):
    large = tmp_path / "large.json"
    event = '{"ph":"X","pid":1,"tid":1,"ts":%d,"dur":1,"name":"f"}'
    large.write_text("[" + ",".join(event % at for at in range(1_500_000)) + "]")

    def interrupt(done, total):
        assert 0 <= done <= total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _native.open_trace([str(large)], False, 1, interrupt)


def test_ctrl_c_ends_an_opening(tmp_path):
    large = tmp_path / "large.json"
    event = b'{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"f"},'
    with large.open("wb") as out:
        out.write(b"[")
        for _ in range(80):
            out.write(event * 50_000)
        out.write(event[:-1] + b"]")
    code = (
        "import sys, spanwise as sw\n"
        "try:\n"
        f"    sw.open({str(large)!r}, index=False, threads=1, progress=True)\n"
        "    print('read')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        # The first word about progress: it reads.
        assert child.stderr.read(len("\rreading")) == b"\rreading"
        child.send_signal(signal.SIGINT)
        said, _ = child.communicate(timeout=120)
    assert said == b"interrupted\n"


def test_stacks_of_spans_add_up_to_the_time_of_threads(small):
    trace = sw.open(small)
    stacks = trace.span_stacks.to_dicts()
    functions = trace.hot_functions()
    assert sum(row["self_ns"] for row in stacks) == sum(functions["self_ns"])
    assert sum(row["count"] for row in stacks) >= sum(functions["count"])
    # Following parents leads out, one by one; each stack stands once.
    for row in stacks:
        parent = row["parent"]
        assert row["depth"] == (1 if parent is None else stacks[parent]["depth"] + 1)
    assert len({(row["parent"], row["name"]) for row in stacks}) == len(stacks)
    # An annotated trace has neither samples nor states.
    assert len(trace.samples) == len(trace.thread_states) == len(trace.sample_events) == 0


def test_samples_and_states_are_those_of_sql():
    trace = sw.open(RECORDED, index=False)
    samples, stacks, frames = trace.samples, trace.stacks.to_dicts(), trace.frames.to_dicts()
    assert trace.sample_events["name"] == ["cpu-clock", "page-faults"]
    assert trace.sample_events["interval_ns"] == [1_000_000, None]
    assert trace.sample_events["samples"] == [7, 3]
    for row in samples.to_dicts():
        stack = stacks[row["stack"]]
        assert row["function"] == stack["function"] == frames[stack["frame"]]["function"]
        assert (row["cpu_ns"] is None) == (row["event"] == 1)
    answered = query("SELECT cpu_ns, weight, call_stack(stack) AS stack FROM samples ORDER BY id")
    assert [row["cpu_ns"] for row in answered] == samples["cpu_ns"]
    assert [row["weight"] for row in answered] == samples["weight"]

    def names(stack):
        return [] if stack is None else [*names(stacks[stack]["parent"]), stacks[stack]["function"]]

    assert [row["stack"] for row in answered] == [";".join(names(s)) for s in samples["stack"]]
    # Nothing refers to the empty stack, and what is unknown is no number.
    assert stacks[0]["frame"] is None and 0 not in trace.stacks["parent"]
    assert set(trace.frames["line"]) == {None} and set(trace.frames["file"]) == {None}
    answered = query("SELECT * FROM thread_states ORDER BY id")
    columns = ("dur", "track", "cpu", "state", "wait_reason", "idle", "waker", "lock")
    states = trace.thread_states.to_dicts()
    assert len(states) == len(answered) == 9
    for ours, theirs in zip(states, answered):
        ours["dur"] = ours["dur_ns"]
        assert [ours[name] for name in columns] == [theirs[name] for name in columns]
        assert names(ours["waker_stack"]) == [] or names(ours["waker_stack"])[0] == "finish"


def query(sql):
    """Rows of the recording, as the command line answers."""
    return json.loads(command_line("query", "--quiet", "--format", "json", RECORDED, sql))


def test_columns_of_samples_are_the_memory_of_the_trace(tmp_path):
    pa = pytest.importorskip("pyarrow")
    trace = sw.open(shutil.copy(RECORDED, tmp_path))
    for table, column in (("samples", "weight"), ("samples", "stack"), ("thread_states", "dur_ns")):
        tables = [pa.table(getattr(sw.open(trace.file), table)) for _ in range(2)]
        # An index is mapped anew for each, and lies where the other does not.
        assert tables[0][column] == tables[1][column]
        both = [pa.table(getattr(trace, table))[column].chunk(0).buffers()[1] for _ in range(2)]
        assert both[0].address == both[1].address


def test_what_was_gathered_is_made_once(small):
    pa = pytest.importorskip("pyarrow")
    for path, names in ((small, ("kernels", "span_stacks")), (RECORDED, ("samples", "stacks"))):
        trace = sw.open(path, index=False)
        for name in names:
            tables = [pa.table(getattr(trace, name)) for _ in range(2)]
            for column in tables[0].column_names:
                here, there = (t[column].chunk(0).buffers()[1].address for t in tables)
                assert here == there, (name, column)


def check_rows(got, expected, what):
    """Rows of ours and rows of JSON, where shares are rounded to four decimals."""
    expected = [expected] if isinstance(expected, dict) else expected
    assert len(got) == len(expected), what
    for ours, theirs in zip(got, expected):
        assert list(ours) == list(theirs), what
        for column, value in theirs.items():
            value = pytest.approx(value, abs=5e-5) if isinstance(value, float) else value
            assert ours[column] == value, (what, column)


def test_info_fusion_and_calls_are_those_of_the_command_line(small, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(small.parent)
    trace = sw.open(small.name)
    assert trace.info().report() == command_line("info", "--quiet", small.name)
    eager = "llama_small_eager.json.gz"
    shutil.copy(SMALL.with_name(eager), small.parent)
    json_of_all = ("--quiet", "--top", 0, "--format", "json")
    for option in ([], ["--layers"]):
        compare = ("compare", "--kernels", *json_of_all, *option)
        expected = json.loads(command_line(*compare, small.name, eager))
        fusion = sw.fusion(small.name, eager, layers=bool(option))
        assert set(fusion.tables) <= set(expected)
        for table in fusion.tables:
            check_rows(fusion[table].to_dicts(), expected[table], table)
    function = trace.calls(top=1)["name"][0]
    latency = trace.latency(function, slowest=1_000_000)
    expected = command_line("report", *json_of_all, "--function", function, small.name)
    for table in latency.tables:
        check_rows(latency[table].to_dicts(), json.loads(expected)[table], table)
    with pytest.raises(sw.TraceError, match="no call of nothing"):
        trace.latency("nothing")


def test_values_of_strangers_are_escaped(tmp_path):
    path = tmp_path / "odd.json"
    name = '<script>alert("1")</script>\x1b[31m'
    path.write_text(json.dumps([{"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "name": name}]))
    trace = sw.open(path)
    assert trace.spans["name"] == [name]
    for table in (trace.spans, trace.hot_functions()):
        assert "<script>" not in table._repr_html_() and "&lt;script&gt;" in table._repr_html_()
        assert "\x1b" not in repr(table) and "\x1b" not in table._repr_html_()
    odd = path.rename(tmp_path / "<b>.json")
    assert "<b>" not in sw.open(odd)._repr_html_()


def test_a_table_without_libraries(small):
    table = sw.open(small).spans
    assert table.columns == list(table.types)
    assert table.types["start_ns"] == "int64" and table.types["name"] == "string"
    first = table.head(2)
    assert len(first) == 2 and first.to_dicts()[1]["start_ns"] == table["start_ns"][1]
    with pytest.raises(KeyError):
        table["nothing"]
    names = [type(capsule).__name__ for capsule in table.__arrow_c_array__()]
    assert names == ["PyCapsule"] * 2
    assert '"arrow_array_stream"' in repr(table.__arrow_c_stream__())
    assert '"arrow_schema"' in repr(table.__arrow_c_schema__())


def test_pyarrow_takes_tables_without_a_copy(small):
    pa = pytest.importorskip("pyarrow")
    trace = sw.open(small)
    before = pa.total_allocated_bytes()
    table, again = pa.table(trace.spans), pa.table(trace.spans)
    assert pa.total_allocated_bytes() == before
    assert table.num_rows == len(trace.spans)
    table.validate(full=True)
    for name in table.column_names:
        column, same = (side[name].chunk(0) for side in (table, again))
        here, there = (side.buffers()[1].address for side in (column, same))
        assert here == there, name
    assert pa.types.is_dictionary(table.schema.field("name").type)
    assert table["name"].to_pylist() == trace.spans["name"]
    # The memory outlives the trace.
    names = table["name"].to_pylist()[:10]
    del trace
    assert table["name"].to_pylist()[:10] == names
    assert pa.table(sw.open(small).kernels).num_rows > 0


def test_pandas_polars_and_duckdb_take_tables(small):
    trace = sw.open(small)
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = trace.spans.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    total = int(frame["dur_ns"].sum())
    assert list(frame["name"].astype(str)) == trace.spans["name"]
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(trace.spans.codes())["dur_ns"].sum() == total
    assert trace.spans.to_polars()["name"].cast(polars.String).to_list() == trace.spans["name"]
    duckdb = pytest.importorskip("duckdb")
    spans = trace.spans.to_arrow()  # noqa: F841: DuckDB finds it by its name
    assert duckdb.sql("select sum(dur_ns) from spans").fetchall() == [(total,)]


def test_examples_of_the_documentation_run(small):
    shutil.copy(RECORDED, small.parent)
    for name in ("spanwise", "spanwise._traces.answer", "spanwise._traces.table", "spanwise._traces.trace"):
        module = importlib.import_module(name)
        results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
        assert results.attempted and not results.failed, name


def test_profiles_are_traces_with_samples_alone(tmp_path):
    profile = tmp_path / "stacks.folded"
    profile.write_text("main;f 3\nmain;g 1\n")
    trace = sw.open(profile)
    assert len(trace.spans) == 0 and trace.sample_events["name"] == ["samples"]
    assert sorted(zip(trace.samples["function"], trace.samples["weight"])) == [("f", 3), ("g", 1)]
    # Neither is known, and neither is 0.
    assert trace.samples["time_ns"] == trace.samples["cpu_ns"] == [None, None]
    assert trace.stacks["self_cpu_ns"] == [None] * 4
