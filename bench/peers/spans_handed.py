"""Hand the spans of a trace to another library: TRACE, then which.

What counts is the handing alone, with the trace open and the library imported: its time, and the
memory that the process has more of after it, while the library holds what it got.
"""

import json
import sys
import time
from pathlib import Path

import spanwise as sw


def own_bytes() -> int:
    """Memory of this process that is no page of a file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not tell memory apart")


def to_pyarrow(table):
    return table.to_arrow()


def to_polars(table):
    return table.to_polars()


def to_polars_shared(table):
    return table.to_polars(share_names=True)


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

before = own_bytes()
start = time.perf_counter()
held = hand(trace.spans)
load_s = time.perf_counter() - start
grown = own_bytes() - before

read = f"{len(trace.spans):,} spans in {load_s * 1e3:.2f} ms, {grown / 1e6:.2f} MB more memory"
print(json.dumps({"load_s": load_s, "version": sw.__version__, "read": read}), flush=True)
