"""Comparing runs: what changed, whether that is more than noise, and why."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Union

from .. import _native
from .answer import Answer
from .table import Table
from .trace import Path, Trace, open

#: A trace, the path of one, or several of either.
Side = Union[Trace, Path, "Iterable[Trace | Path]"]


def compare(
    base: Side | Baseline,
    other: Side,
    *,
    by: str = "op",
    phase: str | None = None,
    steps: tuple[int, int] | None = None,
    stacks: bool = False,
    top: int | None = None,
    unchanged: bool = False,
) -> Comparison:
    """Say what changed from `base` to `other`, as `spanwise compare` does.

    `by` says what rows stand for: "op", "class", "kernel", "module", "layer", "phase", "step",
    "stack", "python_line" or "function". `phase` and `steps` (both ends included) keep a part,
    `stacks` shows the Python stacks behind each row, `unchanged` also rows without a change.

    >>> import spanwise as sw
    >>> change = sw.compare("llama_small.json.gz", "llama_small.json.gz")
    >>> change.verdict
    'same'
    """
    view = (top, unchanged)
    if isinstance(base, Baseline):
        if by != "op" or phase is not None or steps is not None:
            raise ValueError("a baseline says itself what is compared: leave by, phase and steps")
        native = _native.compare_with_baseline(base.path, _traces(other), view)
    else:
        chosen = (by, phase, steps, stacks)
        native = _native.compare_traces(_traces(base), _traces(other), chosen, view)
    return Comparison(native)


def assert_no_regression(
    base: Side | Baseline,
    other: Side,
    *rules: str,
    by: str = "op",
    phase: str | None = None,
) -> Comparison:
    """Fail, as `assert` does, where a rule about the comparison is broken.

    Rules are those of `spanwise compare --fail-if`; "slower" where none is given. Noise breaks
    no rule. What a rule names and neither side has does: a gate that cannot see must not be
    open.

    >>> import spanwise as sw
    >>> before = sw.open("llama_small.json.gz")
    >>> sw.assert_no_regression(before, before, "slower > 3%", "changed in any on gpu").verdict
    'same'
    """
    comparison = compare(base, other, by=by, phase=phase)
    broken = [row for row in comparison.check(*(rules or ("slower",))) if not row["holds"]]
    if broken:
        lines = [f"{row['rule']}: {row['found']}" for row in broken]
        raise AssertionError("\n".join(["the run got worse:", *lines, "", comparison.report()]))
    return comparison


class Baseline:
    """A small file of what traces contribute to a comparison; `save_baseline` writes it."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"Baseline({self.path!r})"


def save_baseline(
    path: Path,
    traces: Side,
    *,
    by: str = "op",
    phase: str | None = None,
    steps: tuple[int, int] | None = None,
) -> Baseline:
    """Write what traces contribute to a comparison; it is kept where traces are too large.

    >>> import spanwise as sw
    >>> kept = sw.save_baseline("small.baseline", "llama_small.json.gz")
    >>> sw.compare(kept, "llama_small.json.gz").verdict
    'same'
    """
    _native.save_baseline(_traces(traces), (by, phase, steps, False), os.fspath(path))
    return Baseline(path)


class Comparison(Answer):
    """What changed: tables, a verdict, a text for people, rules for a build."""

    __slots__ = ("_comparison",)

    def __init__(self, native: _native.Comparison) -> None:
        super().__init__(native)
        self._comparison = native

    @property
    def verdict(self) -> str:
        """Of a whole step: "slower", "faster", "same" or "inconclusive"."""
        return self._comparison.verdict

    @property
    def step_ns(self) -> tuple[int, int]:
        """How long a step takes on each side."""
        return self._comparison.step_ns

    def check(self, *rules: str) -> list[dict[str, object]]:
        """Each rule of `--fail-if`, what was found, and whether it `holds`."""
        rows = self._comparison.check(list(rules))
        return [dict(zip(("rule", "found", "holds"), row)) for row in rows]

    def __repr__(self) -> str:
        base, other = (value / 1e6 for value in self.step_ns)
        return f"<Comparison: a step is {self.verdict}, {base:.3f} ms → {other:.3f} ms>"


def fusion(
    base: Trace | Path, other: Trace | Path, *, layers: bool = False, top: int | None = None
) -> Answer:
    """Say which kernels of one trace do the work of which of another.

    It is the answer of `spanwise compare --kernels`.

    `layers` sets the layers of both models side by side.

    >>> import spanwise as sw
    >>> sw.fusion("llama_small.json.gz", "llama_small.json.gz").tables[0]
    'sides'
    """
    (before,), (after,) = _traces(base), _traces(other)
    return Answer(_native.trace_fusion(before, after, layers, top))


def _traces(side: Side) -> list[_native.Trace]:
    parts = [side] if isinstance(side, (str, os.PathLike, Trace)) else list(side)
    if not parts:
        raise ValueError("no trace was given")
    return [(part if isinstance(part, Trace) else open(part))._trace for part in parts]
