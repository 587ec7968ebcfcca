"""The types that the package promises are those of what is there."""

import ast
import inspect
from pathlib import Path

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
