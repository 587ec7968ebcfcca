"""Options of the package: named where they are used, with the unit of what they measure."""

import inspect
import re

import spanwise as sw

#: The one thing that a function is about, or names that others have given.
BY_PLACE = {
    ("Table.head", "rows"),
    ("Tracer", "output_dir"),
    ("Tracer.trace_experiment", "duration"),
    ("Tracer.trace_experiment", "include_patterns"),
    ("classify", "operator"),
    ("trigger_snapshot", "number"),
}
#: Seconds, by the name that others have given.
WITHOUT_UNIT = {("Tracer.trace_experiment", "duration"), ("Tracer.trace_slow", "duration")}
MEASURES = re.compile("time(out)?$|duration|interval|delay|height|size|memory|threshold|_age$")
UNIT = re.compile("_(ns|us|ms|s|px|bytes|percent)$")


def public():
    """Every function, class and method that has a name in the package."""
    for name in sw._HOME:
        value = getattr(sw, name)
        if inspect.isclass(value) and not issubclass(value, BaseException):
            yield name, value
            for member, method in inspect.getmembers(value, callable):
                if not member.startswith("_"):
                    yield f"{name}.{member}", method
        elif inspect.isfunction(value):
            yield name, value


def test_options_are_named_and_say_their_unit():
    seen = 0
    for name, function in public():
        for option in inspect.signature(function).parameters.values():
            where = (name, option.name)
            seen += 1
            if option.default is not option.empty and where not in BY_PLACE:
                assert option.kind is option.KEYWORD_ONLY, where
            if MEASURES.search(option.name) and where not in WITHOUT_UNIT:
                assert UNIT.search(option.name), where
    assert seen > 100
