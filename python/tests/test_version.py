"""Functions that are decorated stay as fast as they were while nothing is recorded."""

import ctypes
import sys

import pytest

from spanwise.profiling import OperationProfiler, ProfilerConfig, ProfilerManager, profile_function

# What interpreters from 3.13 on know a function by is the last thing in it.
pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 13), reason="only 3.13 never gives a function a number again"
)


def version(function):
    """The number; 0 for a function whose calls are not made fast."""
    end = id(function) + type(function).__basicsize__
    return ctypes.c_uint32.from_address(end - 8).value


def session(folder):
    """One that records, until it is ended."""
    config = ProfilerConfig(output_dir=str(folder))
    manager = ProfilerManager(config)
    manager.register_profiler(OperationProfiler("all", config))
    manager.start_session("numbers")
    return manager


def add(left, right=2, *, times=1):
    return (left + right) * times


def test_a_decorated_function_has_the_number_of_its_original():
    before = version(add)
    made = profile_function()(add)
    assert version(made) == version(add) == before != 0
    assert made(1) == 3


def test_a_number_is_given_back_when_nothing_is_recorded_any_more(tmp_path):
    made = profile_function()(add)
    manager = session(tmp_path)
    assert version(made) == 0
    assert [made(number) for number in range(1000)][-1] == 1001
    manager.end_session()
    assert version(made) == version(add) != 0


def test_a_function_that_was_changed_meanwhile_gets_none(tmp_path):
    made = profile_function()(add)
    manager = session(tmp_path)
    made.__defaults__ = (5,)
    manager.end_session()
    assert version(made) == 0
    assert made(1) == 6
