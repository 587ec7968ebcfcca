"""The dataset of a fleet: its contract, and that other engines answer on it as we do."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from replicas import FOUR, replicate

import spanwise as sw

pq = pytest.importorskip("pyarrow.parquet")
from spanwise._fleet import parquet as contract  # noqa: E402

RECORDED = Path(__file__).resolve().parents[2] / "testdata" / "perf" / "recorded.perf"
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "python" / "fleet.md"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A fleet of six ranks and one file that is no trace, and its dataset with every table."""
    folder = tmp_path_factory.mktemp("dataset")
    paths = replicate(folder, 6)
    (folder / "page.json").write_text("<html>")
    fleet = sw.fleet([*paths, folder / "page.json"])
    written = fleet.to_parquet(folder / "parquet", tables=contract.COLUMNS)
    return fleet, folder / "parquet", written


def test_files_say_what_they_are(dataset):
    fleet, folder, written = dataset
    found = sorted(str(path) for path in folder.rglob("*.parquet"))
    assert sorted(written) == found
    # No rank was recorded with samples or switches, and none has files of them.
    tables = set(contract.COLUMNS) - set(contract._RESOLVED)
    assert {Path(path).relative_to(folder).parts[0] for path in found} == tables
    for path in found:
        schema = pq.read_schema(path)
        name, rank, _ = Path(path).relative_to(folder).parts
        assert schema.metadata[contract.VERSION_KEY.encode()] == contract.VERSION.encode()
        assert schema.metadata[b"spanwise.fleet.table"] == name.encode()
        types = {field.name: str(field.type) for field in schema}
        assert types == contract.COLUMNS[name], name
        assert re.fullmatch(r"rank=(\d+|__HIVE_DEFAULT_PARTITION__)", rank)
    manifest = json.loads((folder / contract.MANIFEST).read_text())
    assert manifest[contract.VERSION_KEY] == contract.VERSION
    assert manifest["files"] == 7 and len(manifest["unread"]) == 1
    # A file that could not be read is in `ranks`, under the unknown rank.
    (odd,) = (folder / "ranks").glob("rank=__HIVE*/*.parquet")
    assert pq.read_table(odd, partitioning=None)["error"].to_pylist()[0] is not None


def test_the_contract_is_the_documented_one():
    text = DOCUMENT.read_text()
    assert f"`{contract.VERSION_KEY}`" in text and f"version is {contract.VERSION}" in text
    documented = {}
    for name, rows in re.findall(r"### `(\w+)`\n(.*?)(?=\n##|\Z)", text, re.S):
        columns = re.findall(r"^\| `(\w+)` \| (\w+) \|", rows, re.M)
        documented[name] = dict(columns)
    assert documented == contract.COLUMNS


#: Answers of ours, each as {key: whole number}, and the same questions in SQL.
def answers(fleet):
    calls = Counter()
    for row in fleet.calls():
        calls[row["op"]] += row["end_ns"] - row["start_ns"]
    lines = Counter()
    for path in fleet.files()["file"][:6]:
        for row in sw.open(path, index=False).gpu_lines():
            lines[row["line"] or ""] += row["total_ns"]
    ranks = {row["rank"]: row["compute_ns"] for row in fleet.ranks()}
    spans = {row["rank"]: row["spans"] for row in fleet.files() if row["error"] is None}
    return {"calls": dict(calls), "lines": dict(lines), "ranks": ranks, "spans": spans}


SQL = {
    "calls": "select op, sum(end_ns - start_ns) from calls group by op",
    "lines": "select coalesce(python_line, ''), sum(dur_ns) from kernels group by 1",
    "ranks": "select rank, sum(compute_ns) from breakdown where step = 'all' group by rank",
    "spans": "select rank, count(*) from spans group by rank",
}
TABLES = ("calls", "kernels", "breakdown", "spans")


def test_duckdb_answers_the_same(dataset):
    duckdb = pytest.importorskip("duckdb")
    fleet, folder, _ = dataset
    connection = duckdb.connect()
    for table in TABLES:
        files = f"read_parquet('{folder}/{table}/*/*.parquet', hive_partitioning = true)"
        connection.sql(f"create view {table} as select * from {files}")
    got = {name: dict(connection.sql(sql).fetchall()) for name, sql in SQL.items()}
    assert got == answers(fleet)


def test_samples_and_states_can_be_read_alone(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    recorded = shutil.copy(RECORDED, tmp_path / "rank6.perf")
    fleet = sw.fleet([*replicate(tmp_path, 1), recorded])
    folder = tmp_path / "parquet"
    written = fleet.to_parquet(folder, tables=["samples", "thread_states"])
    # Only the rank that was recorded has files.
    assert len(written) == 2 and {Path(path).parts[-2] for path in written} == {"rank=6"}
    for path in written:
        schema, name = pq.read_schema(path), Path(path).parts[-3]
        assert {field.name: str(field.type) for field in schema} == contract.COLUMNS[name]
    read = f"read_parquet('{folder}/{{}}/*/*.parquet', hive_partitioning = true)"
    trace = sw.open(RECORDED, index=False)
    found = duckdb.sql(
        f"select stack, sum(cpu_ns) from {read.format('samples')} "
        "where event = 'cpu-clock' group by stack order by 2 desc, 1"
    ).fetchall()
    assert sum(ns for _, ns in found) == sum(ns for ns in trace.samples["cpu_ns"] if ns)
    assert {stack.split(";")[0] for stack, _ in found} == {"main", "copy"}
    waits = duckdb.sql(
        f"select rank, thread_name, waker, dur_ns, stack, waker_stack from "
        f"{read.format('thread_states')} where wait_reason = 'mutex'"
    ).fetchall()
    stack = "main;run;pthread_mutex_lock;__lll_lock_wait;futex_wait;__schedule"
    waker = "finish;pthread_mutex_unlock;try_to_wake_up"
    assert waits == [(6, "app", "io", 3_000_000, stack, waker)]


def test_polars_answers_the_same(dataset):
    polars = pytest.importorskip("polars")
    fleet, folder, _ = dataset
    frames = {
        table: polars.scan_parquet(f"{folder}/{table}/**/*.parquet", hive_partitioning=True)
        for table in TABLES
    }
    col = polars.col
    asked = {
        "calls": frames["calls"].group_by("op").agg((col("end_ns") - col("start_ns")).sum()),
        "lines": frames["kernels"]
        .group_by(col("python_line").fill_null(""))
        .agg(col("dur_ns").sum()),
        "ranks": frames["breakdown"]
        .filter(col("step") == "all")
        .group_by("rank")
        .agg(col("compute_ns").sum()),
        "spans": frames["spans"].group_by("rank").agg(polars.len()),
    }
    got = {name: dict(frame.collect().rows()) for name, frame in asked.items()}
    assert got == answers(fleet)


def has_java():
    java = shutil.which("java")
    if java is None:
        return False
    return subprocess.run([java, "-version"], capture_output=True).returncode == 0


def test_spark_answers_the_same(dataset, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="no PySpark: Spark is not tested")
    if not has_java():
        pytest.skip("no Java: Spark is not tested")
    fleet, folder, _ = dataset
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 1g pyspark-shell")
    builder = sql.SparkSession.builder.master("local[2]")
    for key in ("spark.ui.enabled", "spark.eventLog.enabled"):
        builder = builder.config(key, "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        for table in TABLES:
            session.read.parquet(f"{folder}/{table}").createOrReplaceTempView(table)
        got = {
            name: {row[0]: int(row[1]) for row in session.sql(query).collect()}
            for name, query in SQL.items()
        }
        assert got == answers(fleet)
    finally:
        session.stop()


def test_wrong_tables_are_refused(tmp_path):
    fleet = sw.fleet(FOUR[:1])
    with pytest.raises(ValueError, match="no table nothing; there are ranks"):
        fleet.to_parquet(tmp_path / "out", tables=["nothing"])
    assert not (tmp_path / "out").exists()


def test_a_dataset_can_lie_in_an_object_store(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    fleet = sw.fleet(FOUR[:1])
    written = fleet.to_parquet("memory://dataset", tables=["calls", "kernels"])
    store = fsspec.filesystem("memory")
    assert len(written) == 2
    for path in written:
        with store.open(path) as file:
            assert pq.read_table(file).num_rows > 0
    fleet.to_parquet(tmp_path / "near", tables=["calls", "kernels"])
    near = tmp_path / "near" / "calls" / "rank=0" / "part-0.parquet"
    with store.open(written[0]) as file:
        assert file.read() == near.read_bytes()
    assert not [name for name in os.listdir(near.parent) if "making" in name]
