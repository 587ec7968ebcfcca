"""Tables: what traces hold and what questions answer, for every library that takes Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import _native

#: Rows that `repr` and notebooks show.
_SHOWN = 10


class Table:
    """Columns of one length, which never change.

    PyArrow, Polars, DuckDB and pandas take a table as it is, by Arrow's PyCapsules; the tables
    of a trace are handed over without a copy:

    >>> import spanwise as sw
    >>> trace = sw.open("llama_small.json.gz")
    >>> trace.spans.columns
    ['start_ns', 'dur_ns', 'name', 'category', 'track', 'parent', 'launch', 'offset']
    >>> trace.gpu_lines(top=1).to_dicts()[0]["count"]
    200
    """

    __slots__ = ("_table",)

    def __init__(self, table: _native.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @property
    def columns(self) -> list[str]:
        """The names of the columns. A name ends with its unit: `_ns`, `_bytes`, `_percent`."""
        return self._table.names()

    @property
    def types(self) -> dict[str, str]:
        """The type of each column, as Arrow names it."""
        return dict(zip(self._table.names(), self._table.types()))

    @property
    def title(self) -> str:
        """What the table is about; empty for the tables that a trace holds."""
        return self._table.title

    def __getitem__(self, column: str) -> list[Any]:
        """The values of a column as Python objects; `None` where one is unknown."""
        return self._table.select(column).values(0)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, one dictionary each; many at a time are made, not all."""
        names = self._table.names()
        for start in range(0, len(self), 1024):
            part = self._table.slice(start, 1024)
            for row in zip(*(part.values(at) for at in range(len(names)))):
                yield dict(zip(names, row))

    def head(self, rows: int = 5) -> Table:
        """The first rows; nothing is copied."""
        return Table(self._table.slice(0, rows))

    def slice(self, start: int, rows: int) -> Table:
        """Rows from a place on; nothing is copied."""
        return Table(self._table.slice(start, rows))

    def codes(self) -> Table:
        """The same with the numbers of names in the place of names; nothing is copied.

        A name is a number and a row of a dictionary; `texts` has the dictionary of a column, and
        `trace.strings` is the one of names in the tables of a trace:

        >>> import spanwise as sw
        >>> trace = sw.open("llama_small.json.gz")
        >>> number = trace.spans.codes().head(1)["name"][0]
        >>> trace.strings.slice(number, 1)["text"] == trace.spans.head(1)["name"]
        True
        """
        return Table(self._table.codes())

    def texts(self, column: str) -> Table | None:
        """The texts that the numbers of a column stand for; `None` where it has no dictionary."""
        texts = self._table.dictionary(column)
        return None if texts is None else Table(texts)

    def to_dicts(self) -> list[dict[str, Any]]:
        """All rows as dictionaries."""
        return list(self)

    def to_ipc(self) -> bytes:
        """A stream of Arrow's IPC format, for other processes; equal tables give equal bytes."""
        return self._table.to_ipc()

    @staticmethod
    def from_ipc(data: bytes) -> Table:
        """The table of a stream that `to_ipc` wrote."""
        return Table(_native.table_from_ipc(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._table.to_ipc(), self.title, self._table.left_out)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` over the same memory."""
        return _library("pyarrow").table(self)

    def to_polars(self, *, share_names: bool = False) -> Any:
        """A `polars.DataFrame`; numbers are shared, names become categoricals of Polars.

        Polars numbers names anew, row by row. `share_names` lets our numbers stand, so that
        millions of rows are there at once; it needs Polars 2, and such a column is compared
        with a text in expressions only: `frame.filter(polars.col("name") == "aten::mm")`.
        """
        if share_names:
            from .polars import frame_with_shared_names

            return frame_with_shared_names(self)
        return _library("polars").DataFrame(self)

    def to_polars_lazy(self) -> Any:
        """A `polars.LazyFrame` with names shared as by `to_polars(share_names=True)`.

        It is there at once. Polars checks whether each number has a name; here every query does
        so for the names that it asks for, and for no others. Needs Polars 2.
        """
        from .polars import lazy_frame_with_shared_names

        return lazy_frame_with_shared_names(self)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`; names become categoricals. Needs PyArrow as well."""
        _library("pandas")
        arrow = _library("pyarrow")
        table = arrow.table(self)
        try:
            return table.to_pandas()
        except arrow.lib.ArrowTypeError:
            # Releases of PyArrow for old Pythons refuse texts by unsigned numbers.
            return table.cast(arrow.schema(map(_with_signed_codes, table.schema))).to_pandas()

    def __arrow_c_schema__(self) -> object:
        return self._table.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._table.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        rows = f"{len(self):,} rows" if len(self) != 1 else "1 row"
        lines = [f"Table: {self.title}, {rows}" if self.title else f"Table: {rows}"]
        shown = self.head(_SHOWN)
        cells = [[name, *map(_text, shown[name])] for name in shown.columns]
        widths = [min(40, max(map(len, column))) for column in cells]
        for row in zip(*cells):
            line = "  ".join(_cut(cell, width).ljust(width) for cell, width in zip(row, widths))
            lines.append(line.rstrip())
        if len(self) > _SHOWN:
            lines.append("…")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        shown = self.head(_SHOWN)
        head = "".join(f"<th>{escape(name)}</th>" for name in shown.columns)
        rows = zip(*(map(_text, shown[name]) for name in shown.columns))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_cut(cell, 200))}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        title = f"<b>{escape(self.title)}</b> " if self.title else ""
        return (
            f"<div>{title}{len(self):,} rows<table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>"
        )


def _unpickled(data: bytes, title: str, left_out: int) -> Table:
    return Table(_native.table_from_ipc(data, title, left_out))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    # Control characters of a stranger's names stay out of terminals.
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(value))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as reason:
        raise ImportError(f"this needs {name}: pip install {name}") from reason


def _with_signed_codes(field: Any) -> Any:
    arrow = _library("pyarrow")
    if not arrow.types.is_dictionary(field.type):
        return field
    return field.with_type(arrow.dictionary(arrow.int32(), field.type.value_type))
