"""Fleets: the answers of the command line, wherever the files are read, to the byte."""

import doctest
import json
import pickle
import shutil
import subprocess
import sys

import pytest
from replicas import FOUR, replicate

import spanwise as sw
from spanwise import _native
from spanwise._fleet import fleet as _fleet

SMALL = FOUR[0].parents[1] / "llama_small.json.gz"
EAGER = FOUR[0].parents[1] / "llama_small_eager.json.gz"

#: Every answer that must not depend on where it was worked out.
ANSWERS = (
    "files calls activities breakdown findings findings_by_kind ranks straggler stragglers waits "
    "collectives collective_instances"
).split()


def bytes_of(fleet):
    """All answers, as bytes."""
    return {name: getattr(fleet, name)().to_ipc() for name in ANSWERS}


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """The folder of a run of 24 ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    replicate(folder, 24)
    return folder


def command_line(*arguments):
    command = [sys.executable, "-m", "spanwise", "report", "--no-index", "--quiet", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_answers_are_those_of_the_command_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    fleet = sw.fleet(FOUR)
    methods = {"rank-waits": "waits", "collective-instances": "collective_instances"}
    for key in ("straggler", "ranks", "rank-waits", "collectives", "collective-instances"):
        options = ("--section", key, "--top", 0, "--format", "json")
        expected = json.loads(command_line(*options, *FOUR))
        got = getattr(fleet, methods.get(key, key))().to_dicts()
        assert got and got == expected, key
    text = fleet.report(top=5)
    assert text == command_line("--top", 5, *FOUR)
    expected = command_line("--section", "collective-instances", *FOUR)
    assert fleet.report("collective-instances") == expected


def test_every_rank_answers_as_it_does_alone():
    fleet = sw.fleet(FOUR, sections=["gpu"])
    for number, path in enumerate(FOUR):
        trace = sw.open(path, index=False)
        for name in ("breakdown", "findings", "gpu", "idle"):
            got = [row for row in fleet.section(name) if row["file_number"] == number]
            expected = trace.section(name).to_dicts()
            assert len(got) == len(expected) and got, name
            for ours, theirs in zip(got, expected):
                assert ours == {**theirs, "file_number": number, "rank": number}


def test_workers_and_the_shape_of_the_tree_change_nothing(many):
    expected = bytes_of(sw.fleet(many, workers=1))
    assert bytes_of(sw.fleet(many, workers=3, fan_in=2)) == expected
    assert bytes_of(sw.fleet(many, fan_in=100)) == expected


def test_files_are_counted_as_people_do(many):
    files = sw.fleet(f"{many}/run_rank1*.json.gz").files()
    assert files["rank"] == [1, *range(10, 20)]
    with pytest.raises(FileNotFoundError, match="no file fits"):
        sw.fleet(f"{many}/nothing*.json")
    with pytest.raises(ValueError, match="no path"):
        sw.fleet([])
    with pytest.raises(sw.TraceError, match="no section nothing"):
        sw.fleet(FOUR, sections=["nothing"])


def test_a_file_that_cannot_be_read_is_a_row(tmp_path):
    page = tmp_path / "rank9.json"
    page.write_text("<html>")
    missing = tmp_path / "rank8.json"
    fleet = sw.fleet([FOUR[0], page, missing, FOUR[1]])
    assert [file for file, _ in fleet.unread] == [str(page), str(missing)]
    assert "byte 0: not a trace" in fleet.unread[0][1]
    assert "No such file" in fleet.unread[1][1]
    assert fleet.files()["rank"] == [0, None, None, 1]
    # What is left is what there would be without these files.
    both = sw.fleet(FOUR[:2])
    for name in ("ranks", "waits", "collectives", "collective_instances"):
        assert getattr(fleet, name)().to_dicts() == getattr(both, name)().to_dicts(), name
    assert "Could not be read" in fleet.report() and "2 unread" in repr(fleet)
    none = sw.fleet([page])
    assert repr(none) == "<Fleet: 0 ranks, 1 unread>" and len(none.findings()) == 0
    with pytest.raises(sw.TraceError, match="no file could be read.*not a trace"):
        none.ranks()


def test_progress_is_reported(many):
    reported = []
    sw.fleet(many, progress=lambda done, total: reported.append((done, total)))
    assert reported[-1] == (24, 24) and [done for done, _ in reported] == list(range(1, 25))


def test_object_stores_are_read_through_fsspec(many, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for rank in range(12):
        store.put_file(f"{many}/run_rank{rank}.json.gz", f"/fleet/run_rank{rank}.json.gz")
    store.pipe_file("/fleet/run_rank12.json.gz", b"<html>")
    fleet = sw.fleet("memory://fleet/run_rank*.json.gz")
    assert fleet.files()["file"][2] == "memory:///fleet/run_rank2.json.gz"
    assert len(fleet.unread) == 1
    assert fleet.unread[0][1].startswith("memory:///fleet/run_rank12.json.gz: byte 0: not a trace")
    near = sw.fleet([f"file://{many}/run_rank{rank}.json.gz" for rank in range(12)])
    plain = sw.fleet([many / f"run_rank{rank}.json.gz" for rank in range(12)])
    names = "calls activities breakdown waits collectives collective_instances"
    for name in names.split():
        expected = getattr(plain, name)().to_ipc()
        assert getattr(fleet, name)().to_ipc() == expected, name
        assert getattr(near, name)().to_ipc() == expected, name
    missing = sw.fleet("memory://fleet/run_rank77.json.gz")
    assert "No such file" in missing.unread[0][1]


def test_two_runs_are_compared_rank_by_rank(many):
    base = sw.fleet(FOUR)
    same = base.compare(base)
    assert same.verdicts == {"same": 4} and len(same.changes()) == 0
    assert set(same.ranks()["change_ns"]) == {0}
    other = sw.fleet(many / "run_rank23.json.gz")
    alone = base.compare(other)
    assert alone.ranks()["error"] == ["only in the base"] * 4 + ["only in the other run"]
    assert alone.ranks()["rank"] == [0, 1, 2, 3, 23]


def test_what_changed_is_what_compare_says(tmp_path):
    # Files without a rank: paired by their place.
    pair = [SMALL, EAGER]
    copies = [shutil.copy(path, tmp_path / f"{n}.json.gz") for n, path in enumerate(pair)]
    sides = [sw.fleet(path) for path in copies]
    change = sides[0].compare(sides[1])
    expected = sw.compare(*[sw.open(path, index=False) for path in pair])
    rows = [dict(row) for row in change.changes()]
    for row in rows:
        assert (row.pop("file_number"), row.pop("rank")) == (0, sides[0].files()["rank"][0])
    assert rows and rows == expected["changes"].to_dicts()
    assert change.ranks()["verdict"] == [expected.verdict]
    summary = change.summary()
    assert len(summary) == len(rows) and set(summary["ranks"]) == {1}
    assert summary["change_ns"][0] == max((row["change_ns"] for row in rows), key=abs)


def test_tables_travel(many):
    fleet = sw.fleet(FOUR)
    for table in (fleet.ranks(), fleet.calls(), sw.open(FOUR[0], index=False).spans):
        again = pickle.loads(pickle.dumps(table))
        assert (again.title, again.types) == (table.title, table.types)
        assert again.to_dicts() == table.to_dicts() == sw.Table.from_ipc(table.to_ipc()).to_dicts()
    with pytest.raises(sw.TraceError, match="not a table"):
        sw.Table.from_ipc(b"nothing")


def check_concat(columns, expected_type, expected):
    tables = [_native.make_table([("x", kind, values)]) for kind, values in columns]
    table = sw.Table(_native.concat_tables(tables))
    assert (table.types["x"], table["x"]) == (expected_type, expected)


def test_columns_of_other_types_become_the_wider_one():
    check_concat([("int64", [1]), ("int64", [None, 2])], "int64", [1, None, 2])
    check_concat([("int64", [1]), ("double", [0.5])], "double", [1.0, 0.5])
    # What is unknown everywhere has no say.
    check_concat([("double", [None]), ("int64", [1])], "int64", [None, 1])
    check_concat([("double", [None]), ("int64", [None])], "double", [None, None])
    check_concat([("int64", [1]), ("string", ["a"]), ("bool", [True])], "string", ["1", "a", "true"])
    check_concat([("string", [])], "string", [])
    one = _native.make_table([("x", "int64", [1])])
    other = _native.make_table([("y", "string", ["a"]), ("x", "int64", [2])])
    both = sw.Table(_native.concat_tables([one, other]))
    assert both.to_dicts() == [{"x": 1, "y": None}, {"x": 2, "y": "a"}]


def test_names_stand_once_in_what_is_put_together(many):
    pa = pytest.importorskip("pyarrow")
    names = pa.table(sw.fleet(many).activities())["name"].chunk(0)
    texts = names.dictionary.to_pylist()
    assert len(texts) == len(set(texts)) == len(set(names.to_pylist()))


def test_examples_run(tmp_path):
    for path in FOUR:
        shutil.copy(path, tmp_path)
    results = doctest.testmod(_fleet, optionflags=doctest.ELLIPSIS)
    assert results.attempted and not results.failed
