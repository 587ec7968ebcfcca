"""Tables for Polars with names that are shared too.

Polars takes numbers as they are, but reads a dictionary column row by row, to number its texts
anew. Since 2.0 it lets given numbers stand for given texts: then it only checks whether each has
its text, which costs a bit a row and, for two million rows, 3.3 ms a column on one core. Polars
2.1 has no way around that check: it refuses to cast numbers to names, alone or within lists and
arrays. So a lazy frame leaves it to the queries, which check the names that they use.
"""

from __future__ import annotations

from typing import Any

from .table import Table, _library

#: Numbers of texts mean the same in every frame that is made here, so that those of several
#: traces can be put together; named so to Polars, which keeps them while a frame uses them.
_NAMESPACE = "spanwise"


def frame_with_shared_names(table: Table) -> Any:
    """A `polars.DataFrame` over the memory of a table, its names included."""
    numbers, named = _numbers_and_names(table)
    # Columns in one go: each is processed on a core of its own.
    return numbers.with_columns(named)


def lazy_frame_with_shared_names(table: Table) -> Any:
    """A `polars.LazyFrame` over the memory of a table, its names included."""
    numbers, named = _numbers_and_names(table)
    return numbers.lazy().with_columns(named)


def _numbers_and_names(table: Table) -> tuple[Any, list[Any]]:
    """The table with numbers for names, and the expressions that put names in their place."""
    polars = _library("polars")
    if not _can_share(polars):
        why = f"Polars {polars.__version__} cannot share names: pip install 'polars>=2'"
        raise ImportError(why)
    numbers = polars.DataFrame(table.codes())
    texts = {name: table.texts(name) for name in table.columns}
    named = [
        _named(polars, numbers[name], polars.DataFrame(of_column)["text"])
        for name, of_column in texts.items()
        if of_column is not None
    ]
    return numbers, named


def _can_share(polars: Any) -> bool:
    numbers = polars.Series([], dtype=polars.UInt32)
    return hasattr(polars, "Categories") and hasattr(numbers.cat, "to")


def _named(polars: Any, numbers: Any, texts: Any) -> Any:
    """An expression for the column whose numbers are rows of these texts."""
    shared = polars.Categories(f"texts of {numbers.dtype}", _NAMESPACE, numbers.dtype)
    known = texts.cast(polars.Categorical(shared))
    column = polars.col(numbers.name)
    if not _is_counting(polars, known.to_physical()):
        # Others have taken their numbers before: these rows get new ones, which is a copy.
        column = polars.lit(known.to_physical()).gather(column).alias(numbers.name)
    return column.cat.to(known.dtype)


def _is_counting(polars: Any, numbers: Any) -> bool:
    """Whether the numbers are 0, 1, 2 and so on."""
    return bool((numbers == polars.int_range(len(numbers), eager=True)).all())
