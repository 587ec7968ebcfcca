"""GPU time by the Python function that launched it, with HTA's data frame and pandas.

HTA has no such question. This is what one writes in a notebook: kernels joined with their
launching calls, and each call with the Python function that was open.
"""

import json
import sys
import time
from importlib.metadata import version

# Compiled copies of scripts are of no use.
sys.dont_write_bytecode = True

import pandas as pd  # noqa: E402
from hta.common.trace import parse_trace_file  # noqa: E402
from open_functions import gpu_by_function, has_line  # noqa: E402

start = time.perf_counter()
_, events, symbols = parse_trace_file(sys.argv[1])
parsed_s = time.perf_counter() - start
names = pd.Series(symbols.get_sym_table())
categories = symbols.get_sym_id_map()

kernels = events[(events["stream"] >= 0) & (events["index_correlation"] > 0)]
calls = events.loc[kernels["index_correlation"], ["ts", "tid"]].reset_index(drop=True)
calls["gpu"] = kernels["dur"].to_numpy()
python = events[events["cat"] == categories.get("python_function", -1)]
python = python[python["name"].isin(names.index[has_line(names)])]
found = gpu_by_function(calls, python)
load_s = time.perf_counter() - start

top = f"{found[0][1] / 1e3:,.1f} ms by {names[found[0][0]]}" if found else "nothing"
top += f"; {parsed_s:.1f} s to parse"
print(
    json.dumps(
        {"load_s": load_s, "version": version("HolisticTraceAnalysis"), "read": top}
    ),
    flush=True,
)
