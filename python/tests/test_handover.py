"""Polars gets names without a copy too, where its release can take them so."""

import subprocess
import sys
from pathlib import Path

import pytest

KINETO = Path(__file__).resolve().parents[2] / "testdata" / "kineto"
SMALL, EAGER = KINETO / "llama_small.json.gz", KINETO / "llama_small_eager.json.gz"

#: In a program of its own: texts that others have named before have other numbers.
PROGRAM = """
import sys
import polars
import pyarrow
import spanwise as sw
from spanwise._traces import polars as _polars

if not _polars._can_share(polars):
    spans = sw.open(sys.argv[1], index=False).spans
    for hand in (lambda: spans.to_polars(share_names=True), spans.to_polars_lazy):
        try:
            hand()
        except ImportError as reason:
            assert "cannot share names" in str(reason)
            message = reason
        else:
            raise SystemExit("names were shared by a release that cannot")
    print("skipped:", message)
    raise SystemExit

def where(column):
    return column.to_physical().to_arrow().buffers()[1].address

def check(table, is_shared):
    frame = table.to_polars(share_names=True)
    check_frame(frame, table, is_shared)
    lazy = table.to_polars_lazy()
    assert lazy.collect_schema() == frame.schema
    check_frame(lazy.collect(engine="in-memory"), table, is_shared)
    names, durations = table["name"], table["dur_ns"]
    for engine in ("in-memory", "streaming"):
        few = lazy.filter(polars.col("dur_ns") > 1000).slice(3, 50).select("name")
        expected = [name for name, dur in zip(names, durations) if dur > 1000][3:53]
        assert few.collect(engine=engine)["name"].cast(polars.String).to_list() == expected
        asked = lazy.filter(polars.col("name") == names[5]).select(polars.len())
        assert asked.collect(engine=engine).item() == names.count(names[5])
    # A query that asks for no name reads none.
    assert "cat.to" in lazy.select("name").explain()
    assert "cat.to" not in lazy.select("dur_ns").explain()
    return frame

def check_frame(frame, table, is_shared):
    assert frame.columns == table.columns
    numbers = pyarrow.table(table.codes())
    for name in frame.columns:
        if is_shared or table.texts(name) is None:
            assert where(frame[name]) == numbers[name].chunk(0).buffers()[1].address, name
        column = frame[name]
        texts = column if table.texts(name) is None else column.cast(polars.String)
        assert texts.to_list() == table[name], name

first, second = (sw.open(path, index=False) for path in sys.argv[1:])
ours = check(first.spans, is_shared=True)
assert set(map(str, ours.dtypes)) > {"Int64", "UInt32"}
# The same texts again: shared again. Other texts: new numbers, and both fit together.
check(first.spans, is_shared=True)
theirs = check(second.spans, is_shared=False)
kernels = check(first.kernels, is_shared=False)
assert kernels["python_line"].null_count() == first.kernels["python_line"].count(None)
both = polars.concat([ours, theirs])
asked = both.filter(polars.col("name") == "aten::mm").height
assert asked == (first.spans["name"] + second.spans["name"]).count("aten::mm") > 0
shared = ours.join(theirs, on="name", how="semi")["name"].unique().len()
assert shared == len({*first.spans["name"]} & {*second.spans["name"]})
print("shared")
"""


def test_polars_takes_names_without_a_copy():
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    command = [sys.executable, "-c", PROGRAM, str(SMALL), str(EAGER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("skipped"):
        pytest.skip(done.stdout.strip())
    assert done.stdout == "shared\n"


def test_a_column_without_a_dictionary_has_no_texts():
    import spanwise as sw

    spans = sw.open(SMALL, index=False).spans
    assert spans.texts("start_ns") is None
    assert spans.texts("category")["text"] == sw.open(SMALL, index=False).categories["category"]
    with pytest.raises(KeyError):
        spans.texts("nothing")
