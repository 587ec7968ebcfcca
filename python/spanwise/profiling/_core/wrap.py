"""Functions become profiled functions: plain ones natively, generators and coroutines by
functions of the same sort around them.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref
from typing import Any, Callable, NamedTuple, Optional

from ... import _native
from . import sites as _sites


class FunctionSpec(NamedTuple):
    """How a function is to be profiled."""

    name: str
    component: str
    tags: tuple
    profiler_names: Optional[tuple]
    level: int
    # Gives custom metrics from what was recorded.
    metrics: Optional[Callable] = None
    # Gives the operation's name for a class, where each class has its own.
    name_of_class: Optional[Callable] = None
    # Gives custom metrics from the object whose method it is, from DETAILED on.
    about_self: Optional[Callable] = None

    def site(self, meaning: str = "operation", name: Optional[str] = None, place: Any = None) -> int:
        """A site for it."""
        return _sites.define(
            name or self.name,
            self.component,
            self.tags,
            meaning=meaning,
            profiler_names=self.profiler_names,
            place=place or ("", 0),
            metrics=self.metrics,
        )


def place_of(function: Any) -> tuple:
    """File and line of a function, where it has them."""
    code = getattr(function, "__code__", None)
    return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)


def wrap(function: Any, wanted: FunctionSpec) -> Any:
    """A function that does the same, and is recorded."""
    if inspect.isasyncgenfunction(function):
        return _around_async_generator(function, wanted)
    if inspect.iscoroutinefunction(function):
        return _around_coroutine(function, wanted)
    if inspect.isgeneratorfunction(function):
        return _around_generator(function, wanted)
    place = place_of(function)
    site_of_class = None
    name_of_class = wanted.name_of_class
    if name_of_class is not None:
        sites: dict = {}

        def site_of_class(class_: type) -> int:
            name = name_of_class(class_)
            if name not in sites:
                sites[name] = wanted.site(name=name, place=place)
            return sites[name]

    of_methods = None
    if site_of_class is not None or wanted.about_self is not None:
        of_methods = (site_of_class, _describing(wanted.about_self))
    site = wanted.site(place=place)
    if isinstance(function, types.FunctionType) and can_patch():
        made = _copy(function)
        if _native.patch(made, site, wanted.level, of_methods):
            weakref.finalize(made, _native.forget_patched, id(made)).atexit = False
            return made
    made = _native.wrap(
        _native.ProfiledFunction, function, site, wanted.level, of_methods
    )
    return functools.update_wrapper(made, function)


def _describing(about_self: Optional[Callable]) -> Optional[Callable]:
    if about_self is None:
        return None

    def describe(instance: Any, thread_id: int, start_tick: int) -> None:
        _sites.keep_metrics((thread_id, start_tick), about_self(instance))

    return describe


def _copy(function: types.FunctionType) -> types.FunctionType:
    """The same function again: patching it leaves the one that was given alone."""
    made = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(made, function)
    _native.share_version(function, made)
    return made


# More calls than any interpreter makes before it takes short cuts.
TRIAL_CALLS = 300


@functools.lru_cache(maxsize=None)
def can_patch() -> bool:
    """Whether functions can be patched here, and every sort of call is seen: tried once."""
    if sys.version_info < (3, 12):
        return False

    def trial(value: Any, *, key: Any = None) -> Any:
        return value

    function = _copy(trial)
    holder = type("Holder", (), {"method": function, "value": property(function)})()
    if not _native.patch(function, 0, 255):
        return False
    before = _native.counted_calls()
    for number in range(TRIAL_CALLS):
        function(number)
        function(number, key=number)
        function(*(number,), **{})
        holder.method()
        holder.value
    for _ in map(function, range(TRIAL_CALLS)):
        pass
    seen = _native.counted_calls() - before
    _native.unpatch(function)
    return seen == 6 * TRIAL_CALLS


def _around_generator(function: Any, wanted: FunctionSpec) -> Any:
    place = place_of(function)
    part, whole = wanted.site("generator part", place=place), wanted.site("generator", place=place)
    level, is_on, parts = wanted.level, _native.is_on, _native.Parts

    @functools.wraps(function)
    def profiled(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        if is_on(level):
            generator = parts(generator, part, whole)
        return (yield from generator)

    return profiled


def _around_coroutine(function: Any, wanted: FunctionSpec) -> Any:
    place = place_of(function)
    part, whole = wanted.site("coroutine part", place=place), wanted.site("coroutine", place=place)
    level, is_on, parts = wanted.level, _native.is_on, _native.Parts

    @functools.wraps(function)
    async def profiled(*args: Any, **kwargs: Any) -> Any:
        coroutine = function(*args, **kwargs)
        if not is_on(level):
            return await coroutine
        return await parts(coroutine.__await__(), part, whole)

    return profiled


def _around_async_generator(function: Any, wanted: FunctionSpec) -> Any:
    place = place_of(function)
    part, whole = wanted.site("generator part", place=place), wanted.site("generator", place=place)
    level, is_on = wanted.level, _native.is_on

    @functools.wraps(function)
    async def profiled(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        steps = _native.Parts(None, part, whole, True) if is_on(level) else None

        def step(awaitable: Any) -> Any:
            return awaitable if steps is None else steps.over(awaitable.__await__())

        try:
            item = await step(generator.__anext__())
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    await step(generator.aclose())
                    raise
                except BaseException as raised:
                    item = await step(generator.athrow(raised))
                else:
                    item = await step(generator.asend(sent))
        except StopAsyncIteration:
            return
        finally:
            if steps is not None:
                steps.finish()

    return profiled
