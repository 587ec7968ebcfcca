"""Ask our own Python package: TRACE, then `open`, `lines` or `duckdb`, then the index or not."""

import json
import sys
import time

import spanwise as sw

path, question, index = sys.argv[1:]
if index == "indexed":
    # Written here where it is missing; the time of that does not count.
    sw.open(path)
if question == "duckdb":
    import duckdb
    import pyarrow  # noqa: F401: what the import takes is not the question

start = time.perf_counter()
trace = sw.open(path, index=index == "indexed")
if question == "open":
    read = f"{len(trace.spans):,} spans"
elif question == "lines":
    rows = trace.gpu_lines(top=10)
    read = f"{rows['total_ns'][0] / 1e6:,.1f} ms by {rows['line'][0]}"
else:
    kernels = trace.kernels.to_arrow()
    rows = duckdb.sql(
        "select python_line, sum(dur_ns) as total_ns from kernels"
        " group by python_line order by total_ns desc limit 10"
    ).fetchall()
    read = f"{rows[0][1] / 1e6:,.1f} ms by {rows[0][0]}"
load_s = time.perf_counter() - start

print(json.dumps({"load_s": load_s, "version": sw.__version__, "read": read}), flush=True)
