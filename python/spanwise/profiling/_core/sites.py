"""Sites: what can be recorded, and what is known of it beside its times.

The native half knows numbers; names, components and tags are kept here. One site serves all
operations that are alike, however often they come.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, NamedTuple, Optional

from ... import _native

# A program that makes up a name for every operation would fill the memory with names.
NAMES_MAX = 100_000
OTHER_NAMES = "(other names)"
# Metrics of operations are kept for as many as profilers keep operations.
METRICS_MAX = 200_000


class Site(NamedTuple):
    """What is known of a site."""

    name: str
    component: str
    tags: tuple
    # Gives custom metrics from what was recorded, for decorated functions.
    metrics: Optional[Callable]
    # Each operation has metrics of its own: custom metrics, parts of a task.
    keeps_rows: bool = False


class _Numbers:
    """Numbers for texts."""

    def __init__(self) -> None:
        self.of_text: dict = {}
        self.texts: list = []

    def number(self, text: str) -> int:
        found = self.of_text.get(text)
        if found is None:
            if len(self.texts) >= NAMES_MAX and text != OTHER_NAMES:
                return self.number(OTHER_NAMES)
            found = self.of_text[text] = len(self.texts)
            self.texts.append(text)
        return found


_lock = threading.RLock()
_names = _Numbers()
_components = _Numbers()
_sites: dict = {}
_known: dict = {}
_metrics: dict = {}


def site(number: int) -> Site:
    """What is known of a site."""
    return _sites[number]


def numbers_of(name: str) -> list:
    """The numbers of all sites of a name."""
    with _lock:
        return [number for number, known in _sites.items() if known.name == name]


def name_of(number: int) -> str:
    return _names.texts[number]


def component_of(number: int) -> str:
    return _components.texts[number]


def define(
    name: str,
    component: str,
    tags: Any = (),
    *,
    meaning: str = "operation",
    manager: int = 0,
    profiler: int = 0,
    profiler_names: Any = None,
    place: tuple = ("", 0),
    metrics: Optional[Callable] = None,
    keeps_rows: bool = False,
) -> int:
    """The number of a new site."""
    with _lock:
        name_number = _names.number(name)
        component_number = _components.number(component)
        names = None if profiler_names is None else list(profiler_names)
        audience = (manager, profiler, names)
        text = _names.texts[name_number]
        number = _native.define(meaning, text, place, name_number, component_number, audience)
        keeps_rows |= meaning != "operation"
        _sites[number] = Site(text, component, tuple(tags or ()), metrics, keeps_rows)
        return number


def shared(name: str, component: str, tags: Any, manager: int, profiler: int, names: Any) -> int:
    """The number of the site of all operations that are alike."""
    key = (name, component, tuple(tags or ()), manager, profiler, names and tuple(names))
    number = _known.get(key)
    if number is None:
        with _lock:
            number = _known.get(key)
            if number is None:
                if len(_known) >= NAMES_MAX and name != OTHER_NAMES:
                    return shared(OTHER_NAMES, component, tags, manager, profiler, names)
                number = define(
                    name, component, tags, manager=manager, profiler=profiler,
                    profiler_names=names, keeps_rows=True,
                )
                _known[key] = number
    return number


def keep_metrics(ended: tuple, metrics: dict) -> None:
    """Keeps the metrics of an operation until they are requested."""
    if metrics:
        if len(_metrics) >= METRICS_MAX:
            _metrics.pop(next(iter(_metrics)), None)
        _metrics[ended[:2]] = metrics


def end(token: Any, kind: Any, value: Any, metrics: dict) -> tuple:
    """Ends an operation of a block that was left, maybe with something raised: thread, tick and
    seconds. An exception is among the metrics.
    """
    ended = token.end(None if kind is None else kind.__name__)
    note_raised(metrics, kind, value)
    keep_metrics(ended, metrics)
    return ended


def note_raised(metrics: dict, kind: Any, value: Any) -> None:
    """Adds the exception, if there was one."""
    if kind is not None:
        metrics["exception"] = kind.__name__
        metrics["error"] = str(value)


def metrics_of(thread_id: int, start_tick: int) -> dict:
    """The metrics of an operation."""
    return _metrics.get((thread_id, start_tick), {})


def forget_metrics() -> None:
    """In a forked child: the metrics are its parent's."""
    _metrics.clear()


_spans: dict = {}


def reusable_span(name: str, component: str) -> Any:
    """The one span object for a name and a component."""
    made = _spans.get((name, component))
    if made is None:
        made = _native.make_span(_native.Span, define(name, component), 1)
        _spans[(name, component)] = made
    return made
