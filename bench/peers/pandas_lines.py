"""GPU time by the Python function that launched it, with nothing but pandas.

What one writes without a tool for traces: the events of the file as a data frame, kernels joined
with launching calls by their correlation, and each call with the Python function that was open.
"""

import json
import sys
import time
from importlib.metadata import version

# Compiled copies of scripts are of no use.
sys.dont_write_bytecode = True

import pandas as pd  # noqa: E402
from open_functions import gpu_by_function, has_line  # noqa: E402

ON_GPU = ["kernel", "gpu_memcpy", "gpu_memset"]
LAUNCHING = ["cuda_runtime", "cuda_driver"]

start = time.perf_counter()
with open(sys.argv[1], encoding="utf-8") as file:
    events = pd.DataFrame(json.load(file)["traceEvents"])
parsed_s = time.perf_counter() - start


def of_categories(wanted: list[str]) -> pd.DataFrame:
    """The spans of these categories, with the number that joins calls and kernels."""
    rows = events[(events["ph"] == "X") & events["cat"].isin(wanted)]
    numbers = [args.get("correlation") for args in rows["args"]]
    return rows[["ts", "dur", "tid"]].assign(correlation=numbers)


kernels = of_categories(ON_GPU)[["correlation", "dur"]].rename(columns={"dur": "gpu"})
calls = of_categories(LAUNCHING).drop(columns="dur").merge(kernels, on="correlation")
python = events.loc[events["cat"] == "python_function", ["ts", "dur", "tid", "name"]]
python = python[has_line(python["name"])]
found = gpu_by_function(calls, python)
load_s = time.perf_counter() - start

top = f"{found[0][1] / 1e3:,.1f} ms by {found[0][0]}" if found else "nothing"
top += f"; {parsed_s:.1f} s to parse"
print(
    json.dumps({"load_s": load_s, "version": version("pandas"), "read": top}), flush=True
)
