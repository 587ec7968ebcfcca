"""Compare two traces with wafer-core: operations, matched kernels and fusions."""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

from wafer_core.lib.trace_compare.fused_analyzer import analyze_and_match_fused

folder = Path(sys.argv[1])
start = time.perf_counter()
operations, matches, _ = analyze_and_match_fused(
    folder / "base.json", folder / "other.json"
)
load_s = time.perf_counter() - start

summary = matches["summary"]
print(
    json.dumps(
        {
            "load_s": load_s,
            "version": version("wafer-core"),
            "read": f"{len(operations['operations'])} operations, "
            f"{summary['matched']:,} of {summary['total_kernel_pairs']:,} matched",
        }
    ),
    flush=True,
)
