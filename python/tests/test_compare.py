"""Comparing and writing: the same answers and files as the command line gives."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spanwise as sw

KINETO = Path(__file__).resolve().parents[2] / "testdata" / "kineto"


@pytest.fixture
def ranks(tmp_path):
    """Recordings of one run that differ: base, and one that is like no other."""
    names = [f"ddp_rank{rank}.json.gz" for rank in (0, 2)]
    return [Path(shutil.copy(KINETO / "ddp" / name, tmp_path)) for name in names]


@pytest.fixture
def small(tmp_path):
    return Path(shutil.copy(KINETO / "llama_small.json.gz", tmp_path))


def command_line(*arguments, status=0):
    command = [sys.executable, "-m", "spanwise", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout


@pytest.mark.parametrize("by", ["op", "class", "kernel", "python_line"])
def test_comparisons_are_those_of_the_command_line(ranks, by):
    base, other = ranks
    comparison = sw.compare(base, sw.open(other), by=by)
    arguments = ["--by", by.replace("_", "-"), "--top", 0, "--format", "json", "--quiet"]
    expected = json.loads(command_line("compare", *arguments, base, other))
    assert comparison.tables == list(expected)
    for name, rows in expected.items():
        rows = rows if isinstance(rows, list) else [rows]
        for ours, theirs in zip(comparison[name].to_dicts(), rows):
            theirs = {
                key: pytest.approx(value, abs=5e-5) if isinstance(value, float) else value
                for key, value in theirs.items()
            }
            assert ours == theirs
        assert len(comparison[name]) == len(rows)


def test_rules_guard_a_build(ranks):
    base, other = ranks
    assert sw.assert_no_regression(base, other, by="class").verdict == "same"
    with pytest.raises(AssertionError, match="slower in any on gpu measured: gemm on gpu: slower"):
        sw.assert_no_regression(base, other, "slower in any on gpu measured", by="class")
    with pytest.raises(AssertionError, match="nothing of that name"):
        sw.assert_no_regression(base, other, "slower in no-such-row")
    with pytest.raises(sw.TraceError, match='"slow", character 1: a rule begins with'):
        sw.assert_no_regression(base, other, "slow")


def test_a_baseline_stands_for_traces(ranks, tmp_path):
    base, other = ranks
    kept = sw.save_baseline(tmp_path / "run.baseline", base, by="class")
    assert sw.compare(kept, other).step_ns == sw.compare(base, other, by="class").step_ns
    again = sw.Baseline(tmp_path / "run.baseline")
    assert sw.compare(again, [base]).verdict == "same"
    with pytest.raises(ValueError, match="a baseline says itself"):
        sw.compare(kept, other, by="kernel")
    (tmp_path / "run.baseline").write_text("something else")
    with pytest.raises(sw.TraceError, match="run.baseline: line 1"):
        sw.compare(again, other)


def test_odd_questions_say_what_there_is(small):
    with pytest.raises(sw.TraceError, match="by: nothing named colour"):
        sw.compare(small, small, by="colour")
    with pytest.raises(sw.TraceError, match="phase: nothing named lunch; there are prefill"):
        sw.compare(small, small, phase="lunch")
    with pytest.raises(sw.TraceError, match="no backward in it; it has prefill, decode"):
        sw.compare(small, small, phase="backward")
    with pytest.raises(sw.TraceError, match="no table colours; there are"):
        sw.compare(small, small)["colours"]
    with pytest.raises(ValueError, match="no trace was given"):
        sw.compare([], small)


def test_a_comparison_can_be_shown(ranks):
    comparison = sw.compare(*ranks)
    assert "<Comparison: a step is same" in repr(comparison)
    assert comparison.report(format="html").startswith("<!DOCTYPE html>")
    assert "<pre>" in comparison._repr_html_()


ENDINGS = "pb folded speedscope.json firefox.json csv json pftrace fxt"


@pytest.mark.parametrize("name", [f"a.{ending}" for ending in ENDINGS.split()])
def test_files_are_those_of_the_command_line(small, tmp_path, name):
    ours, theirs = tmp_path / name, tmp_path / "other" / name
    theirs.parent.mkdir()
    written = sw.open(small).write(ours)
    command_line("convert", "--quiet", small, "-o", theirs)
    assert ours.read_bytes() == theirs.read_bytes()
    assert written == len(ours.read_bytes())


def test_options_of_profiles(small, tmp_path):
    trace = sw.open(small)
    trace.to_folded(tmp_path / "ours", value="gpu", stack="python")
    theirs = tmp_path / "theirs.folded"
    command_line("convert", "--quiet", "--value", "gpu", "--stack", "python", small, "-o", theirs)
    assert (tmp_path / "ours").read_bytes() == theirs.read_bytes()
    checks = [
        ({"to": "chrome", "value": "gpu"}, "a trace is written whole"),
        ({"to": "png"}, "to: nothing named png; there are pprof"),
        ({}, "the ending names no format"),
        ({"to": "folded", "value": "colour"}, "no column named colour; there are samples, wall"),
        ({"to": "folded", "stack": "hay"}, "stack: nothing named hay"),
        ({"to": "folded", "profile": "locks"}, "nothing of that in it"),
        ({"to": "folded", "profile": "locks", "backward": "forward_stack"}, "backward is about"),
    ]
    for options, message in checks:
        with pytest.raises(sw.TraceError, match=message):
            trace.write(tmp_path / "none", **options)
    with pytest.raises(FileNotFoundError):
        trace.to_pprof(tmp_path / "no" / "such" / "a.pb.gz")
    assert not (tmp_path / "none").exists()


def test_flame_graphs_are_those_of_the_command_line(ranks, tmp_path):
    base, other = ranks
    ours, theirs = tmp_path / "ours.svg", tmp_path / "theirs.svg"
    sw.open(other).flame(ours, since=sw.open(base), value="gpu")
    options = ("--functions", "--quiet", "--value", "gpu")
    command_line("compare", *options, base, other, "-o", theirs)
    assert ours.read_bytes() == theirs.read_bytes()
    with pytest.raises(sw.TraceError, match="the ending must be .svg or .html"):
        sw.open(other).flame(tmp_path / "a.png")
