"""Answers that have several tables, and a text for people."""

from __future__ import annotations

from typing import Union

from .. import _native
from .table import Table


class Answer:
    """Tables by name, and all of them as a text.

    >>> import spanwise as sw
    >>> info = sw.open("llama_small.json.gz").info()
    >>> info.tables[:2]
    ['trace', 'devices']
    """

    __slots__ = ("_answer",)

    def __init__(self, native: Union[_native.Answer, _native.Comparison]) -> None:
        self._answer = native

    @property
    def tables(self) -> list[str]:
        """The names of its tables."""
        return self._answer.sections()

    def __getitem__(self, table: str) -> Table:
        return Table(self._answer.section(table))

    def report(self, *, width: int = 100, format: str = "text") -> str:
        """The answer as "text", "json", "csv", or "html", a page that needs nothing else."""
        return self._answer.report(width, format)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self.tables)}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.report())}</pre>"
