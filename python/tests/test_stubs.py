"""The types that the package promises are those of what is there."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import spanwise as sw
from spanwise import _native

PACKAGE = Path(sw.__file__).parent


def parameters(function):
    arguments = function.args
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def check_function(stub, native):
    there = [name for name in inspect.signature(native).parameters]
    assert parameters(stub) == there, stub.name


def test_stubs_of_the_native_half_agree_with_it():
    tree = ast.parse((PACKAGE / "_native.pyi").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert len(functions) > 5 and len(classes) > 3
    for stub in functions:
        if stub.name != "__getattr__":
            check_function(stub, getattr(_native, stub.name))
    for stub in classes:
        native = getattr(_native, stub.name)
        members = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
        public = {name for name in vars(native) if not name.startswith("_")}
        arrow = {name for name in vars(native) if name.startswith("__arrow")}
        assert public | arrow == {name for name in members if name != "__len__"}, stub.name
        for name, member in members.items():
            if member.decorator_list:
                assert inspect.isgetsetdescriptor(getattr(native, name)), (stub.name, name)
            elif name != "__len__":
                check_function(member, getattr(native, name))


def faults(*command):
    """What one of mypy's programs finds."""
    pytest.importorskip("mypy", reason="no mypy here: types are not checked by it")
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def test_mypy_finds_the_stubs_true():
    assert faults("mypy.stubtest", "--ignore-missing-stub", "spanwise._native") == ""


def test_mypy_finds_no_fault_in_the_package():
    # What is written, not what is installed: mypy takes that for somebody else's.
    source = Path(__file__).parents[1]
    configured = ("--no-incremental", "--config-file", str(source / "pyproject.toml"))
    assert faults("mypy", *configured, str(source / "spanwise")) == ""


RIGHT = """
import spanwise as sw

trace: sw.Trace = sw.open("a.json", index=False)
rows: sw.Table = trace.gpu_lines(top=3)
count: int = len(trace.spans) + len(sw.compare(trace, "b.json").tables)
viewer: sw.Viewer = trace.view(trace, height_px=300)
fleet: sw.Fleet = sw.fleet(["a.json"], workers=2)
waits: sw.Table = fleet.waits(top=1)

@sw.profile
def once(number: int) -> str: return str(number)

@sw.profile("named")
def twice(number: int) -> str: return once(number)

with sw.session("run.spanwise-session") as session, sw.span("block"):
    text: str = once(1) + twice(2) + session.path
recorded: sw.Trace = sw.run(["true"], "true.spanwise-recording", duration_s=1)
"""
WRONG = """
import spanwise as sw

sw.open("a.json", True)
sw.open("a.json").gpu_lines(3)
sw.open("a.json").view(height="300")
sw.fleet("a.json").waits(first=1)
number: int = sw.open("a.json").file
sw.session()
sw.run("true")
sw.profile(3)
"""


def test_type_checkers_separate_right_use_from_wrong(tmp_path):
    for name, text in (("right.py", RIGHT), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(text)
    strict = ("mypy", "--strict", "--no-incremental")
    assert faults(*strict, str(tmp_path / "right.py")) == ""
    found = faults(*strict, str(tmp_path / "wrong.py"))
    # Each line but the first is wrong.
    lines = {int(line.split(":")[1]) for line in found.splitlines() if ": error: " in line}
    assert lines == set(range(4, 12)), found


def test_every_name_is_there_for_type_checkers_and_at_run_time():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    for_checkers = {name.asname for node in guard.body for name in node.names}
    assert for_checkers == set(sw._HOME)
    assert for_checkers <= set(sw.__all__) <= set(dir(sw))
    for name in sw.__all__:
        assert getattr(sw, name) is not None
    for name in for_checkers - {"TraceError"}:
        assert getattr(sw, name).__doc__, name


def test_what_is_not_there_is_an_attribute_error():
    assert not hasattr(sw, "no_such_name")
