"""Load a trace with HolisticTraceAnalysis: every event in a data frame.

`parse_trace_file` is what `TraceAnalysis` calls for each rank. The rest of that
class aligns ranks with each other, which a single file can do without.
"""

import json
import sys
import time
from importlib.metadata import version

from hta.common.trace import parse_trace_file

start = time.perf_counter()
_, events, _ = parse_trace_file(sys.argv[1])
load_s = time.perf_counter() - start

print(
    json.dumps(
        {
            "load_s": load_s,
            "version": version("HolisticTraceAnalysis"),
            "read": f"{len(events):,} events in a data frame",
        }
    ),
    flush=True,
)
