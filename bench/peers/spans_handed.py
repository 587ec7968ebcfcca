"""Hand the spans of a trace to another library: TRACE, then which.

What counts is the handing alone, with the trace open and the library imported: its time, and the
memory that the process has more of after it, while the library holds what it got. The same is
then done over and over, and the median of that is reported as well.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import spanwise as sw

#: How often it is done again.
AGAIN = 15


def own_bytes() -> int:
    """Memory of this process that is no page of a file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not separate kinds of memory")


def to_pyarrow(table):
    return table.to_arrow()


def to_polars(table):
    return table.to_polars()


def to_polars_shared(table):
    return table.to_polars(share_names=True)


def to_polars_lazy(table):
    return table.to_polars_lazy()


def to_polars_asked(table):
    """The question too: time by name, the answer fetched."""
    import polars

    time = polars.col("dur_ns").sum()
    by_name = table.to_polars_lazy().group_by("name").agg(time)
    return by_name.sort("dur_ns", descending=True).head(10).collect().rows()


def to_polars_codes(table):
    import polars

    return polars.DataFrame(table.codes())


def to_duckdb(table):
    """The question too: time by name, the answer fetched."""
    import duckdb

    spans = table.to_arrow()  # noqa: F841: DuckDB finds it by its name
    sums = "select name, sum(dur_ns) from spans group by name order by 2 desc limit 10"
    return duckdb.sql(sums).fetchall()


hand = globals()[f"to_{sys.argv[2]}"]
trace = sw.open(sys.argv[1])
# Threads are started and code is loaded when it is first used; a library is there for more than
# one table.
hand(trace.spans.head(1000))

def timed_s():
    """How long it takes, and what was got."""
    start = time.perf_counter()
    got = hand(trace.spans)
    return time.perf_counter() - start, got


before = own_bytes()
load_s, held = timed_s()
grown = own_bytes() - before
again_s = statistics.median(timed_s()[0] for _ in range(AGAIN))

read = f"{len(trace.spans):,} spans in {load_s * 1e3:.2f} ms, {grown / 1e6:.2f} MB more memory"
read += f"; {again_s * 1e3:.2f} ms the middle of {AGAIN} more"
print(json.dumps({"load_s": load_s, "version": sw.__version__, "read": read}), flush=True)
