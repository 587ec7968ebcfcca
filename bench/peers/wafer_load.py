"""Load a trace with wafer-core: kernels classified into a data frame."""

import json
import sys
import time
from importlib.metadata import version

from wafer_core.lib.trace_compare.loader import load_trace

start = time.perf_counter()
_, _, _, kernels, _, _ = load_trace(sys.argv[1])
load_s = time.perf_counter() - start

print(
    json.dumps(
        {
            "load_s": load_s,
            "version": version("wafer-core"),
            "read": f"{len(kernels):,} kernels",
        }
    ),
    flush=True,
)
