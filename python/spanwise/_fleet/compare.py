"""Two runs of many ranks: each rank against itself, then all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _native
from .files import brought_near, in_words
from .run import Status, Tables, timed
from .._traces.table import Table
from .._traces.trace import open

if TYPE_CHECKING:
    from .fleet import Fleet

#: Tables of a comparison that are kept of every rank.
_KEPT = ("changes", "causes")


class _Pair(NamedTuple):
    """One rank, and its files of both runs."""

    number: int
    rank: int | None
    files: tuple[str, str]
    use_index: bool
    storage: tuple[Mapping[str, Any], Mapping[str, Any]]
    chosen: tuple[Any, ...]


class FleetComparison:
    """What changed from one run to another, rank by rank."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def ranks(self) -> Table:
        """Each rank: the verdict about a whole step, how long it takes in both runs.

        A rank that only one run has, or a file that could not be read, has an `error`.
        """
        return self._tables["ranks"]

    def changes(self) -> Table:
        """What changed, rank by rank; columns as in `spanwise compare --format json`."""
        return self._tables.get("changes", _nothing())

    def causes(self) -> Table:
        """Why, rank by rank, where that was found."""
        return self._tables.get("causes", _nothing())

    def summary(self) -> Table:
        """What changed, over all ranks: on how many it got slower and faster, and the median.

        Most change first. `change_ns` is the median of what a step changed by on the ranks that
        have the row.
        """
        rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in self.changes():
            rows.setdefault((row["place"], row["key"]), []).append(row)
        sums = []
        for (place, key), of_key in rows.items():
            changes = sorted(row["change_ns"] or 0 for row in of_key)
            middle = changes[(len(changes) - 1) // 2]
            words = [row["verdict"] for row in of_key]
            counts = [words.count(word) for word in ("slower", "faster")]
            worst = max(of_key, key=lambda row: row["change_ns"] or 0)
            sums.append((place, key, len(of_key), *counts, middle, worst["rank"]))
        sums.sort(key=lambda row: (-abs(row[5]), row[0], row[1]))
        names = ("place", "key", "ranks", "slower", "faster", "change_ns", "worst_rank")
        kinds = ("string", "string", *["int64"] * 5)
        columns = [
            (name, kind, [row[at] for row in sums])
            for at, (name, kind) in enumerate(zip(names, kinds))
        ]
        return Table(_native.make_table(columns))

    @property
    def verdicts(self) -> dict[str, int]:
        """How many ranks got slower, faster, stayed the same, or are inconclusive."""
        counts: dict[str, int] = {}
        for verdict in self.ranks()["verdict"]:
            if verdict is not None:
                counts[verdict] = counts.get(verdict, 0) + 1
        return dict(sorted(counts.items()))

    def __repr__(self) -> str:
        ranks = [f"{count} {verdict}" for verdict, count in self.verdicts.items()]
        unread = sum(error is not None for error in self.ranks()["error"])
        ranks += [f"{unread} not compared"] if unread else []
        return f"<FleetComparison: {', '.join(ranks)}>"


def compare_fleets(base: Fleet, other: Fleet, chosen: tuple[Any, ...]) -> FleetComparison:
    """Compares ranks that both runs have, where the first one's files are read."""
    sides = [_by_rank(side) for side in (base, other)]
    rest = (base._index, (base._storage, other._storage), chosen)
    pairs = [
        _Pair(number, sides[0][place][0], (sides[0][place][1], sides[1][place][1]), *rest)
        for number, place in enumerate(place for place in sides[0] if place in sides[1])
    ]
    tables: Tables = base._run(_compare, pairs, _unread)[1] if pairs else {}
    rows = [tables["ranks"]] if pairs else []
    for (side, sides_other), word in ((sides, "the base"), (sides[::-1], "the other run")):
        for place, (rank, _) in side.items():
            if place not in sides_other:
                rows.append(_row(len(pairs) + len(rows), rank, f"only in {word}"))
    if not rows:
        raise _native.TraceError("no rank could be read of either run")
    tables["ranks"] = Table(_native.concat_tables([table._table for table in rows]))
    return FleetComparison(tables)


def _by_rank(side: Fleet) -> dict[int, tuple[int | None, str]]:
    """The files that could be read, by rank; by position if ranks do not distinguish them."""
    files = side.files()
    rows = list(zip(files["file_number"], files["rank"], files["file"], files["error"]))
    read = [(number, rank, file) for number, rank, file, error in rows if error is None]
    ranks = {rank for _, rank, _ in read}
    are_distinct = None not in ranks and len(ranks) == len(read)
    return {rank if are_distinct else number: (rank, file) for number, rank, file in read}


def _compare(pair: _Pair) -> tuple[Status, Tables]:
    return timed(_compared, pair)


def _compared(pair: _Pair) -> tuple[str | None, Tables]:
    file = pair.files[0]
    try:
        with brought_near(file, pair.storage[0]) as base:
            before = open(base, index=pair.use_index, threads=1)
            file = pair.files[1]
            with brought_near(file, pair.storage[1]) as other:
                after = open(other, index=pair.use_index, threads=1)
                return None, _kept(pair, before._trace, after._trace)
    except Exception as reason:
        error = in_words(reason, file)
        return error, _unread(pair, error)


def _kept(pair: _Pair, before: _native.Trace, after: _native.Trace) -> Tables:
    found = _native.compare_traces([before], [after], pair.chosen, (None, False))
    base_ns, other_ns = found.step_ns
    tables = {"ranks": _row(pair.number, pair.rank, None, (found.verdict, base_ns, other_ns))}
    for name in _KEPT:
        if name in found.sections():
            table = found.section(name)
            tables[name] = Table(_native.tag_table(table, pair.number, pair.rank))
    return tables


def _unread(pair: _Pair, error: str) -> Tables:
    return {"ranks": _row(pair.number, pair.rank, error)}


def _row(
    number: int,
    rank: int | None,
    error: str | None,
    found: tuple[str | None, int | None, int | None] = (None, None, None),
) -> Table:
    verdict, base_ns, other_ns = found
    change = None if base_ns is None or other_ns is None else other_ns - base_ns
    columns = [
        ("file_number", "int64", [number]),
        ("rank", "int64", [rank]),
        ("verdict", "string", [verdict]),
        ("base_step_ns", "int64", [base_ns]),
        ("other_step_ns", "int64", [other_ns]),
        ("change_ns", "int64", [change]),
        ("error", "string", [error]),
    ]
    return Table(_native.make_table(columns))


def _nothing() -> Table:
    return Table(_native.make_table([(name, "int64", []) for name in ("file_number", "rank")]))
