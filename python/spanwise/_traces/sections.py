"""The sections of the report as methods, as the native half declares them.

Type checkers read `sections.pyi`, which is generated from the same declarations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native
from .table import Table

if TYPE_CHECKING:
    from collections.abc import Callable


class Sections:
    """Each method gives a section of the report: all rows, or the first `top`."""

    __slots__ = ("_trace",)

    _trace: _native.Trace


def _method(key: str, name: str, about: str) -> Callable[..., Table]:
    def section(self: Sections, *, top: int | None = None) -> Table:
        return Table(self._trace.section(key, top))

    section.__name__, section.__qualname__ = name, f"Trace.{name}"
    section.__doc__ = f"{about[:1].upper()}{about[1:]}."
    return section


for _key, _name, _about in _native.section_names():
    setattr(Sections, _name, _method(_key, _name, _about))
